from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratiorec_lab.report.layout import drawable, place_ticks
from ratiorec_lab.report.writing import clean, format_column, format_number, tick_labels


@pytest.mark.parametrize(
    ("ticks", "labels"),
    [
        ((0, 0.5, 1.0), ("0.0", "0.5", "1.0")),
        ((0, 1000, 2000), ("0", "1,000", "2,000")),
        ((-1, 0, 1), ("−1", "0", "1")),
        ((0, 2e-6, 4e-6), ("0", "2×10⁻⁶", "4×10⁻⁶")),
        ((0.1, 1, 10), ("0.1", "1", "10")),
        ((1e-3, 1, 1e3), ("10⁻³", "10⁰", "10³")),
    ],
)
def test_ticks_are_written_for_people(ticks, labels):
    assert tick_labels(ticks) == labels


@given(ends=st.tuples(st.floats(-1e12, 1e12), st.floats(-1e12, 1e12)))
def test_no_two_ticks_have_the_same_label(ends):
    labels = tick_labels(place_ticks(*sorted(ends), log=False, n=10)[1])
    assert len(set(labels)) == len(labels)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (1234567, "1,234,567"),
        (0.94312, "0.9431"),
        (3.6123, "3.61"),
        (-0.5, "−0.5"),
        (1.234e-7, "1.23×10⁻⁷"),
        (1e300, "10³⁰⁰"),
        (math.inf, "–"),
    ],
)
def test_a_number_is_written_for_people(value, text):
    assert format_number(value) == text


def test_a_column_has_the_same_decimals_throughout():
    write = format_column([0.18, 0.0612, math.nan])
    assert [write(0.18), write(0.0612), write(math.nan)] == ["0.1800", "0.0612", "–"]


@pytest.mark.parametrize(
    ("value", "linear", "log"),
    [(1.0, True, True), (0.0, True, False), (-1.0, True, False)]
    + [(value, False, False) for value in (math.nan, math.inf, -math.inf, 1e301)],
)
def test_a_value_has_a_place_on_an_axis_or_not(value, linear, log):
    assert drawable(value, log=False) == linear
    assert drawable(value, log=True) == log


def test_what_no_file_can_hold_is_replaced():
    assert clean("a\x00b\ud800\tc") == "a�b�\tc"
