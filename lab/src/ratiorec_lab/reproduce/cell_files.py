"""The files of a reproduction: finished cells, failures, checkpoints, what the data hold."""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ratiorec.config import settings_in
from ratiorec.data.interactions import Dataset
from ratiorec.errors import ConfigError
from ratiorec.files import atomic_write, make_folder, write_json
from ratiorec.settings import AnySettings
from ratiorec.training.checkpoint import Checkpoints
from ratiorec_lab.reproduce.cells import Cell
from ratiorec_lab.reproduce.curves import was_cut

Record = dict[str, Any]
"""A result file as `experiment.result_record` makes it, with the cell's name and time budget."""

_SEED = re.compile(r"-seed(\d+)$")  # as `Cell.path` ends


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
        """Where a cell that was stopped goes on."""
        return Checkpoints(self.folder / "checkpoints" / cell.path)

    def record(self, cell: Cell) -> Record | None:
        """What the file of a cell holds, whether or not it is what would be run now."""
        return _read(self.record_path(cell))

    def finished(self, cell: Cell) -> Record | None:
        """The record of a cell as far as files can tell that it is this cell's."""
        return None if self.why_not_used(cell) else self.record(cell)

    def why_not_used(self, cell: Cell) -> str | None:
        """In what the file of a cell, where there is one, is not what would be run now."""
        record = self.record(cell)
        counts = self.statistics(cell.dataset)
        sha256 = None if counts is None else counts["data_sha256"]
        return None if record is None else misfit(record, cell, data_sha256=sha256)

    def write(self, cell: Cell, record: Record) -> None:
        """Keep a finished cell; its checkpoint and an earlier failure are of no more use."""
        path = self.record_path(cell)
        make_folder(path.parent)
        with atomic_write(path) as handle:
            handle.write(_in_lines(record).encode())
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
        """Why a cell could not be run, where it could not."""
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
        """What a data set holds, where it was ever there."""
        return _read(self._statistics_path(dataset))

    def write_statistics(self, dataset: Dataset) -> None:
        """Keep what a data set holds."""
        path = self._statistics_path(dataset.name)
        statistics = statistics_of(dataset)
        if _read(path) != statistics:
            make_folder(path.parent)
            write_json(path, statistics)

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
    """How large a data set is, and the fingerprints of its pairs."""
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
    """In what a record is not that of the cell as it would be run now, or None.

    A run that ended by itself is the same under every budget that allows its time. Without
    `data_sha256` or `max_seconds` these are not looked at.
    """
    found = (
        record.get("cell"),
        record.get("preset"),
        record.get("protocol"),
        record.get("dataset"),
        record.get("seed"),
    )
    if found != (cell.name, cell.preset, cell.protocol, cell.dataset, cell.seed):
        return "the file is another cell's"
    if _settings(record) != cell.settings:
        return "the settings are others"
    if data_sha256 is not None and record.get("data_sha256") != data_sha256:
        return "the data are others"
    if max_seconds is not None and not _fits_budget(record, max_seconds):
        return "the time budget is another"
    return None


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


def _in_lines(record: Record) -> str:
    """Indented JSON, but with a line for each epoch of the curve: there are thousands."""
    return "".join(_pieces(record))


def _pieces(record: Record) -> Iterator[str]:
    yield "{\n"
    for place, (name, value) in enumerate(record.items()):
        comma = "," if place + 1 < len(record) else ""
        yield f"  {_json(name)}: {_curve(value) if name == 'curve' else _indented(value)}{comma}\n"
    yield "}\n"


def _curve(epochs: list[Any]) -> str:
    lines = ",\n".join(f"    {_json(epoch)}" for epoch in epochs)
    return f"[\n{lines}\n  ]" if epochs else "[]"


def _indented(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False).replace("\n", "\n  ")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
