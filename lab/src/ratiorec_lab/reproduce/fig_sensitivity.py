"""Figures 4 and 5: what λ and D̄ do to validation figures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import MappingProxyType

from ratiorec_lab.reproduce.cells import Cell
from ratiorec_lab.reproduce.exhibits import CurveExhibit, Exhibit, Panel, Series
from ratiorec_lab.reproduce.findings import Findings
from ratiorec_lab.reproduce.names import METRICS, SELECTED_BY, dataset_name, figure
from ratiorec_lab.reproduce.plan import Plan
from ratiorec_lab.reproduce.remarks import beyond, why_not_run

PENALTY, BOUND = "training.penalty", "risk.upper_bound"
LARGE_BOUND = 50  # what the paper's «sufficiently large» is taken to mean
STABLE = 0.01  # relative
LABELS = MappingProxyType({PENALTY: "λ", BOUND: "D̄"})
PENALTIES = tuple(round(0.01 * k, 2) for k in range(1, 10))
BOUNDS = tuple(10.0 * k for k in range(1, 10))

ByValue = dict[float, dict[str, float]]
"""Validation figures by the value of a setting."""
Found = dict[tuple[str, str], ByValue]
"""By setting and data set."""


@dataclass(frozen=True)
class FigSensitivity:
    """λ and D̄ one at a time; a quick run takes three values of each."""

    preset: str = "dregn-cf"
    penalties: tuple[float, ...] = PENALTIES
    bounds: tuple[float, ...] = BOUNDS

    def values(self, plan: Plan, setting: str) -> tuple[float, ...]:
        """The values of a setting, in their order."""
        whole = self.penalties if setting == PENALTY else self.bounds
        return whole[:: max(1, len(whole) // 2)] if plan.is_quick else whole

    def cells(self, plan: Plan) -> Iterator[Cell]:
        """A run for each value, judged on validation pairs alone."""
        for dataset in plan.datasets:
            for setting in LABELS:
                for value in self.values(plan, setting):
                    cell = plan.changed(self.preset, dataset, {setting: value})
                    if cell is not None:
                        yield cell

    def exhibits(self, findings: Findings) -> Iterator[Exhibit]:
        """Two figures in one: a row of panels for each setting."""
        found = {
            (setting, dataset): self._found(findings, setting, dataset)
            for setting in LABELS
            for dataset in findings.plan.datasets
        }
        yield CurveExhibit(
            id="fig-sensitivity",
            title="Sensitivity to λ and D̄",
            caption="Figures 4 and 5 of the paper: the best validation of each run, one setting "
            "changed and the others as they are.",
            panels=tuple(
                _panel(setting, metric, found) for setting in LABELS for metric in METRICS
            ),
            remarks=tuple(self._remarks(findings, found)),
        )

    def _found(self, findings: Findings, setting: str, dataset: str) -> ByValue:
        """Validation figures by the value of the setting."""
        plan = findings.plan
        records = {
            value: findings.record(plan.changed(self.preset, dataset, {setting: value}))
            for value in self.values(plan, setting)
        }
        return {value: record["validation"] for value, record in records.items() if record}

    def _remarks(self, findings: Findings, found: Found) -> Iterator[str]:
        plan = findings.plan
        for (setting, dataset), figures in found.items():
            missing = [v for v in self.values(plan, setting) if v not in figures]
            if missing:
                cells = [plan.changed(self.preset, dataset, {setting: missing[0]})]
                some = ", ".join(f"{value:g}" for value in missing) if figures else "at all values"
                which = f"{LABELS[setting]} {some}"
                yield why_not_run(dataset, [which], findings.why_missing(cells))
            if len(figures) > 1 and not plan.is_quick:
                words = _of_penalty if setting == PENALTY else _of_bound
                yield f"{dataset_name(dataset)}: {words(figures)}."


def _panel(setting: str, metric: str, found: Found) -> Panel:
    series = tuple(
        Series(dataset_name(dataset), tuple((v, figures[v][metric]) for v in sorted(figures)))
        for (changed, dataset), figures in found.items()
        if changed == setting and figures
    )
    name, label = METRICS[metric], LABELS[setting]
    return Panel(f"{name} by {label}", label, f"{name} on validation pairs", series)


def _of_penalty(figures: ByValue) -> str:
    """The paper: a large λ is harmful everywhere, a small one most of all on Gowalla."""
    ndcg = {value: figures[value][SELECTED_BY] for value in sorted(figures)}
    top = max(ndcg, key=lambda value: ndcg[value])
    low, high = min(ndcg), max(ndcg)
    ends = [f"λ {end:g} is {beyond(ndcg[end], ndcg[top])} it" for end in (low, high) if end != top]
    holds = "as" if top < high else "unlike"
    return (
        f"λ {top:g} is best (nDCG@20 {figure(ndcg[top])}); {' and '.join(ends)}, {holds} in the "
        "paper, where a large λ does harm"
    )


def _of_bound(figures: ByValue) -> str:
    """The paper: nothing changes once D̄ is large enough."""
    large = [figures[v][SELECTED_BY] for v in figures if v >= LARGE_BOUND]
    if len(large) < 2:
        return "too few values of D̄ to say whether a large one matters"
    spread = max(large) / min(large) - 1
    holds = "as" if spread <= STABLE else "unlike"
    return (
        f"from D̄ {LARGE_BOUND} on nDCG@20 varies by {100 * spread:.1f} %, {holds} in the paper, "
        "where it is stable"
    )
