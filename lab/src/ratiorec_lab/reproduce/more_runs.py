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
    RATE,
    Cell,
    Changes,
    cell_of,
    setting_in,
)
from ratiorec_lab.reproduce.exhibits import Exhibit, Row, TableExhibit
from ratiorec_lab.reproduce.plan import Findings, Plan
from ratiorec_lab.reproduce.published import METRICS, SELECTED_BY, dataset_name
from ratiorec_lab.reproduce.remarks import TableFigure
from ratiorec_lab.reproduce.wording import figure

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
_DRAWN = {"batches.deal": "independent"}
EXACT = Variant("(h) Full, batches of exactly the paper's size", "dregn-cf", _DRAWN)
EXACT_NO_IS = Variant("(c) w/o IS, the same", "dregn-cf-no-is", _DRAWN)
RATES = (0.01, 0.02, 0.05, 0.1)  # of the paper's range, for batches of exactly its size
_EVERYWHERE = (EQUAL_WEIGHTS, FINISHED, CONTINUED, *WITH_ALPHA.values())
_IN_QUICK_RUNS = (EXACT, EXACT_NO_IS, EQUAL_WEIGHTS, *WITH_L2.values())  # those that are short


def variants(plan: Plan) -> tuple[Variant, ...]:
    """All of the protocol; `paper` fixes λ, and the others do not fix the users of a batch."""
    own = (EXACT, EXACT_NO_IS) if plan.protocol == PAPER else tuple(WITH_L2.values())
    known = (*own, *_EVERYWHERE) if plan.protocol == PAPER else (*_EVERYWHERE, *own)
    return tuple(one for one in known if one in _IN_QUICK_RUNS) if plan.is_quick else known


def variant_cells(plan: Plan, variant: Variant, dataset: str) -> list[Cell]:
    """Its runs, one for each seed; none where the protocol does not have it."""
    if variant not in variants(plan):
        return []
    return list(plan.cells(variant.preset, dataset, variant.changes))


def official_lightgcn(plan: Plan, dataset: str) -> list[Cell]:
    """LightGCN by its authors' settings, 1,000 epochs: nothing is chosen, so `paper` has the same.

    Its files are that protocol's, whichever is shown.
    """
    cells = (cell_of("lightgcn", dataset, protocol=PAPER, seed=seed) for seed in plan.seeds)
    return [cell for cell in cells if cell is not None and not plan.is_quick]


@dataclass(frozen=True)
class MoreRuns:
    """A table of the variants, where settings may vary."""

    def cells(self, plan: Plan) -> Iterator[Cell]:
        """Every variant on every data set."""
        for dataset in plan.datasets:
            for variant in variants(plan):
                yield from variant_cells(plan, variant, dataset)
            yield from _rate_cells(plan, dataset)

    def exhibits(self, findings: Findings) -> Iterator[Exhibit]:
        """One table."""
        plan = findings.plan
        shown, listed = findings.datasets, variants(plan)
        figures = [
            TableFigure(
                variant.name,
                dataset,
                metric,
                findings.tested_by(variant_cells(plan, variant, dataset), metric),
            )
            for variant in listed
            for dataset in shown
            for metric in METRICS
        ]
        yield TableExhibit(
            id="more-runs",
            title="Runs behind single claims",
            caption=_caption(plan),
            columns=tuple(f"{dataset_name(d)} {m}" for d in shown for m in METRICS.values()),
            rows=tuple(
                Row(variant.name, tuple(f.measured for f in figures if f.method == variant.name))
                for variant in listed
            ),
            remarks=(
                *remarks.caveats(figures),
                *remarks.not_run(figures),
                *(told for dataset in shown for told in _of_rates(findings, dataset)),
            ),
        )


def _caption(plan: Plan) -> str:
    if plan.protocol == PAPER:
        return _JUDGED_AFTERWARDS.format(more="") + _OF_THE_PAPER
    return _JUDGED_AFTERWARDS.format(more=", small λ")


_JUDGED_AFTERWARDS = (
    "R@20 and nDCG@20 on the test part of rows that the paper speaks of and that its tables do not "
    "have, or that a preset has otherwise: (a) with equal weights, (g) with a first model of "
    f"{CURVE_EPOCHS} epochs, popularity with other exponents{{more}}. They are judged after the "
    "fact and choose nothing."
)
_OF_THE_PAPER = (
    " Where batches have exactly the paper's size, each is drawn anew with 9,500, 12,000 or 6,000 "
    "users, as its Algorithm 1 has it. All others deal every user once an epoch, in batches of "
    "7,465, 10,556 and 5,850."
)


def _rate_cells(plan: Plan, dataset: str) -> Iterator[Cell]:
    """Runs that choose the rate for the paper's batches, on validation pairs alone."""
    if plan.protocol != PAPER or plan.is_quick:
        return
    for rate in RATES:
        cell = plan.changed("dregn-cf", dataset, {**_DRAWN, RATE: rate})
        if cell is not None:
            yield cell


def _of_rates(findings: Findings, dataset: str) -> Iterator[str]:
    """What validation pairs say of the rate .02, which the paper does not print."""
    records = findings.records(_rate_cells(findings.plan, dataset))
    found = {
        float(setting_in(r["settings"], RATE)): float(r["validation"][SELECTED_BY]) for r in records
    }
    if found:
        told = ", ".join(f"{rate:g}: {figure(value)}" for rate, value in found.items())
        yield f"{dataset_name(dataset)}, rate by nDCG@20 on validation pairs: {told}."
    elif findings.plan.protocol == PAPER and not findings.plan.is_quick:
        yield (
            f"{dataset_name(dataset)}: the rate .02 is ours, and no file shows that it was chosen "
            "without the test part; the runs that choose it on validation pairs were not run yet."
        )
