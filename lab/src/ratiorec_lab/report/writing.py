"""Numbers and words as readers see them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence

_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
# XML has no way to write these, not even as a reference.
_UNWRITABLE = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def clean(text: str) -> str:
    """The text without characters that no file of markup can hold."""
    return _UNWRITABLE.sub("\N{REPLACEMENT CHARACTER}", text)


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
    n_decimals = [len(f"{tick:.10g}".partition(".")[2]) for tick in ticks]
    if len(ticks) > 2 and math.isclose(ticks[1] - ticks[0], ticks[-1] - ticks[-2]):
        n_decimals = [max(n_decimals)] * len(ticks)  # only an uneven axis may mix 0.1, 1 and 10
    return tuple(_minus(f"{tick:,.{n}f}") for tick, n in zip(ticks, n_decimals, strict=True))


def _with_power(value: float, n_digits: int = 6) -> str:
    if not value:
        return "0"
    mantissa, exponent = f"{value:.{n_digits}e}".split("e")
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
    is_long = not 1e-4 <= abs(value) < 1e7 and not float(value).is_integer()
    if abs(value) >= 1e15 or is_long:
        return _with_power(value, 2)
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
