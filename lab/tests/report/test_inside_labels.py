from __future__ import annotations

import xml.etree.ElementTree as ET

import numpy as np
from numpy.typing import ArrayLike

from ratiorec_lab.report.axes import Axis
from ratiorec_lab.report.frame import SIZE, Frame, Words
from ratiorec_lab.report.inside_labels import inside_labels
from ratiorec_lab.report.legend import Line
from ratiorec_lab.report.lettering import text_width

FRAME = Frame(Words("T", "Y", "X"), Axis(0, 10, (), ()), Axis(0, 10, (), ()), 30, 390)


def line(name: str, x: ArrayLike, y: ArrayLike, index: int = 0) -> Line:
    return Line(name, np.asarray(x, float), np.asarray(y, float), index)


def boxes(markup: str) -> dict[str, tuple[float, float, float, float]]:
    """Where each name stands: left, top, right, bottom."""
    found = {}
    for e in ET.fromstring(f"<g>{markup}</g>").iter("text"):
        x, y, name = float(e.attrib["x"]), float(e.attrib["y"]), e.text or ""
        found[name] = (x, y - 0.74 * SIZE, x + text_width(name, SIZE), y + 0.22 * SIZE)
    return found


def crosses(box: tuple[float, float, float, float], drawn: Line) -> bool:
    share = np.linspace(0, 1, 2000)
    places = np.linspace(0, 1, len(drawn.x))
    x, y = np.interp(share, places, drawn.x), np.interp(share, places, drawn.y)
    px, py = FRAME.at(x, y)
    left, top, right, bottom = box
    return bool(((left < px) & (px < right) & (top < py) & (py < bottom)).any())


def test_names_stand_clear_of_every_line_and_of_one_another():
    lines = [
        line("first", [0, 5], [0, 8], 0),
        line("second", [0, 8], [0, 6], 1),
        line("third", [0, 10], [0, 3], 2),
    ]
    found = inside_labels(lines, lines, FRAME)
    assert found is not None
    placed = boxes(found)
    assert placed.keys() == {"first", "second", "third"}
    assert not any(crosses(box, one) for box in placed.values() for one in lines)
    for name, (left, top, right, bottom) in placed.items():
        others = [box for other, box in placed.items() if other != name]
        assert all(
            right <= box[0] or box[2] <= left or bottom <= box[1] or box[3] <= top for box in others
        )


def test_a_name_does_not_cross_the_line_that_it_names():
    for end in (1, 5, 9):
        one = line("name", [0, 5], [10 - end, end])
        found = inside_labels([one], [one], FRAME)
        assert found is not None
        assert not crosses(boxes(found)["name"], one)


def test_names_of_lines_that_share_their_points_stand_apart():
    one, other = line("one", [0, 5], [2, 7]), line("two", [0, 5], [2, 7])
    found = inside_labels([one, other], [one, other], FRAME)
    assert found is not None
    first, second = boxes(found).values()
    is_beside = first[2] <= second[0] or second[2] <= first[0]
    assert is_beside or first[3] <= second[1] or second[3] <= first[1]


def test_a_name_stands_near_the_end_of_its_line():
    one = line("name", [0, 5], [2, 7])
    found = inside_labels([one], [one], FRAME)
    assert found is not None
    (x, y) = FRAME.at(one.x[-1:], one.y[-1:])
    left, top, right, bottom = boxes(found)["name"]
    assert left - 10 <= x[0] <= right + 10
    assert top - 10 <= y[0] <= bottom + 10


def test_a_single_point_is_named():
    one = line("dot", [5], [5])
    assert inside_labels([one], [one], FRAME) is not None


def test_there_is_no_place_among_lines_that_lie_close():
    lines = [line(f"line {k}", [0, 10], [k / 5, k / 5], k) for k in range(50)]
    assert inside_labels(lines, lines, FRAME) is None


def test_there_is_no_place_for_a_name_wider_than_the_frame():
    one = line("long " * 20, [0, 10], [0, 10])
    assert inside_labels([one], [one], FRAME) is None
