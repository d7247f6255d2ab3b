"""Time or memory against each axis, both logarithmic, one panel an axis."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ratiorec_lab.bench.growth_lines import MEMORY, TIME, Growth
from ratiorec_lab.bench.growth_points import AXES
from ratiorec_lab.report.charts import Series, line_chart
from ratiorec_lab.report.frame import WIDTH
from ratiorec_lab.report.markup import Markup, escape, tag
from ratiorec_lab.report.style import colour

_TITLES: Mapping[str, str] = {
    "users": "More users, who bring their pairs",
    "items": "More items",
    "pairs": "More pairs of as many users",
    "dimension": "Longer vectors",
    "batch": "More users in a batch",
}
_FIGURES: Mapping[str, str] = {TIME: "seconds", MEMORY: "MB beyond the inputs"}
_DRAWN = ("step", "preparation")
_N_COLUMNS = 2
_MARGIN = 20.0
_FONTS = "system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif"


def growth_charts(lines: Sequence[Growth], figure: str) -> list[Markup]:
    """One figure of the steps and of what comes before them, a chart an axis."""
    drawn = [line for line in lines if line.figure == figure and line.work in _DRAWN]
    return [
        line_chart(
            [_series(line) for line in drawn if line.axis == axis],
            title=_TITLES[axis],
            x_label=unit,
            y_label=_FIGURES[figure],
            log_x=True,
            log_y=True,
        )
        for axis, unit in AXES.items()
        if any(line.axis == axis for line in drawn)
    ]


def _series(line: Growth) -> Series:
    values, figures = zip(*line.points, strict=True)
    return Series(line.execution if line.work == "step" else line.work, values, figures)


def drawing(charts: Sequence[Markup], *, description: str) -> Markup:
    """Charts as one image for a page of either colour: a card of its own, and no outside style."""
    placed = []
    top = _MARGIN
    for start in range(0, len(charts), _N_COLUMNS):
        row = charts[start : start + _N_COLUMNS]
        for place, chart in enumerate(row):
            placed.append(_placed(chart, _MARGIN + place * (WIDTH + 2 * _MARGIN), top))
        top += max(map(_height, row)) + 1.5 * _MARGIN
    width = _N_COLUMNS * (WIDTH + 2 * _MARGIN)
    svg = tag(
        "svg",
        tag("title", escape(description)),
        tag("rect", width=width, height=top, rx=8, style=f"fill:{colour('card')}"),
        *placed,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width:g} {top:g}",
        width=width,
        height=top,
        role="img",
        style=f"font-family:{_FONTS}",
    )
    # an image cannot ask its page for colours, and not all that shows it knows of variables
    return Markup(re.sub(r"var\(--[\w-]+,(#\w+)\)", r"\1", svg) + "\n")


def _placed(chart: Markup, x: float, y: float) -> Markup:
    """A chart inside another image."""
    place = f'x="{x:g}" y="{y:g}" width="{WIDTH:g}" height="{_height(chart):g}"'
    return Markup(chart.replace("<svg ", f"<svg {place} ", 1))


def _height(chart: Markup) -> float:
    found = re.match(r'<svg viewBox="0 0 [\d.]+ ([\d.]+)"', chart)
    assert found is not None, "a chart begins with its size"
    return float(found[1])
