from __future__ import annotations

import math
import xml.etree.ElementTree as ET

from hypothesis import given, settings
from hypothesis import strategies as st

from ratiorec_lab.report.page import html
from ratiorec_lab.report.style import series_colour
from ratiorec_lab.reproduce.drawing import (
    bar_chart,
    bar_numbers,
    curve_chart,
    curve_numbers,
    undrawn,
)
from ratiorec_lab.reproduce.exhibits import Bar, BarPanel, Panel, Series

anything = st.floats(allow_nan=True, allow_infinity=True)
points = st.lists(st.tuples(anything, anything), max_size=8).map(tuple)
names = st.sampled_from(["a", "b", "<script>", "long " * 20])
LINE = ((1.0, 0.1), (2.0, 0.3), (4.0, 0.2))


def panel(*series: Series, **more: bool) -> Panel:
    return Panel("Title", "step", "R@20", series, **more)


def bars(*bars: Bar, log: bool = False) -> BarPanel:
    return BarPanel("Title", "seconds", bars, log=log)


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ET.fromstring(svg).iter("text")]


def strokes(svg: str) -> list[str]:
    groups = [e for e in ET.fromstring(svg).iter("g") if e.get("class") == "line"]
    return [next(group.iter("path")).attrib["style"] for group in groups]


@settings(max_examples=10, deadline=None)
@given(
    data=st.lists(st.builds(Series, names, points, st.booleans()), max_size=4),
    log_x=st.booleans(),
    log_y=st.booleans(),
)
def test_any_curves_give_a_well_formed_chart_and_table(data, log_x, log_y):
    curves = panel(*data, log_x=log_x, log_y=log_y)
    svg = curve_chart(curves)
    ET.fromstring(svg)
    ET.fromstring(html(curve_numbers(curves)))
    assert "nan" not in svg


@settings(max_examples=10, deadline=None)
@given(
    data=st.lists(st.builds(Bar, names, st.none() | anything, st.none() | anything), max_size=6),
    log=st.booleans(),
)
def test_any_bars_give_a_well_formed_chart_and_table(data, log):
    svg = bar_chart(bars(*data, log=log))
    ET.fromstring(svg)
    ET.fromstring(html(bar_numbers(bars(*data))))
    assert "nan" not in svg


def test_what_was_published_is_dashed_in_the_colour_of_ours():
    svg = curve_chart(panel(Series("A", LINE), Series("B", LINE), Series("B", LINE, True)))
    ours, other, published = strokes(svg)
    assert ["dasharray" in one for one in (ours, other, published)] == [False, False, True]
    assert f"stroke: {series_colour(0)}" in ours
    assert f"stroke: {series_colour(1)}" in other
    assert f"stroke: {series_colour(1)}" in published


def test_the_chart_says_what_is_dashed_and_names_a_colour_once():
    svg = curve_chart(panel(Series("A", LINE), Series("A", LINE, is_published=True)))
    assert texts(svg).count("A") == 1
    assert "dashed: published" in texts(svg)
    assert "dashed: published" not in texts(curve_chart(panel(Series("A", LINE))))


def test_a_published_line_without_ours_keeps_its_name():
    svg = curve_chart(panel(Series("A", ()), Series("A", LINE, is_published=True)))
    assert "A" in texts(svg)


def test_more_lines_than_colours_are_told_apart_by_dashes():
    drawn = strokes(curve_chart(panel(*(Series(f"{k}", LINE) for k in range(9)))))
    assert len(set(drawn)) == 9


def test_a_logarithmic_axis_says_so_once():
    assert "step, logarithmic" in texts(curve_chart(panel(Series("A", LINE), log_x=True)))
    named = Panel("T", "step (log scale)", "y", (Series("A", LINE),), log_x=True)
    assert "step (log scale)" in texts(curve_chart(named))


def test_points_without_a_place_are_counted():
    lost = Series("A", ((0.0, 1.0), (1.0, math.nan), (1.0, 1.0)))
    told = undrawn(panel(lost, Series("B", LINE), log_x=True))
    assert told == "Points without a place on these axes: 2 of A."
    assert undrawn(panel(Series("B", LINE))) == ""


def test_the_numbers_of_curves_stand_side_by_side_at_each_place():
    other = Series("B", ((2.0, 0.7), (3.0, math.inf)), is_published=True)
    table = curve_numbers(panel(Series("A", LINE), other))
    assert table.headers == ["step", "A", "B, published"]
    assert table.rows == [
        [1.0, 0.1, None],
        [2.0, 0.3, 0.7],
        [3.0, None, "not finite"],
        [4.0, 0.2, None],
    ]


def test_very_many_numbers_are_thinned_and_the_table_says_so():
    table = curve_numbers(panel(Series("A", tuple((float(k), 1.0) for k in range(2501)))))
    places = [row[0] for row in table.rows]
    assert places[:2] == [0.0, 3.0]
    assert places[-1] == 2500.0
    assert "one place in 3 of 2,501" in table.caption


def test_hundreds_of_numbers_are_all_there():
    table = curve_numbers(panel(Series("A", tuple((float(k), 1.0) for k in range(900)))))
    assert len(table.rows) == 900


def test_the_numbers_of_bars_stand_beside_what_was_published():
    table = bar_numbers(bars(Bar("A", 3.6, 72.0), Bar("B", None, 5.0), Bar("C", 1.5)))
    assert table.headers == ["", "this run, seconds", "published", "difference"]
    assert table.rows == [
        ["A", "3.6", "72", f"−{100 * (1 - 3.6 / 72):.1f} %"],
        ["B", "not run", "5", ""],
        ["C", "1.5", "", ""],
    ]


def test_a_bar_that_was_not_run_says_so_in_the_chart():
    assert "not run" in texts(bar_chart(bars(Bar("A", None, 5.0), Bar("B", 1.0))))


def test_the_same_panel_is_drawn_the_same():
    curves = panel(Series("A", LINE), Series("A", LINE, is_published=True))
    beside = bars(Bar("A", 3.6, 72.0), Bar("B", None, 5.0))
    first = curve_chart(curves), bar_chart(beside)
    curve_chart.cache_clear()
    bar_chart.cache_clear()
    assert (curve_chart(curves), bar_chart(beside)) == first
