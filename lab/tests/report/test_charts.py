from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from functools import cache

import matplotlib as mpl
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ratiorec_lab.report.charts import (
    Bar,
    Dot,
    Series,
    bar_chart,
    dot_chart,
    line_chart,
    scatter_chart,
    sheet,
)
from ratiorec_lab.report.layout import WIDTH, place_ticks
from ratiorec_lab.report.style import chart_rules, series_colour
from ratiorec_lab.report.writing import format_number

SVG = "{http://www.w3.org/2000/svg}"
WORDS = {"title": "T", "x_label": "X", "y_label": "Y"}
BARS = {"title": "T", "value_label": "seconds", "write": format_number, "missing": "not run"}
anything = st.floats(allow_nan=True, allow_infinity=True)
points = st.lists(st.tuples(anything, anything), max_size=8)


@cache
def named(word: str) -> dict[str, str]:
    """Every kind of chart with a word in all places."""
    words = {"title": word, "x_label": word, "y_label": word}
    line = Series(word, [1, 2], [1, 2])
    return {
        "lines": line_chart([line, Series("b", [1, 2], [1, 2])], **words, mark=(1, word), note="n"),
        "points": scatter_chart([1, 2, 3], [1, 2, 4], **words, diagonal=True),
        "bars": bar_chart(
            [Bar(word, 2.0, 3.0, 1.0, 4.0)],
            title=word,
            value_label=word,
            write=format_number,
            names=(word, "other"),
        ),
        "dots": dot_chart([Dot(word, "2 s", 2.0, 1.0, 3.0, 0.5)], title=word, value_label=word),
        "nothing": line_chart([], **words),
    }


KINDS = ("lines", "points", "bars", "dots", "nothing")


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ET.fromstring(svg).iter("text")]


def groups(svg: str, name: str) -> list[ET.Element]:
    return [group for group in ET.fromstring(svg).iter("g") if group.get("class") == name]


def corners(group: ET.Element) -> list[tuple[float, float]]:
    """The points of the first path in a group, from its shape."""
    path = next(group.iter("path"))
    shift = re.findall(r"-?[\d.]+", path.get("transform", "translate(0 0)"))
    numbers = [float(one) for one in re.findall(r"-?[\d.]+", path.attrib["d"])]
    x, y = map(float, shift)
    return [(a + x, b + y) for a, b in zip(numbers[::2], numbers[1::2], strict=True)]


def circles(group: ET.Element) -> list[tuple[float, float]]:
    return [(float(e.attrib["cx"]), float(e.attrib["cy"])) for e in group.iter("circle")]


def left_and_width(bar: ET.Element) -> tuple[float, float]:
    places = [x for x, _ in corners(bar)]
    return min(places), max(places) - min(places)


@pytest.mark.parametrize("kind", KINDS)
def test_a_chart_has_a_name_and_a_description_for_those_who_do_not_see_it(kind: str) -> None:
    root = ET.fromstring(named("word")[kind])
    assert root.get("role") == "img"
    assert [child.tag for child in root][:2] == ["title", "desc"]
    assert root[0].text == "word"
    assert len(root[1].text or "") > 20


@pytest.mark.parametrize("kind", KINDS)
def test_a_chart_refers_to_nothing_and_has_no_ids_to_collide_with_another(kind: str) -> None:
    svg = named("word")[kind]
    assert not re.search(r"https?:|url\(|href|<image|<use|<script|<style|\bid=|font-family", svg)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("word", ["<script>alert(1)</script>", '"><i>&amp;', "a $x$ \\b \x00 _"])
def test_a_hostile_name_is_only_text(kind: str, word: str) -> None:
    root = ET.fromstring(named(word)[kind])
    drawn = {"svg", "title", "desc", "g", "path", "circle", "text"}
    assert {element.tag for element in root.iter()} <= drawn
    assert root[0].text == word.replace("\x00", "\N{REPLACEMENT CHARACTER}")


def test_what_looks_like_a_formula_is_written_as_it_is() -> None:
    assert "a $x$ b" in texts(named("a $x$ b")["lines"])


def test_the_same_data_give_the_same_bytes_whatever_a_readers_settings() -> None:
    first, before = named("word"), dict(mpl.rcParams)
    named.cache_clear()
    with mpl.rc_context({"font.size": 30, "xtick.major.size": 9, "text.color": "red"}):
        assert named("word") == first
    assert dict(mpl.rcParams) == before


def test_every_colour_of_a_chart_has_one_for_the_dark() -> None:
    used = set(re.findall(r"(?:fill|stroke): #\w{6}", "".join(named("word").values())))
    assert len(used) > 5
    assert all(f'[style*="{one}"]' in chart_rules() for one in used)


