"""Runs that a claim of the paper needs and none of its tables has, judged on the test part.

Nothing is chosen by them: each stands beside the row that it varies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from ratiorec_lab.reproduce import remarks
from ratiorec_lab.reproduce.cells import (
    CURVE_EPOCHS,
    L2,
    PAPER,
    VALIDATED,
    Cell,
    Changes,
    cell_of,
)
from ratiorec_lab.reproduce.exhibits import Exhibit, Row, TableExhibit
from ratiorec_lab.reproduce.plan import Findings, Plan
from ratiorec_lab.reproduce.published import METRICS, dataset_name
from ratiorec_lab.reproduce.remarks import TableFigure

ALPHA = "risk.weights.exponent"
SMALL_L2 = (0.005, 0.01, 0.02)
ALPHAS = (0.0, 0.25, 0.5, 0.75, 1.0)


class Variant(NamedTuple):
    """A preset with some settings changed, under a name of its own."""

    name: str
    preset: str
    changes: Changes = MappingProxyType({})


_FINISHED_FIRST = {"first.training.epochs": CURVE_EPOCHS}
EQUAL_WEIGHTS = Variant("(a) PU, equal weights", "pu", {"risk.weights": "uniform", L2: 1e-6})
FINISHED = Variant("(g) first model trained to its end", "dregn-cf-static", _FINISHED_FIRST)
CONTINUED = Variant(
    "(g) the same, second started from it",
    "dregn-cf-static",
    {**_FINISHED_FIRST, "second_starts_from_first": "true"},
)
WITH_L2: Mapping[float, Variant] = {
    value: Variant(f"DREGN-CF, λ {value:g}", "dregn-cf", {L2: value}) for value in SMALL_L2
}
WITH_ALPHA: Mapping[float, Variant] = {
    value: Variant(f"(f) Pop-W, α {value:g}", "dregn-cf-popularity", {ALPHA: value})
    for value in ALPHAS
}
VARIANTS = (
    EQUAL_WEIGHTS,
    FINISHED,
    CONTINUED,
    *WITH_ALPHA.values(),
    *WITH_L2.values(),
)


def variant_cells(plan: Plan, variant: Variant, dataset: str) -> list[Cell]:
    """Its runs, one for each seed; the protocol `paper` fixes what these vary."""
    if plan.protocol != VALIDATED:
        return []
    return list(plan.cells(variant.preset, dataset, variant.changes))


def official_lightgcn(plan: Plan, dataset: str) -> list[Cell]:
    """LightGCN by its authors' settings, 1,000 epochs: nothing is chosen, so `paper` has the same.

    Its files are that protocol's, whichever is shown.
    """
    cells = (cell_of("lightgcn", dataset, protocol=PAPER, seed=seed) for seed in plan.seeds)
    return [cell for cell in cells if cell is not None and not plan.is_quick]


def _variants(plan: Plan) -> tuple[Variant, ...]:
    """All of them; a quick run takes those that are short."""
    return (EQUAL_WEIGHTS, *WITH_L2.values()) if plan.is_quick else VARIANTS


@dataclass(frozen=True)
class MoreRuns:
    """A table of the variants, where settings may vary."""

    def cells(self, plan: Plan) -> Iterator[Cell]:
        """Every variant on every data set."""
        for dataset in plan.datasets:
            for variant in _variants(plan):
                yield from variant_cells(plan, variant, dataset)

    def exhibits(self, findings: Findings) -> Iterator[Exhibit]:
        """One table."""
        plan = findings.plan
        if plan.protocol != VALIDATED:
            return
        shown, variants = findings.datasets, _variants(plan)
        figures = [
            TableFigure(
                variant.name,
                dataset,
                metric,
                findings.tested_by(variant_cells(plan, variant, dataset), metric),
            )
            for variant in variants
            for dataset in shown
            for metric in METRICS
        ]
        yield TableExhibit(
            id="more-runs",
            title="Runs behind single claims",
            caption="R@20 and nDCG@20 on the test part of rows that the paper speaks of and that "
            "its tables do not have, or that a preset has otherwise: (a) with equal weights, (g) "
            f"with a first model of {CURVE_EPOCHS} epochs, popularity with other exponents, small "
            "λ. They are judged after the fact and choose nothing.",
            columns=tuple(f"{dataset_name(d)} {m}" for d in shown for m in METRICS.values()),
            rows=tuple(
                Row(variant.name, tuple(f.measured for f in figures if f.method == variant.name))
                for variant in variants
            ),
            remarks=(*remarks.caveats(figures), *remarks.not_run(figures)),
        )
