"""Ratios and losses of single scores, in numpy: value, slope and what the slope becomes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

_SMALLEST_RATIO = 1e-30  # as in training: 1/r̂ must stay finite
_LARGEST_EXPONENT = 40.0  # e⁴⁰ cubed is still a number of single precision


class Ratio(NamedTuple):
    """r̂ of each score, its slope and its curvature."""

    value: NDArray[Any]
    slope: NDArray[Any]
    bend: NDArray[Any]


def softplus(scores: NDArray[Any]) -> Ratio:
    """r̂ = log(1 + eˢ), r̂′ = σ, r̂″ = σ(1 − σ) (theory: S2)."""
    small = np.exp(-np.abs(scores))
    value = np.log1p(small)
    value += np.maximum(scores, 0)
    slope = np.where(scores >= 0, 1, small)
    slope /= 1 + small
    return Ratio(np.maximum(value, _SMALLEST_RATIO), slope, slope * (1 - slope))


def exponential(scores: NDArray[Any]) -> Ratio:
    """r̂ = r̂′ = r̂″ = eˢ (theory: S2)."""
    value = np.exp(np.clip(scores, -_LARGEST_EXPONENT, _LARGEST_EXPONENT))
    return Ratio(value, value, value)


LINKS: Mapping[str, Callable[[NDArray[Any]], Ratio]] = MappingProxyType(
    {"softplus": softplus, "exponential": exponential}
)


@dataclass(frozen=True)
class Curvature:
    """f″(t) = t^−k / (1 + t)^m: one form for all generators (theory: F3)."""

    falls: int  # k
    saturates: int  # m

    def times_power(self, ratio: NDArray[Any], power: float) -> NDArray[Any]:
        """r̂^p f″(r̂)."""
        value: NDArray[Any] = _power(ratio, power - self.falls)
        return value / (1 + ratio) if self.saturates else value

    def relative_slope(self, ratio: NDArray[Any], power: float) -> NDArray[Any]:
        """The derivative of log(r̂^p f″(r̂))."""
        slope: NDArray[Any] = (power - self.falls) / ratio
        return slope - 1 / (1 + ratio) if self.saturates else slope


CURVATURES: Mapping[str, Curvature] = MappingProxyType(
    {
        "least-squares": Curvature(0, 0),
        "kullback-leibler": Curvature(1, 0),
        "logistic": Curvature(1, 1),
    }
)


class Pull(NamedTuple):
    """∂/∂s of a weighted loss, the weight being a constant, and how it changes with s."""

    strength: NDArray[Any]
    change: NDArray[Any]


def pull(ratio: Ratio, curvature: Curvature, power: float) -> Pull:
    """r̂^p f″(r̂) r̂′, and its derivative along the score (theory: F3)."""
    height = curvature.times_power(ratio.value, power)
    strength = height * ratio.slope
    bent = height * ratio.bend
    change = strength * ratio.slope * curvature.relative_slope(ratio.value, power) + bent
    return Pull(strength, change)


def _power(values: NDArray[Any], exponent: float) -> NDArray[Any]:
    """values^exponent; small whole exponents, which are all there are, without logarithms."""
    if exponent == 0:
        return np.ones_like(values)
    if exponent < 0:
        return 1 / _power(values, -exponent)
    if exponent == 1:
        return values
    return values**exponent
