"""The lines of a chart and where their names stand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ratiorec_lab.report.frame import LINE, SIZE, WIDTH, Frame, label
from ratiorec_lab.report.lettering import shorten, text_width
from ratiorec_lab.report.markup import Markup, join, tag
from ratiorec_lab.report.style import N_SERIES_COLOURS, series_colour

GAP = 8.0
_DASHES = (None, "7 3", "2 3", "9 3 2 3", "14 4", "5 2 1 2 1 2")
_DASHED = "4 3"
_KEY = 24.0  # the stroke before a name, and the space between them


@dataclass(frozen=True, eq=False)
class Line:
    """What can be drawn of a series, and its place in the order of colours.

    Where nothing is said of dashes, they come in an order too.
    """

    name: str
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    index: int
    is_dashed: bool | None = None
    is_labelled: bool = True

    @property
    def colour(self) -> str:
        return series_colour(self.index)

    @property
    def stroke(self) -> dict[str, str | None]:
        # The second round of colours gets other dashes, so that no two of 36 lines look alike.
        dashes = _DASHES[(self.index + self.index // N_SERIES_COLOURS) % len(_DASHES)]
        if self.is_dashed is not None:
            dashes = _DASHED if self.is_dashed else None
        style = f"fill:none;stroke:{self.colour};stroke-width:2"
        return {"style": style, "stroke_dasharray": dashes}


def reaches_the_end(line: Line, frame: Frame) -> bool:
    """Whether a line ends so far to the right that its name can follow it."""
    return float(frame.x.fraction(line.x[-1])) >= 0.9


def end_label_heights(lines: Sequence[Line], frame: Frame) -> list[float] | None:
    """The heights of names beside the ends of their lines; None where they do not fit."""
    if not all(reaches_the_end(line, frame) for line in lines):
        return None
    wanted = np.array([frame.at(line.x[-1:], line.y[-1:])[1][0] for line in lines])
    placed = wanted.copy()
    for above, below in pairwise(np.argsort(wanted, kind="stable")):
        placed[below] = max(placed[below], placed[above] + LINE)
    placed += (wanted - placed).mean()
    is_far = np.abs(placed - wanted).max() > LINE
    is_outside = placed.min() < frame.top - 4 or placed.max() > frame.bottom + 4
    return None if is_far or is_outside else [float(height) for height in placed]


def end_labels(lines: Sequence[Line], heights: Sequence[float], frame: Frame) -> Markup:
    """The names beside the ends of their lines."""
    return join(
        *(
            label(frame.right + GAP, height + SIZE / 3, line.name, fill=line.colour)
            for line, height in zip(lines, heights, strict=True)
        )
    )


def legend_rows(lines: Sequence[Line]) -> list[list[tuple[float, Line]]]:
    """Each line with its place from the left, in columns under one another."""
    room = _KEY + max(text_width(_legend_name(line), SIZE) for line in lines) + 2 * GAP
    n_columns = max(1, int((WIDTH + 2 * GAP) // room))
    return [
        [(k * room, line) for k, line in enumerate(lines[start : start + n_columns])]
        for start in range(0, len(lines), n_columns)
    ]


def legend(rows: Sequence[Sequence[tuple[float, Line]]], frame: Frame) -> Markup:
    """The names above the data, each after a piece of its line."""
    parts = []
    for row, entries in enumerate(rows):
        y = frame.legend_line(row)
        for x, line in entries:
            parts.append(tag("line", x1=x, x2=x + 18, y1=y - 4, y2=y - 4, **line.stroke))
            parts.append(label(x + _KEY, y, _legend_name(line)))
    return join(*parts)


def _legend_name(line: Line) -> str:
    return shorten(line.name, SIZE, WIDTH - _KEY)
