from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ratiorec_lab.report.charts import Mark, Series, line_chart, scatter_chart

WORDS = {"title": "T", "x_label": "X", "y_label": "Y"}
anything = st.floats(allow_nan=True, allow_infinity=True)
points = st.lists(st.tuples(anything, anything), max_size=30)


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ET.fromstring(svg).iter("text")]


def circles(svg: str) -> int:
    return sum(1 for _ in ET.fromstring(svg).iter("circle"))


def polylines(svg: str) -> list[list[tuple[float, float]]]:
    return [
        [tuple(map(float, pair.split(","))) for pair in line.attrib["points"].split()]
        for line in ET.fromstring(svg).iter("polyline")
    ]


def coordinates_inside(svg: str) -> bool:
    root = ET.fromstring(svg)
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    places = [
        (float(e.attrib[x]), float(e.attrib[y]))
        for e in root.iter()
        for x, y in (("x", "y"), ("cx", "cy"), ("x1", "y1"), ("x2", "y2"))
        if x in e.attrib and y in e.attrib
    ]
    places += [point for line in polylines(svg) for point in line]
    return all(-0.1 <= x <= width + 0.1 and -0.1 <= y <= height + 0.1 for x, y in places)


@settings(max_examples=60, deadline=None)
@given(data=st.lists(points, max_size=3), log_x=st.booleans(), log_y=st.booleans(), mark=anything)
def test_any_lines_give_a_well_formed_chart_inside_its_frame(data, log_x, log_y, mark):
    series = [Series(f"s{k}", [x for x, _ in p], [y for _, y in p]) for k, p in enumerate(data)]
    svg = line_chart(series, **WORDS, log_x=log_x, log_y=log_y, mark=Mark(mark, "here"))
    assert coordinates_inside(svg)
    assert "nan" not in svg
    assert "inf" not in svg


