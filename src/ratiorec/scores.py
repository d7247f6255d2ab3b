"""Embeddings, and the links that turn a score into a ratio."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn import functional

from ratiorec.shapes import ItemFactors, UserFactors


class Embeddings(NamedTuple):
    """One vector for every user and every item; the score s(u,i) is their inner product."""

    users: UserFactors
    items: ItemFactors


class Pointwise(Protocol):
    """A function of every entry for itself, differentiable by autograd where no `out` is given."""

    def __call__(self, entries: Tensor, /, *, out: Tensor | None = None) -> Tensor:
        """The function's values.

        `out` is room for them, which spares a tile of scores its temporary copies; what counts is
        what is returned, which may be `entries` itself.
        """


class WithSlope(Protocol):
    """A ratio and its derivative."""

    def __call__(
        self, scores: Tensor, /, *, out: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        """Both together; `out` is room for them, and they may be one tensor."""


class Link(NamedTuple):
    """An increasing map from score to ratio, with and without its slope (theory: S2)."""

    ratio: Pointwise
    with_slope: WithSlope


def _softplus(scores: Tensor, /, *, out: Tensor | None = None) -> Tensor:
    # torch turns to the identity above a threshold; its default, 20, costs half the digits
    return functional.softplus(scores, threshold=50, out=out)  # type: ignore[call-arg]


def _softplus_with_slope(
    scores: Tensor, /, *, out: tuple[Tensor, Tensor] | None = None
) -> tuple[Tensor, Tensor]:
    ratio, slope = out or (None, None)
    return _softplus(scores, out=ratio), torch.sigmoid(scores, out=slope)


def _exponential_with_slope(
    scores: Tensor, /, *, out: tuple[Tensor, Tensor] | None = None
) -> tuple[Tensor, Tensor]:
    ratio = torch.exp(scores, out=out and out[0])
    return ratio, ratio


SOFTPLUS = Link(_softplus, _softplus_with_slope)
EXPONENTIAL = Link(torch.exp, _exponential_with_slope)

LINKS: Mapping[str, Link] = MappingProxyType({"softplus": SOFTPLUS, "exponential": EXPONENTIAL})
