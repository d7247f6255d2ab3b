"""Charts as inline SVG: no script, no fonts of their own, colours from the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ratiorec_lab.report.axes import Axis, drawable, format_number
from ratiorec_lab.report.bars import bar_chart
from ratiorec_lab.report.frame import (
    INK,
    LINE,
    MUTED,
    SIZE,
    WIDTH,
    Frame,
    Words,
    draw,
    draw_nothing,
    fit_frame,
    label,
)
from ratiorec_lab.report.legend import GAP, Line
from ratiorec_lab.report.lettering import shorten, text_width
from ratiorec_lab.report.line_names import name_lines
from ratiorec_lab.report.markup import Markup, join, tag
from ratiorec_lab.report.style import colour, series_colour

__all__ = ["Mark", "Series", "bar_chart", "line_chart", "scatter_chart"]

Points = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Series:
    """A named line through points, in the order given.

    By default a line has the colour and the dashes of its place among the others. One that
    shares the colour of another, told apart by its dashes, needs no label of its own.
    """

    name: str
    x: ArrayLike
    y: ArrayLike
    colour: int | None = None  # a place in the order of colours
    is_dashed: bool | None = None
    is_labelled: bool = True


@dataclass(frozen=True)
class Mark:
    """A place on the x axis worth pointing at."""

    x: float
    label: str


def line_chart(
    series: Sequence[Series],
    *,
    title: str,
    x_label: str,
    y_label: str,
    log_x: bool = False,
    log_y: bool = False,
    mark: Mark | None = None,
    note: str = "",
    names_inside: bool = False,
) -> Markup:
    """Lines with their names at their ends, or in a legend where that would be crowded.

    Points that are not finite, or not positive on a logarithmic axis, are left out.

    Args:
        series: the lines.
        title: what the chart shows.
        x_label: what the x axis is.
        y_label: what the y axis is.
        log_x: whether equal ratios take equal room from left to right.
        log_y: whether they take equal heights.
        mark: a place to point at.
        note: words above the data, to the right.
        names_inside: whether names may stand beside their lines, before a legend is made.
    """
    words = Words(title, y_label, x_label)
    lines = _lines(series, log_x=log_x, log_y=log_y)
    if not lines:
        return draw_nothing(words)
    marks = [mark] if mark is not None and drawable(mark.x, log=log_x) else []
    x = np.concatenate([*(line.x for line in lines), [one.x for one in marks]])
    y = Axis.over(np.concatenate([line.y for line in lines]), log=log_y, at_most=6)
    n_notes = len(marks) + (bool(note) and not _has_room_beside(note, words))
    fit = partial(fit_frame, words, x, y, log_x=log_x, n_notes=n_notes)
    frame, names = name_lines(lines, fit, names_inside=names_inside)
    drawing = [_draw_line(line, frame) for line in lines]
    marked = [_draw_mark(one, lines, frame) for one in marks]
    noted = _draw_note(note, frame, n_rows_below=len(marks))
    return draw(frame, _describe_lines(lines, words), *marked, *drawing, names, noted)


def _has_room_beside(note: str, words: Words) -> bool:
    """Whether a note fits on the line of the y axis's name."""
    taken = text_width(words.y_label, SIZE) + text_width(note, SIZE)
    return bool(words.y_label) and taken + 2 * GAP <= WIDTH


def _draw_note(text: str, frame: Frame, *, n_rows_below: int) -> Markup:
    if not text:
        return join()
    y = frame.top - 11 - LINE * n_rows_below
    if _has_room_beside(text, frame.words):
        y = frame.y_label_line
    return label(WIDTH, y, shorten(text, SIZE, WIDTH), anchor="end", fill=MUTED)


def _lines(series: Sequence[Series], *, log_x: bool, log_y: bool) -> list[Line]:
    lines = []
    for place, one in enumerate(series):
        x, y = _pairs(one.x, one.y, log_x=log_x, log_y=log_y)
        if len(x):
            index = place if one.colour is None else one.colour
            lines.append(Line(one.name, x, y, index, one.is_dashed, one.is_labelled))
    return lines


def _pairs(x: ArrayLike, y: ArrayLike, *, log_x: bool, log_y: bool) -> tuple[Points, Points]:
    """Both coordinates of the points that have a place on both axes."""
    xs, ys = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if xs.ndim != 1 or xs.shape != ys.shape:
        raise ValueError(f"x and y must be two equally long rows, not {xs.shape} and {ys.shape}")
    keep = drawable(xs, log=log_x) & drawable(ys, log=log_y)
    return xs[keep], ys[keep]


def _draw_line(line: Line, frame: Frame) -> Markup:
    px, py = _outline(*frame.at(line.x, line.y))
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(px, py, strict=True))
    path = tag("polyline", points=points, stroke_linejoin="round", **line.stroke)
    # A line through few points would hide where they are, and one point has no line.
    dots = [_dot(a, b, line) for a, b in zip(px, py, strict=True)] if len(px) <= 12 else []
    return join(path, *dots)