@settings(max_examples=10, deadline=None)
@given(data=st.lists(points, max_size=3), log_x=st.booleans(), log_y=st.booleans(), mark=anything)
def test_any_lines_give_a_chart_with_all_points_in_its_frame(data, log_x, log_y, mark):
    series = [Series(f"s{k}", [x for x, _ in p], [y for _, y in p]) for k, p in enumerate(data)]
    svg = line_chart(series, **WORDS, log_x=log_x, log_y=log_y, mark=(mark, "here"))
    height = float(ET.fromstring(svg).attrib["viewBox"].split()[3])
    for line in groups(svg, "line"):
        assert all(0 <= x <= WIDTH and 0 <= y <= height for x, y in circles(line))
    assert "nan" not in svg


@settings(max_examples=10, deadline=None)
@given(
    rows=st.lists(st.tuples(*[st.none() | anything] * 2, anything, anything), max_size=4),
    log=st.booleans(),
)
def test_any_bars_give_a_well_formed_chart(rows, log):
    svg = bar_chart([Bar("a", *row) for row in rows], **BARS, names=("x", "y"), log=log)
    assert all(left_and_width(bar)[1] <= WIDTH for bar in groups(svg, "bar"))
    assert "nan" not in svg


NOTHING: list[Callable[[], str]] = [
    lambda: line_chart([Series("a", [1, 2], [math.nan, math.inf])], **WORDS),
    lambda: scatter_chart([0, -1], [1, 1], **WORDS, log_x=True),
    lambda: bar_chart([], **BARS),
    lambda: bar_chart([Bar("a", None), Bar("b", math.nan)], **BARS),
    lambda: dot_chart([], title="T", value_label="s"),
]


@pytest.mark.parametrize("draw", NOTHING)
def test_a_chart_without_data_says_so(draw: Callable[[], str]) -> None:
    assert "no data" in texts(draw())


def test_lines_have_title_axes_names_and_a_dot_for_each_value() -> None:
    lines = [Series("low", [0, 1, 2], [0, 0, 0]), Series("high", [0, 1], [0, 1])]
    svg = line_chart(lines, title="Rise", x_label="step", y_label="recall", note="a note")
    assert {"Rise", "step", "recall", "a note", "low", "high"} <= set(texts(svg))
    assert [len(circles(line)) for line in groups(svg, "line")] == [3, 2]
    assert "high from 0 to 1, highest 1 at 1" in (ET.fromstring(svg)[1].text or "")


def test_values_stand_where_they_belong_and_those_without_a_place_are_left_out() -> None:
    svg = line_chart([Series("a", [0, 1, 2, 4], [0, 1, math.nan, 4])], **WORDS)
    (x0, y0), (x1, y1), (x4, y4) = circles(groups(svg, "line")[0])
    assert (x4 - x0, y0 - y4) == pytest.approx((4 * (x1 - x0), 4 * (y0 - y1)), abs=0.1)


def test_a_long_line_keeps_its_peak_and_shows_only_its_end() -> None:
    y = np.zeros(50_000)
    y[31_337] = 7.0
    (line,) = groups(line_chart([Series("a", np.arange(50_000), y)], **WORDS), "line")
    heights = [height for _, height in corners(line)]
    assert len(heights) <= 1000
    assert min(heights) < heights[0] - 50
    assert len(circles(line)) == 1


def test_a_logarithmic_axis_has_its_decades_and_equal_ratios_take_equal_room() -> None:
    svg = line_chart([Series("a", [1, 10, 1000], [1, 2, 3])], **WORDS, log_x=True)
    assert {"1", "10", "100", "1,000"} <= set(texts(svg))
    (one, _), (ten, _), (thousand, _) = circles(groups(svg, "line")[0])
    assert thousand - one == pytest.approx(3 * (ten - one), abs=0.1)


@settings(deadline=None)
@given(ends=st.tuples(st.floats(1e-150, 1e150), st.floats(1e-150, 1e150)), log=st.booleans())
def test_ticks_are_few_rise_and_stand_on_an_axis_that_holds_the_data(ends, log):
    low, high = sorted(ends)
    (start, end), ticks = place_ticks(low, high, log=log, n=6)
    assert start <= low <= high <= end
    assert start <= ticks[0]
    assert ticks[-1] <= end
    assert ticks == sorted(set(ticks))
    assert len(ticks) <= 8


