"""Measurements as a page: a plot and a table for each target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from ratiorec_lab.bench.case import Case, Measured
from ratiorec_lab.bench.frontier_chart import SHOWN, frontier_chart
from ratiorec_lab.bench.frontier_lines import short_name
from ratiorec_lab.bench.growth_chart import growth_charts
from ratiorec_lab.bench.growth_lines import MEMORY, TIME, growths
from ratiorec_lab.bench.words import label_of, left_out, rates, table, title_of
from ratiorec_lab.report import page
from ratiorec_lab.report.charts import Dot, dot_chart
from ratiorec_lab.tables import in_seconds

_LONGEST_FIGURE = 24
_TITLES: Mapping[str, str] = {
    "risk": "The unlabelled term of one batch, value and gradient",
    "softmax": "The log-sum-exp of a batch over all items, value and gradient",
    "propagation": "The normalised graph times a table of vectors",
    "step": "One whole training step, the dealing of its batch included",
    "fit": "Training to the chosen step, each model in turns with the others",
    "recommend": "The best items of many users, without those they have seen",
    "evaluate": "Recall, nDCG and the other metrics of many users, with their intervals",
    "frontier": "Quality of the lists for time spent on training, on the test part",
    "growth": "Time and memory of a step, and the time before the first, along each axis",
}
_HOW_TO_READ = (
    "The floor is what cannot be done without: operations at the rate of a large matrix product, "
    "or bytes at that of a large copy, whichever takes longer, both measured in the same rounds. "
    "Times are medians over rounds in which all cases take turns; spreads are quartiles."
)


def write_page(found: Sequence[Measured], record: Mapping[str, Any], path: Path) -> None:
    """One HTML file with everything that was measured."""
    machine = record["machine"]
    place = machine.get("accelerator") or f"{machine['cores']} cores, {machine['processor']}"
    page.write(
        page.Page(
            title=f"How fast on {record['dataset']}?",
            lead=f"{place}. {_HOW_TO_READ}",
            sections=[_section(measured, record["dataset"]) for measured in found],
            footer=f"{record['command']} (commit {record['commit'] or 'unknown'})",
        ),
        path,
    )


def _section(measured: Measured, dataset: str) -> page.Section:
    headers, *rows = ([_unbroken(cell) for cell in row] for row in table(measured))
    figures = page.Table(headers, rows, f"{title_of(measured)}, on {dataset}")
    notes = [page.Paragraph(line) for line in (*rates(measured), *left_out(measured))]
    return page.Section(measured.target, [*_plots(measured), figures, *notes])


def _unbroken(cell: str) -> str:
    """A figure and its unit stay on one line; a long remark may not."""
    return cell if len(cell) > _LONGEST_FIGURE else cell.replace(" ", "\N{NO-BREAK SPACE}")


def _plots(measured: Measured) -> list[page.Block]:
    if measured.target != "growth":
        return [page.Figure(_plot(measured), _caption(measured))]
    lines = growths(measured.to_json())
    return [
        page.Paragraph(f"{_TITLES['growth']}. {_caption(measured)}"),
        *(
            page.Columns([page.Figure(one) for one in growth_charts(lines, figure)])
            for figure in (TIME, MEMORY)
        ),
    ]


def _plot(measured: Measured) -> Markup:
    title = _TITLES[measured.target]
    if measured.target == "frontier":
        return frontier_chart(measured.to_json(), title=title)
    dots = [_dot(measured, case) for case in measured.cases]
    return dot_chart(dots, title=title, value_label="seconds, logarithmic")


def _dot(measured: Measured, case: Case) -> Dot:
    floor = measured.floor_seconds(case)
    told = f", {case.seconds / floor:.2g} × floor" if floor else ""
    return Dot(
        short_name(label_of(measured, case)),
        in_seconds(case.seconds) + told,
        case.seconds,
        case.times.low,
        case.times.high,
        floor,
        colour=int(case.is_rival),
    )


def _caption(measured: Measured) -> str:
    if measured.target == "frontier":
        return (
            "A curve for what descends, judged on a paused clock; a point for what is solved, and "
            "for each budget of an automatic choice. "
            f"Beginnings of curves below {SHOWN:.0%} of the best are not drawn."
        )
    if measured.target == "growth":
        return (
            "Both scales are logarithmic, so that a power is a straight line and its exponent the "
            "slope: 1 where ten times as much takes ten times as long. The other axes stay, but "
            "users bring their pairs. The last interval tells where a line is heading. A line with "
            "the name of a backend is a step's."
        )
    return "A dot is the median, its bar the spread, the tick the floor; rivals in another colour."
