"""Quality against training time on a logarithmic axis, with names beside curves and points."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ratiorec_lab.report.axes import Axis, drawable
from ratiorec_lab.report.frame import (
    SIZE,
    WIDTH,
    Frame,
    Words,
    draw,
    draw_nothing,
    fit_frame,
    label,
)
from ratiorec_lab.report.legend import Line
from ratiorec_lab.report.lettering import text_width
from ratiorec_lab.report.markup import Markup, join, tag

SHOWN = 0.7
"""Of the best figure: beginnings of curves below it are left out, to have room for the ends."""

_RADIUS = 3.2
_GAP = 7.0
_HEIGHT = SIZE * 1.1


@dataclass(frozen=True, eq=False)
class Curve:
    """A model on its way; what is solved has one point."""

    name: str
    seconds: Sequence[float]
    quality: Sequence[float]


class Box(NamedTuple):
    """A rectangle on the drawing."""

    left: float
    top: float
    right: float
    bottom: float

    def overlap(self, other: Box) -> float:
        """The area that both cover."""
        width = min(self.right, other.right) - max(self.left, other.left)
        height = min(self.bottom, other.bottom) - max(self.top, other.top)
        return max(width, 0.0) * max(height, 0.0)


class Place(NamedTuple):
    """Where a name may stand, and how far that is from what it names."""

    x: float
    y: float
    box: Box
    distance: float


def frontier_chart(curves: Sequence[Curve], *, title: str, y_label: str) -> Markup:
    """Curves and points; a name stands where it covers least, near the end of its curve."""
    words = Words(title, y_label, "training seconds, logarithmic")
    lines = _lines(curves)
    if not lines:
        return draw_nothing(words)
    y = Axis.over(np.concatenate([line.y for line in lines]), at_most=7)
    frame = fit_frame(words, np.concatenate([line.x for line in lines]), y, log_x=True)
    drawn = [frame.at(line.x, line.y) for line in lines]
    names = _names(lines, drawn, frame)
    told = "; ".join(f"{line.name} {line.y[-1]:.4f} in {line.x[-1]:.3g} s" for line in lines)
    drawing = [_draw(line, *places) for line, places in zip(lines, drawn, strict=True)]
    return draw(frame, f"{y_label} against training time. {told}.", *drawing, names)


def _lines(curves: Sequence[Curve]) -> list[Line]:
    found = []
    ends = [curve.quality[-1] for curve in curves if curve.quality]
    lowest = min([SHOWN * max(ends, default=0.0), *ends])
    for index, curve in enumerate(curves):
        x, y = np.asarray(curve.seconds, float), np.asarray(curve.quality, float)
        keep = drawable(x, log=True) & drawable(y, log=False) & (y >= lowest)
        if keep.any():
            found.append(Line(curve.name, x[keep], y[keep], index))
    return found


def _draw(line: Line, px: NDArray[np.float64], py: NDArray[np.float64]) -> Markup:
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(px, py, strict=True))
    path = tag("polyline", points=points, stroke_linejoin="round", **line.stroke)
    dot = tag(
        "circle",
        cx=float(px[-1]),
        cy=float(py[-1]),
        r=_RADIUS + (len(px) == 1),
        style=f"fill:{line.colour}",
    )
    return join(path, dot)


def _names(
    lines: Sequence[Line],
    drawn: Sequence[tuple[NDArray[np.float64], NDArray[np.float64]]],
    frame: Frame,
) -> Markup:
    """One after another, from above; what stands already is not covered again."""
    taken = [box for places in drawn for box in _covered(*places)]
    written = []
    for line, (px, py) in sorted(zip(lines, drawn, strict=True), key=lambda one: one[1][1][-1]):
        width = text_width(line.name, SIZE)
        places = _places(float(px[-1]), float(py[-1]), width, frame)
        best = min(places, key=lambda place: _cost(place, taken))
        taken += [best.box] * 20  # a name over a name is far worse than over a curve
        written.append(label(best.x, best.y, line.name, fill=line.colour))
    return join(*written)


def _cost(place: Place, taken: Sequence[Box]) -> float:
    return place.distance + sum(place.box.overlap(box) for box in taken)


def _places(x: float, y: float, width: float, frame: Frame) -> Iterator[Place]:
    """Around a point, further and further away, inside the drawing."""
    for row in (0, -1, 1, -2, 2, -3, 3):
        for left in (x + _GAP, x - _GAP - width, x - width / 2, x - 0.8 * width):
            beside = left > x or left + width < x
            if not beside and row == 0:
                continue  # it would cover the point
            start = min(max(left, frame.left + 2), WIDTH - width)
            base = y + SIZE / 3 + row * (_HEIGHT + 2)
            box = Box(start, base - 0.8 * _HEIGHT, start + width, base + 0.25 * _HEIGHT)
            if frame.top - 6 <= box.top and box.bottom <= frame.bottom:
                moved = abs(start - left) + abs(row) * _HEIGHT + (0 if beside else 2)
                yield Place(start, base, box, moved)


def _covered(px: NDArray[np.float64], py: NDArray[np.float64]) -> list[Box]:
    """Small boxes along a curve, and a larger one at its end."""
    boxes = [Box(px[-1] - 5, py[-1] - 5, px[-1] + 5, py[-1] + 5)]
    for k in range(len(px) - 1):
        for share in np.linspace(0, 1, 12):
            x = px[k] + share * (px[k + 1] - px[k])
            y = py[k] + share * (py[k + 1] - py[k])
            boxes.append(Box(x - 2, y - 2, x + 2, y + 2))
    return boxes