def test_names_follow_lines_that_end_apart_and_go_into_a_legend_where_all_is_crowded() -> None:
    def names(n_lines: int, step: float) -> list[tuple[float, float]]:
        svg = line_chart(
            [Series(f"line {k}", [0, 1], [k * step, 1 + k * step]) for k in range(n_lines)], **WORDS
        )
        found = [e for e in ET.fromstring(svg).iter("text") if (e.text or "").startswith("line ")]
        assert len(found) == n_lines
        ends = [circles(line)[-1] for line in groups(svg, "line")[:n_lines]]
        last, top = max(x for x, _ in ends), min(y for _, y in ends)
        return [(float(e.attrib["x"]) - last, float(e.attrib["y"]) - top) for e in found]

    assert all(x > 0 for x, _ in names(3, 0.3))
    assert all(y < 0 for _, y in names(13, 0.1))


def test_a_line_that_ends_early_is_named_beside_its_end() -> None:
    early = Series("early", [1, 2, 3], [0.0, 4.0, 5.0])
    svg = line_chart([early, Series("late", [1, 5, 10], [0.0, 1.0, 2.0])], **WORDS)
    (name,) = [e for e in ET.fromstring(svg).iter("text") if e.text == "early"]
    x, y = circles(groups(svg, "line")[0])[-1]
    assert abs(float(name.attrib["x"]) - x) < 80
    assert abs(float(name.attrib["y"]) - y) < 30


def test_no_two_of_many_lines_look_alike() -> None:
    svg = line_chart([Series(f"{k}", [0, 1], [0, k]) for k in range(36)], **WORDS)
    strokes = {next(line.iter("path")).attrib["style"] for line in groups(svg, "line")}
    assert len(strokes) == 36


def test_a_line_may_share_the_colour_of_another_dashed_hollow_and_without_a_name() -> None:
    ours = Series("a", [0, 1], [0, 1], colour=3)
    other = Series("b", [0, 1], [0, 2], colour=3, is_dashed=True, is_labelled=False)
    svg = line_chart([ours, other], **WORDS)
    solid, dashed = (next(line.iter("path")).attrib["style"] for line in groups(svg, "line"))
    assert f"stroke: {series_colour(3)}" in solid
    assert f"stroke: {series_colour(3)}" in dashed
    assert "dasharray" not in solid
    assert "dasharray" in dashed
    dot = next(groups(svg, "line")[1].iter("circle")).attrib["style"]
    assert "fill: #ffffff" in dot
    assert "b" not in texts(svg)
    assert "b from" in (ET.fromstring(svg)[1].text or "")


@pytest.mark.parametrize("place", [0, 65, 140])
def test_a_mark_stands_at_its_place_with_its_name(place: float) -> None:
    svg = line_chart([Series("a", [0, 65, 100], [0, 1, 1])], **WORDS, mark=(place, "chosen"))
    (rule,) = groups(svg, "mark")
    (x0, _), (x65, _), _ = circles(groups(svg, "line")[0])
    assert corners(rule)[0][0] == pytest.approx(x0 + place / 65 * (x65 - x0), abs=0.1)
    assert "chosen" in texts(svg)


def test_few_points_are_all_drawn_and_many_are_thinned_which_is_said() -> None:
    few = scatter_chart([1, 2, 3], [1, 2, 3], **WORDS)
    many = scatter_chart(np.arange(9000), np.arange(9000), **WORDS, max_points=500)
    assert [len(circles(groups(svg, "points")[0])) for svg in (few, many)] == [3, 500]
    assert "500 of 9,000 points" in texts(many)


def test_the_diagonal_joins_points_whose_coordinates_agree() -> None:
    svg = scatter_chart([1, 1000], [1, 1000], **WORDS, log_x=True, log_y=True, diagonal=True)
    (x1, y1), (x2, y2) = corners(groups(svg, "diagonal")[0])
    for x, y in circles(groups(svg, "points")[0]):
        assert y == pytest.approx(y1 + (x - x1) / (x2 - x1) * (y2 - y1), abs=0.2)


@pytest.mark.parametrize("y", [[1], [[1, 2]]])
def test_coordinates_of_unequal_length_are_refused(y) -> None:
    with pytest.raises(ValueError, match="equally long"):
        scatter_chart([1, 2], y, **WORDS)


def test_bars_are_as_long_as_their_values_and_stand_on_zero() -> None:
    svg = bar_chart([Bar("a", 1.0, 3.0), Bar("b", -2.0)], **BARS, names=("ours", "theirs"))
    (zero, one), (_, three), (left, two) = map(left_and_width, groups(svg, "bar"))
    assert three == pytest.approx(3 * one, abs=0.1)
    assert (left + two, two) == pytest.approx((zero, 2 * one), abs=0.1)


