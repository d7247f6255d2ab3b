"""The still part of a chart: its words, its axes and the room left for the data."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ratiorec_lab.report.axes import Axis
from ratiorec_lab.report.lettering import shorten, text_width, wrap
from ratiorec_lab.report.markup import Markup, escape, join, tag
from ratiorec_lab.report.style import colour

WIDTH = 400.0
"""Narrow on purpose: scaled down to a phone the letters can still be read."""
SIZE = 12.5
LINE = 16.0
INK = colour("ink")
MUTED = colour("muted")
RULE = colour("rule")
_TITLE_SIZE = 14.0
_PLOT_HEIGHT = 200.0
_Values = NDArray[np.float64]


def label(
    x: float, y: float, text: str, *, anchor: str = "start", fill: str = INK, **more: str | float
) -> Markup:
    """One line of text that stands on y, with a rim that keeps it clear of what it crosses."""
    style = f"fill:{fill};font-size:{SIZE}px;paint-order:stroke;stroke:{colour('card')}"
    return tag(
        "text", escape(text), x=x, y=y, text_anchor=anchor, style=style, stroke_width=3, **more
    )


@dataclass(frozen=True)
class Words:
    """What is written around the data."""

    title: str
    y_label: str
    x_label: str = ""

    @property
    def title_lines(self) -> list[str]:
        # Bold letters are wider by about a tenth.
        return wrap(self.title, 1.1 * _TITLE_SIZE, WIDTH, n_lines=2)

    @property
    def title_height(self) -> float:
        return 19.0 * len(self.title_lines) + 3


@dataclass(frozen=True)
class Frame:
    """The rectangle that holds the data, and the axes that map them into it.

    Above it stand, from the top: title, legend, name of the y axis, notes on the data.
    """

    words: Words
    x: Axis
    y: Axis
    left: float
    right: float
    n_legend_rows: int = 0
    n_notes: int = 0
    foot: float = 42.0

    @property
    def top(self) -> float:
        n_rows = self.n_legend_rows + self.n_notes + bool(self.words.y_label)
        return self.words.title_height + LINE * n_rows + self.legend_gap + 12

    @property
    def legend_gap(self) -> float:
        return 5.0 if self.n_legend_rows else 0.0

    @property
    def bottom(self) -> float:
        return self.top + _PLOT_HEIGHT

    def at(self, x: _Values, y: _Values) -> tuple[_Values, _Values]:
        """Where points stand on the drawing."""
        return (
            self.left + self.x.fraction(x) * (self.right - self.left),
            self.bottom - self.y.fraction(y) * _PLOT_HEIGHT,
        )

    def legend_line(self, row: int) -> float:
        """The height on which the names in a row of the legend stand."""
        return self.words.title_height + LINE * (row + 1) - 4

    @property
    def y_label_line(self) -> float:
        return self.legend_line(self.n_legend_rows) + self.legend_gap


def fit_frame(
    words: Words,
    x: _Values,
    y: Axis,
    *,
    log_x: bool,
    right_margin: float = 0.0,
    n_legend_rows: int = 0,
    n_notes: int = 0,
) -> Frame:
    """The frame whose x axis has as many ticks as can be labelled without crowding."""
    for at_most in range(10, 2, -1):
        axis = Axis.over(x, log=log_x, at_most=at_most)
        widths = [text_width(one, SIZE) for one in axis.labels]
        left = max(left_margin(y), widths[0] / 2)
        right = WIDTH - max(right_margin, widths[-1] / 2, 4)
        frame = Frame(words, axis, y, left, right, n_legend_rows, n_notes)
        places = left + axis.fraction(axis.ticks) * (right - left)
        needed = [(a + b) / 2 + SIZE for a, b in pairwise(widths)]
        if (np.diff(places) >= needed).all():
            break
    return frame


def left_margin(y: Axis) -> float:
    """The room that the labels of the y axis take."""
    return max(text_width(one, SIZE) for one in y.labels) + 8


def draw(frame: Frame, description: str, *drawing: Markup) -> Markup:
    """The whole chart: the data over the grid."""
    words = frame.words
    y_label = label(0, frame.y_label_line, shorten(words.y_label, SIZE, WIDTH), fill=MUTED)
    x_label = label(
        (frame.left + frame.right) / 2,
        frame.bottom + frame.foot - 5,
        shorten(words.x_label, SIZE, frame.right - frame.left),
        anchor="middle",
        fill=MUTED,
    )
    height = frame.bottom + frame.foot
    return document(words, height, description, _grid(frame), *drawing, y_label, x_label)


def draw_nothing(words: Words) -> Markup:
    """The chart of nothing, which says so."""
    top = words.title_height
    style = f"fill:none;stroke:{RULE}"
    box = tag("rect", x=0.5, y=top, width=WIDTH - 1, height=110, rx=4, style=style)
    no_data = label(WIDTH / 2, top + 59, "no data", anchor="middle", fill=MUTED)
    return document(words, top + 111, "There are no data to draw.", box, no_data)


def _grid(frame: Frame) -> Markup:
    heights = frame.bottom - frame.y.fraction(frame.y.ticks) * (frame.bottom - frame.top)
    places = frame.left + frame.x.fraction(frame.x.ticks) * (frame.right - frame.left)
    parts = []
    for y, text in zip(heights, frame.y.labels, strict=True):
        ends = {"x1": frame.left, "x2": frame.right, "y1": float(y), "y2": float(y)}
        parts.append(tag("line", style=f"stroke:{RULE}", **ends))
        parts.append(label(frame.left - 8, float(y) + SIZE / 3, text, anchor="end", fill=MUTED))
    for x, text in zip(places, frame.x.labels, strict=True):
        ends = {"x1": float(x), "x2": float(x), "y1": frame.bottom, "y2": frame.bottom + 4}
        parts.append(tag("line", style=f"stroke:{MUTED}", **ends))
        parts.append(label(float(x), frame.bottom + 20, text, anchor="middle", fill=MUTED))
    ends = {"x1": frame.left, "x2": frame.right, "y1": frame.bottom, "y2": frame.bottom}
    return join(*parts, tag("line", style=f"stroke:{MUTED}", **ends))


def document(words: Words, height: float, description: str, *drawing: Markup) -> Markup:
    """A chart of this height: its title, its text alternative and what is drawn."""
    style = f"fill:{INK};font-size:{_TITLE_SIZE}px;font-weight:600"
    title = [
        tag("text", escape(line), x=0, y=15 + 19 * row, style=style)
        for row, line in enumerate(words.title_lines)
    ]
    return tag(
        "svg",
        tag("title", escape(words.title)),
        tag("desc", escape(description)),
        *title,
        *drawing,
        viewBox=f"0 0 {WIDTH:g} {height:g}",
        role="img",
        class_="chart",
    )