def _dot(x: float, y: float, line: Line, *, radius: float = 2.8) -> Markup:
    style = f"fill:{line.colour}"
    if line.is_dashed:
        style = f"fill:{colour('card')};stroke:{line.colour};stroke-width:1.3"
    return tag("circle", cx=float(x), cy=float(y), r=radius, style=style)


def _outline(px: Points, py: Points, *, n_parts: int = 400) -> tuple[Points, Points]:
    """The lowest and the highest point of each part: a long line keeps its peaks."""
    if len(px) <= 2 * n_parts:
        return px, py
    kept = {0, len(px) - 1}
    for part in np.array_split(np.arange(len(px)), n_parts):
        kept |= {int(part[py[part].argmin()]), int(part[py[part].argmax()])}
    order = sorted(kept)
    return px[order], py[order]


def _draw_mark(mark: Mark, lines: Sequence[Line], frame: Frame) -> Markup:
    place, _ = frame.at(np.array([mark.x]), np.array([frame.y.low]))
    x = float(place[0])
    text = shorten(mark.label, SIZE, WIDTH)
    half = text_width(text, SIZE) / 2
    style = f"stroke:{MUTED};stroke-dasharray:3 3"
    rule = tag("line", x1=x, x2=x, y1=frame.top - 4, y2=frame.bottom, style=style)
    rings = []
    for line in lines:
        here = np.flatnonzero(line.x == mark.x)[:1]
        px, py = frame.at(line.x[here], line.y[here])
        rings += [_dot(a, b, line, radius=4.5) for a, b in zip(px, py, strict=True)]
    middle = min(max(x, half), WIDTH - half)
    return join(rule, *rings, label(middle, frame.top - 11, text, anchor="middle"))


def _describe_lines(lines: Sequence[Line], words: Words) -> str:
    told = "; ".join(
        f"{line.name} from {format_number(line.y[0])} to {format_number(line.y[-1])},"
        f" highest {format_number(line.y.max())} at {format_number(line.x[line.y.argmax()])}"
        for line in lines
    )
    return f"Line chart of {words.y_label} against {words.x_label}. {told}."


def scatter_chart(
    x: ArrayLike,
    y: ArrayLike,
    *,
    title: str,
    x_label: str,
    y_label: str,
    log_x: bool = False,
    log_y: bool = False,
    diagonal: bool = False,
    max_points: int = 2000,
) -> Markup:
    """Points, at most `max_points` of them, and if wanted the line on which y equals x."""
    words = Words(title, y_label, x_label)
    xs, ys = _pairs(x, y, log_x=log_x, log_y=log_y)
    if not len(xs):
        return draw_nothing(words)
    n_all, kept = len(xs), _spread_choice(len(xs), max_points)
    y_axis = Axis.over(ys, log=log_y, at_most=9)
    frame = fit_frame(words, xs, y_axis, log_x=log_x, n_notes=int(len(kept) < n_all))
    dots = [
        Markup(f'<circle cx="{a:.1f}" cy="{b:.1f}" r="2.4"/>')
        for a, b in zip(*frame.at(xs[kept], ys[kept]), strict=True)
    ]
    # Few points must be seen at all, many must show where they are dense.
    opacity = min(max(12 / len(kept) ** 0.5, 0.3), 0.85)
    parts = [tag("g", *dots, style=f"fill:{series_colour(0)};fill-opacity:{opacity:.2f}")]
    told = f"{n_all:,} points"
    if len(kept) < n_all:
        told = f"{len(kept):,} of {told}"
        parts.append(label(WIDTH, frame.top - 11, told, anchor="end", fill=MUTED))
    if diagonal:
        parts.append(_diagonal(frame))
    return draw(frame, f"Scatter plot of {y_label} against {x_label}: {told}.", *parts)


def _spread_choice(n_all: int, n_wanted: int) -> NDArray[np.intp]:
    """The same evenly spread indices on every call.

    Steps of the golden ratio have no period that points listed row by row could share.
    """
    golden = (np.arange(n_all) * ((5**0.5 - 1) / 2)) % 1
    return np.sort(np.argsort(golden, kind="stable")[:n_wanted])


def _diagonal(frame: Frame) -> Markup:
    low, high = max(frame.x.low, frame.y.low), min(frame.x.high, frame.y.high)
    if low >= high:
        return join()
    ends = np.array([low, high])
    (x1, x2), (y1, y2) = ([float(v) for v in axis] for axis in frame.at(ends, ends))
    style = f"stroke:{INK};stroke-width:1.5;stroke-dasharray:6 4"
    return tag("line", x1=x1, x2=x2, y1=y1, y2=y2, style=style)
