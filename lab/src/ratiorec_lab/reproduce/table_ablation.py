"""Table 3: what each part of the method is good for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from ratiorec_lab.reproduce import remarks
from ratiorec_lab.reproduce.ablation_penalties import AblationPenalties
from ratiorec_lab.reproduce.cells import Cell
from ratiorec_lab.reproduce.exhibits import Exhibit, TableExhibit
from ratiorec_lab.reproduce.findings import Findings
from ratiorec_lab.reproduce.names import METRICS, dataset_name, figure, listed
from ratiorec_lab.reproduce.plan import Plan
from ratiorec_lab.reproduce.published import ABLATION
from ratiorec_lab.reproduce.table_effectiveness import columns, rows

ROWS: Mapping[str, str] = MappingProxyType(
    {
        "pu": "(a) PU",
        "dre": "(b) DRE",
        "dregn-cf-no-is": "(c) w/o IS",
        "dregn-cf-no-nn": "(d) w/o NN",
        "dregn-cf-uniform": "(e) Uni-W",
        "dregn-cf-popularity": "(f) Pop-W",
        "dregn-cf-static": "(g) Static",
        "dregn-cf": "(h) Full",
    }
)
FULL = "dregn-cf"
CLOSE = ("dregn-cf-no-is", "dregn-cf-no-nn", FULL)  # to the full method, so only 1 % tells


@dataclass(frozen=True)
class TableAblation:
    """Rows (a) to (h), by preset."""

    rows: Mapping[str, str] = field(default_factory=lambda: ROWS)

    def cells(self, plan: Plan) -> Iterator[Cell]:
        """Every row on every data set, judged on the test part; then with other λ."""
        for dataset in plan.datasets:
            for preset in self.rows:
                yield from plan.cells(preset, dataset)
        yield from AblationPenalties(self.rows, FULL).cells(plan)

    def exhibits(self, findings: Findings) -> Iterator[Exhibit]:
        """The paper's table, and what becomes of it where λ is chosen for each row."""
        datasets = findings.plan.datasets
        figures = [
            remarks.Figure(row, dataset, metric, findings.tested(preset, dataset, metric, ABLATION))
            for preset, row in self.rows.items()
            for dataset in datasets
            for metric in METRICS
        ]
        yield TableExhibit(
            id="table-ablation",
            title="Ablation",
            caption="Table 3 of the paper: (a) and (b) plain losses without ranking weights, where "
            "in (a), unlike in the paper, a positive counts far more than an unlabelled pair, (c) "
            "without the sampling correction, (d) without the non-negative correction, (e) uniform "
            "weights, (f) weights by popularity, (g) weights of a first model that stay as they "
            "are, (h) everything.",
            columns=columns(datasets),
            rows=rows(figures),
            remarks=tuple(self._remarks(figures)),
        )
        yield from AblationPenalties(self.rows, FULL).exhibits(findings)

    def _remarks(self, figures: list[remarks.Figure]) -> Iterator[str]:
        for preset in CLOSE:
            own = [f for f in figures if f.method == self.rows[preset]]
            yield from remarks.within_or_above(own)
        far = [row for preset, row in self.rows.items() if preset not in CLOSE]
        for dataset in dict.fromkeys(f.dataset for f in figures):
            for metric in METRICS:
                here = {f.method: f for f in figures if (f.dataset, f.metric) == (dataset, metric)}
                yield from self._relative_to_full(here, far)
        yield from remarks.of_table(figures)

    def _relative_to_full(self, here: dict[str, remarks.Figure], far: list[str]) -> Iterator[str]:
        """Whether the rows that the paper has far below the full method are below it."""
        full = here[self.rows[FULL]]
        if full.measured.mean is None or full.measured.published is None:
            return
        known = {row: here[row].measured.mean for row in far}
        above = [
            row for row, mean in known.items() if mean is not None and mean >= full.measured.mean
        ]
        below = [row for row, mean in known.items() if mean is not None and row not in above]
        place = f"{dataset_name(full.dataset)}, {METRICS[full.metric]}"
        if below:
            lower = f"{listed(below)} below (h) {figure(full.measured.mean)}, as in the paper"
            yield f"{place}: {lower}."
        if above:
            yield f"{place}: {listed(above)} not below (h), unlike in the paper."
