"""Records: the files of a reproduction, and what the record of a cell tells.

A record is a result file as `experiment.result_record` makes it, with the cell's name and time
budget. Convergence and the time of a step are read from its `curve`: one entry an epoch, with the
step, the seconds so far and, where the epoch was validated, the figures on held-out training pairs.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import re
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ratiorec.config import settings_in
from ratiorec.data.interactions import Dataset
from ratiorec.errors import ConfigError
from ratiorec.files import atomic_write, make_folder, write_json
from ratiorec.settings import AnySettings
from ratiorec.training.checkpoint import Checkpoints
from ratiorec_lab.reproduce.cells import HELD_OUT, VALIDATED, Cell
from ratiorec_lab.reproduce.published import SELECTED_BY

Record = dict[str, Any]

CONVERGED = 0.99  # the share of the best nDCG@20 on validation pairs
_SEED = re.compile(r"-seed(\d+)$")  # as `Cell.path` ends


class Timing(NamedTuple):
    """A way in which `bench step` times all methods alike, and the ending of its files' names."""

    title: str
    ending: str
    execution: str


ON_CPU = Timing("CPU, eager", "", "eager")
ON_GPU = Timing("GPU, eager", "-gpu", "eager")
AS_GRAPH = Timing("GPU, CUDA graph", "-gpu", "CUDA graph")
TIMINGS = (ON_CPU, ON_GPU, AS_GRAPH)


class StepTime(NamedTuple):
    """Seconds of a training step in the rounds of one benchmark; on a CPU those the cores worked.

    The clock on the wall also has what other programs did meanwhile, which favours small steps.
    """

    lower_quartile: float
    median: float
    upper_quartile: float


@dataclass(frozen=True)
class CellFiles:
    """A folder with `cells/`, `failures/`, `checkpoints/` and `datasets/` in it."""

    folder: Path

    def record_path(self, cell: Cell) -> Path:
        """The file of a finished cell."""
        return self.folder / "cells" / f"{cell.path}.json"

    def failure_path(self, cell: Cell) -> Path:
        """The file that says why a cell could not be run."""
        return self.folder / "failures" / f"{cell.path}.json"

    def checkpoints(self, cell: Cell) -> Checkpoints:
        """Checkpoints from which a stopped cell goes on."""
        return Checkpoints(self.folder / "checkpoints" / cell.path)

    def record(self, cell: Cell) -> Record | None:
        """The content of a cell's file, whether or not it is what would be run now."""
        return _read(self.record_path(cell))

    def finished(self, cell: Cell) -> Record | None:
        """The record of a cell as far as files can tell that it is this cell's."""
        return None if self.why_not_used(cell) else self.record(cell)

    def why_not_used(self, cell: Cell) -> str | None:
        """The reason why the file of a cell, where there is one, is not what would be run now."""
        record = self.record(cell)
        counts = self.statistics(cell.dataset)
        sha256 = None if counts is None else counts["data_sha256"]
        return None if record is None else misfit(record, cell, data_sha256=sha256)

    def write(self, cell: Cell, record: Record) -> None:
        """Keep a finished cell; its checkpoint and an earlier failure are of no more use."""
        path = self.record_path(cell)
        make_folder(path.parent)
        with atomic_write(path) as handle:
            handle.write(record_text(record).encode())
        self.failure_path(cell).unlink(missing_ok=True)
        self.drop_checkpoint(cell)

    def drop_checkpoint(self, cell: Cell) -> None:
        """Remove a checkpoint, and the folders that it leaves empty."""
        checkpoints = self.checkpoints(cell)
        checkpoints.remove()
        folder = checkpoints.folder.parent
        with contextlib.suppress(OSError):  # another cell's checkpoint is there
            while folder != self.folder:
                folder.rmdir()
                folder = folder.parent

    def failure(self, cell: Cell) -> str | None:
        """The reason why a cell could not be run, where it could not."""
        found = _read(self.failure_path(cell))
        return None if found is None else str(found["error"])

    def write_failure(self, cell: Cell, failure: Record) -> None:
        """Keep the reason; no older figures stand beside it."""
        path = self.failure_path(cell)
        make_folder(path.parent)
        write_json(path, failure)
        self.record_path(cell).unlink(missing_ok=True)
        self.drop_checkpoint(cell)

    def statistics(self, dataset: str) -> Record | None:
        """Counts of a data set, where it was ever there."""
        return _read(self._statistics_path(dataset))

    def write_statistics(self, dataset: Dataset) -> None:
        """Keep the counts of a data set."""
        path = self._statistics_path(dataset.name)
        counts = statistics_of(dataset)
        if _read(path) != counts:
            make_folder(path.parent)
            write_json(path, counts)

    def compared(self, cell: Cell) -> Record | None:
        """The same run as the study `compare_all` made it, which keeps no curve.

        Its file lies beside this folder. It is the same run if preset, settings, seed, pairs and
        the way of holding out are: a test holds such lines against the cells that are there twice.
        """
        record = _read(self.folder.parent / "presets" / f"{cell.dataset}.json")
        is_plain = cell.protocol == VALIDATED and not (cell.on_validation or cell.on_test_curve)
        if record is None or not is_plain or not self._is_of(record, cell.dataset):
            return None
        known = {"target": "presets", "seed": record["seed"], "curve": []}
        lines = (line | known for line in record["results"] if line["preset"] == cell.preset)
        return next((line for line in lines if _is_same_run(line, cell)), None)

    def timed_steps(self, dataset: str, timing: Timing) -> Record | None:
        """The record of `bench step` on this data, which lies beside this folder."""
        record = _read(self.folder.parent / "steps" / f"{dataset}{timing.ending}.json")
        return record if record and self._is_of(record, dataset) else None

    def _is_of(self, record: Record, dataset: str) -> bool:
        """Whether a result is of the data set as it is known here."""
        counts = self.statistics(dataset)
        known = None if counts is None else (dataset, counts["data_sha256"])
        return (record["dataset"], record["data_sha256"]) == known

    def known_datasets(self) -> set[str]:
        """The data sets that were ever there."""
        return {path.stem for path in (self.folder / "datasets").glob("*.json")}

    def known_seeds(self, protocol: str, datasets: Iterable[str]) -> list[int]:
        """The seeds that were ever run on these data sets."""
        names = (
            path.stem
            for kind in ("cells", "failures")
            for dataset in datasets
            for path in (self.folder / kind / protocol / dataset).glob("*.json")
        )
        return sorted({int(found[1]) for name in names if (found := _SEED.search(name))})

    def _statistics_path(self, dataset: str) -> Path:
        return self.folder / "datasets" / f"{dataset}.json"


