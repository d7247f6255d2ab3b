"""What stands behind a line of a result table: records of one preset, data set and device."""

from __future__ import annotations

import itertools
import json
import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ratiorec.config import to_table
from ratiorec.presets import preset
from ratiorec_lab.reproduce.cell_files import CellFiles
from ratiorec_lab.reproduce.curves import machine_of
from ratiorec_lab.reproduce.exhibits import Measured
from ratiorec_lab.reproduce.findings import Findings
from ratiorec_lab.reproduce.plan import Plan
from ratiorec_lab.reproduce.protocols import VALIDATED
from ratiorec_lab.reproduce.published import QUALITY, quality
from ratiorec_lab.reproduce.targets import TARGETS, cells_of

Record = dict[str, Any]


class Key(NamedTuple):
    """What lines of a table differ in."""

    dataset: str
    preset: str
    device: str


@dataclass(frozen=True)
class Line:
    """A preset on a data set and a device, with a record for each seed."""

    records: tuple[Record, ...]

    @property
    def key(self) -> Key:
        """Which line it is."""
        return key_of(self.records[0])

    @property
    def is_outdated(self) -> bool:
        """Whether it was trained with a value that its preset has left since."""
        now = to_table(preset(self.key.preset))
        return any(has_other_values(record["settings"], now) for record in self.records)

    def measured(self, metric: str) -> Measured:
        """A test figure beside the published one."""
        values = tuple(record["test"][metric] for record in self.records)
        return Measured(values, quality(QUALITY, self.key.preset, self.key.dataset, metric))

    def mean(self, of: Callable[[Record], float]) -> float:
        """Over the seeds."""
        return statistics.fmean(map(of, self.records))


def key_of(record: Record) -> Key:
    """The line that a record belongs to."""
    return Key(record["dataset"], record["preset"], machine_of(record))


def has_other_values(then: Record, now: Record) -> bool:
    """Whether settings that both have differ; those of only one may just have got a name."""
    return any(
        has_other_values(then[name], now[name])
        if isinstance(then[name], dict) and isinstance(now[name], dict)
        else then[name] != now[name]
        for name in then.keys() & now.keys()
    )


def fits(folder: Path) -> list[Record]:
    """What `ratiorec fit --record` wrote."""
    found = [json.loads(path.read_bytes()) for path in sorted(folder.glob("fit-*.json"))]
    return [record for record in found if record["protocol"] == VALIDATED]


def cells(folder: Path) -> list[Record]:
    """The tables' cells of `ratiorec reproduce`, as far as its report would use them."""
    files = CellFiles(folder / "reproduce")
    paths = (files.folder / "cells" / VALIDATED).glob("*/*.json")
    datasets = sorted({path.parent.name for path in paths})
    if not datasets:
        return []
    plan = Plan(VALIDATED, tuple(datasets), tuple(files.known_seeds(VALIDATED, datasets)))
    tables = [TARGETS["table-effectiveness"], TARGETS["table-ablation"]]
    tested = (cell for cell in cells_of(tables, plan) if not cell.on_validation)
    return Findings(plan, files).records(tested)


def lines(folder: Path) -> list[Line]:
    """Cells where there are any, and other fits where there are none."""
    found = by_key(fits(folder)) | by_key(cells(folder))
    return [found[key] for key in sorted(found)]


def by_key(records: Iterable[Record]) -> dict[Key, Line]:
    """Records that differ in nothing but the seed, together."""
    groups = itertools.groupby(sorted(records, key=key_of), key_of)
    return {key: Line(tuple(seeds)) for key, seeds in groups}
