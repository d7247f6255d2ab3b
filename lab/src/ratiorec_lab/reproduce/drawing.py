"""Panels as charts and their numbers as tables, for a page and for files beside a text."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from ratiorec_lab.report import charts
from ratiorec_lab.report.axes import drawable
from ratiorec_lab.report.frame import WIDTH
from ratiorec_lab.report.markup import Markup, escape, tag
from ratiorec_lab.report.paired_bars import Pair, paired_bars
from ratiorec_lab.report.style import N_SERIES_COLOURS, colour, colour_rules
from ratiorec_lab.report.tables import Cell, Table
from ratiorec_lab.reproduce.exhibits import NOT_RUN, BarPanel, Panel, Series
from ratiorec_lab.reproduce.wording import difference_text, figure_text, is_writable

OURS, PUBLISHED = "this run", "published"
_MOST_ROWS = 1000  # of a table of numbers; more are thinned, and the table says so
_LONGEST = 1e15
_PAD = 22.0  # around each chart of a sheet
_FONT = "system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif"


def curve_chart(panel: Panel) -> Markup:
    """The curves of a panel: a colour for each name, dashes for what was published."""
    places = {name: k for k, name in enumerate(dict.fromkeys(s.name for s in panel.series))}
    ours = {one.name for one in panel.series if not one.is_published and _n_drawn(one, panel)}
    has_published = any(one.is_published and _n_drawn(one, panel) for one in panel.series)
    # Where there are more lines than colours, dashes must tell them apart.
    is_free = not has_published and len(places) > N_SERIES_COLOURS
    series = [
        charts.Series(
            f"{one.name}, {PUBLISHED}" if one.is_published and one.name in ours else one.name,
            [x for x, _ in one.points],
            [y for _, y in one.points],
            colour=places[one.name],
            is_dashed=None if is_free else one.is_published,
            is_labelled=not (one.is_published and one.name in ours),
        )
        for one in panel.series
    ]
    return charts.line_chart(
        series,
        title=panel.title,
        x_label=_axis_name(panel.x_label, log=panel.log_x),
        y_label=_axis_name(panel.y_label, log=panel.log_y),
        log_x=panel.log_x,
        log_y=panel.log_y,
        note=f"dashed: {PUBLISHED}" if has_published else "",
        names_inside=True,
    )


def bar_chart(panel: BarPanel) -> Markup:
    """The bars of a panel, ours full and the published ones hollow."""
    return paired_bars(
        [Pair(bar.name, bar.value, bar.published) for bar in panel.bars],
        title=panel.title,
        value_label=_axis_name(panel.value_label, log=panel.log),
        names=(OURS, PUBLISHED),
        write=figure_text,
        missing=NOT_RUN,
        log=panel.log,
    )


def _axis_name(words: str, *, log: bool) -> str:
    return f"{words}, logarithmic" if log and "log" not in words.lower() else words


def _n_drawn(series: Series, panel: Panel) -> int:
    return sum(
        bool(drawable(x, log=panel.log_x) and drawable(y, log=panel.log_y))
        for x, y in series.points
    )


def undrawn(panel: Panel) -> str:
    """A sentence about points that have no place on the axes; empty where all have one."""
    lost = {one.name: len(one.points) - _n_drawn(one, panel) for one in panel.series}
    told = ", ".join(f"{n:,} of {name}" for name, n in lost.items() if n)
    return f"Points without a place on these axes: {told}." if told else ""


def curve_numbers(panel: Panel) -> Table:
    """The points of a panel, one row for each place on the x axis."""
    columns = [dict(one.points) for one in panel.series]
    places = sorted({x for column in columns for x in column}, key=lambda x: (math.isnan(x), x))
    step = math.ceil(len(places) / _MOST_ROWS) if places else 1
    kept = places[::step] if step == 1 else [*places[:-1:step], places[-1]]
    thinned = "" if step == 1 else f"; one place in {step} of {len(places):,}, and the last"
    return Table(
        [panel.x_label, *(series_name(one) for one in panel.series)],
        [[_number(x), *(_number(column.get(x)) for column in columns)] for x in kept],
        f"{panel.title}: {panel.y_label}{thinned}",
    )


def series_name(series: Series) -> str:
    """The name of a line that stands beside others."""
    return f"{series.name}, {PUBLISHED}" if series.is_published else series.name


def _number(value: float | None) -> Cell:
    if value is None or (is_writable(value) and abs(value) < _LONGEST):
        return value
    return figure_text(value)


def bar_rows(panel: BarPanel) -> list[tuple[str, str, str, str]]:
    """For each bar its name, our figure, the published one and the difference."""
    return [
        (
            bar.name,
            NOT_RUN if bar.value is None else figure_text(bar.value),
            "" if bar.published is None else figure_text(bar.published),
            difference_text(bar.value, bar.published),
        )
        for bar in panel.bars
    ]


def bar_numbers(panel: BarPanel) -> Table:
    """The figures of a panel of bars."""
    headers = ["", OURS, PUBLISHED, "difference"]
    return Table(headers, bar_rows(panel), f"{panel.title}: {panel.value_label}")


def sheet(drawn: Sequence[Markup], *, title: str) -> Markup:
    """Charts two by two as one SVG file, which brings its colours and its ground along."""
    n_columns = min(2, max(1, len(drawn)))
    side = WIDTH + 2 * _PAD
    parts, top = [], 0.0
    for start in range(0, len(drawn), n_columns):
        row = drawn[start : start + n_columns]
        parts += [_placed(one, k * side + _PAD, top + _PAD) for k, one in enumerate(row)]
        top += max(map(_height, row)) + 2 * _PAD
    width, height = n_columns * side, max(top, 1.0)
    ground = tag("rect", width=width, height=height, rx=8, style=f"fill:{colour('card')}")
    style = Markup(f"<style>{colour_rules()}text{{font-family:{_FONT}}}</style>")
    return tag(
        "svg",
        tag("title", escape(title)),
        style,
        ground,
        *parts,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width:g} {height:g}",
        width=width,
        height=height,
        role="img",
    )


def _height(chart: Markup) -> float:
    found = re.match(r'<svg viewBox="0 0 \S+ (\S+?)"', chart)
    assert found, "every chart begins with the size of its drawing"
    return float(found[1])


def _placed(chart: Markup, x: float, y: float) -> Markup:
    place = f'x="{x:g}" y="{y:g}" width="{WIDTH:g}" height="{_height(chart):g}"'
    return Markup(chart.replace("<svg ", f"<svg {place} ", 1))
