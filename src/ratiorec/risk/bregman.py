"""The Bregman family: a convex function and the two losses it makes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import torch
from torch import Tensor

from ratiorec.scores import Pointwise


class Generator(NamedTuple):
    """A strictly convex f on the positive reals with f(0) = 0, and what it makes (theory: B1).

    An affine term in f changes no divergence, so f(0) = 0 costs nothing; it makes
    ℓ±(0) = 0, which the non-negative correction relies on. The losses of an unlabelled pair
    are given in closed form: as differences of f and f′ they would lose all digits where a
    ratio is large, and be 0 · ∞ where it is 0.
    """

    f: Callable[[Tensor], Tensor]
    df: Callable[[Tensor], Tensor]
    unlabelled_loss: Pointwise  # ℓ±(r̂) = f′(r̂)·r̂ − f(r̂) (theory: B4)
    unlabelled_slope: Pointwise  # ℓ±′(r̂) = f″(r̂)·r̂ (theory: B5)

    def divergence(self, true: Tensor, estimate: Tensor) -> Tensor:
        """BR_f(r ‖ r̂) = f(r) − f(r̂) − f′(r̂)(r − r̂) (theory: B2)."""
        return self.f(true) - self.f(estimate) - self.df(estimate) * (true - estimate)

    def positive_loss(self, ratio: Tensor) -> Tensor:
        """ℓ₊(r̂) = −f′(r̂) (theory: B3)."""
        return -self.df(ratio)


def _half_square(ratio: Tensor, /, *, out: Tensor | None = None) -> Tensor:
    return torch.mul(ratio, ratio, out=out).mul_(0.5)


def _itself(ratio: Tensor, /, *, out: Tensor | None = None) -> Tensor:
    return ratio


def _one(ratio: Tensor, /, *, out: Tensor | None = None) -> Tensor:
    return ratio.new_ones(()).expand_as(ratio)


def _inverse_successor(ratio: Tensor, /, *, out: Tensor | None = None) -> Tensor:
    return torch.add(ratio, 1, out=out).reciprocal_()


LEAST_SQUARES = Generator(
    f=lambda t: t.square() / 2,  # (t − 1)²/2 less its affine part
    df=lambda t: t,
    unlabelled_loss=_half_square,
    unlabelled_slope=_itself,
)
KULLBACK_LEIBLER = Generator(
    f=lambda t: torch.special.xlogy(t, t) - t,
    df=torch.log,
    unlabelled_loss=_itself,
    unlabelled_slope=_one,
)
LOGISTIC = Generator(
    f=lambda t: torch.special.xlogy(t, t) - torch.special.xlog1py(1 + t, t),
    df=lambda t: t.log() - t.log1p(),  # not log1p(1/t), whose derivative squares 1/t
    unlabelled_loss=torch.log1p,
    unlabelled_slope=_inverse_successor,
)

GENERATORS: Mapping[str, Generator] = MappingProxyType(
    {
        "least-squares": LEAST_SQUARES,
        "kullback-leibler": KULLBACK_LEIBLER,
        "logistic": LOGISTIC,
    }
)
