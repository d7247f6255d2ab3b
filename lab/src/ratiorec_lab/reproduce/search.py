"""The paper's search for λ, D̄ and the learning rate, on validation pairs alone."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ratiorec_lab.reproduce.cell_files import Record
from ratiorec_lab.reproduce.cells import Cell, setting_in
from ratiorec_lab.reproduce.exhibits import Exhibit, Measured, Row, TableExhibit
from ratiorec_lab.reproduce.fig_sensitivity import BOUND, BOUNDS, PENALTIES, PENALTY
from ratiorec_lab.reproduce.findings import Findings
from ratiorec_lab.reproduce.names import METRICS, SELECTED_BY, dataset_name, figure
from ratiorec_lab.reproduce.plan import Plan
from ratiorec_lab.reproduce.remarks import why_not_run

RATE = "training.learning_rate"
MOST_ROWS = 30


class Grid(NamedTuple):
    """Values that are combined in every way."""

    penalties: tuple[float, ...]
    bounds: tuple[float, ...]
    rates: tuple[float, ...]

    def points(self) -> Iterator[dict[str, float]]:
        """Every combination as settings."""
        for values in itertools.product(*self):
            yield dict(zip((PENALTY, BOUND, RATE), values, strict=True))


WHOLE = Grid(PENALTIES, BOUNDS, tuple(round(0.01 * k, 2) for k in range(1, 11)))
SELECTION = Grid((0.02, 0.04, 0.06, 0.08), (30.0, 70.0), (0.01, 0.02))
QUICK = Grid((0.01, 0.05), (30.0, 70.0), (0.01, 0.05))


@dataclass(frozen=True)
class Search:
    """A grid inside the paper's ranges; the best is chosen by validation nDCG@20."""

    preset: str = "dregn-cf"

    def grid(self, plan: Plan) -> Grid:
        """A small one for a quick run, all of the paper's where asked for, else a selection."""
        if plan.is_quick:
            return QUICK
        return WHOLE if plan.whole_grid else SELECTION

    def cells(self, plan: Plan) -> Iterator[Cell]:
        """A run for each point, judged on validation pairs alone."""
        for dataset in plan.datasets:
            for point in self.grid(plan).points():
                cell = plan.changed(self.preset, dataset, point)
                if cell is not None:
                    yield cell

    def exhibits(self, findings: Findings) -> Iterator[Exhibit]:
        """A table for each data set, the best first."""
        for dataset in findings.plan.datasets:
            cells = [
                cell
                for point in self.grid(findings.plan).points()
                if (cell := findings.plan.changed(self.preset, dataset, point)) is not None
            ]
            order = _ranked(findings.records(cells))
            yield TableExhibit(
                id=f"search-{dataset}",
                title=f"Search for λ, D̄ and the rate on {dataset_name(dataset)}",
                caption="Provenance on nine tenths of each user's pairs and judged on the rest; no "
                f"test pair is read. The best {MOST_ROWS} at most are listed.",
                columns=tuple(f"{label} on validation pairs" for label in METRICS.values()),
                rows=tuple(_row(record) for record in order[:MOST_ROWS]),
                remarks=tuple(_remarks(findings, dataset, cells, order)),
            )

    def chosen(self, findings: Findings, dataset: str) -> str | None:
        """The best settings as TOML for `fit --config`, or None where nothing was run."""
        cells = (
            findings.plan.changed(self.preset, dataset, point)
            for point in self.grid(findings.plan).points()
        )
        order = _ranked(findings.records(cell for cell in cells if cell is not None))
        if not order:
            return None
        settings = order[0]["settings"]
        return (
            f"# the best of {len(order)} settings by nDCG@20 on validation pairs of {dataset}\n"
            f"[risk]\nupper_bound = {setting_in(settings, BOUND)}\n\n"
            f"[training]\nlearning_rate = {setting_in(settings, RATE)}\n"
            f"penalty = {setting_in(settings, PENALTY)}\n"
        )


def _ranked(records: list[Record]) -> list[Record]:
    return sorted(records, key=lambda record: -record["validation"][SELECTED_BY])


def _row(record: Record) -> Row:
    values = (Measured((record["validation"][metric],)) for metric in METRICS)
    return Row(_point(record), tuple(values))


def _point(record: Record) -> str:
    settings = record["settings"]
    penalty, bound, rate = (setting_in(settings, name) for name in (PENALTY, BOUND, RATE))
    return f"λ {penalty:g}, D̄ {bound:g}, rate {rate:g}"


def _remarks(
    findings: Findings, dataset: str, cells: list[Cell], order: list[Record]
) -> Iterator[str]:
    name = dataset_name(dataset)
    if order:
        yield (
            f"{name}: {_point(order[0])} is chosen, with a validation nDCG@20 of "
            f"{figure(order[0]['validation'][SELECTED_BY])}."
        )
    missing = [cell for cell in cells if findings.record(cell) is None]
    if missing or not cells:
        points = f"{len(missing)} of {len(cells)} points"
        yield why_not_run(dataset, [points] if cells else [], findings.why_missing(missing))
