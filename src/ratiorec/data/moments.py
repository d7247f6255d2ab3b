"""Moments: the unit of timestamps, told by their size, and spans of time in words and back."""

from __future__ import annotations

import datetime as dt
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ratiorec.errors import ConfigError, DataError

SECONDS_OF_THREE_YEARS = 10**8  # March 1973 in seconds; smaller numbers are days, or counters
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_DURATION = re.compile(r"((?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)([smhdw]?)")


def ticks_per_second(times: NDArray[Any], *, where: str, otherwise: str) -> float:
    """The unit of timestamps since 1970, told by their size: 1 for seconds, 10⁶ for dates.

    Raises:
        DataError: They are too small to be told; `otherwise` says what can be done then.
    """
    largest = float(np.abs(times).max())
    if largest < SECONDS_OF_THREE_YEARS:
        raise DataError(
            "the timestamps are no dates",
            where=where,
            found=f"numbers from {times.min()} to {times.max()}",
            wanted="dates, or seconds, milliseconds, microseconds or nanoseconds since 1970; "
            f"else {otherwise}",
        )
    units = ((1e11, 1.0), (1e14, 1e3), (1e17, 1e6), (np.inf, 1e9))
    return next(ticks for bound, ticks in units if largest < bound)


def duration(text: str | float, *, where: str) -> tuple[float, bool]:
    """A span of time and whether it is in seconds; a plain number is in the unit of the timestamps.

    >>> duration("90d", where="half_life"), duration(3, where="half_life")
    ((7776000.0, True), (3.0, False))
    """
    parts = _DURATION.fullmatch(str(text).strip())
    length = float(parts[1]) * _SECONDS.get(parts[2], 1) if parts else 0.0
    if parts is None or not 0 < length < np.inf:
        raise ConfigError(
            "this is no span of time",
            where=where,
            found=repr(text),
            wanted="a number above 0 with a unit (s, m, h, d, w) as 90d or 12h, or a plain number "
            "in the unit of the timestamps",
        )
    return length, bool(parts[2])


def time_span(times: NDArray[Any] | None, *, is_date: bool) -> tuple[str | None, str | None]:
    """The first and the last time in words; numbers that look like Unix time as dates."""
    if times is None or not len(times):
        return None, None
    first, last = times.min().item(), times.max().item()
    for per_second in (1, 10**3, 10**6, 10**9):
        least = SECONDS_OF_THREE_YEARS * per_second
        if not is_date and least <= first <= last < 1000 * least:
            return _date(first * 10**6 // per_second), _date(last * 10**6 // per_second)
    return (_date(first), _date(last)) if is_date else (str(first), str(last))


def _date(microseconds: float) -> str:
    moment = np.datetime64(int(microseconds), "us").astype(object)
    return moment.isoformat(" ", "seconds") if isinstance(moment, dt.datetime) else str(moment)
