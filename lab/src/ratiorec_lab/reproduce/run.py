"""Runs of the cells that are missing, one after the other; finished ones are kept.

A cell that cannot run here does not cost the others: the reason is written in place of figures.
"""

from __future__ import annotations

import math
import statistics
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch

from ratiorec.config import to_table
from ratiorec.data.interactions import Dataset
from ratiorec.data.split import Split
from ratiorec.errors import CheckpointError, DataError, RatiorecError, StoppedError, StorageError
from ratiorec.machine import commit, describe_machine, load_torch, release_memory, versions
from ratiorec.model.artifact import Artifact
from ratiorec.training.experiment import find_device, fit, result_record
from ratiorec.training.fit import EpochFinished, FitOptions, StepTaken
from ratiorec_lab.reproduce.cells import HELD_OUT, Cell, command_of
from ratiorec_lab.reproduce.records import CellFiles, Record, misfit

VALIDATION_SHARE = 0.1  # the paper's 9:1


@dataclass(frozen=True)
class Failure:
    """A cell, or a whole data set, that could not be run."""

    where: str
    reason: str
    is_bug: bool = False

    @classmethod
    def by(cls, error: Exception, where: str) -> Failure:
        """The failure that an error caused."""
        is_ours = isinstance(error, RatiorecError)
        text = " ".join((str(error) if is_ours else f"{type(error).__name__}: {error}").split())
        # torch tells by a RuntimeError that memory has run out
        no_memory = isinstance(error, RuntimeError) and "memory" in str(error).lower()
        is_foreseen = is_ours or no_memory or isinstance(error, MemoryError)
        return cls(where, text.removesuffix(":"), is_bug=not is_foreseen)


@dataclass
class RunOutcome:
    """Cells that were run, cells that were finished before, and what failed."""

    run: list[Cell] = field(default_factory=list)
    kept: list[Cell] = field(default_factory=list)
    failed: list[Failure] = field(default_factory=list)


class Watcher(Protocol):
    """Observer of a reproduction."""

    def begin(self, cell: Cell, *, place: int, n_cells: int, seconds_left: float | None) -> None:
        """A cell starts; `place` counts from 1."""

    def __call__(self, event: StepTaken | EpochFinished) -> None:
        """Its training goes on."""

    def end(self, cell: Cell, record: Record | None) -> None:
        """It is finished, or could not run."""

    def say(self, words: str) -> None:
        """Anything else."""


@dataclass(frozen=True)
class Runner:
    """Runs cells under the same conditions; `max_seconds` is the budget of each.

    Where other programs use the device meanwhile, it `shares_device`, and records say so.
    """

    files: CellFiles
    load: Callable[[str], Dataset]
    watcher: Watcher
    device: str = "auto"
    max_seconds: float = math.inf
    checkpoint_seconds: float = 30.0
    shares_device: bool = False
    stop_requested: Callable[[], bool] = lambda: False

    def __call__(self, cells: Sequence[Cell], datasets: Sequence[str]) -> RunOutcome:
        """Run what is missing on these data sets, and count what each of them holds.

        Raises:
            StoppedError: It was asked to stop; the same call goes on from there.
            StorageError: A file could not be written.
        """
        planned = [cell for cell in cells if cell.dataset in datasets]
        work = _Work(self, planned, torch.device(str(find_device(self.device))), commit())
        for name in datasets:
            own = [cell for cell in planned if cell.dataset == name]
            if own or self.files.statistics(name) is None:
                work.settle_all(own, name)
        return work.outcome


