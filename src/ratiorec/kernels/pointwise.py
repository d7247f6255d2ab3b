"""Scores one by one: links, Bregman generators, and means over a user's positives."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn import functional

from ratiorec.errors import ConfigError
from ratiorec.shapes import ItemFactors, PerPositive, PerUser, PositiveIndex, UserFactors


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
    exponent: float | None = None  # b of `power_divergence`, for which kernels are compiled

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


@cache  # one object for an exponent, by which other backends know it
def power_divergence(exponent: float) -> Generator:
    """f″(t) = t^(b−1), Kullback–Leibler for b = 0 and least squares for b = 1 (theory: B6)."""
    b = exponent
    if b in (0, 1):
        return LEAST_SQUARES if b else KULLBACK_LEIBLER

    def slope_of_f(t: Tensor) -> Tensor:
        return (t.pow(b) - 1) / b  # not expm1(b log t)/b, whose derivative has no digits near 0

    def loss(ratio: Tensor, /, *, out: Tensor | None = None) -> Tensor:
        return torch.pow(ratio, 1 + b, out=out).mul_(1 / (1 + b))

    def slope(ratio: Tensor, /, *, out: Tensor | None = None) -> Tensor:
        return torch.pow(ratio, b, out=out)

    return Generator(lambda t: t * (slope_of_f(t) - 1) / (1 + b), slope_of_f, loss, slope, b)


def pair_scores(
    users: UserFactors, items: ItemFactors, rows: PositiveIndex, columns: PositiveIndex
) -> PerPositive:
    """s(u,i) = e_uᵀe_i for listed pairs only (theory: S1)."""
    if _has_kernels(users):
        scores: Tensor = _kernels().PairScores.apply(users, items, rows, columns)
        return scores
    owners = rows.clamp_max(len(users) - 1)
    return (users.index_select(0, owners) * items.index_select(0, columns)).sum(-1)


def user_sums(
    values: Sequence[PerPositive], rows: PositiveIndex, n_users: int
) -> tuple[PerUser, ...]:
    """Σ over the positives of each user, of several values at once."""
    if _has_kernels(values[0]):
        sums: Tensor = _kernels().UserSums.apply(torch.stack(list(values), -1), rows, n_users)
        return sums.unbind(-1)
    return tuple(v.new_zeros(n_users + 1).index_add(0, rows, v)[:n_users] for v in values)


def _has_kernels(values: Tensor) -> bool:
    return triton_hindrance(values.device, values.dtype) is None


def triton_hindrance(device: torch.device, dtype: torch.dtype) -> str | None:
    """Why Triton's kernels cannot run on such vectors; None where they can."""
    if device.type != "cuda":
        return f"vectors on {device.type}"
    if dtype != torch.float32:
        return f"vectors of {dtype}"
    found = importlib.util.find_spec("triton")
    return None if found else "no package of that name installed"


def require_triton(hindrance: str | None) -> None:
    """Refuse the backend where something stands in its way."""
    if hindrance is not None:
        raise ConfigError(
            "the backend cannot run",
            where="risk.backend",
            found=f"triton with {hindrance}",
            wanted="auto, which takes what can run, or tiled",
        )


def _kernels() -> Any:
    # imported where it is needed: the package triton exists on few machines
    return importlib.import_module("ratiorec.kernels.triton.positives")


def self_normalised(
    values: Sequence[PerPositive], weights: PerPositive, rows: PositiveIndex, n_users: int
) -> list[PerUser]:
    """Ê₊[w v] = Σ w v / Σ w for each user, of several v (theory: R1)."""
    total, *sums = user_sums([weights, *(weights * v for v in values)], rows, n_users)
    return [each / total for each in sums]


def plain(
    values: PerPositive,
    weights: PerPositive,
    counts: PerPositive,
    rows: PositiveIndex,
    n_users: int,
) -> PerUser:
    """Σ c w v / Σ c for each user, c the weight of each pair or 1 (theory: R7)."""
    total, count = user_sums([counts * weights * values, counts], rows, n_users)
    return total / count
