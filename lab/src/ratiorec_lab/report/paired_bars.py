"""Bars that lie below one another, each beside the one it is compared with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ratiorec_lab.report.axes import LARGEST, Axis, drawable
from ratiorec_lab.report.frame import (
    INK,
    LINE,
    MUTED,
    RULE,
    SIZE,
    WIDTH,
    Words,
    document,
    draw_nothing,
    label,
)
from ratiorec_lab.report.lettering import shorten, text_width, wrap
from ratiorec_lab.report.markup import Markup, escape, join, tag
from ratiorec_lab.report.style import colour, series_colour

_Values = NDArray[np.float64]
_BAR = 11.0  # how thick a bar is; its figure beside it needs a whole line
_GAP = 9.0
_NAME_ROOM = 0.36 * WIDTH
_LEAST_BAR = 2.0  # a bar that begins where the axis does would not be seen


@dataclass(frozen=True)
class Pair:
    """Two figures under one name; None where there is none."""

    name: str
    value: float | None
    other: float | None = None


def paired_bars(
    pairs: Sequence[Pair],
    *,
    title: str,
    value_label: str,
    names: tuple[str, str],
    write: Callable[[float], str],
    missing: str,
    log: bool = False,
) -> Markup:
    """Bars with their figures at their ends: full ones, and hollow ones that they stand beside.

    Args:
        pairs: one row each; a figure that has no place on the axis is written all the same.
        title: what the chart shows.
        value_label: what the lengths are.
        names: what the full bars are, and what the hollow ones.
        write: how a figure is written.
        missing: what stands in place of a figure that is None.
        log: whether equal ratios take equal lengths.
    """
    words = Words(title, "", value_label)
    rows = [_Row(pair, write, missing) for pair in pairs]
    values = [value for row in rows for value in row.values if drawable(value, log=log)]
    if not values:
        return draw_nothing(words)
    has_others = any(pair.other is not None for pair in pairs)
    place = _fit(rows, np.array(values), log=log, top=words.title_height + 20 * has_others)
    tops = [place.top + sum(row.height for row in rows[:k]) for k in range(len(rows))]
    bottom = place.top + sum(row.height for row in rows)
    key = _key(names, words.title_height) if has_others else join()
    return document(
        words,
        bottom + 44,
        f"Bars of {value_label}. {_describe(rows, names)}.",
        *_grid(place, bottom),
        *(_draw_row(row, place, top) for row, top in zip(rows, tops, strict=True)),
        key,
        _axis_label(words, place, bottom),
    )


@dataclass(frozen=True)
class _Row:
    """A pair in writing."""

    pair: Pair
    write: Callable[[float], str]
    missing: str

    @property
    def values(self) -> list[float]:
        return [value for value in (self.pair.value, self.pair.other) if value is not None]

    @property
    def texts(self) -> list[str]:
        """The figure, and that of the other where there is one."""
        ours = self.missing if self.pair.value is None else self.write(self.pair.value)
        return [ours] if self.pair.other is None else [ours, self.write(self.pair.other)]

    @property
    def name_lines(self) -> list[str]:
        return wrap(self.pair.name, SIZE, _NAME_ROOM, n_lines=3)

    @property
    def height(self) -> float:
        return LINE * max(len(self.texts), len(self.name_lines)) + _GAP


@dataclass(frozen=True)
class _Place:
    """Where the axis lies."""

    axis: Axis
    left: float
    right: float
    top: float

    def at(self, value: float) -> float:
        return self.left + float(self.axis.fraction(value)) * (self.right - self.left)

    @property
    def floor(self) -> float:
        # On a logarithmic axis there is no zero to begin from.
        return self.axis.low if self.axis.log else 0.0


def _fit(rows: Sequence[_Row], values: _Values, *, log: bool, top: float) -> _Place:
    left = max(text_width(line, SIZE) for row in rows for line in [*row.name_lines, ""]) + 10
    texts = [text for row in rows for text in row.texts]
    right = WIDTH - min(max(text_width(text, SIZE) for text in texts) + 8, 0.4 * WIDTH)
    # The lowest bar needs some length as well.
    floor = max(values.min() / 2, 1 / LARGEST) if log else 0.0
    axis = Axis.over(np.append(values, floor), log=log, at_most=6)
    return _Place(axis, left, right, top)


def _draw_row(row: _Row, place: _Place, top: float) -> Markup:
    middle = top + (row.height - _GAP) / 2
    start = middle - LINE * len(row.name_lines) / 2
    names = [
        label(place.left - 8, start + LINE * (k + 0.76), line, anchor="end")
        for k, line in enumerate(row.name_lines)
    ]
    values = [row.pair.value, row.pair.other]
    start = middle - LINE * len(row.texts) / 2
    bars = [
        _draw_bar(value, text, place, start + LINE * k, is_hollow=k == 1)
        for k, (value, text) in enumerate(zip(values, row.texts, strict=False))
    ]
    return tag("g", tag("title", escape(row.pair.name)), *names, *bars)


def _draw_bar(
    value: float | None, text: str, place: _Place, top: float, *, is_hollow: bool
) -> Markup:
    y = top + (LINE - _BAR) / 2
    end, bar = place.at(place.floor), join()
    if value is not None and drawable(value, log=place.axis.log):
        start, end = sorted((end, place.at(value)))
        end = max(end, start + _LEAST_BAR)
        box = {"x": start, "y": y, "width": end - start, "height": _BAR}
        bar = tag("rect", rx=1.5, style=_look(is_hollow=is_hollow), **box)
    shown = shorten(text, SIZE, WIDTH - end - 6)
    return join(
        bar, label(end + 6, top + 0.76 * LINE, shown, fill=MUTED if is_hollow or not bar else INK)
    )


def _look(*, is_hollow: bool) -> str:
    if is_hollow:
        return f"fill:{colour('card')};stroke:{MUTED};stroke-width:1.2;stroke-dasharray:3 2"
    return f"fill:{series_colour(0)}"


def _grid(place: _Place, bottom: float) -> Iterator[Markup]:
    """A rule for each tick, and labels as many as are clear of one another."""
    places = [place.at(tick) for tick in place.axis.ticks]
    every = _label_stride(places, [text_width(text, SIZE) for text in place.axis.labels])
    for k, (x, text) in enumerate(zip(places, place.axis.labels, strict=True)):
        yield tag("line", x1=x, x2=x, y1=place.top - 3, y2=bottom, style=f"stroke:{RULE}")
        if k % every == 0:
            yield label(x, bottom + 16, text, anchor="middle", fill=MUTED)
    x = place.at(place.floor)
    yield tag("line", x1=x, x2=x, y1=place.top - 3, y2=bottom, style=f"stroke:{MUTED}")


def _label_stride(places: Sequence[float], widths: Sequence[float]) -> int:
    for every in range(1, len(places)):
        ends = zip(places[::every], widths[::every], strict=True)
        needed = pairwise((x - width / 2, x + width / 2) for x, width in ends)
        if all(before[1] + 0.6 * SIZE <= after[0] for before, after in needed):
            return every
    return max(len(places), 1)


def _axis_label(words: Words, place: _Place, bottom: float) -> Markup:
    text = shorten(words.x_label, SIZE, WIDTH)
    half = text_width(text, SIZE) / 2
    middle = min(max((place.left + place.right) / 2, half), WIDTH - half)
    return label(middle, bottom + 36, text, anchor="middle", fill=MUTED)


def _key(names: tuple[str, str], y: float) -> Markup:
    """What is full and what is hollow."""
    parts, x = [], 0.0
    for k, name in enumerate(names):
        box = {"x": x + 1, "y": y + 3, "width": 16.0, "height": _BAR - 1}
        parts.append(tag("rect", rx=1.5, style=_look(is_hollow=k == 1), **box))
        parts.append(label(x + 23, y + 12, shorten(name, SIZE, WIDTH / 2 - 40), fill=MUTED))
        x += text_width(name, SIZE) + 40
    return join(*parts)


def _describe(rows: Sequence[_Row], names: tuple[str, str]) -> str:
    return "; ".join(
        f"{row.pair.name}: "
        + ", ".join(f"{name} {text}" for name, text in zip(names, row.texts, strict=False))
        for row in rows
    )