def statistics_of(dataset: Dataset) -> Record:
    """The size of a data set, and the fingerprints of its pairs."""
    train, test = dataset.train, dataset.test
    return {
        "dataset": dataset.name,
        "data_sha256": train.sha256,
        "test_sha256": None if test is None else test.sha256,
        "users": train.n_users,
        "items": train.n_items,
        "train_pairs": train.n_pairs,
        "test_pairs": 0 if test is None else test.n_pairs,
    }


def misfit(
    record: Record, cell: Cell, *, data_sha256: str | None, max_seconds: float | None = None
) -> str | None:
    """The reason why a record is not that of the cell as it would be run now, or None.

    A run that ended by itself is the same under every budget that allows its time. Without
    `data_sha256` or `max_seconds` these are not looked at.
    """
    found = tuple(map(record.get, ("cell", "preset", "protocol", "dataset", "seed")))
    if found != (cell.name, cell.preset, cell.protocol, cell.dataset, cell.seed):
        return "the file is another cell's"
    if _settings(record) != cell.settings:
        return "the settings are others"
    if data_sha256 is not None and record.get("data_sha256") != data_sha256:
        return "the data are others"
    if max_seconds is not None and not _fits_budget(record, max_seconds):
        return "the time budget is another"
    return None


def _is_same_run(line: Record, cell: Cell) -> bool:
    ran_alike = (line["seed"], line["validation_by"]) == (cell.seed, HELD_OUT[cell.protocol])
    return bool(line["test"]) and ran_alike and _settings(line) == cell.settings


def _fits_budget(record: Record, max_seconds: float) -> bool:
    budget = record.get("max_seconds")
    if (math.inf if budget is None else budget) == max_seconds:
        return True
    return not was_cut(record) and bool(record["seconds"]["train"] < max_seconds)


def _settings(record: Record) -> AnySettings | None:
    """Settings that were written before a setting existed have its default."""
    try:
        return settings_in(record["settings"])
    except (ConfigError, KeyError, TypeError):
        return None


