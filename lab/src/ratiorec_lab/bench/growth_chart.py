"""Time or memory against each axis, both logarithmic, one panel an axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from ratiorec_lab.bench.growth_lines import AXES, MEMORY, TIME, Growth
from ratiorec_lab.report.charts import Series, line_chart, sheet

_TITLES: Mapping[str, str] = {
    "users": "More users, who bring their pairs",
    "items": "More items",
    "pairs": "More pairs of as many users",
    "dimension": "Longer vectors",
    "batch": "More users in a batch",
}
_FIGURES: Mapping[str, str] = {TIME: "seconds", MEMORY: "MB beyond the inputs"}
_DRAWN = ("step", "preparation")


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
    return Series(line.backend if line.work == "step" else line.work, values, figures)


def drawing(charts: Sequence[Markup], *, description: str) -> Markup:
    """Charts as one image for a page of either colour."""
    return Markup(f"{sheet(charts, title=description)}\n")