def test_equal_ratios_add_equal_lengths_on_a_log_axis() -> None:
    svg = bar_chart([Bar("a", 10.0**k) for k in range(3)], **BARS, log=True)
    one, ten, hundred = (left_and_width(bar)[1] for bar in groups(svg, "bar"))
    assert ten - one == pytest.approx(hundred - ten, abs=0.1)
    assert one > 5


def test_an_interval_is_drawn_from_its_low_to_its_high_end() -> None:
    svg = bar_chart([Bar("a", 2.0, low=1.0, high=4.0), Bar("b", 1.0)], **BARS)
    start, width = left_and_width(groups(svg, "bar")[0])
    (interval,) = groups(svg, "interval")
    (low, _), (high, _) = corners(interval)
    assert (low - start, high - start) == pytest.approx((width / 2, 2 * width), abs=0.1)


def test_bars_have_names_figures_a_key_and_hollow_ones_beside_them() -> None:
    svg = bar_chart([Bar("a", 12.5, 50.25), Bar("b", None, 3.0)], **BARS, names=("ours", "theirs"))
    assert {"T", "seconds", "a", "b", "12.5", "50.25", "not run", "ours", "theirs"} <= {*texts(svg)}
    looks = [next(bar.iter("path")).attrib["style"] for bar in groups(svg, "bar")]
    assert ["dasharray" in look for look in looks] == [False, True, True]
    told = ET.fromstring(svg).findtext("desc")
    assert told == "Bar chart of seconds. a: ours 12.5, theirs 50.25; b: ours not run, theirs 3."
    assert "ours" not in texts(bar_chart([Bar("a", 1.0)], **BARS, names=("ours", "theirs")))


@pytest.mark.parametrize("value", [math.nan, math.inf, 0.0, -1.0])
def test_a_figure_without_a_place_on_the_axis_is_written_without_a_bar(value: float) -> None:
    svg = bar_chart([Bar("a", value), Bar("b", 2.0)], **BARS, log=True)
    assert format_number(value) in texts(svg)
    assert len(groups(svg, "bar")) == 1


def test_a_long_name_is_broken_shown_short_and_told_whole() -> None:
    name = "a name much too long to be shown in full beside its bar, however it is broken " * 2
    svg = bar_chart([Bar(name.strip(), 1.0), Bar("b", 2.0)], **BARS)
    assert sum(text.endswith("…") for text in texts(svg)) == 1
    assert name.strip() in (ET.fromstring(svg).findtext("desc") or "")


def test_dots_stand_by_their_values_with_spread_and_a_known_floor() -> None:
    dots = [
        Dot("ours", "20 ms, 4 × floor", 0.02, 0.01, 0.04, floor=0.005),
        Dot("a rival whose name " + "goes on and on " * 4, "1 s", 1, 1, 1, colour=1),
    ]
    svg = dot_chart(dots, title="T", value_label="seconds, logarithmic")
    (ours,), (rival,) = (circles(dot) for dot in groups(svg, "dot"))
    (floor,), (low, high) = (
        {x for x, _ in corners(groups(svg, name)[0])} for name in ("floor", "spread")
    )
    low, high = sorted((low, high))
    assert floor < low < ours[0] < high < rival[0]
    assert high - ours[0] == pytest.approx(ours[0] - low, abs=0.1)
    assert {"ours", "20 ms, 4 × floor", "1 s", "seconds, logarithmic"} <= set(texts(svg))
    assert [text.endswith("…") for text in texts(svg) if text.startswith("a rival")] == [True]


def test_a_sheet_is_a_file_of_its_own_with_ground_colours_and_name() -> None:
    svg = sheet([*named("word").values()], title="Figure <5>")
    root = ET.fromstring(svg)
    assert root.tag == f"{SVG}svg"
    assert root.findtext(f"{SVG}title") == "Figure <5>"
    assert "prefers-color-scheme:dark" in (root.findtext(f"{SVG}style") or "")
    ground = root.find(f"{SVG}rect")
    assert ground is not None
    assert (ground.get("width"), ground.get("height")) == (root.get("width"), root.get("height"))
    assert "var(" not in svg  # which not every viewer of images knows


def test_charts_of_a_sheet_do_not_meet_and_stay_on_it() -> None:
    root = ET.fromstring(sheet([*named("word").values()], title="T"))
    boxes = [
        [float(chart.attrib[key]) for key in ("x", "y", "width", "height")]
        for chart in root.findall(f"{SVG}svg")
    ]
    assert len(boxes) == 5
    for k, (x, y, width, height) in enumerate(boxes):
        assert x + width <= float(root.attrib["width"])
        assert y + height <= float(root.attrib["height"])
        for left, top, wide, high in boxes[k + 1 :]:
            assert x + width <= left or left + wide <= x or y + height <= top or top + high <= y
