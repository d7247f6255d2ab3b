"""The plan of a reproduction, and what the files hold of it.

A plan is the protocol, the data sets and the seeds, from which the cells follow; findings are the
records of these cells: everything that a report may say.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from ratiorec.errors import ConfigError, unknown_choice
from ratiorec.settings import SolverSettings
from ratiorec_lab.reproduce.cells import PAPER, PROTOCOLS, VALIDATED, Cell, Changes, cell_of
from ratiorec_lab.reproduce.exhibits import Measured
from ratiorec_lab.reproduce.published import PAPER_DATASETS, SMALL, By, quality
from ratiorec_lab.reproduce.records import (
    CellFiles,
    Record,
    StepTime,
    Timing,
    file_of,
    step_time,
    was_cut,
)
from ratiorec_lab.reproduce.wording import listed

ABSENT = "no verified copy of it was found"
NO_SETTINGS = "the paper prints neither its settings nor its number of steps"


@dataclass(frozen=True)
class Plan:
    """Options of a reproduction; curves, sensitivity and search take the first seed alone.

    `whole_grid` searches all combinations of the paper's ranges and not a selection of them;
    `chosen` are settings that searches have chosen so far, by preset and data set.
    """

    protocol: str = VALIDATED
    datasets: tuple[str, ...] = PAPER_DATASETS
    seeds: tuple[int, ...] = (0,)
    whole_grid: bool = False
    chosen: Mapping[tuple[str, str], Changes] = field(default_factory=dict, hash=False, repr=False)

    def __post_init__(self) -> None:
        if self.protocol not in PROTOCOLS:
            raise unknown_choice("unknown protocol", self.protocol, PROTOCOLS, where="--protocol")
        for option, values in (("--seeds", self.seeds), ("--datasets", self.datasets)):
            if not values or len(set(values)) < len(values):
                raise ConfigError(
                    "nothing is listed, or something twice",
                    where=option,
                    found=", ".join(map(str, values)) or "nothing",
                    wanted="each once, with commas between them",
                )
        if min(self.seeds) < 0:
            raise ConfigError(
                "a seed cannot be negative",
                where="--seeds",
                found=str(min(self.seeds)),
                wanted="0 or more",
            )

    @property
    def is_quick(self) -> bool:
        """Whether this only shows that everything works."""
        return self.datasets == (SMALL,)

    def among(self, *preferred: str) -> tuple[str, ...]:
        """The preferred data sets as far as they are planned; else all that are."""
        return tuple(name for name in self.datasets if name in preferred) or self.datasets

    def cells(self, preset: str, dataset: str, changes: Changes | None = None) -> Iterator[Cell]:
        """The runs of a preset that are judged on the test part, one for each seed."""
        for seed in self.seeds:
            cell = cell_of(preset, dataset, protocol=self.protocol, seed=seed, changes=changes)
            if cell is None:
                return
            yield cell
            if _is_seedless(cell):
                return

    def curves(self, preset: str, dataset: str) -> Iterator[Cell]:
        """The runs of a preset that have validation figures along the way, one for each seed.

        Under `validated` these are the runs of the tables; under `paper`, where nothing is
        validated, they are runs of their own.
        """
        for seed in self.seeds:
            on_validation = self.protocol == PAPER
            cell = cell_of(
                preset, dataset, protocol=self.protocol, seed=seed, on_validation=on_validation
            )
            if cell is None:
                return
            yield cell

    def test_curve(self, preset: str, dataset: str) -> Cell | None:
        """A run with test figures along the way, which choose nothing; the first seed."""
        seed = self.seeds[0]
        if self.protocol == PAPER:
            return None
        return cell_of(preset, dataset, protocol=self.protocol, seed=seed, on_test_curve=True)

    def first_curve(self, preset: str, dataset: str) -> Cell | None:
        """The same for the first seed."""
        return next(self.curves(preset, dataset), None)

    def changed(self, preset: str, dataset: str, changes: Changes) -> Cell | None:
        """A run with some settings changed, judged on validation pairs alone; the first seed."""
        return cell_of(
            preset,
            dataset,
            protocol=self.protocol,
            seed=self.seeds[0],
            changes=changes,
            on_validation=True,
        )


def _is_seedless(cell: Cell) -> bool:
    """Whether no seed can change the test figures: solved in one sweep, with nothing to choose."""
    settings = cell.settings
    return isinstance(settings, SolverSettings) and settings.solver.n_sweeps == 1


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

    def tested_records(self, cells: Iterable[Cell]) -> list[Record]:
        """The same; a cell that is not there is a line of `compare_all`, which has no curve."""
        found = (self.record(cell) or self.files.compared(cell) for cell in cells)
        return [record for record in found if record is not None]

    @cached_property
    def _timed(self) -> dict[tuple[str, str], Record | None]:
        return {}

    def timed_steps(self, dataset: str, timing: Timing) -> Record | None:
        """The measurement of steps on a data set, where there is one."""
        key = dataset, timing.ending
        if key not in self._timed:
            self._timed[key] = self.files.timed_steps(dataset, timing)
        return self._timed[key]

    def step_time(self, preset: str, dataset: str, timing: Timing) -> StepTime | None:
        """The time of a step where the steps of all methods are made alike."""
        record = self.timed_steps(dataset, timing)
        return None if record is None else step_time(record, preset, timing)

    def named_records(self, cells: Mapping[str, Cell | None]) -> dict[str, Record]:
        """The records of those named cells that are finished."""
        found = {name: self.record(cell) for name, cell in cells.items()}
        return {name: record for name, record in found.items() if record is not None}

    def why_missing(self, cells: Sequence[Cell | None]) -> str:
        """The reason why no cell of these has a record; empty where they are still to be run."""
        known = [cell for cell in cells if cell is not None]
        if not known:
            return NO_SETTINGS
        if self.files.statistics(known[0].dataset) is None:
            return ABSENT
        failures = [self.files.failure(cell) for cell in known]
        stale = [self.files.why_not_used(cell) for cell in known]
        told = [*failures, *(f"its file is not used, since {why}" for why in stale if why)]
        return next((reason for reason in told if reason), "")

    def tested(self, preset: str, dataset: str, metric: str, figures: By) -> Measured:
        """A test figure over the seeds, beside the published one, with what must be known of it."""
        cells = list(self.plan.cells(preset, dataset))
        return self.tested_by(cells, metric, quality(figures, preset, dataset, metric))

    def tested_by(
        self, cells: Sequence[Cell], metric: str, printed: float | None = None
    ) -> Measured:
        """The same of given runs, one for each seed."""
        records = self.tested_records(cells)
        if not records:
            return Measured((), printed, self.why_missing(cells))
        values = tuple(record["test"][metric] for record in records)
        files = dict.fromkeys(file_of(record, cells[0].dataset) for record in records)
        return Measured(values, printed, " ".join(_caveats(records, len(cells))), tuple(files))

    @cached_property
    def datasets(self) -> tuple[str, ...]:
        """The planned data sets that were ever there; all of them where none was."""
        planned = self.plan.datasets
        return tuple(d for d in planned if self.files.statistics(d) is not None) or planned

    @property
    def absent(self) -> tuple[str, ...]:
        """The planned data sets that have no place in tables, since nothing could be run."""
        return tuple(d for d in self.plan.datasets if d not in self.datasets)


def _caveats(records: Sequence[Record], n_seeds: int) -> Iterator[str]:
    if cut := [record for record in records if was_cut(record)]:
        budgets = listed(sorted({f"{record['max_seconds']:g} s" for record in cut}))
        seeds = listed([str(record["seed"]) for record in cut])
        whose = "" if n_seeds == 1 else f" with seed {seeds}"
        yield f"Cut by its time budget of {budgets}{whose}."
    if any(record["target"] == "presets" for record in records):
        yield "From results/presets: the same run by the study compare_all, which keeps no curve."
    if len(records) < n_seeds:
        yield "One seed." if len(records) == 1 else f"{len(records)} of {n_seeds} seeds."
