"""Table 3 once more, each row with the λ that suits it: no row is low for want of tuning."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ratiorec.config import to_table
from ratiorec_lab.reproduce.cell_files import Record
from ratiorec_lab.reproduce.cells import Cell, setting_in
from ratiorec_lab.reproduce.exhibits import NOT_RUN, Exhibit, Measured, Row, TableExhibit
from ratiorec_lab.reproduce.findings import Findings
from ratiorec_lab.reproduce.names import SELECTED_BY, dataset_name, figure, listed
from ratiorec_lab.reproduce.plan import Plan
from ratiorec_lab.reproduce.protocols import VALIDATED

PENALTY = "training.penalty"
COLUMNS = ("own λ", "best λ", "best at λ")
# beside the preset's own: a ninth, a third and thrice as much; of `pu` about as far
OTHERS = (0.005, 0.015, 0.135)
OTHERS_OF: Mapping[str, tuple[float, ...]] = MappingProxyType({"pu": (0.001, 0.003, 0.03)})
SETTING_OF: Mapping[str, str] = MappingProxyType({"dregn-cf-static": f"second.{PENALTY}"})


@dataclass(frozen=True)
class AblationPenalties:
    """Rows of the ablation by preset, of which `full` is the whole method."""

    rows: Mapping[str, str]
    full: str

    def cells(self, plan: Plan) -> Iterator[Cell]:
        """Every row with other values of λ, judged on validation pairs alone.

        With the preset's own λ it is in the table already. The protocol `paper` fixes λ.
        """
        if plan.protocol != VALIDATED:
            return
        for dataset in plan.datasets:
            for preset in self.rows:
                yield from _others(plan, preset, dataset)

    def exhibits(self, findings: Findings) -> Iterator[Exhibit]:
        """One table, where λ is free."""
        datasets = findings.plan.datasets
        if findings.plan.protocol != VALIDATED:
            return
        found = {(p, d): _by_penalty(findings, p, d) for p in self.rows for d in datasets}
        yield TableExhibit(
            id="table-ablation-penalties",
            title="Ablation with λ chosen for each row",
            caption="Best nDCG@20 on validation pairs with the preset's own λ and with the best "
            "of four; first seed, no test pair is read.",
            columns=tuple(f"{dataset_name(d)} {what}" for d in datasets for what in COLUMNS),
            rows=tuple(
                Row(row, tuple(e for d in datasets for e in _entries(found[preset, d])))
                for preset, row in self.rows.items()
            ),
            remarks=tuple(self._remarks(found, datasets)),
            is_ranking=False,
        )

    def _remarks(
        self, found: Mapping[tuple[str, str], _Figures], datasets: tuple[str, ...]
    ) -> Iterator[str]:
        for dataset in datasets:
            bar = found[self.full, dataset].with_own
            best = {
                row: found[preset, dataset].with_best
                for preset, row in self.rows.items()
                if preset != self.full
            }
            known = {row: value for row, value in best.items() if value is not None}
            if bar is None or not known:
                continue
            above = [row for row, value in known.items() if value > bar]
            told = f"{listed(above)} above" if above else f"none of {listed(list(known))} above"
            full = f"{self.rows[self.full]} with its own, {figure(bar)}"
            yield f"{dataset_name(dataset)}, best λ of each row: {told} {full}."


@dataclass(frozen=True)
class _Figures:
    """Validation nDCG@20 by λ, as far as it was run, and the preset's own λ."""

    by_penalty: Mapping[float, float]
    own: float | None

    @property
    def best(self) -> float | None:
        return max(self.by_penalty, key=lambda p: self.by_penalty[p], default=None)

    @property
    def with_own(self) -> float | None:
        return None if self.own is None else self.by_penalty.get(self.own)

    @property
    def with_best(self) -> float | None:
        return None if self.best is None else self.by_penalty[self.best]


def _others(plan: Plan, preset: str, dataset: str) -> Iterator[Cell]:
    values = OTHERS_OF.get(preset, OTHERS)
    for value in values[:1] if plan.is_quick else values:
        cell = plan.changed(preset, dataset, {_setting(preset): value})
        if cell is not None:
            yield cell


def _by_penalty(findings: Findings, preset: str, dataset: str) -> _Figures:
    plan = findings.plan
    own = plan.first_curve(preset, dataset)
    cells = [cell for cell in (own, *_others(plan, preset, dataset)) if cell is not None]
    records = {cell: record for cell in cells if (record := findings.record(cell)) is not None}
    figures = {_penalty(preset, cell): _ndcg(record) for cell, record in records.items()}
    return _Figures(figures, None if own is None else _penalty(preset, own))


def _entries(figures: _Figures) -> tuple[Measured | str, ...]:
    at_best = NOT_RUN if figures.best is None else f"{figures.best:g}"
    return _entry(figures.with_own), _entry(figures.with_best), at_best


def _entry(value: float | None) -> Measured | str:
    return NOT_RUN if value is None else Measured((value,))


def _penalty(preset: str, cell: Cell) -> float:
    return float(setting_in(to_table(cell.settings), _setting(preset)))


def _setting(preset: str) -> str:
    return SETTING_OF.get(preset, PENALTY)


def _ndcg(record: Record) -> float:
    return float(record["validation"][SELECTED_BY])
