"""Figure 2: weights that stay as a first model left them, against weights that follow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ratiorec.settings import TwoStageSettings
from ratiorec_lab.reproduce.cell_files import Record
from ratiorec_lab.reproduce.cells import Cell
from ratiorec_lab.reproduce.exhibits import CurveExhibit, Exhibit, Panel
from ratiorec_lab.reproduce.findings import Findings
from ratiorec_lab.reproduce.names import dataset_name, figure
from ratiorec_lab.reproduce.panels import best, curve_panels, last, missing_lines
from ratiorec_lab.reproduce.plan import Plan
from ratiorec_lab.reproduce.protocols import VALIDATED
from ratiorec_lab.reproduce.remarks import beyond

ADAPTIVE, FIRST = "adaptive", "uniform (as the first model)"
SAME, TENTH = "static (same rate)", "static (a tenth of the rate)"


@dataclass(frozen=True)
class FigStaticAdaptive:
    """The paper draws it on Yelp2018.

    Under `validated` the first model is trained for `first_epochs`, to its end as in the paper,
    and the second goes on for a while after it has stopped to improve, so that the curve can be
    seen.
    """

    first_epochs: int = 60
    patience: int = 20

    def datasets(self, plan: Plan) -> tuple[str, ...]:
        """Yelp2018 where it is planned."""
        return plan.among("yelp2018")

    def named(self, plan: Plan, dataset: str) -> dict[str, Cell | None]:
        """The cells by the names of their lines."""
        shown: dict[str, float] = {}
        if plan.protocol == VALIDATED and not plan.is_quick:
            shown = {
                "first.training.epochs": self.first_epochs,
                "second.training.patience": self.patience,
            }
        static = plan.changed("dregn-cf-static", dataset, shown)
        tenth = None
        if static is not None:
            assert isinstance(static.settings, TwoStageSettings)
            rate = static.settings.second.training.learning_rate / 10
            tenth = plan.changed(
                "dregn-cf-static", dataset, shown | {"second.training.learning_rate": rate}
            )
        return {
            ADAPTIVE: plan.first_curve("dregn-cf", dataset),
            SAME: static,
            TENTH: tenth,
            FIRST: plan.first_curve("dregn-cf-uniform", dataset),
        }

    def cells(self, plan: Plan) -> Iterator[Cell]:
        """Four runs."""
        for dataset in self.datasets(plan):
            yield from (cell for cell in self.named(plan, dataset).values() if cell is not None)

    def exhibits(self, findings: Findings) -> Iterator[Exhibit]:
        """One figure."""
        panels: list[Panel] = []
        remarks: list[str] = []
        for dataset in self.datasets(findings.plan):
            cells = self.named(findings.plan, dataset)
            found = {name: findings.record(cell) for name, cell in cells.items()}
            records = {name: record for name, record in found.items() if record is not None}
            panels += curve_panels(dataset, records, by="epoch") if records else ()
            remarks += missing_lines(findings, dataset, cells)
            if not findings.plan.is_quick:
                remarks += _remarks(dataset_name(dataset), records)
        yield CurveExhibit(
            id="fig-static-adaptive",
            title="Static and adaptive weights",
            caption="Figure 2 of the paper, on validation pairs. UserEpochs of a static run are "
            "counted through both of its models, of which only the second is validated; the first "
            "is of the same kind as the line with uniform weights.",
            panels=tuple(panels),
            remarks=tuple(remarks),
        )


def _remarks(dataset: str, records: dict[str, Record]) -> Iterator[str]:
    for name in (SAME, TENTH):
        if name not in records:
            continue
        static = best(records[name])
        if ADAPTIVE in records:
            adaptive = best(records[ADAPTIVE])
            yield (
                f"{dataset}: the best nDCG@20 of «{name}» is {figure(static)}, "
                f"{beyond(static, adaptive)} that of adaptive weights ({figure(adaptive)})."
            )
        if FIRST in records:
            yield _against_first(dataset, name, static, best(records[FIRST]))
    if SAME in records and TENTH in records:
        ends = last(records[SAME]), last(records[TENTH])
        side = "as" if ends[0] < ends[1] else "unlike"
        yield (
            f"{dataset}: with the same rate static weights end at {figure(ends[0])}, with a tenth "
            f"of it at {figure(ends[1])}, {side} in the paper, where the same rate ends lower."
        )


def _against_first(dataset: str, name: str, static: float, first: float) -> str:
    if static < first:
        return (
            f"{dataset}: «{name}» never reaches the first model ({figure(first)}), as in the paper."
        )
    return f"{dataset}: «{name}» exceeds the first model ({figure(first)}), unlike in the paper."
