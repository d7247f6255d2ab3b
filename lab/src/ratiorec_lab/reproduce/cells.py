"""One training run of a reproduction, under a name that is derived from what it is."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ratiorec.config import to_table
from ratiorec.settings import AnySettings
from ratiorec_lab.reproduce.names import SMALL, dataset_name
from ratiorec_lab.reproduce.protocols import Changes, laid_over, settings_of


@dataclass(frozen=True)
class Cell:
    """A preset on a data set with a seed, under a protocol.

    `changes` are the settings in which it differs from what the protocol makes of the preset.
    A run `on_validation` is trained on nine tenths of each user's pairs and judged on the rest:
    there is no refit, and the test part is never read.
    """

    dataset: str
    preset: str
    protocol: str
    seed: int
    changes: tuple[tuple[str, float], ...] = ()
    on_validation: bool = False
    settings: AnySettings = field(kw_only=True, compare=False, repr=False)

    @property
    def name(self) -> str:
        """`dregn-cf+training.penalty=0.02+validation`."""
        changed = (f"{name}={value:g}" for name, value in self.changes)
        return "+".join([self.preset, *changed, *(["validation"] if self.on_validation else [])])

    @property
    def path(self) -> str:
        """Where its files lie, without an ending."""
        return f"{self.protocol}/{self.dataset}/{self.name}-seed{self.seed}"

    @property
    def title(self) -> str:
        """Who it is, for a line of progress."""
        return f"{dataset_name(self.dataset)}, {self.name}, seed {self.seed}"


def cell_of(
    preset: str,
    dataset: str,
    *,
    protocol: str,
    seed: int,
    changes: Changes | None = None,
    on_validation: bool = False,
) -> Cell | None:
    """The cell, or None where the protocol has no settings for it.

    A change to what is there already is none, so that equal runs have equal names.
    """
    start = settings_of(preset, dataset, protocol=protocol, on_validation=on_validation)
    if start is None:
        return None
    table = to_table(start)
    changed = {n: v for n, v in (changes or {}).items() if setting_in(table, n) != v}
    return Cell(
        dataset,
        preset,
        protocol,
        seed,
        tuple(sorted(changed.items())),
        on_validation,
        settings=laid_over(start, changed),
    )


def command_of(cell: Cell, *, max_seconds: float) -> str:
    """The command that runs this cell alone, wherever data and results lie."""
    where = ["--quick"] if cell.dataset == SMALL else ["--datasets", cell.dataset]
    words = ["ratiorec", "reproduce", "all", "--protocol", cell.protocol, *where]
    words += ["--seeds", str(cell.seed), "--only", cell.name]
    if math.isfinite(max_seconds):
        words += ["--max-seconds", f"{max_seconds:g}"]
    return shlex.join(words)


def setting_in(table: Mapping[str, Any], name: str) -> Any:
    """The value under a dotted name.

    >>> setting_in({"risk": {"upper_bound": 70.0}}, "risk.upper_bound")
    70.0
    """
    found: Any = table
    for word in name.split("."):
        found = found[word]
    return found
