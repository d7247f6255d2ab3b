from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ratiorec_lab.report.axes import format_number
from ratiorec_lab.report.frame import SIZE, WIDTH
from ratiorec_lab.report.lettering import text_width
from ratiorec_lab.report.paired_bars import Pair, paired_bars

anything = st.none() | st.floats(allow_nan=True, allow_infinity=True)
names = st.text("ab <&", max_size=90)


def chart(*pairs: Pair, log: bool = False) -> str:
    return paired_bars(
        pairs,
        title="T",
        value_label="seconds, s",
        names=("ours", "theirs"),
        write=format_number,
        missing="not run",
        log=log,
    )


def bars(svg: str) -> list[ET.Element]:
    """The bars without those of the key."""
    return [e for group in ET.fromstring(svg).iter("g") for e in group.iter("rect")]


def length(bar: ET.Element) -> float:
    return float(bar.attrib["width"])


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ET.fromstring(svg).iter("text")]


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(st.tuples(names, anything, anything)), log=st.booleans())
def test_any_pairs_give_a_well_formed_chart_inside_its_frame(rows, log):
    svg = chart(*(Pair(*row) for row in rows), log=log)
    root = ET.fromstring(svg)
    height = float(root.attrib["viewBox"].split()[3])
    for bar in root.iter("rect"):
        x, y, width, thick = (float(bar.attrib[key]) for key in ("x", "y", "width", "height"))
        assert -0.1 <= x <= x + width <= WIDTH + 0.1
        assert 0 <= y <= y + thick <= height
    assert "nan" not in svg
    assert '"inf' not in svg


def test_lengths_are_proportional_to_values():
    one, three = bars(chart(Pair("a", 1.0, 3.0)))
    assert length(three) == pytest.approx(3 * length(one), abs=0.1)


def test_equal_ratios_add_equal_lengths_on_a_log_axis():
    one, ten, hundred = bars(chart(*(Pair("a", 10.0**k) for k in range(3)), log=True))
    assert length(ten) - length(one) == pytest.approx(length(hundred) - length(ten), abs=0.1)
    assert length(one) > 5


def test_bars_on_both_sides_of_zero_meet_there():
    up, down = bars(chart(Pair("a", 2.0), Pair("b", -2.0)))
    assert float(down.attrib["x"]) + length(down) == pytest.approx(float(up.attrib["x"]), abs=0.1)


def test_a_bar_stands_above_the_one_it_is_compared_with_and_only_that_is_hollow():
    ours, theirs = bars(chart(Pair("a", 1.0, 3.0)))
    assert float(ours.attrib["y"]) < float(theirs.attrib["y"])
    assert "dasharray" in theirs.attrib["style"]
    assert "dasharray" not in ours.attrib["style"]


def test_the_key_is_there_where_there_is_something_to_compare():
    assert {"ours", "theirs"} <= set(texts(chart(Pair("a", 1.0, 3.0))))
    assert "ours" not in texts(chart(Pair("a", 1.0)))


def test_figures_are_written_at_the_ends_of_their_bars():
    svg = chart(Pair("a", 12.5, 50.25))
    ends = {e.text: float(e.attrib["x"]) for e in ET.fromstring(svg).iter("text")}
    for bar, text in zip(bars(svg), ("12.5", "50.25"), strict=True):
        assert ends[text] == pytest.approx(float(bar.attrib["x"]) + length(bar) + 6, abs=0.1)


def test_what_is_missing_is_said_and_has_no_bar():
    svg = chart(Pair("a", None, 3.0))
    assert "not run" in texts(svg)
    assert len(bars(svg)) == 1


@pytest.mark.parametrize("value", [math.nan, math.inf, 0.0, -1.0])
def test_a_figure_without_a_place_on_the_axis_is_written_without_a_bar(value):
    svg = chart(Pair("a", value), Pair("b", 2.0), log=True)
    assert format_number(value) in texts(svg)
    assert len(bars(svg)) == 1


def test_bars_of_nothing_say_so():
    assert "no data" in texts(chart())
    assert "no data" in texts(chart(Pair("a", None), Pair("b", math.nan)))


def test_the_whole_name_is_kept_where_it_is_shown_short():
    name = "a name much too long to be shown in full beside its bar, however it is broken"
    titles = {e.text for e in ET.fromstring(chart(Pair(name, 1.0))).iter("title")}
    assert titles == {"T", name}


def test_the_description_tells_every_figure():
    told = ET.fromstring(chart(Pair("a", 1.0, 3.0), Pair("b", None))).findtext("desc")
    assert told == "Bars of seconds, s. a: ours 1, theirs 3; b: ours not run."


def test_names_are_escaped():
    assert "<script" not in chart(Pair("<script>", 1.0, 2.0))


def test_labels_of_the_axis_do_not_meet():
    svg = chart(*(Pair("a name that takes a third", x) for x in (5.76, 90642.0)), log=True)
    bottom = max(float(e.attrib["y"]) for e in ET.fromstring(svg).iter("rect"))
    ticks = [e for e in ET.fromstring(svg).iter("text") if float(e.attrib["y"]) > bottom + 20]
    row = [(float(e.attrib["x"]), e.text or "") for e in ticks if e.text != "seconds, s"]
    assert len(row) >= 2
    for (before, one), (after, other) in pairwise(sorted(row)):
        assert after - before >= (text_width(one, SIZE) + text_width(other, SIZE)) / 2


def test_names_on_several_lines_do_not_meet_those_of_other_rows():
    name = "a name that is broken into three lines because it is long"
    svg = chart(Pair(name, 1.0), Pair(name, 2.0, 3.0))
    names = [e for e in ET.fromstring(svg).iter("text") if e.get("text-anchor") == "end"]
    heights = sorted(float(e.attrib["y"]) for e in names)
    assert len(heights) == 6
    assert min(below - above for above, below in pairwise(heights)) >= 15
