"""Embeddings, their inner products, and the links that turn a score into a ratio."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from ratiorec.shapes import ItemFactors, PerPositive, PositiveIndex, UserFactors


class Embeddings(NamedTuple):
    """One vector for every user and every item; the score s(u,i) is their inner product."""

    users: UserFactors
    items: ItemFactors


def pair_scores(
    users: UserFactors, items: ItemFactors, rows: PositiveIndex, columns: PositiveIndex
) -> PerPositive:
    """s(u,i) = e_uᵀe_i for listed pairs only (theory: S1)."""
    return (users[rows] * items[columns]).sum(-1)


class Link(NamedTuple):
    """An increasing map from score to ratio (theory: S2).

    `ratio` is differentiable by autograd; `with_slope` gives the ratio and its derivative
    together, since they may share their costly part.
    """

    ratio: Callable[[Tensor], Tensor]
    with_slope: Callable[[Tensor], tuple[Tensor, Tensor]]


def _softplus(score: Tensor) -> Tensor:
    # torch turns to the identity above a threshold; its default, 20, costs half the digits
    return functional.softplus(score, threshold=50)


def _softplus_with_slope(score: Tensor) -> tuple[Tensor, Tensor]:
    return _softplus(score), torch.sigmoid(score)


def _exponential_with_slope(score: Tensor) -> tuple[Tensor, Tensor]:
    ratio = score.exp()
    return ratio, ratio


SOFTPLUS = Link(_softplus, _softplus_with_slope)
EXPONENTIAL = Link(torch.exp, _exponential_with_slope)

LINKS: Mapping[str, Link] = MappingProxyType({"softplus": SOFTPLUS, "exponential": EXPONENTIAL})