@settings(max_examples=60, deadline=None)
@given(data=st.lists(points, max_size=3), log_x=st.booleans(), log_y=st.booleans())
def test_any_lines_named_inside_give_a_well_formed_chart_inside_its_frame(data, log_x, log_y):
    series = [
        Series(f"s{k}", [x for x, _ in p], [y for _, y in p], k // 2, k % 2 == 1, k % 2 == 0)
        for k, p in enumerate(data)
    ]
    svg = line_chart(series, **WORDS, log_x=log_x, log_y=log_y, note="note", names_inside=True)
    assert coordinates_inside(svg)
    assert "nan" not in svg


@settings(max_examples=60, deadline=None)
@given(data=points, log_x=st.booleans(), log_y=st.booleans(), diagonal=st.booleans())
def test_any_points_give_a_well_formed_chart_inside_its_frame(data, log_x, log_y, diagonal):
    x, y = [a for a, _ in data], [b for _, b in data]
    svg = scatter_chart(x, y, **WORDS, log_x=log_x, log_y=log_y, diagonal=diagonal)
    assert coordinates_inside(svg)
    assert "nan" not in svg
    assert "inf" not in svg


@pytest.mark.parametrize("y", [[], [math.nan, math.inf]])
def test_a_chart_without_data_says_so(y):
    x = range(len(y))
    assert "no data" in texts(line_chart([Series("a", x, y)], **WORDS))
    assert "no data" in texts(scatter_chart(x, y, **WORDS))


def test_a_log_chart_of_nothing_positive_says_so():
    assert "no data" in texts(scatter_chart([0, -1], [1, 1], **WORDS, log_x=True))


def test_a_chart_without_series_says_so():
    assert "no data" in texts(line_chart([], **WORDS))


def test_a_value_that_is_not_finite_is_dropped_and_its_neighbours_joined():
    (line,) = polylines(line_chart([Series("a", [0, 1, 2], [0, math.nan, 1])], **WORDS))
    assert len(line) == 2


def test_an_image_has_a_name_and_a_description():
    root = ET.fromstring(line_chart([Series("recall", [1, 2], [0.1, 0.2])], **WORDS))
    assert root.attrib["role"] == "img"
    assert root[0].tag == "title"
    assert root[0].text == "T"
    assert root[1].tag == "desc"
    assert "recall from 0.1 to 0.2" in (root[1].text or "")


def test_names_are_escaped_everywhere():
    name = "<script>alert(1)</script>"
    svg = line_chart(
        [Series(name, [1, 2], [1, 2])], title=name, x_label=name, y_label=name, mark=Mark(1, name)
    )
    assert "<script" not in svg
    assert ET.fromstring(svg)[0].text == name


def test_the_same_data_give_the_same_chart():
    x = np.linspace(0, 1, 5000)
    assert scatter_chart(x, x**2, **WORDS) == scatter_chart(x, x**2, **WORDS)


def test_a_chart_refers_to_nothing_outside():
    svg = line_chart([Series("a", [1, 2], [1, 2])], **WORDS, mark=Mark(1, "here"))
    assert not re.search(r"https?:|url\(|href|<image|<use", svg)


def test_names_stand_at_the_ends_of_lines_that_end_apart():
    svg = line_chart([Series("low", [0, 1], [0, 0]), Series("high", [0, 1], [0, 1])], **WORDS)
    names = {e.text: e for e in ET.fromstring(svg).iter("text") if e.text in ("low", "high")}
    last_x = max(x for line in polylines(svg) for x, _ in line)
    assert all(float(e.attrib["x"]) > last_x for e in names.values())


def test_names_stand_in_a_legend_where_lines_end_together():
    series = [Series(f"line {k}", [0, 1], [k, 1]) for k in range(6)]
    svg = line_chart(series, **WORDS)
    first_y = min(y for line in polylines(svg) for _, y in line)
    names = [e for e in ET.fromstring(svg).iter("text") if (e.text or "").startswith("line ")]
    assert len(names) == 6
    assert all(float(e.attrib["y"]) < first_y for e in names)


def test_no_two_lines_share_colour_and_dashes():
    svg = line_chart([Series(f"{k}", [0, 1], [0, k]) for k in range(36)], **WORDS)
    strokes = [
        (line.attrib["style"], line.attrib.get("stroke-dasharray"))
        for line in ET.fromstring(svg).iter("polyline")
    ]
    assert len(set(strokes)) == 36


def test_a_line_may_share_the_colour_of_another_and_be_dashed():
    ours = Series("a", [0, 1], [0, 1], colour=3, is_dashed=False)
    other = Series("b", [0, 1], [0, 2], colour=3, is_dashed=True)
    solid, dashed = ET.fromstring(line_chart([ours, other], **WORDS)).iter("polyline")
    assert solid.attrib["style"] == dashed.attrib["style"]
    assert solid.get("stroke-dasharray") is None
    assert dashed.get("stroke-dasharray") is not None


def test_the_points_of_a_dashed_line_are_hollow():
    svg = line_chart([Series("a", [0, 1], [0, 1], is_dashed=True)], **WORDS)
    assert all("stroke" in e.attrib["style"] for e in ET.fromstring(svg).iter("circle"))


def test_a_line_that_needs_no_label_has_none_and_is_still_described():
    hidden = Series("hidden", [0, 1], [0, 2], is_labelled=False)
    svg = line_chart([Series("shown", [0, 1], [0, 1]), hidden], **WORDS)
    assert "hidden" not in texts(svg)
    assert "shown" in texts(svg)
    assert "hidden from" in (ET.fromstring(svg)[1].text or "")


def test_where_no_line_needs_a_label_all_have_one():
    assert "a" in texts(line_chart([Series("a", [0, 1], [0, 1], is_labelled=False)], **WORDS))


@pytest.mark.parametrize("y_label", ["Y", "", "a long name of an axis that takes all the room"])
def test_a_note_stands_above_the_data_clear_of_mark_and_axis(y_label):
    svg = line_chart(
        [Series("a", [0, 1], [0, 1])],
        title="T",
        x_label="X",
        y_label=y_label,
        mark=Mark(1, "mark at the very end"),
        note="dashed: published",
    )
    heights = {e.text: float(e.attrib["y"]) for e in labels(svg) if e.text}
    first_y = min(y for line in polylines(svg) for _, y in line)
    if len(y_label) > 1:
        assert heights["dashed: published"] >= heights[y_label] + 12
    assert heights["dashed: published"] <= heights["mark at the very end"] - 12
    assert heights["mark at the very end"] < first_y
    assert coordinates_inside(svg)


def early_and_late() -> list[Series]:
    return [
        Series("early", [1, 2, 3], [0.0, 4.0, 5.0]),
        Series("late", [1, 5, 10], [0.0, 1.0, 2.0]),
    ]


def test_a_line_that_ends_early_is_named_beside_it_where_that_is_wished():
    svg = line_chart(early_and_late(), **WORDS, names_inside=True)
    places = {e.text: (float(e.attrib["x"]), float(e.attrib["y"])) for e in labels(svg)}
    (early, late) = polylines(svg)
    assert places["late"][0] > late[-1][0]
    assert places["early"][0] < late[-1][0]
    assert abs(places["early"][1] - early[-1][1]) < 30


def test_a_line_that_ends_early_is_named_in_a_legend_otherwise():
    svg = line_chart(early_and_late(), **WORDS)
    first_y = min(y for line in polylines(svg) for _, y in line)
    names = [e for e in labels(svg) if e.text in ("early", "late")]
    assert all(float(e.attrib["y"]) < first_y for e in names)


def labels(svg: str) -> list[ET.Element]:
    return [*ET.fromstring(svg).iter("text")]


def test_a_mark_stands_at_its_place_and_keeps_its_label():
    svg = line_chart(
        [Series("a", [0, 65, 100], [0, 1, 1])], **WORDS, mark=Mark(65, "chosen epoch 65")
    )
    (line,) = polylines(svg)
    rules = [e for e in ET.fromstring(svg).iter("line") if "dasharray" in e.attrib["style"]]
    assert float(rules[0].attrib["x1"]) == pytest.approx(line[1][0], abs=0.1)
    assert "chosen epoch 65" in texts(svg)


def test_a_mark_beyond_the_data_is_still_on_the_chart():
    svg = line_chart([Series("a", [0, 10], [0, 1])], **WORDS, mark=Mark(40, "later"))
    assert coordinates_inside(svg)
    assert "later" in texts(svg)


def test_a_long_line_is_thinned_and_keeps_its_peak():
    y = np.zeros(50_000)
    y[31_337] = 7.0
    (line,) = polylines(line_chart([Series("a", np.arange(50_000), y)], **WORDS))
    assert len(line) <= 1000
    assert min(b for _, b in line) < line[0][1] - 50


def test_many_points_are_thinned_and_the_chart_says_so():
    svg = scatter_chart(np.arange(9000), np.arange(9000), **WORDS, max_points=500)
    assert circles(svg) == 500
    assert "500 of 9,000 points" in texts(svg)


def test_thinning_sees_every_row_of_a_table():
    rows = np.repeat(np.arange(40), 100)
    columns = np.tile(np.arange(100), 40)
    svg = scatter_chart(columns, rows, **WORDS, max_points=400)
    drawn = {e.attrib["cx"] for e in ET.fromstring(svg).iter("circle")}
    assert len(drawn) > 60


def test_few_points_are_all_drawn():
    assert circles(scatter_chart([1, 2, 3], [1, 2, 3], **WORDS)) == 3


def test_the_diagonal_joins_points_whose_coordinates_agree():
    svg = scatter_chart([1, 1000], [1, 1000], **WORDS, log_x=True, log_y=True, diagonal=True)
    root = ET.fromstring(svg)
    (rule,) = [e for e in root.iter("line") if "dasharray" in e.attrib["style"]]
    x1, x2, y1, y2 = (float(rule.attrib[k]) for k in ("x1", "x2", "y1", "y2"))
    for dot in root.iter("circle"):
        along = (float(dot.attrib["cx"]) - x1) / (x2 - x1)
        assert float(dot.attrib["cy"]) == pytest.approx(y1 + along * (y2 - y1), abs=0.2)


@pytest.mark.parametrize("y", [[1], [[1, 2]]])
def test_coordinates_of_unequal_length_are_refused(y):
    with pytest.raises(ValueError, match="equally long"):
        scatter_chart([1, 2], y, **WORDS)
