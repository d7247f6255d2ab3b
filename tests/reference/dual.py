"""Numbers that carry their partial derivatives: forward-mode differentiation in plain Python."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Dual:
    """A value, and its derivative with respect to every variable it depends on."""

    value: float
    slopes: dict[Hashable, float] = field(default_factory=dict)

    def __add__(self, other: Dual) -> Dual:
        return _chain(self.value + other.value, (self, 1.0), (other, 1.0))

    def __sub__(self, other: Dual) -> Dual:
        return _chain(self.value - other.value, (self, 1.0), (other, -1.0))

    def __mul__(self, other: Dual | float) -> Dual:
        if isinstance(other, Dual):
            return _chain(self.value * other.value, (self, other.value), (other, self.value))
        return _chain(self.value * other, (self, other))

    def __truediv__(self, divisor: float) -> Dual:
        return _chain(self.value / divisor, (self, 1 / divisor))

    def __neg__(self) -> Dual:
        return _chain(-self.value, (self, -1.0))


def _chain(value: float, *parts: tuple[Dual, float]) -> Dual:
    """The chain rule: each part with the derivative of the result with respect to it."""
    slopes: dict[Hashable, float] = {}
    for part, factor in parts:
        for name, slope in part.slopes.items():
            slopes[name] = slopes.get(name, 0.0) + factor * slope
    return Dual(value, slopes)


def variable(name: Hashable, value: float) -> Dual:
    return Dual(value, {name: 1.0})


def total(terms: Iterable[Dual]) -> Dual:
    terms = list(terms)
    return _chain(math.fsum(term.value for term in terms), *((term, 1.0) for term in terms))


def reciprocal(x: Dual) -> Dual:
    return _chain(1 / x.value, (x, -1 / x.value**2))


def exp(x: Dual) -> Dual:
    return _chain(math.exp(x.value), (x, math.exp(x.value)))


def log(x: Dual) -> Dual:
    return _chain(math.log(x.value), (x, 1 / x.value))


def log1p(x: Dual) -> Dual:
    return _chain(math.log1p(x.value), (x, 1 / (1 + x.value)))
