"""Table 2: how good the lists of every method are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ratiorec_lab.reproduce import remarks
from ratiorec_lab.reproduce.cells import Cell
from ratiorec_lab.reproduce.exhibits import Exhibit, Row, TableExhibit
from ratiorec_lab.reproduce.findings import Findings
from ratiorec_lab.reproduce.names import METRICS, dataset_name, listed, method_name
from ratiorec_lab.reproduce.plan import Plan
from ratiorec_lab.reproduce.published import EFFECTIVENESS, ELSEWHERE

METHOD = "dregn-cf"
NOT_THE_PAPERS = "The published figure is not the paper's; its settings are not known to us."


@dataclass(frozen=True)
class TableEffectiveness:
    """The paper's five methods, and what else one would try."""

    papers: tuple[str, ...] = ("ngcf", "mult-vae", "enmf", "lightgcn", METHOD)
    more: tuple[str, ...] = (
        *("dregn-cf-fast", "lightgcn-dns", "bpr-mf", "wmf"),
        *("ease", "item-knn", "implicit-als", "popularity"),
    )

    def cells(self, plan: Plan) -> Iterator[Cell]:
        """Every method on every data set, judged on the test part."""
        for dataset in plan.datasets:
            for preset in (*self.papers, *self.more):
                yield from plan.cells(preset, dataset)

    def exhibits(self, findings: Findings) -> Iterator[Exhibit]:
        """One table."""
        datasets = findings.plan.datasets
        figures = [
            _figure(findings, preset, dataset, metric)
            for preset in (*self.papers, *self.more)
            for dataset in datasets
            for metric in METRICS
        ]
        yield TableExhibit(
            id="table-effectiveness",
            title="Effectiveness of all methods",
            caption="Table 2 of the paper: R@20 and nDCG@20 on the test part. The last rows are "
            "methods that the paper does not have.",
            columns=columns(datasets),
            rows=rows(figures),
            remarks=tuple(self._remarks(figures)),
        )

    def _remarks(self, figures: list[remarks.Figure]) -> Iterator[str]:
        ours = [f for f in figures if f.method == method_name(METHOD)]
        yield from remarks.within_or_above(ours)
        yield from remarks.of_table(figures)
        elsewhere = [
            method_name(preset)
            for preset in ELSEWHERE
            if any(f.method == method_name(preset) and f.measured.published for f in figures)
        ]
        if elsewhere:
            yield f"{listed(elsewhere)}: {NOT_THE_PAPERS[0].lower()}{NOT_THE_PAPERS[1:]}"


def columns(datasets: tuple[str, ...]) -> tuple[str, ...]:
    """Two columns for each data set."""
    return tuple(f"{dataset_name(d)} {METRICS[metric]}" for d in datasets for metric in METRICS)


def rows(figures: list[remarks.Figure]) -> tuple[Row, ...]:
    """A row for each method, in the order they come in."""
    return tuple(
        Row(method, tuple(f.measured for f in figures if f.method == method))
        for method in dict.fromkeys(f.method for f in figures)
    )


def _figure(findings: Findings, preset: str, dataset: str, metric: str) -> remarks.Figure:
    known = ELSEWHERE if preset in ELSEWHERE else EFFECTIVENESS
    measured = findings.tested(preset, dataset, metric, known)
    return remarks.Figure(
        method_name(preset), dataset, metric, measured, is_papers=preset not in ELSEWHERE
    )
