from __future__ import annotations

import pytest

from ratiorec_lab.tables import aligned, in_digits, in_seconds, markdown_table


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(2e-6, "2 µs"), (0.0123, "12.3 ms"), (1.0, "1 s"), (75.44, "75.4 s"), (1234.5, "1,234 s")],
)
def test_times_have_three_digits_and_a_unit(seconds: float, expected: str) -> None:
    assert in_seconds(seconds) == expected


@pytest.mark.parametrize(("value", "expected"), [(0.06278, "0.0628"), (2998.2, "2,998")])
def test_a_large_number_has_all_its_digits_and_a_small_one_three(
    value: float, expected: str
) -> None:
    assert in_digits(value) == expected


def test_what_is_not_known_is_written_as_nothing() -> None:
    assert in_seconds(None) == in_digits(None) == ""


def test_columns_of_markdown_stand_to_the_right_where_asked() -> None:
    assert markdown_table(["a", "b"], [["1", "2"]], right=[0]).splitlines() == [
        "| a | b |",
        "| ---: | --- |",
        "| 1 | 2 |",
    ]


def test_only_columns_without_a_header_stand_to_the_left() -> None:
    rows = [["", "time", ""], ["a", "12 ms", "far"], ["abc", "4 s", "x"]]
    assert aligned(rows) == [
        "      time",
        "a    12 ms  far",
        "abc    4 s  x",
    ]
