"""What can be reproduced, by name."""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Protocol

from ratiorec.errors import ConfigError
from ratiorec_lab.reproduce.cells import Cell
from ratiorec_lab.reproduce.exhibits import Exhibit
from ratiorec_lab.reproduce.fig_dns import FigDns
from ratiorec_lab.reproduce.fig_efficiency import FigEfficiency
from ratiorec_lab.reproduce.fig_sensitivity import FigSensitivity
from ratiorec_lab.reproduce.fig_static_adaptive import FigStaticAdaptive
from ratiorec_lab.reproduce.findings import Findings
from ratiorec_lab.reproduce.plan import Plan
from ratiorec_lab.reproduce.search import Search
from ratiorec_lab.reproduce.table_ablation import TableAblation
from ratiorec_lab.reproduce.table_datasets import TableDatasets
from ratiorec_lab.reproduce.table_effectiveness import TableEffectiveness

ALL = "all"


class Target(Protocol):
    """A table or a figure: the runs that it needs, and what it makes of them."""

    def cells(self, plan: Plan) -> Iterator[Cell]:
        """The runs, some of which other targets need too."""

    def exhibits(self, findings: Findings) -> Iterator[Exhibit]:
        """What a report shows, from files alone."""


TARGETS: Mapping[str, Target] = MappingProxyType(
    {
        "table-datasets": TableDatasets(),
        "table-effectiveness": TableEffectiveness(),
        "fig-efficiency": FigEfficiency(),
        "table-ablation": TableAblation(),
        "fig-static-adaptive": FigStaticAdaptive(),
        "fig-dns": FigDns(),
        "fig-sensitivity": FigSensitivity(),
        "search": Search(),
    }
)


def named(target: str) -> list[Target]:
    """The targets that a name stands for."""
    if target == ALL:
        return list(TARGETS.values())
    if target not in TARGETS:
        near = difflib.get_close_matches(target, [*TARGETS, ALL], n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ConfigError(
            "unknown target",
            where="TARGET",
            found=repr(target),
            wanted="one of " + ", ".join([*TARGETS, ALL]) + hint,
        )
    return [TARGETS[target]]


def cells_of(
    targets: Sequence[Target], plan: Plan, *, only: Sequence[str] | None = None
) -> list[Cell]:
    """Every cell of the targets once; with `only` those whose names match one of its patterns.

    Points of the whole grid may be named although a selection of it is planned.
    """
    planned = _cells(targets, plan)
    if only is None:
        return planned
    everything = list(dict.fromkeys([*planned, *_cells(targets, replace(plan, whole_grid=True))]))
    chosen: list[Cell] = []
    for pattern in only:
        found = [cell for cell in planned if fnmatch.fnmatchcase(cell.name, pattern)]
        found = found or [cell for cell in everything if cell.name == pattern]
        if not found:
            raise _unknown(pattern, [cell.name for cell in planned])
        chosen += found
    return list(dict.fromkeys(chosen))


def _cells(targets: Sequence[Target], plan: Plan) -> list[Cell]:
    return list(dict.fromkeys(cell for target in targets for cell in target.cells(plan)))


def _unknown(pattern: str, names: Sequence[str]) -> ConfigError:
    known = list(dict.fromkeys(names))
    near = difflib.get_close_matches(pattern, known, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    shown = ", ".join(known[:20]) + (", …" if len(known) > 20 else "")
    return ConfigError(
        "no cell has such a name",
        where="--only",
        found=repr(pattern),
        wanted=f"names or patterns of {shown or 'cells, of which this target has none'}{hint}",
    )
