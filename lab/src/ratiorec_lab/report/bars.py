"""The bar chart."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ratiorec_lab.report.axes import LARGEST, Axis, drawable, format_column
from ratiorec_lab.report.frame import (
    INK,
    LINE,
    SIZE,
    WIDTH,
    Frame,
    Words,
    draw,
    draw_nothing,
    label,
    left_margin,
)
from ratiorec_lab.report.lettering import shorten, text_width, wrap
from ratiorec_lab.report.markup import Markup, escape, join, tag
from ratiorec_lab.report.style import series_colour

_UPRIGHT_ROOM = 130.0  # the most length of names that stand upright below their bars


def bar_chart(
    labels: Sequence[str],
    values: ArrayLike,
    *,
    title: str,
    y_label: str,
    errors: ArrayLike | None = None,
    log_y: bool = False,
) -> Markup:
    """Bars with their values above them.

    Args:
        labels: the names below the bars.
        values: the heights; one that is not finite leaves its place empty.
        title: what the chart shows.
        y_label: what the heights are.
        errors: for each bar the low and the high end of an interval.
        log_y: whether equal ratios take equal heights.
    """
    heights = np.asarray(values, dtype=np.float64)
    spans = np.full((len(labels), 2), np.nan) if errors is None else np.asarray(errors, float)
    if heights.shape != (len(labels),) or (len(labels) and spans.shape != (len(labels), 2)):
        raise ValueError(
            f"{len(labels)} labels need as many values and pairs of ends,"
            f" not {heights.shape} and {spans.shape}"
        )
    words = Words(title, y_label)
    shown: list[int] = np.flatnonzero(drawable(heights, log=log_y)).tolist()
    if not shown:
        return draw_nothing(words)
    spans = np.where(drawable(spans, log=log_y), spans, heights[:, None])
    ends = np.concatenate([heights[shown], spans[shown].ravel()])
    # On a logarithmic axis there is no zero to stand on; the lowest bar still needs some height.
    floor = max(ends.min() / 2, 1 / LARGEST) if log_y else 0.0
    frame, names = _fit_bars(words, labels, Axis.over(np.append(ends, floor), log=log_y, at_most=6))
    write = format_column(heights[shown].tolist())
    texts = {k: write(heights[k]) for k in shown}
    tops = {k: max(heights[k], *spans[k], floor) for k in shown}
    bars = [_draw_bar(k, heights[k], spans[k], labels[k], frame) for k in shown]
    told = "; ".join(f"{labels[k]} {text}" for k, text in texts.items())
    numbers = _numbers(texts, tops, frame)
    return draw(frame, f"Bar chart of {y_label}. {told}.", *bars, numbers, names)


def _fit_bars(words: Words, labels: Sequence[str], y: Axis) -> tuple[Frame, Markup]:
    """The frame of the bars, and their names written below it."""
    left = left_margin(y)
    slot = (WIDTH - left) / len(labels)
    lines = [wrap(text, SIZE, slot - 6, n_lines=3) for text in labels]
    is_whole = all(
        " ".join(line) == " ".join(text.split()) for line, text in zip(lines, labels, strict=True)
    )
    short = [shorten(text, SIZE, _UPRIGHT_ROOM) for text in labels]
    foot = LINE * max(map(len, lines)) if is_whole else max(text_width(t, SIZE) for t in short)
    frame = Frame(words, Axis(0.0, len(labels), (), ()), y, left, WIDTH, n_notes=1, foot=foot + 8)
    middles = [left + slot * (k + 0.5) for k in range(len(labels))]
    names = [
        label(x, frame.bottom + LINE * (row + 1), text, anchor="middle")
        for x, name in zip(middles, lines, strict=True)
        for row, text in enumerate(name)
    ]
    if not is_whole:
        # Where the bars are thinner than a line of text, some go without a name.
        every = slice(None, None, math.ceil(LINE / slot))
        places = zip(middles[every], short[every], strict=True)
        names = [_upright(x, frame.bottom + 6, text) for x, text in places]
    return frame, join(*names)


def _upright(x: float, y: float, text: str) -> Markup:
    x += SIZE / 3
    return label(x, y, text, anchor="end", transform=f"rotate(-90 {x:.1f} {y:.1f})")


def _draw_bar(k: int, height: float, span: NDArray[np.float64], name: str, frame: Frame) -> Markup:
    floor = frame.y.low if frame.y.log else 0.0
    x, y = frame.at(np.array([k + 0.2, k + 0.8]), np.array([floor, height]))
    bar = tag(
        "rect",
        tag("title", escape(name)),
        x=float(x[0]),
        y=float(y.min()),
        width=float(x[1] - x[0]),
        height=float(abs(y[1] - y[0])),
        rx=1.5,
        style=f"fill:{series_colour(0)};fill-opacity:.8",
    )
    if span[0] == span[1]:
        return bar
    (middle, _), (low, high) = frame.at(np.array([k + 0.5, k + 0.5]), span)
    path = f"M{middle - 5:.1f} {low:.1f}h10m-5 0V{high:.1f}m-5 0h10"
    return join(bar, tag("path", d=path, style=f"fill:none;stroke:{INK};stroke-width:1.5"))


def _numbers(texts: Mapping[int, str], tops: Mapping[int, float], frame: Frame) -> Markup:
    """The values above bars and intervals, unless one is wider than the place of its bar."""
    slot = (frame.right - frame.left) / frame.x.high
    if max(text_width(text, SIZE) for text in texts.values()) > slot:
        return join()
    x, y = frame.at(np.array([*texts]) + 0.5, np.array([tops[k] for k in texts]))
    places = zip(x.tolist(), y.tolist(), texts.values(), strict=True)
    return join(*(label(x, y - 5, text, anchor="middle") for x, y, text in places))
