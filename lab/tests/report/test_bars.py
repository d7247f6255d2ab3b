from __future__ import annotations

import math
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ratiorec_lab.report.charts import bar_chart

WORDS = {"title": "T", "y_label": "Y"}
anything = st.floats(allow_nan=True, allow_infinity=True)
names = st.text("ab <&", max_size=30)


def bars(svg: str) -> list[dict[str, float]]:
    keys = ("x", "y", "width", "height")
    return [{k: float(e.attrib[k]) for k in keys} for e in ET.fromstring(svg).iter("rect")]


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ET.fromstring(svg).iter("text")]


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(st.tuples(names, anything, anything, anything)), log_y=st.booleans())
def test_any_bars_give_a_well_formed_chart(rows, log_y):
    labels, values = [row[0] for row in rows], [row[1] for row in rows]
    svg = bar_chart(labels, values, **WORDS, errors=[row[2:] for row in rows], log_y=log_y)
    drawn = [e.attrib for e in ET.fromstring(svg).iter("rect")]
    assert all(float(bar["height"]) >= 0 for bar in drawn)
    assert "nan" not in svg
    assert "inf" not in svg


def test_heights_are_proportional_to_values():
    one, three = bars(bar_chart(["a", "b"], [1.0, 3.0], **WORDS))
    assert three["height"] == pytest.approx(3 * one["height"], abs=0.1)


def test_bars_stand_on_zero_and_hang_from_it():
    up, down = bars(bar_chart(["a", "b"], [2.0, -2.0], **WORDS))
    assert up["y"] + up["height"] == pytest.approx(down["y"], abs=0.1)
    assert up["height"] == pytest.approx(down["height"], abs=0.1)


def test_the_lowest_bar_has_a_height_on_a_log_axis():
    assert all(bar["height"] > 5 for bar in bars(bar_chart("ab", [1.0, 1e4], **WORDS, log_y=True)))


def test_values_are_written_above_their_bars():
    assert {"0.0612", "0.1816"} <= set(texts(bar_chart("ab", [0.0612, 0.1816], **WORDS)))


def test_an_interval_is_drawn_from_its_low_to_its_high_end():
    svg = bar_chart(["a"], [2.0], **WORDS, errors=[(1.0, 4.0)])
    (bar,) = bars(svg)
    (path,) = ET.fromstring(svg).iter("path")
    start, _, rest = path.attrib["d"].partition("h10m-5 0V")
    low, high = float(start.split()[1]), float(rest.split("m")[0])
    floor, unit = bar["y"] + bar["height"], bar["height"] / 2.0
    assert (floor - low, floor - high) == pytest.approx((1.0 * unit, 4.0 * unit), abs=0.1)


@pytest.mark.parametrize(("value", "span"), [(2.0, (1.0, 4.0)), (-2.0, (-3.0, -1.0))])
def test_a_value_stands_above_bar_and_interval(value, span):
    svg = bar_chart(["a"], [value], **WORDS, errors=[span])
    (bar,) = bars(svg)
    (path,) = ET.fromstring(svg).iter("path")
    high = float(path.attrib["d"].partition("V")[2].split("m")[0])
    numbers = [e for e in ET.fromstring(svg).iter("text") if e.text in ("2", "−2")]
    assert float(numbers[-1].attrib["y"]) < min(bar["y"], high)


def test_a_value_that_is_not_finite_leaves_its_place_empty():
    svg = bar_chart(["a", "b", "c"], [1.0, math.nan, 1.0], **WORDS)
    first, third = bars(svg)
    assert {"a", "b", "c"} <= set(texts(svg))
    assert third["x"] - first["x"] > 2 * first["width"]


@pytest.mark.parametrize("values", [[], [math.nan]])
def test_bars_of_nothing_say_so(values):
    assert "no data" in texts(bar_chart(["a"] * len(values), values, **WORDS))


def test_long_names_stand_upright():
    names = [f"a configuration number {k}" for k in range(12)]
    svg = bar_chart(names, range(1, 13), **WORDS)
    turned = [e for e in ET.fromstring(svg).iter("text") if "rotate" in e.get("transform", "")]
    assert len(turned) == 12


def test_the_whole_name_of_a_bar_is_kept_where_it_is_shown_short():
    name = "a name much too long to be shown below its bar in full"
    svg = bar_chart([name] * 8, range(1, 9), **WORDS)
    assert {e.text for e in ET.fromstring(svg).iter("title")} == {"T", name}


def test_labels_and_values_must_be_equally_many():
    with pytest.raises(ValueError, match="2 labels"):
        bar_chart(["a", "b"], [1.0], **WORDS)


def test_names_of_bars_are_escaped():
    assert "<script" not in bar_chart(["<script>"], [1.0], **WORDS)
