from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratiorec_lab.report.axes import (
    LARGEST,
    Axis,
    drawable,
    format_column,
    format_number,
    linear_ticks,
    log_ticks,
    tick_labels,
)

numbers = st.floats(-LARGEST, LARGEST)
positive = st.floats(1 / LARGEST, LARGEST)
limits = st.integers(3, 10)


@given(ends=st.tuples(numbers, numbers), at_most=limits)
def test_linear_ticks_cover_the_data_are_few_and_rise(ends, at_most):
    low, high = sorted(ends)
    ticks = linear_ticks(low, high, at_most=at_most)
    assert ticks[0] <= low
    assert high <= ticks[-1]
    assert 2 <= len(ticks) <= at_most
    assert all(a < b for a, b in pairwise(ticks))


@given(ends=st.tuples(positive, positive), at_most=limits)
def test_log_ticks_cover_the_data_are_few_and_rise(ends, at_most):
    low, high = sorted(ends)
    ticks = log_ticks(low, high, at_most=at_most)
    assert 0 < ticks[0] <= low
    assert high <= ticks[-1]
    assert 2 <= len(ticks) <= at_most
    assert all(a < b for a, b in pairwise(ticks))


@given(low=st.floats(-1e4, 1e4), span=st.floats(1e-3, 1e6))
def test_linear_ticks_step_by_one_two_or_five(low, span):
    ticks = linear_ticks(low, low + span)
    step = (ticks[-1] - ticks[0]) / (len(ticks) - 1)
    digit = step / 10 ** math.floor(math.log10(step * 1.0001))
    assert min(abs(digit - nice) for nice in (1, 2, 5)) < 1e-3


@given(low=st.floats(-1e4, 1e4), span=st.floats(1e-3, 1e6))
def test_linear_ticks_waste_at_most_half_the_axis(low, span):
    ticks = linear_ticks(low, low + span)
    assert ticks[-1] - ticks[0] <= 2 * span * (1 + 1e-9)


def test_a_printed_tenth_needs_no_tick_beyond_it():
    assert linear_ticks(0.0, 0.1, at_most=6)[-1] == 0.1


def test_log_ticks_are_decades_where_the_range_is_wide():
    assert log_ticks(0.02, 3000.0) == (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0, 10000.0)


@given(values=st.lists(st.floats(-1e9, 1e9), min_size=1))
def test_all_values_stand_on_a_linear_axis(values):
    fractions = Axis.over(np.array(values)).fraction(values)
    assert (fractions >= -1e-9).all()
    assert (fractions <= 1 + 1e-9).all()


@given(values=st.lists(st.floats(1e-9, 1e9), min_size=1))
def test_all_values_and_ticks_stand_on_a_log_axis(values):
    axis = Axis.over(np.array(values), log=True)
    fractions = axis.fraction([*values, *axis.ticks])
    assert (fractions >= -1e-9).all()
    assert (fractions <= 1 + 1e-9).all()


def test_equal_ratios_take_equal_room_on_a_log_axis():
    one, ten, hundred = Axis(0.1, 1000.0, (), (), log=True).fraction([1, 10, 100])
    assert ten - one == pytest.approx(hundred - ten)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e301])
def test_a_value_that_is_not_finite_is_not_drawable(value):
    assert not drawable(value, log=False)


@pytest.mark.parametrize("value", [0.0, -1.0])
def test_a_log_axis_draws_positive_values_only(value):
    assert drawable(value, log=False)
    assert not drawable(value, log=True)


@given(ends=st.tuples(st.floats(-1e12, 1e12), st.floats(-1e12, 1e12)))
def test_no_two_ticks_have_the_same_label(ends):
    labels = tick_labels(linear_ticks(*sorted(ends)))
    assert len(set(labels)) == len(labels)


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


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (1234567, "1,234,567"),
        (0.94312, "0.9431"),
        (3.6123, "3.61"),
        (-0.5, "−0.5"),
        (1.234e-7, "1.23×10⁻⁷"),
        (math.inf, "–"),
    ],
)
def test_a_number_is_written_for_people(value, text):
    assert format_number(value) == text


def test_a_column_has_the_same_decimals_throughout():
    write = format_column([0.18, 0.0612, math.nan])
    assert [write(0.18), write(0.0612), write(math.nan)] == ["0.1800", "0.0612", "–"]