def _read(path: Path) -> Record | None:
    """An object of JSON; what cannot be read is as good as not there."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def record_text(record: Record) -> str:
    """Indented JSON, but with one line for each epoch of the curve: there are thousands."""
    epochs = ",\n".join(f"    {_json(epoch)}" for epoch in record["curve"])
    curve = f"[\n{epochs}\n  ]" if epochs else "[]"
    whole = json.dumps({**record, "curve": None}, indent=2, ensure_ascii=False, allow_nan=False)
    return whole.replace('\n  "curve": null', f'\n  "curve": {curve}', 1) + "\n"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


# Facts of one record


class Validation(NamedTuple):
    """Figures after an epoch, on validation pairs or, of a test curve, on the test part."""

    epoch: int
    step: int
    metrics: Mapping[str, float]


class Convergence(NamedTuple):
    """The first point with all but a hundredth of a run's best validation nDCG@20."""

    step: int
    best: float
    is_rising: bool  # the best was the last one, and something else than patience ended the run


def validations(record: Mapping[str, Any]) -> list[Validation]:
    """All validations of a run in their order."""
    return [
        Validation(entry["epoch"], entry["step"], found)
        for entry in record["curve"]
        if (found := entry.get("validation") or entry.get("test"))
    ]


def file_of(record: Record, dataset: str) -> str:
    """Where a record lies, seen from the reports."""
    if record["target"] == "presets":
        return f"../presets/{dataset}.json"
    return f"cells/{record['protocol']}/{dataset}/{record['cell']}-seed{record['seed']}.json"


def convergence(record: Mapping[str, Any]) -> Convergence | None:
    """The first validation with 99 % of the run's best nDCG@20, or None without validations."""
    judged = validations(record)
    if not judged:
        return None
    best = max(judged, key=lambda one: one.metrics[SELECTED_BY])
    enough = CONVERGED * best.metrics[SELECTED_BY]
    first = next(one for one in judged if one.metrics[SELECTED_BY] >= enough)
    is_rising = best is judged[-1] and record.get("stopped_by") != "no gain"
    return Convergence(first.step, best.metrics[SELECTED_BY], is_rising)


def seconds_per_step(record: Mapping[str, Any]) -> float | None:
    """The median over epochs in which nothing but training took place, or None without any.

    Those that follow a validation have its time in them, and the first of a phase has the time
    of setting up; both are left out. A run beside others on one device has no time of its own.
    """
    if record.get("shared_device"):
        return None
    clean = [
        (after["seconds"] - before["seconds"]) / (after["step"] - before["step"])
        for before, after in itertools.pairwise(record["curve"])
        if before["phase"] == after["phase"]
        and not {"validation", "test"} & before.keys()
        and after["step"] > before["step"]
    ]
    return statistics.median(clean) if clean else None


def seconds_to_converge(record: Mapping[str, Any]) -> float | None:
    """Steps to convergence by the time of a step: without set-up and validation."""
    found, per_step = convergence(record), seconds_per_step(record)
    return None if found is None or per_step is None else found.step * per_step


def step_time(record: Mapping[str, Any], preset: str, timing: Timing) -> StepTime | None:
    """The time of a step of a preset in a record of `bench step`."""
    clock = "processor_" if timing is ON_CPU else ""
    for case in record["cases"]:
        is_it = (case["name"], case["execution"]) == (preset, timing.execution)
        if is_it and f"{clock}seconds" in case:
            low, high = case[f"{clock}spread"]
            return StepTime(low, case[f"{clock}seconds"], high)
    return None


def whole_fit(record: Mapping[str, Any]) -> float | None:
    """Seconds from the first to the last step: the search, its validations, and the refit."""
    return None if record.get("shared_device") else float(record["seconds"]["train"])


def was_cut(record: Mapping[str, Any]) -> bool:
    """Whether the time budget ended a run that would have gone on."""
    budget = record.get("max_seconds")
    if budget is None:
        return False
    return record.get("stopped_by") == "time budget" or record["seconds"]["train"] >= budget


def machine_of(record: Mapping[str, Any]) -> str:
    """The GPU, or else the processor."""
    machine = record["machine"]
    return machine.get("accelerator") or f"{machine['cores']} cores, {machine['processor']}"