@dataclass
class _Work:
    """One call of a runner."""

    runner: Runner
    cells: list[Cell]
    device: torch.device
    commit: str | None
    outcome: RunOutcome = field(default_factory=RunOutcome)
    spent: dict[Cell, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.left = list(self.cells)
        for cell in self.cells:
            record = self.runner.files.finished(cell)
            if record is not None and record["machine"]["device"].startswith(self.device.type):
                self.spent[cell] = record["seconds"]["total"]

    def settle_all(self, cells: Sequence[Cell], name: str) -> None:
        """Settle the cells of one data set, which is loaded once."""
        try:
            dataset = self.runner.load(name)
        except DataError as error:
            self.runner.watcher.say(f"{name} cannot be used: {error}")
            self.outcome.failed.append(Failure.by(error, name))
            self.left = [cell for cell in self.left if cell not in cells]
            return
        self.runner.files.write_statistics(dataset)
        for cell in cells:
            if self._is_kept(cell, dataset):
                self.outcome.kept.append(cell)
            else:
                self._attempt(cell, dataset)
            self.left.remove(cell)

    def _is_kept(self, cell: Cell, dataset: Dataset) -> bool:
        record = self.runner.files.record(cell)
        if record is None:
            return False
        why = misfit(
            record, cell, data_sha256=dataset.train.sha256, max_seconds=self.runner.max_seconds
        )
        if why is not None:
            self.runner.watcher.say(f"{cell.title}: run again, since {why}")
            self.spent.pop(cell, None)
        return why is None

    def _attempt(self, cell: Cell, dataset: Dataset) -> None:
        if self.runner.stop_requested():
            raise _stopped(cell)
        watcher = self.runner.watcher
        missing = [one for one in self.left if one not in self.spent]
        watcher.begin(
            cell,
            place=len(self.cells) - len(self.left) + 1,
            n_cells=len(self.cells),
            seconds_left=seconds_left(missing, self.spent, max_seconds=self.runner.max_seconds),
        )
        try:
            record = self._train(cell, dataset)
        except StoppedError:
            raise _stopped(cell) from None
        except StorageError:  # no later cell could be written either
            raise
        except Exception as error:
            self._fail(cell, dataset, error)
        else:
            self.runner.files.write(cell, record)
            self.spent[cell] = record["seconds"]["total"]
            self.outcome.run.append(cell)
            watcher.end(cell, record)

    def _train(self, cell: Cell, dataset: Dataset) -> Record:
        runner = self.runner
        release_memory(str(self.device))
        load_torch(str(self.device))
        try:
            model = self._fit(cell, dataset)
        except CheckpointError as error:
            runner.watcher.say(f"{cell.title}: begun anew, since {error.what}")
            runner.files.drop_checkpoint(cell)
            model = self._fit(cell, dataset)
        record = result_record(
            model,
            target="reproduce",
            protocol=cell.protocol,
            command=command_of(cell, max_seconds=runner.max_seconds),
            commit=self.commit,
        )
        budget = runner.max_seconds if math.isfinite(runner.max_seconds) else None
        if cell.on_test_curve:
            record = _curve_alone(record)
        told: Record = {"cell": cell.name, "max_seconds": budget}
        if runner.shares_device:
            told["shared_device"] = True
        return told | record

    def _fit(self, cell: Cell, dataset: Dataset) -> Artifact:
        runner = self.runner
        chooses = cell.protocol in HELD_OUT or cell.on_validation
        options = FitOptions(
            validation=VALIDATION_SHARE if chooses else 0.0,
            validation_by=HELD_OUT.get(cell.protocol),
            refit=not (cell.on_validation or cell.on_test_curve),
            max_seconds=runner.max_seconds,
            checkpoints=runner.files.checkpoints(cell),
            checkpoint_seconds=runner.checkpoint_seconds,
            resume=True,
        )
        return fit(
            Dataset(dataset.name, dataset.train) if cell.on_validation else dataset,
            preset=cell.preset,
            settings=cell.settings,
            seed=cell.seed,
            device=runner.device,
            options=options,
            observe=runner.watcher,
            stop_requested=runner.stop_requested,
            split=_test_as_held_out(dataset) if cell.on_test_curve else None,
        )

    def _fail(self, cell: Cell, dataset: Dataset, error: Exception) -> None:
        watcher = self.runner.watcher
        failure = Failure.by(error, cell.path)
        if failure.is_bug:
            watcher.say("".join(traceback.format_exception(error)))
        self.runner.files.write_failure(
            cell,
            {
                "cell": cell.name,
                "target": "reproduce",
                "dataset": cell.dataset,
                "data_sha256": dataset.train.sha256,
                "preset": cell.preset,
                "settings": to_table(cell.settings),
                "protocol": cell.protocol,
                "seed": cell.seed,
                "error": failure.reason,
                "is_bug": failure.is_bug,
                "machine": describe_machine(str(self.device)),
                "versions": versions(),
                "commit": self.commit,
                "command": command_of(cell, max_seconds=self.runner.max_seconds),
            },
        )
        self.outcome.failed.append(failure)
        watcher.say(f"{cell.title}: not run: {failure.reason}")
        watcher.end(cell, None)


def _test_as_held_out(dataset: Dataset) -> Split:
    """All training pairs to train on, and the test part to draw a curve by."""
    assert dataset.test is not None
    return Split(dataset.train, dataset.test, n_users_kept_whole=0)


def _curve_alone(record: Record) -> Record:
    """The record without its best figures, which the test part would have chosen."""
    renamed = [
        {"test" if name == "validation" else name: value for name, value in entry.items()}
        for entry in record["curve"]
    ]
    return {**record, "validation": None, "test": None, "curve": renamed}


def _stopped(cell: Cell) -> StoppedError:
    return StoppedError(
        "the reproduction was stopped",
        where=cell.title,
        found="a request to stop",
        wanted="the same command, which goes on from here",
    )


def seconds_left(
    missing: Iterable[Cell], spent: Mapping[Cell, float], *, max_seconds: float
) -> float | None:
    """The sum of what alike cells took, or None where nothing is finished.

    Alike are cells of the same preset on the same data, else of the same preset, else on the
    same data, else all; no cell takes longer than its budget.
    """
    if not spent:
        return None
    return sum(min(_expected(cell, spent), max_seconds) for cell in missing)


def _expected(cell: Cell, spent: Mapping[Cell, float]) -> float:
    ways: Sequence[tuple[str, ...]] = (("preset", "dataset"), ("preset",), ("dataset",), ())
    for way in ways:
        alike = [
            seconds
            for other, seconds in spent.items()
            if all(getattr(other, name) == getattr(cell, name) for name in way)
        ]
        if alike:
            return statistics.median(alike)
    raise AssertionError("all cells are alike in nothing")
