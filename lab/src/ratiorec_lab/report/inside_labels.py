"""Names of lines inside the frame, each beside its own line and clear of all others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ratiorec_lab.report.frame import SIZE, WIDTH, Frame, label
from ratiorec_lab.report.legend import Line
from ratiorec_lab.report.lettering import text_width
from ratiorec_lab.report.markup import Markup, join

_Points = NDArray[np.float64]
_DESCENT = 0.22 * SIZE
_HEIGHT = 0.74 * SIZE + _DESCENT
_CLEARANCE = 4.5  # to another line: a name must be nearest to its own
_OWN_CLEARANCE = 1.5
_SPACING = 2.0  # between the points by which a line is known
# How far along its line a name stands: at the end if it can be.
_SHARES = (1.0, 0.94, 0.88, 0.8, 0.72, 0.64, 0.56, 0.48, 0.4, 0.32, 0.24)


class _Box(NamedTuple):
    """Where a name would stand."""

    left: float
    top: float
    right: float
    bottom: float

    def grown(self, by: float) -> _Box:
        return _Box(self.left - by, self.top - by, self.right + by, self.bottom + by)

    def holds_any(self, points: _Points) -> bool:
        x, y = points
        inside = (self.left < x) & (x < self.right) & (self.top < y) & (y < self.bottom)
        return bool(inside.any())

    def meets(self, other: _Box) -> bool:
        beside = self.right <= other.left or other.right <= self.left
        return not (beside or self.bottom <= other.top or other.bottom <= self.top)


def inside_labels(named: Sequence[Line], lines: Sequence[Line], frame: Frame) -> Markup | None:
    """The names beside their lines; None where one of them has no clear place.

    Args:
        named: the lines that need a name.
        lines: all that are drawn; one of the same colour counts as the line itself.
        frame: what they are drawn in.
    """
    drawn = [(line.index, _dense(*frame.at(line.x, line.y))) for line in lines]
    taken: list[_Box] = []
    written = []
    for line in named:
        own = np.hstack([points for index, points in drawn if index == line.index])
        others = [points for index, points in drawn if index != line.index]
        box = _clear_place(line, own, others, taken, frame)
        if box is None:
            return None
        taken.append(box)
        written.append(label(box.left, box.bottom - _DESCENT, line.name, fill=line.colour))
    return join(*written)


def _clear_place(
    line: Line, own: _Points, others: Sequence[_Points], taken: Sequence[_Box], frame: Frame
) -> _Box | None:
    width = text_width(line.name, SIZE)
    for box in _places(_dense(*frame.at(line.x, line.y)), width):
        is_inside = frame.left + 3 <= box.left and box.right <= WIDTH
        if not is_inside or box.top < frame.top - 4 or box.bottom > frame.bottom - 2:
            continue
        if box.grown(_OWN_CLEARANCE).holds_any(own) or any(map(box.meets, taken)):
            continue
        if not any(box.grown(_CLEARANCE).holds_any(points) for points in others):
            return box
    return None


def _places(points: _Points, width: float) -> Iterator[_Box]:
    """Around points of a line, from its end backwards: above and below it, to either side."""
    for share in _SHARES:
        x, y = points[:, round(share * (points.shape[1] - 1))].tolist()
        for left in (x - width, x - width / 2, x):
            for gap in (2.5, 6.0):
                yield _Box(left, y - gap - _HEIGHT, left + width, y - gap)
                yield _Box(left, y + gap, left + width, y + gap + _HEIGHT)


def _dense(px: _Points, py: _Points) -> _Points:
    """Points along a line that are nowhere far apart."""
    if len(px) < 2:
        return np.stack([px, py])
    steps = np.hypot(np.diff(px), np.diff(py))
    way = np.concatenate([[0.0], np.cumsum(steps)])
    marks = np.linspace(0.0, way[-1], 2 + int(way[-1] / _SPACING))
    return np.stack([np.interp(marks, way, px), np.interp(marks, way, py)])
