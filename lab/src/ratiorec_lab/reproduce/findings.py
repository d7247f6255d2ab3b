"""What the files hold of a plan: everything that a report may say."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from ratiorec_lab.reproduce.cell_files import CellFiles, Record
from ratiorec_lab.reproduce.cells import Cell
from ratiorec_lab.reproduce.curves import was_cut
from ratiorec_lab.reproduce.exhibits import Measured
from ratiorec_lab.reproduce.names import listed
from ratiorec_lab.reproduce.plan import Plan
from ratiorec_lab.reproduce.published import By, quality

ABSENT = "no verified copy of it was found"
NO_SETTINGS = "the paper prints neither its settings nor its number of steps"


@dataclass(frozen=True)
class Findings:
    """Finished cells of a plan, read from files alone."""

    plan: Plan
    files: CellFiles

    @cached_property
    def _read(self) -> dict[Cell, Record | None]:
        return {}

    def record(self, cell: Cell | None) -> Record | None:
        """The record of a cell, where it is finished."""
        if cell is None:
            return None
        if cell not in self._read:
            self._read[cell] = self.files.finished(cell)
        return self._read[cell]

    def records(self, cells: Iterable[Cell]) -> list[Record]:
        """The records of those cells that are finished."""
        return [record for cell in cells if (record := self.record(cell)) is not None]

    def why_missing(self, cells: Sequence[Cell | None]) -> str:
        """Why there is no record of any of these cells; empty where they are still to be run."""
        known = [cell for cell in cells if cell is not None]
        if not known:
            return NO_SETTINGS
        if self.files.statistics(known[0].dataset) is None:
            return ABSENT
        failures = [self.files.failure(cell) for cell in known]
        stale = [self.files.why_not_used(cell) for cell in known]
        told = [*failures, *(f"its file is not used, since {why}" for why in stale if why)]
        return next((reason for reason in told if reason), "")

    def tested(self, preset: str, dataset: str, metric: str, figures: By | None) -> Measured:
        """A test figure over the seeds, beside the published one, with what must be known of it.

        Nothing is published for the small data of a quick run.
        """
        cells = list(self.plan.cells(preset, dataset))
        records = self.records(cells)
        printed = None if figures is None else quality(figures, preset, dataset, metric)
        if not records:
            return Measured((), printed, self.why_missing(cells))
        values = tuple(record["test"][metric] for record in records)
        return Measured(values, printed, " ".join(_caveats(records, len(cells))))


def _caveats(records: Sequence[Record], n_seeds: int) -> list[str]:
    found = []
    if cut := [str(record["seed"]) for record in records if was_cut(record)]:
        budgets = {f"{record['max_seconds']:g} s" for record in records if was_cut(record)}
        whose = "" if n_seeds == 1 else f" with seed {listed(cut)}"
        found.append(f"Cut by its time budget of {listed(sorted(budgets))}{whose}.")
    if len(records) < n_seeds:
        found.append(f"{len(records)} of {n_seeds} seeds.")
    return found
