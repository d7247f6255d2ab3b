"""Training curves on validation pairs as panels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ratiorec_lab.reproduce.cell_files import Record
from ratiorec_lab.reproduce.cells import Cell
from ratiorec_lab.reproduce.curves import validations
from ratiorec_lab.reproduce.exhibits import Panel, Series
from ratiorec_lab.reproduce.findings import Findings
from ratiorec_lab.reproduce.names import METRICS, SELECTED_BY, dataset_name
from ratiorec_lab.reproduce.remarks import why_not_run


def curve_panels(
    dataset: str, records: Mapping[str, Record], *, by: str, log_x: bool = False
) -> tuple[Panel, ...]:
    """A panel for each metric with a line for each named record; `by` is "epoch" or "step"."""
    return tuple(
        Panel(
            title=f"{dataset_name(dataset)}, {label}",
            x_label=f"training {by}",
            y_label=f"{label} on validation pairs",
            series=tuple(
                Series(
                    name,
                    tuple(
                        (float(getattr(one, by)), one.metrics[metric])
                        for one in validations(record)
                    ),
                )
                for name, record in records.items()
            ),
            log_x=log_x,
        )
        for metric, label in METRICS.items()
    )


def missing_lines(
    findings: Findings, dataset: str, cells: Mapping[str, Cell | None]
) -> Iterator[str]:
    """A sentence for each reason why named runs are not there."""
    reasons: dict[str, list[str]] = {}
    for name, cell in cells.items():
        if findings.record(cell) is None:
            reasons.setdefault(findings.why_missing([cell]), []).append(name)
    for reason, names in reasons.items():
        yield why_not_run(dataset, [] if len(names) == len(cells) else names, reason)


def best(record: Record) -> float:
    """The best nDCG@20 on validation pairs."""
    return max(one.metrics[SELECTED_BY] for one in validations(record))


def last(record: Record) -> float:
    """The last nDCG@20 on validation pairs."""
    return validations(record)[-1].metrics[SELECTED_BY]
