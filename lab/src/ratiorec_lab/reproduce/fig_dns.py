"""Figure 3: hard samples by weighting against hard samples by drawing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ratiorec_lab.reproduce.cell_files import Record
from ratiorec_lab.reproduce.cells import Cell
from ratiorec_lab.reproduce.curves import convergence
from ratiorec_lab.reproduce.exhibits import CurveExhibit, Exhibit, Panel
from ratiorec_lab.reproduce.findings import Findings
from ratiorec_lab.reproduce.names import STAND_IN, dataset_name, figure, method_name
from ratiorec_lab.reproduce.panels import best, curve_panels, missing_lines
from ratiorec_lab.reproduce.plan import Plan

PAIRWISE, DRAWN, UNIFORM, OURS = "lightgcn", "lightgcn-dns", "dregn-cf-uniform", "dregn-cf"


@dataclass(frozen=True)
class FigDns:
    """The paper draws it on Amazon-Book, which few can have: Gowalla is drawn beside it."""

    presets: tuple[str, ...] = (PAIRWISE, DRAWN, UNIFORM, OURS)

    def datasets(self, plan: Plan) -> tuple[str, ...]:
        """Amazon-Book, what stands in for it and what can always be had, where planned."""
        return plan.among("amazon-book", STAND_IN, "gowalla")

    def cells(self, plan: Plan) -> Iterator[Cell]:
        """Four runs that have validations along the way."""
        for dataset in self.datasets(plan):
            for preset in self.presets:
                cell = plan.first_curve(preset, dataset)
                if cell is not None:
                    yield cell

    def exhibits(self, findings: Findings) -> Iterator[Exhibit]:
        """One figure."""
        panels: list[Panel] = []
        remarks: list[str] = []
        for dataset in self.datasets(findings.plan):
            cells = {preset: findings.plan.first_curve(preset, dataset) for preset in self.presets}
            found = {preset: findings.record(cell) for preset, cell in cells.items()}
            records = {preset: record for preset, record in found.items() if record is not None}
            named = {method_name(preset): record for preset, record in records.items()}
            panels += curve_panels(dataset, named, by="step", log_x=True) if records else ()
            remarks += missing_lines(
                findings, dataset, {method_name(preset): cell for preset, cell in cells.items()}
            )
            if not findings.plan.is_quick:
                remarks += _remarks(dataset_name(dataset), records)
        yield CurveExhibit(
            id="fig-dns",
            title="Dynamic sampling and hard-sample weights",
            caption="Figure 3 of the paper, which shows the test part of Amazon-Book; these are "
            "validation pairs, so that no test figure is read while training goes on.",
            panels=tuple(panels),
            remarks=tuple(remarks),
        )


def _remarks(dataset: str, records: dict[str, Record]) -> Iterator[str]:
    """The paper's observations in section 5.5, each held against the figures."""
    for faster, slower in ((DRAWN, PAIRWISE), (OURS, UNIFORM), (OURS, DRAWN)):
        if faster in records and slower in records:
            yield f"{dataset}: {_steps(records, faster, slower)}."
    for better, worse in ((DRAWN, PAIRWISE), (PAIRWISE, UNIFORM), (OURS, DRAWN)):
        if better in records and worse in records:
            yield f"{dataset}: {_quality(records, better, worse)}."


def _steps(records: dict[str, Record], faster: str, slower: str) -> str:
    one, other = convergence(records[faster]), convergence(records[slower])
    assert one is not None
    assert other is not None
    holds = "as in the paper" if one.step < other.step else "unlike in the paper"
    return (
        f"{method_name(faster)} converges in {one.step:,} steps and {method_name(slower)} in "
        f"{other.step:,}, {holds}, where {method_name(faster)} is the faster"
    )


def _quality(records: dict[str, Record], better: str, worse: str) -> str:
    one, other = best(records[better]), best(records[worse])
    holds = "as in the paper" if one > other else "unlike in the paper"
    return (
        f"{method_name(better)} reaches nDCG@20 {figure(one)} and {method_name(worse)} "
        f"{figure(other)}, {holds}, where {method_name(better)} is the better"
    )
