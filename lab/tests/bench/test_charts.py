from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from ratiorec_lab.bench.dots import Dot, dot_chart
from ratiorec_lab.bench.frontier_chart import Curve, frontier_chart
from ratiorec_lab.report.frame import SIZE, WIDTH
from ratiorec_lab.report.lettering import text_width

DOTS = [
    Dot("ours", 0.02, 0.01, 0.03, floor=0.005),
    Dot("a rival whose name is much longer than there is room for", 0.2, 0.2, 0.2, is_rival=True),
]


def curve(name: str, end: float, top: float, rate: float) -> Curve:
    seconds = np.geomspace(1, end, 14)
    return Curve(name, seconds.tolist(), (top * (1 - np.exp(-seconds / rate))).tolist())


CURVES = [
    curve("dregn-cf", 600, 0.1812, 80),
    curve("dre-mf", 300, 0.165, 20),
    curve("lightgcn", 600, 0.15, 200),
    Curve("implicit-als 64", [15.0], [0.1453]),
    Curve("implicit-als 128", [31.0], [0.153]),
    Curve("implicit-als 256", [80.0], [0.160]),
    Curve("item-knn", [20.0], [0.164]),
    Curve("ease", [400.0], [0.1748]),
]


def elements(svg: str, name: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(svg).iter(name))


def test_every_time_has_a_dot_and_a_known_floor_has_a_tick() -> None:
    svg = dot_chart(DOTS, title="T")
    assert len(elements(svg, "circle")) == 2
    assert "".join(text.text or "" for text in elements(svg, "text")).count("× floor") == 1
    assert "20 ms, 4 × floor" in svg


def test_a_longer_time_stands_further_to_the_right() -> None:
    first, second = (
        float(dot.attrib["cx"]) for dot in elements(dot_chart(DOTS, title="T"), "circle")
    )
    assert 0 < first < second < WIDTH


def test_a_long_name_leaves_room_for_the_figure() -> None:
    texts = [text.text or "" for text in elements(dot_chart(DOTS, title="T"), "text")]
    (name,) = (text for text in texts if text.startswith("a rival"))
    assert text_width(name, SIZE) + text_width("200 ms", SIZE) < WIDTH


def test_no_times_are_no_data() -> None:
    assert "no data" in dot_chart([], title="T")


def boxes(svg: str, names: set[str]) -> dict[str, tuple[float, float, float, float]]:
    """Where names stand: left, top, right, bottom."""
    found = {}
    for text in elements(svg, "text"):
        if text.text in names:
            x, y = float(text.attrib["x"]), float(text.attrib["y"])
            found[text.text] = (x, y - SIZE, x + text_width(text.text, SIZE), y)
    return found


CROWD = [Curve(f"model {k}", [10 + k / 20], [0.15 + k / 5000]) for k in range(4)]


@pytest.mark.parametrize("curves", [CURVES, CROWD, [*CURVES, *CROWD]])
def test_names_stand_beside_their_curves_and_do_not_meet(curves: list[Curve]) -> None:
    svg = frontier_chart(curves, title="T", y_label="recall@20")
    names = {one.name for one in curves}
    placed = boxes(svg, names)
    assert placed.keys() == names
    for name, (left, top, right, bottom) in placed.items():
        assert left >= 0
        assert right <= WIDTH + 0.1
        for other, (a, b, c, d) in placed.items():
            if other != name:
                assert min(right, c) - max(left, a) <= 0 or min(bottom, d) - max(top, b) <= 1


def test_the_beginning_of_a_curve_is_left_out_and_its_end_never() -> None:
    best = Curve("best", [1.0, 2.0, 4.0], [0.01, 0.15, 0.2])
    svg = frontier_chart([best], title="T", y_label="y")
    (line,) = elements(svg, "polyline")
    assert len(line.attrib["points"].split()) == 2
    poor = Curve("poor", [1.0, 2.0], [0.01, 0.05])
    svg = frontier_chart([best, poor], title="T", y_label="y")
    assert "poor" in boxes(svg, {"best", "poor"})


def test_nothing_to_draw_is_no_data() -> None:
    assert "no data" in frontier_chart([], title="T", y_label="y")
    assert "no data" in frontier_chart([Curve("a", [], [])], title="T", y_label="y")


@pytest.mark.parametrize("n", [1, 12])
def test_points_that_are_all_the_same_can_be_drawn(n: int) -> None:
    svg = frontier_chart([Curve(f"p{k}", [1.0], [0.1]) for k in range(n)], title="T", y_label="y")
    assert len(elements(svg, "circle")) == n
