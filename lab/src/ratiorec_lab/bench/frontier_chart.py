"""Quality against training time, the time on a logarithmic axis."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from ratiorec_lab.bench.frontier_lines import JsonCase, frontier_lines
from ratiorec_lab.report.charts import Series, line_chart

SHOWN = 0.7  # of the best figure: lower beginnings of curves are left out, for room at the ends


def frontier_chart(cases: Sequence[JsonCase], *, title: str) -> Markup:
    """A model on its way is a line, what is solved a point."""
    lines = frontier_lines(cases)
    ends = [line.points[-1].recall for line in lines if line.points]
    lowest = min([SHOWN * max(ends, default=0.0), *ends])
    series = []
    for line in lines:
        shown = [point for point in line.points if point.recall >= lowest]
        seconds, quality = [one.seconds for one in shown], [one.recall for one in shown]
        series.append(Series(line.name, seconds, quality))
    return line_chart(
        series,
        title=title,
        x_label="training seconds, logarithmic",
        y_label="recall@20, test pairs",
        log_x=True,
    )
