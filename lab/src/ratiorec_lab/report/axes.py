"""Axes for people: where the ticks stand and how their numbers are written."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

LARGEST = 1e300
"""Larger magnitudes are not drawn: the next tick might not be a number."""

_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Axis:
    """A range with its ticks; `log` says that equal ratios take equal room."""

    low: float
    high: float
    ticks: tuple[float, ...]
    labels: tuple[str, ...]
    log: bool = False

    @classmethod
    def over(cls, values: NDArray[np.float64], *, log: bool = False, at_most: int = 10) -> Axis:
        """The axis that holds all values, between two ticks."""
        low, high = float(values.min()), float(values.max())
        ticks = (log_ticks if log else linear_ticks)(low, high, at_most=at_most)
        axis = cls(ticks[0], ticks[-1], ticks, tick_labels(ticks), log)
        return axis._trimmed(low, high) if log else axis

    def _trimmed(self, low: float, high: float) -> Axis:
        """Without most of what lies beyond the values: a whole decade may be half the chart."""
        rim = (self.high / self.low) ** 0.03
        start, end = max(self.low, low / rim), min(self.high, high * rim)
        inner = tuple(tick for tick in self.ticks if start <= tick <= end)
        if len(inner) < 3:
            return self
        return Axis(start, end, inner, tick_labels(inner), self.log)

    def fraction(self, values: ArrayLike) -> NDArray[np.float64]:
        """Where values stand on the axis: 0 is its beginning, 1 its end."""
        points, ends = np.asarray(values, dtype=np.float64), np.array([self.low, self.high])
        if self.log:
            points, ends = np.log10(points), np.log10(ends)
        # Each part is divided first: the range itself may be too large for a float.
        return np.asarray((points / 2 - ends[0] / 2) / (ends[1] / 2 - ends[0] / 2))


def drawable(values: ArrayLike, *, log: bool) -> NDArray[np.bool_]:
    """Which values have a place on an axis of this kind."""
    numbers = np.asarray(values, dtype=np.float64)
    possible = np.abs(numbers) <= LARGEST  # which neither NaN nor infinity is
    return possible & (numbers >= 1 / LARGEST) if log else possible


def linear_ticks(low: float, high: float, *, at_most: int = 10) -> tuple[float, ...]:
    """Multiples of 1, 2 or 5 times a power of ten, from below `low` to above `high`.

    >>> linear_ticks(0.03, 0.18, at_most=6)
    (0.0, 0.05, 0.1, 0.15, 0.2)
    """
    low, high = _with_some_width(low, high)
    # Fractions of the printed digits: 0.1 is a tenth, so it needs no further tick beyond it.
    start, end = Fraction(repr(low)), Fraction(repr(high))
    smallest = math.floor(math.log10(float(end - start) / at_most))
    steps = (digit * Fraction(10) ** k for k in itertools.count(smallest) for digit in (1, 2, 5))
    for step in steps:
        first, last = math.floor(start / step), math.ceil(end / step)
        # Three ticks always suffice somewhere: a step beyond both ends, around zero.
        if last - first + 1 <= max(at_most, 3):
            return tuple(float(k * step) for k in range(first, last + 1))
    raise AssertionError("the steps grow without end")


def _with_some_width(low: float, high: float) -> tuple[float, float]:
    size = max(abs(low), abs(high))
    if size < 10 / LARGEST:
        return (-1.0 if low < 0 else 0.0), 1.0
    if high / 2 - low / 2 > 1e-9 * size:
        return low, high
    return low - size / 20, high + size / 20


def log_ticks(low: float, high: float, *, at_most: int = 10) -> tuple[float, ...]:
    """Powers of ten from below `low` to above `high`; closer where the range is short.

    >>> log_ticks(0.3, 4)
    (0.2, 0.5, 1.0, 2.0, 5.0)
    >>> log_ticks(0.003, 4000)
    (0.001, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0, 10000.0)
    """
    if high < 3 * low:
        even = linear_ticks(low, high, at_most=at_most)
        if even[0] > 0:
            return even
    candidates = (
        [_power(k, digit) for k in _decades(low, high, 1) for digit in (1, 2, 5)],
        *([_power(k, 1) for k in _decades(low, high, stride)] for stride in (1, 2, 5, 10, 20, 50)),
    )
    for candidate in candidates:
        ticks = _between(candidate, low, high)
        if len(ticks) <= at_most:
            return ticks
    return 1 / LARGEST, LARGEST


def _decades(low: float, high: float, stride: int) -> range:
    # One decade more on each side, because a logarithm may be rounded across a whole number;
    # but a float holds neither 1e-400 nor 1e400.
    first = math.floor((math.floor(math.log10(low)) - 1) / stride) * stride
    last = math.ceil((math.ceil(math.log10(high)) + 1) / stride) * stride
    return range(max(first, -300), min(last, 300) + 1, stride)


def _power(exponent: int, digit: int) -> float:
    return float(digit * Fraction(10) ** exponent)


def _between(candidates: Sequence[float], low: float, high: float) -> tuple[float, ...]:
    first = max(k for k, tick in enumerate(candidates) if tick <= low)
    last = min(k for k, tick in enumerate(candidates) if tick >= high)
    return tuple(candidates[first : max(last, first + 1) + 1])


def tick_labels(ticks: Sequence[float]) -> tuple[str, ...]:
    """The ticks in writing, all in the same manner.

    >>> tick_labels([0, 0.05, 0.1])
    ('0.00', '0.05', '0.10')
    >>> tick_labels([0.00001, 0.1, 1000])
    ('10⁻⁵', '10⁻¹', '10³')
    """
    sizes = [abs(tick) for tick in ticks if tick] or [1.0]
    if max(sizes) >= 1e7 or min(sizes) < 1e-4 or max(sizes) > 1e5 * min(sizes):
        return tuple(map(_with_power, ticks))
    is_even = len(ticks) > 2 and math.isclose(ticks[1] - ticks[0], ticks[-1] - ticks[-2])
    n_decimals = [max(0, -_last_digit(tick)) for tick in ticks]
    # On an even axis all labels have the same decimals; 0.001 … 1000 would look odd that way.
    shown = [max(n_decimals)] * len(ticks) if is_even else n_decimals
    return tuple(_minus(f"{tick:,.{n}f}") for tick, n in zip(ticks, shown, strict=True))


def _last_digit(value: float) -> int:
    exponent = Decimal(repr(float(value))).normalize().as_tuple().exponent
    return exponent if isinstance(exponent, int) else 0


def _with_power(value: float) -> str:
    if not value:
        return "0"
    mantissa, exponent = f"{value:.6e}".split("e")
    power = "10" + str(int(exponent)).translate(_SUPERSCRIPTS)
    digits = mantissa.rstrip("0").rstrip(".")
    return _minus(f"{digits}×{power}".removeprefix("1×").replace("-1×", "-"))


def _minus(number: str) -> str:
    return number.replace("-", "−")


def format_number(value: float) -> str:
    """A number as a person would write it.

    >>> format_number(29858), format_number(0.181234), format_number(float("nan"))
    ('29,858', '0.1812', '–')
    """
    if not math.isfinite(value):
        return "–"
    if value and not 1e-4 <= abs(value) < 1e7 and not float(value).is_integer():
        return _with_power(float(f"{value:.2e}"))
    written = f"{value:,.{_n_decimals([value])}f}"
    return _minus(written.rstrip("0").rstrip(".") if "." in written else written)


def format_column(values: Sequence[float]) -> Callable[[float], str]:
    """The one manner of writing numbers that suits all of these."""
    finite = [value for value in values if math.isfinite(value)]
    if any(value and not 1e-4 <= abs(value) < 1e7 for value in finite):
        return format_number
    n = _n_decimals(finite)
    return lambda value: _minus(f"{value:,.{n}f}") if math.isfinite(value) else "–"


def _n_decimals(values: Sequence[float]) -> int:
    """Four decimals for parts of one, as rankings are reported; fewer for larger numbers."""
    if all(float(value).is_integer() for value in values):
        return 0
    largest = max(abs(value) for value in values)
    if largest < 0.01:
        return 6
    return next((n for limit, n in ((1, 4), (100, 2), (1000, 1)) if largest <= limit), 0)
