"""The unit of timestamps and of spans of time."""

from __future__ import annotations

import numpy as np
import pytest

from ratiorec.data.moments import duration, ticks_per_second
from ratiorec.errors import ConfigError, DataError


@pytest.mark.parametrize("ticks", [1, 10**3, 10**6, 10**9])
@pytest.mark.parametrize("seconds", [2 * 10**8, 1_700_000_000, 9 * 10**10])
def test_the_unit_of_timestamps_is_told_by_their_size(ticks: int, seconds: int) -> None:
    if seconds * ticks < 2**63:
        times = np.array([3 * ticks, seconds * ticks])
        assert ticks_per_second(times, where="here", otherwise="nothing") == ticks


def test_counters_are_no_dates() -> None:
    with pytest.raises(DataError, match="no dates") as caught:
        ticks_per_second(np.array([1, 20_000]), where="half_life", otherwise="a plain number")
    assert caught.value.where == "half_life"
    assert caught.value.wanted.endswith("else a plain number")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("45s", 45), ("30m", 1800), ("1.5h", 5400), ("90d", 7_776_000), (" 2w ", 1_209_600)],
)
def test_a_span_with_a_unit_is_in_seconds(text: str, seconds: float) -> None:
    assert duration(text, where="half_life") == (seconds, True)


@pytest.mark.parametrize(("text", "length"), [("3", 3), (0.5, 0.5), (1e20, 1e20), ("1e3", 1000)])
def test_a_plain_number_has_no_unit(text: str | float, length: float) -> None:
    assert duration(text, where="half_life") == (length, False)


@pytest.mark.parametrize("text", ["90 d", "3y", "d", "", "-1d", "0s", 0, -2, float("inf"), "1e999"])
def test_what_is_no_span_of_time_is_refused(text: str | float) -> None:
    with pytest.raises(ConfigError) as caught:
        duration(text, where="half_life")
    assert caught.value.where == "half_life"
