"""How much training a method took on a data set, over the seeds."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from ratiorec_lab.reproduce import curves
from ratiorec_lab.reproduce.cell_files import Record
from ratiorec_lab.reproduce.findings import Findings
from ratiorec_lab.reproduce.names import method_name
from ratiorec_lab.reproduce.published import Effort, effort


@dataclass(frozen=True)
class MethodEffort:
    """Medians over the seeds; None where nothing is known."""

    preset: str
    dataset: str
    steps: float | None
    seconds_per_step: float | None
    seconds: float | None  # to convergence: training alone
    whole_fit: float | None  # search and refit, set-up and validation among them
    machines: tuple[str, ...]
    is_rising: bool
    was_cut: bool
    why_missing: str

    @property
    def method(self) -> str:
        """Who it is."""
        return method_name(self.preset)

    @property
    def published(self) -> Effort:
        """What the paper says."""
        return effort(self.preset, self.dataset)


def effort_of(findings: Findings, preset: str, dataset: str) -> MethodEffort:
    """What the runs of a preset tell."""
    cells = list(findings.plan.curves(preset, dataset))
    records = [r for r in findings.records(cells) if curves.convergence(r) is not None]
    found = [c for r in records if (c := curves.convergence(r)) is not None]
    return MethodEffort(
        preset,
        dataset,
        steps=_median([c.step for c in found]),
        seconds_per_step=_median([curves.seconds_per_step(r) for r in records]),
        seconds=_median([curves.seconds_to_converge(r) for r in records]),
        whole_fit=_median([r["seconds"]["train"] for r in records]),
        machines=_machines(records),
        is_rising=any(c.is_rising for c in found),
        was_cut=any(map(curves.was_cut, records)),
        why_missing="" if records else findings.why_missing(cells),
    )


def _machines(records: Sequence[Record]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(map(curves.machine_of, records)))


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None
