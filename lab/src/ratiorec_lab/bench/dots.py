"""Times as dots on one logarithmic axis, each beside the floor that it cannot go below."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ratiorec_lab.bench.words import in_seconds
from ratiorec_lab.report.axes import Axis
from ratiorec_lab.report.frame import INK, LINE, MUTED, SIZE, WIDTH, Words, draw_nothing, label
from ratiorec_lab.report.lettering import shorten, text_width
from ratiorec_lab.report.markup import Markup, escape, join, tag
from ratiorec_lab.report.style import colour, series_colour

_ROW = 38.0
_TITLE_SIZE = 14.0
_RULE = colour("rule")


@dataclass(frozen=True)
class Dot:
    """A time with its spread, and its floor where that is known."""

    name: str
    seconds: float
    low: float
    high: float
    floor: float | None = None
    is_rival: bool = False

    @property
    def colour(self) -> str:
        return series_colour(1 if self.is_rival else 0)


def dot_chart(dots: Sequence[Dot], *, title: str) -> Markup:
    """One row a time: its name, a dot, its spread as a bar, its floor as a tick."""
    words = Words(title, "")
    if not dots:
        return draw_nothing(words)
    ends = [value for dot in dots for value in (dot.low, dot.high, dot.floor or dot.low)]
    axis = Axis.over(np.array(ends), log=True, at_most=6)
    left, right = 12.0, WIDTH - 12
    top = words.title_height + LINE
    bottom = top + _ROW * len(dots)

    def at(value: float) -> float:
        return left + float(axis.fraction(value)) * (right - left)

    grid = [_tick(at(tick), text, top, bottom) for tick, text in _clear_ticks(axis, at)]
    rows = [_row(dot, at, top + _ROW * place) for place, dot in enumerate(dots)]
    told = "; ".join(f"{dot.name} {in_seconds(dot.seconds)}" for dot in dots)
    return tag(
        "svg",
        tag("title", escape(title)),
        tag("desc", escape(f"Times on a logarithmic axis. {told}.")),
        *_title(words),
        *grid,
        *rows,
        label(WIDTH / 2, bottom + 38, "seconds, logarithmic", anchor="middle", fill=MUTED),
        viewBox=f"0 0 {WIDTH:g} {bottom + 44:g}",
        role="img",
        class_="chart",
    )


def _row(dot: Dot, at: Callable[[float], float], top: float) -> Markup:
    """The name and the figure on one line, the drawing below them."""
    figure = in_seconds(dot.seconds)
    if dot.floor:
        figure += f", {dot.seconds / dot.floor:.2g} × floor"
    room = WIDTH - text_width(figure, SIZE) - LINE
    y = top + 25
    parts = [
        label(0, top + 13, shorten(dot.name, SIZE, room)),
        label(WIDTH, top + 13, figure, anchor="end", fill=MUTED),
        tag("line", x1=at(dot.low), x2=at(dot.high), y1=y, y2=y, style=_stroke(dot.colour, 6)),
    ]
    if dot.floor:
        floor = at(dot.floor)
        parts += [
            tag("line", x1=floor, x2=at(dot.seconds), y1=y, y2=y, style=_stroke(dot.colour, 1)),
            tag("line", x1=floor, x2=floor, y1=y - 6, y2=y + 6, style=_stroke(INK, 2)),
        ]
    circle = tag("circle", cx=at(dot.seconds), cy=y, r=4.5, style=f"fill:{dot.colour}")
    return join(*parts, circle)


def _stroke(shade: str, width: float) -> str:
    opacity = ";stroke-opacity:.35" if width > 5 else ""
    return f"stroke:{shade};stroke-width:{width}{opacity}"


def _tick(x: float, text: str, top: float, bottom: float) -> Markup:
    rule = tag("line", x1=x, x2=x, y1=top, y2=bottom + 4, style=f"stroke:{_RULE}")
    return join(rule, label(x, bottom + 20, text, anchor="middle", fill=MUTED))


def _clear_ticks(axis: Axis, at: Callable[[float], float]) -> list[tuple[float, str]]:
    """The ticks whose labels stand clear of the edges and of one another."""
    kept: list[tuple[float, str]] = []
    end = 0.0
    for tick, text in zip(axis.ticks, axis.labels, strict=True):
        half = text_width(text, SIZE) / 2
        if at(tick) - half >= end and at(tick) + half <= WIDTH:
            kept.append((tick, text))
            end = at(tick) + half + SIZE
    return kept


def _title(words: Words) -> list[Markup]:
    style = f"fill:{INK};font-size:{_TITLE_SIZE}px;font-weight:600"
    return [
        tag("text", escape(line), x=0, y=15 + 19 * row, style=style)
        for row, line in enumerate(words.title_lines)
    ]
