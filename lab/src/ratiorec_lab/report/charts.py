"""Charts by matplotlib as inline SVG: no script, no fonts of their own, colours from the page."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any

import numpy as np
from markupsafe import Markup
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.path import Path as Outline
from matplotlib.transforms import Bbox
from numpy.typing import ArrayLike, NDArray

from ratiorec_lab.report.layout import (
    CARD,
    INK,
    LINE,
    MUTED,
    SIZE,
    WIDTH,
    Chart,
    drawable,
    drawing,
    shorten,
    text_width,
    wrap,
)
from ratiorec_lab.report.style import N_SERIES_COLOURS, chart_rules, series_colour
from ratiorec_lab.report.writing import clean, format_number

_DASHED = (2, 1.5)
_DASHES = (None, (5, 1.5), (1, 1), (5, 1, 1, 1), (2, 1, 1, 1), (8, 2))  # by round of colours
_FEW_POINTS = 12  # a line through more shows only its end as a dot
_BAR, _GAP, _DOT_ROW = 11.0, 9.0, 38.0  # a bar, what lies between two rows, a row of dots
_PAD = 22.0  # around each chart of a sheet
_FONTS = "system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif"

Points = NDArray[np.float64]
Named = tuple[Line2D, str]


@dataclass(frozen=True, eq=False)
class Series:
    """A named line through points, in the order given.

    By default a line has the colour of its place among the others. One that shares the colour
    of another, told apart by its dashes, needs no label of its own.
    """

    name: str
    x: ArrayLike
    y: ArrayLike
    colour: int | None = None  # a place in the order of colours
    is_dashed: bool = False
    is_labelled: bool = True


@dataclass(frozen=True)
class Bar:
    """A figure with the ends of its interval, and one to compare it with; None is not known."""

    name: str
    value: float | None
    other: float | None = None
    low: float = math.nan
    high: float = math.nan


@dataclass(frozen=True)
class Dot:
    """A value with its spread, and its floor where that is known; `text` stands for it."""

    name: str
    text: str
    value: float
    low: float
    high: float
    floor: float | None = None
    colour: int = 0


@drawing()
def line_chart(
    series: Sequence[Series],
    *,
    title: str,
    x_label: str,
    y_label: str,
    log_x: bool = False,
    log_y: bool = False,
    mark: tuple[float, str] | None = None,
    note: str = "",
) -> Markup:
    """Lines with names at their ends, else beside them, else in a legend.

    Points that are not finite, or not positive on a logarithmic axis, are left out; `mark` is a
    place on the x axis worth pointing at, with its name.
    """
    kept = [(one, *_pairs(one.x, one.y, log_x=log_x, log_y=log_y)) for one in series]
    places = [x for _, x, _ in kept if len(x)]
    if not places:
        return Chart(title).nothing()
    chart = Chart(title, y_label, note)
    marks = [mark] if mark is not None and drawable(mark[0], log=log_x) else []
    places += [np.array([x]) for x, _ in marks]
    chart.set_x(np.concatenate(places), x_label, log=log_x)
    chart.set_y(np.concatenate([y for _, _, y in kept]), log=log_y)
    lines = [
        (one, _draw_line(chart, one, place if one.colour is None else one.colour, x, y))
        for place, (one, x, y) in enumerate(kept)
        if len(x)
    ]
    chart.lay_out()
    shown = [one for one, _ in lines if one.is_labelled] or [one for one, _ in lines]
    named = [(line, shorten(one.name, WIDTH)) for one, line in lines if one in shown]
    if not (_name_at_ends(chart, named) or _name_inside(chart, named)):
        chart.add_legend([line for line, _ in named], [name for _, name in named], 0.85 * WIDTH)
    for place, name in marks:
        _draw_mark(chart, place, name)
    told = "; ".join(_describe(one.name, x, y) for one, x, y in kept if len(x))
    return chart.svg(f"Line chart of {y_label} against {x_label}. {told}.")


def _pairs(x: ArrayLike, y: ArrayLike, *, log_x: bool, log_y: bool) -> tuple[Points, Points]:
    """Both coordinates of the points that have a place on both axes."""
    xs, ys = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if xs.ndim != 1 or xs.shape != ys.shape:
        raise ValueError(f"x and y must be two equally long rows, not {xs.shape} and {ys.shape}")
    keep = drawable(xs, log=log_x) & drawable(ys, log=log_y)
    return xs[keep], ys[keep]


def _draw_line(chart: Chart, one: Series, index: int, x: Points, y: Points) -> Line2D:
    # The second round of colours gets dashes, so that no two of 36 lines look alike.
    dashes = _DASHED if one.is_dashed else _DASHES[index // N_SERIES_COLOURS % len(_DASHES)]
    (line,) = chart.axes.plot(
        x,
        y,
        "o",
        color=series_colour(index),
        linestyle=(0, dashes),
        markersize=5.5,
        markerfacecolor=CARD if one.is_dashed else None,
        markeredgewidth=1.3 if one.is_dashed else 0,
        markevery=None if len(x) <= _FEW_POINTS else [-1],
        gid="line",
    )
    return line


def _draw_mark(chart: Chart, place: float, name: str) -> None:
    for line in [*chart.axes.lines]:
        x, y = map(np.asarray, line.get_data())
        here = x == place
        chart.axes.plot(x[here], y[here], "o", color=line.get_color(), markersize=9)
    chart.axes.axvline(place, color=MUTED, linewidth=1.2, linestyle=(0, (2, 2)), gid="mark")
    x = chart.axes.get_xaxis_transform().transform((place, 0))[0]
    offset, side = ((5, 10), "left") if x < WIDTH / 2 else ((-5, 10), "right")
    chart.write(shorten(name, WIDTH / 2), (place, 0), offset, ("data", "axes fraction"), ha=side)


def _describe(name: str, x: Points, y: Points) -> str:
    first, last, best, there = map(format_number, (y[0], y[-1], y.max(), x[y.argmax()]))
    return f"{name} from {first} to {last}, highest {best} at {there}"


def _points(chart: Chart, line: Line2D) -> Points:
    """Where a line runs on the drawing, in points that are nowhere far apart."""
    corners = chart.axes.transData.transform(line.get_xydata())
    return np.asarray(Outline(corners).interpolated(1 + 300 // len(corners)).vertices)


def _name_at_ends(chart: Chart, named: Sequence[Named]) -> bool:
    """Names to the right of the axes, where all lines end there and far enough apart."""
    box = chart.axes.get_window_extent()
    ends = np.array([_points(chart, line)[-1] for line, _ in named])
    is_wide = max(text_width(name) for _, name in named) > 0.3 * WIDTH
    if is_wide or ends[:, 0].min() < box.x0 + 0.9 * box.width:
        return False
    wanted = ends[:, 1] - box.y0
    placed = wanted.copy()
    for below, above in pairwise(np.argsort(wanted, kind="stable")):
        placed[above] = max(placed[above], placed[below] + LINE)
    placed += (wanted - placed).mean()
    is_outside = placed.min() < -4 or placed.max() > box.height + 4
    if is_outside or np.abs(placed - wanted).max() > LINE:
        return False
    for (line, name), y in zip(named, placed / box.height, strict=True):
        chart.write(name, (1.0, y), (8, 0), "axes fraction", color=line.get_color())
    return True


def _name_inside(chart: Chart, named: Sequence[Named]) -> bool:
    """Names beside their lines; not where one of them has no place clear of all others.

    Beside single points a name may lie over a line: no legend tells more points than colours.
    """
    drawn = [(line.get_color(), _points(chart, line)) for line in chart.axes.lines]
    has_points = any(len(points) == 1 for _, points in drawn)
    taken: list[Bbox] = []
    for line, name in named:
        shade, own = line.get_color(), _points(chart, line)
        same = np.vstack([points for colour, points in drawn if colour == shade])
        others = [points for colour, points in drawn if colour != shade]
        ends = np.vstack([same, *(points[-1:] for points in others)])
        boxes = [box for box in _places(own, text_width(name)) if _has_room(box, taken, chart)]
        free = [box for box in boxes if not box.padded(2.5).count_contains(ends)]
        # a name must be nearest to its own line
        clear = [box for box in free if not _crosses(box.padded(4.5), others)]
        taken += (clear or (free if has_points else []))[:1]
    if len(taken) < len(named):
        return False
    for (line, name), box in zip(named, taken, strict=True):
        place, colour = (box.x0, (box.y0 + box.y1) / 2), line.get_color()
        chart.write(name, place, coords="figure points", color=colour, in_layout=False)
    return True


def _places(points: Points, width: float) -> Iterator[Bbox]:
    """Beside the end of a line, then around it from there backwards: above, below, to the sides."""
    x, y = points[-1]
    for left in (x + 6, x - 6 - width):
        yield Bbox.from_bounds(left, y - SIZE / 2, width, SIZE)
    some = points[:: -max(1, len(points) // 16)]
    for (x, y), gap in (*product(some, (4, 7)), *product(some, (20, 34))):
        for left in (x - width, x - width / 2, x):
            yield Bbox.from_bounds(left, y + gap, width, SIZE)
            yield Bbox.from_bounds(left, y - gap - SIZE, width, SIZE)


def _has_room(box: Bbox, taken: list[Bbox], chart: Chart) -> bool:
    frame = chart.axes.get_window_extent()
    is_beside = frame.x0 + 3 <= box.x0 and box.x1 <= WIDTH
    is_between = frame.y0 < box.y0 and box.y1 <= frame.y1 + 4
    return is_beside and is_between and not box.padded(4).count_overlaps(taken)


def _crosses(box: Bbox, lines: Sequence[Points]) -> bool:
    return any(box.count_contains(points) for points in lines)


@drawing()
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
    xs, ys = _pairs(x, y, log_x=log_x, log_y=log_y)
    if not len(xs):
        return Chart(title).nothing()
    n_drawn = min(len(xs), max_points)
    told = f"{len(xs):,} points" if n_drawn == len(xs) else f"{n_drawn:,} of {len(xs):,} points"
    chart = Chart(title, y_label, told)
    chart.set_x(xs, x_label, log=log_x)
    chart.set_y(ys, log=log_y)
    kept = np.random.default_rng(0).choice(len(xs), n_drawn, replace=False)
    # Few points must be seen at all, many must show where they are dense.
    opacity = min(max(12 / n_drawn**0.5, 0.3), 0.85)
    look = {"color": series_colour(0), "alpha": opacity, "linewidths": 0, "gid": "points"}
    chart.axes.scatter(xs[kept], ys[kept], s=23, **look)
    low, high = np.transpose([chart.axes.get_xlim(), chart.axes.get_ylim()])
    if diagonal and low.max() < high.min():
        ends = [low.max(), high.min()]
        chart.axes.plot(ends, ends, color=INK, linewidth=1.5, dashes=(4, 2.7), gid="diagonal")
    return chart.svg(f"Scatter plot of {y_label} against {x_label}: {told}.")


@drawing()
def bar_chart(
    bars: Sequence[Bar],
    *,
    title: str,
    value_label: str,
    write: Callable[[float], str],
    names: tuple[str, str] = ("", ""),
    missing: str = "",
    log: bool = False,
) -> Markup:
    """Bars below one another with their figures at their ends; those to compare with are hollow.

    `write` is how a figure is written, also one that has no place on the axis; `names` tell what
    the full bars are and what the hollow ones, `missing` stands in place of what is None.
    """
    given = [one for bar in bars for one in (bar.value, bar.other, bar.low, bar.high)]
    values = np.array([one for one in given if one is not None], dtype=np.float64)
    values = values[drawable(values, log=log)]
    if not len(values):
        return Chart(title).nothing()
    chart = Chart(title)
    # On a logarithmic axis there is no zero to begin from; the lowest bar still needs some length.
    chart.set_x([*values, values.min() / 2 if log else 0.0], value_label, log=log)
    chart.axes.grid(axis="x")
    start = chart.axes.get_xlim()[0] if log else 0.0
    chart.axes.axvline(start, color=MUTED, linewidth=1)
    chart.height, told = 0.0, []
    for bar in bars:
        figures = [bar.value] if bar.other is None else [bar.value, bar.other]
        texts = [shorten(missing if one is None else write(one), WIDTH / 3) for one in figures]
        chart.height += _draw_row(chart, bar, texts, start)
        said = ", ".join(" ".join(pair).strip() for pair in zip(names, texts, strict=False))
        told.append(f"{bar.name}: {said}")
    chart.axes.set(ylim=(chart.height, 0), yticks=[])
    if any(bar.other is not None for bar in bars):
        chart.add_legend([Patch(**_FULL), Patch(**_HOLLOW)], names, 0.6 * WIDTH)
    return chart.svg(f"Bar chart of {value_label}. {'; '.join(told)}.")


_FULL: dict[str, Any] = {"facecolor": series_colour(0)}
_HOLLOW: dict[str, Any] = {
    "facecolor": CARD,
    "edgecolor": MUTED,
    "linewidth": 1.2,
    "linestyle": (0, (2.5, 2)),
}


def _around(middle: float, n_lines: int) -> list[float]:
    return [middle + LINE * (k - (n_lines - 1) / 2) for k in range(n_lines)]


def _draw_row(chart: Chart, bar: Bar, texts: Sequence[str], start: float) -> float:
    """The name, the bar with its interval and the hollow one below it; the height they take."""
    log = chart.axes.get_xscale() == "log"
    lines = wrap(bar.name, 0.36 * WIDTH, n_lines=3)
    height = LINE * max(len(lines), len(texts)) + _GAP
    middle = chart.height + height / 2
    for y, line in zip(_around(middle, len(lines)), lines, strict=True):
        chart.write(line, (0, y), (-8, 0), ("axes fraction", "data"), ha="right")
    for k, y in enumerate(_around(middle, len(texts))):
        value, end, ends = (bar.value, bar.other)[k], start, (bar.low, bar.high)
        is_drawn = value is not None and bool(drawable(value, log=log))
        if value is not None and is_drawn:
            look = _HOLLOW if k else _FULL
            chart.axes.barh(y, value - start, _BAR, start, gid="bar", **look)
            end = max(value, start)
        if not k and drawable(ends, log=log).all():
            chart.axes.plot(ends, [y, y], "|-", color=INK, linewidth=1.5, gid="interval")
            end = max(end, *ends)
        chart.write(texts[k], (end, y), (6, 0), color=MUTED if k or not is_drawn else INK)
    return height


@drawing()
def dot_chart(dots: Sequence[Dot], *, title: str, value_label: str) -> Markup:
    """Values on one logarithmic axis: a dot, its spread as a bar, its floor as a tick."""
    if not dots:
        return Chart(title).nothing()
    chart = Chart(title)
    ends = [value for dot in dots for value in (dot.low, dot.high, dot.floor or dot.low)]
    chart.set_x(ends, value_label, log=True)
    chart.height = _DOT_ROW * len(dots)
    chart.axes.set(ylim=(chart.height, 0), yticks=[])
    chart.axes.grid(axis="x")
    for place, dot in enumerate(dots):
        _draw_dot(chart, dot, _DOT_ROW * place)
    told = "; ".join(f"{dot.name} {dot.text}" for dot in dots)
    return chart.svg(f"Dots on an axis of {value_label}. {told}.")


def _draw_dot(chart: Chart, dot: Dot, top: float) -> None:
    """The name and the figure on one line, the drawing below them."""
    colour, y = series_colour(dot.colour), top + 27
    name = shorten(dot.name, WIDTH - text_width(dot.text) - LINE)
    for x, side, text, shade in ((0, "left", name, INK), (1, "right", dot.text, MUTED)):
        place: Any = ("figure fraction", "data")
        chart.write(text, (x, top + 10), coords=place, ha=side, color=shade, in_layout=False)
    chart.axes.hlines(y, dot.low, dot.high, colour, linewidth=6, alpha=0.35, gid="spread")
    if dot.floor:
        chart.axes.hlines(y, dot.floor, dot.value, colour, linewidth=1)
        chart.axes.vlines(dot.floor, y - 6, y + 6, INK, linewidth=2, gid="floor")
    chart.axes.plot(dot.value, y, "o", color=colour, markersize=9, gid="dot")


def sheet(charts: Sequence[Markup], *, title: str) -> Markup:
    """Charts two by two as one SVG file, which brings its colours and its ground along."""
    n_columns = min(2, max(1, len(charts)))
    placed, top = [], 0.0
    for first in range(0, len(charts), n_columns):
        row = [ET.fromstring(chart) for chart in charts[first : first + n_columns]]
        heights = [float(chart.attrib["viewBox"].split()[3]) for chart in row]
        for k, (chart, height) in enumerate(zip(row, heights, strict=True)):
            x = k * (WIDTH + 2 * _PAD) + _PAD
            box = {"x": x, "y": top + _PAD, "width": WIDTH, "height": height}
            chart.attrib |= {key: f"{value:g}" for key, value in box.items()}
            placed.append(chart)
        top += max(heights) + 2 * _PAD
    size = {"width": f"{n_columns * (WIDTH + 2 * _PAD):g}", "height": f"{max(top, 1.0):g}"}
    root = ET.Element("svg", {"xmlns": "http://www.w3.org/2000/svg", **size, "role": "img"})
    root.attrib |= {"viewBox": f"0 0 {size['width']} {size['height']}", "class": "chart"}
    ET.SubElement(root, "title").text = clean(title)
    ET.SubElement(root, "style").text = f"{chart_rules()}text{{font-family:{_FONTS}}}"
    ET.SubElement(root, "rect", {**size, "rx": "8", "style": f"fill: {CARD}"})
    root.extend(placed)
    return Markup(ET.tostring(root, encoding="unicode", short_empty_elements=False))
