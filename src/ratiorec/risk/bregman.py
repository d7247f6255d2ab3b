"""The Bregman family: a convex function and the two losses it makes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import torch
from torch import Tensor


class Generator(NamedTuple):
    """A strictly convex f on the positive reals with f(0) = 0, and f′, f″ (theory: B1).

    An affine term in f changes no divergence, so f(0) = 0 costs nothing; it makes
    ℓ±(0) = 0, which the non-negative correction relies on.
    """

    f: Callable[[Tensor], Tensor]
    df: Callable[[Tensor], Tensor]
    d2f: Callable[[Tensor], Tensor]

    def divergence(self, true: Tensor, estimate: Tensor) -> Tensor:
        """BR_f(r ‖ r̂) = f(r) − f(r̂) − f′(r̂)(r − r̂) (theory: B2)."""
        return self.f(true) - self.f(estimate) - self.df(estimate) * (true - estimate)

    def positive_loss(self, ratio: Tensor) -> Tensor:
        """ℓ₊(r̂) = −f′(r̂) (theory: B3)."""
        return -self.df(ratio)

    def unlabelled_loss(self, ratio: Tensor) -> Tensor:
        """ℓ±(r̂) = f′(r̂)·r̂ − f(r̂) (theory: B4)."""
        return self.df(ratio) * ratio - self.f(ratio)

    def unlabelled_slope(self, ratio: Tensor) -> Tensor:
        """ℓ±′(r̂) = f″(r̂)·r̂ (theory: B5)."""
        return self.d2f(ratio) * ratio


LEAST_SQUARES = Generator(
    f=lambda t: t.square() / 2,  # (t − 1)²/2 less its affine part
    df=lambda t: t,
    d2f=torch.ones_like,
)
KULLBACK_LEIBLER = Generator(
    f=lambda t: torch.special.xlogy(t, t) - t,
    df=torch.log,
    d2f=torch.reciprocal,
)
LOGISTIC = Generator(
    f=lambda t: torch.special.xlogy(t, t) - torch.special.xlog1py(1 + t, t),
    df=lambda t: -torch.log1p(1 / t),
    d2f=lambda t: 1 / (t * (1 + t)),
)

GENERATORS: Mapping[str, Generator] = MappingProxyType(
    {
        "least-squares": LEAST_SQUARES,
        "kullback-leibler": KULLBACK_LEIBLER,
        "logistic": LOGISTIC,
    }
)
