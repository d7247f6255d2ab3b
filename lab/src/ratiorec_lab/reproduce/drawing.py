"""Panels as charts and their numbers as tables, for a page and for files beside a text."""

from __future__ import annotations

import math
from functools import lru_cache

from markupsafe import Markup

from ratiorec_lab.report import charts
from ratiorec_lab.report.charts import sheet as sheet
from ratiorec_lab.report.layout import drawable
from ratiorec_lab.report.page import Cell, Table
from ratiorec_lab.reproduce.exhibits import NOT_RUN, BarPanel, Panel, Series
from ratiorec_lab.reproduce.wording import OURS, PUBLISHED, figure_text, panel_table

_MOST_ROWS = 1000  # of a table of numbers; more are thinned, and the table says so
_LARGEST = 1e15  # what is larger is written with a power of ten
# the page and the files beside its text show the same charts, which take a while to draw
_drawn_once = lru_cache(maxsize=128)


@_drawn_once
def curve_chart(panel: Panel) -> Markup:
    """The curves of a panel: a colour for each name, dashes for what was published."""
    places = {name: k for k, name in enumerate(dict.fromkeys(s.name for s in panel.series))}
    ours = {one.name for one in panel.series if not one.is_published and _n_drawn(one, panel)}
    has_published = any(one.is_published and _n_drawn(one, panel) for one in panel.series)
    series = [
        charts.Series(
            _name(one) if one.name in ours else one.name,
            [x for x, _ in one.points],
            [y for _, y in one.points],
            colour=places[one.name],
            is_dashed=one.is_published,
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
    )


@_drawn_once
def bar_chart(panel: BarPanel) -> Markup:
    """The bars of a panel, ours full and the published ones hollow."""
    return charts.bar_chart(
        [charts.Bar(bar.name, bar.value, bar.published) for bar in panel.bars],
        title=panel.title,
        value_label=_axis_name(panel.value_label, log=panel.log),
        write=figure_text,
        names=(OURS, PUBLISHED),
        missing=NOT_RUN,
        log=panel.log,
    )


def _axis_name(words: str, *, log: bool) -> str:
    return f"{words}, logarithmic" if log and "log" not in words.lower() else words


def _name(series: Series) -> str:
    return f"{series.name}, {PUBLISHED}" if series.is_published else series.name


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
        [panel.x_label, *map(_name, panel.series)],
        [[_number(x), *(_number(column.get(x)) for column in columns)] for x in kept],
        f"{panel.title}: {panel.y_label}{thinned}",
    )


def _number(value: float | None) -> Cell:
    return value if value is None or abs(value) < _LARGEST else figure_text(value)


def bar_numbers(panel: BarPanel) -> Table:
    """The figures of a panel of bars."""
    table = panel_table(panel)
    rows = [[row.name, *map(str, row.entries)] for row in table.rows]
    return Table(["", *table.columns], rows, panel.title)
