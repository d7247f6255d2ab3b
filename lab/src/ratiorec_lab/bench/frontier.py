"""R@20 against training seconds, of presets and of what a practitioner would try first.

The figures are of the test part, which judges here and chooses nothing: a curve goes on to the end
of its time, however it bends.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ratiorec.settings import SolverSettings
from ratiorec.training.validation import judge
from ratiorec_lab.bench.case import Case, Measured
from ratiorec_lab.bench.conditions import Conditions
from ratiorec_lab.bench.contenders import settings_of
from ratiorec_lab.bench.fit import training_floor
from ratiorec_lab.bench.race import Contender, race
from ratiorec_lab.bench.timing import Times

REFERENCE = "implicit-als:solver.factors=64"
USUAL = (
    *("dregn-cf", "dregn-cf-fast", "dre-mf", "lightgcn"),
    *(REFERENCE, "implicit-als:solver.factors=128", "implicit-als:solver.factors=256"),
    *("item-knn", "ease"),
)
QUICK = ("dre-mf", REFERENCE, "item-knn")
GROWTH = 1.4
"""The time from one judgement to the next: points that stand evenly on a logarithmic axis."""


def measure(conditions: Conditions) -> Measured:
    """A curve for what descends, judged on paused clocks; a point for what is solved."""
    contenders = [
        Contender(
            name,
            settings_of(name),
            conditions.dataset.train,
            device=conditions.device,
            max_seconds=conditions.effort.max_seconds,
        )
        for name in conditions.chosen(USUAL, QUICK)
    ]
    bench = _Bench(conditions)
    raced = race("frontier", contenders, conditions, watch=bench.watch, settle=bench.settle)
    order = [one.name for one in contenders]
    cases = sorted(bench.cases, key=lambda case: order.index(case.execution))
    return Measured("frontier", cases, raced.ceilings, raced.left_out)


@dataclass
class _Bench:
    """Who judges, and what was found."""

    conditions: Conditions
    cases: list[Case] = field(default_factory=list)
    curves: dict[str, list[dict[str, float]]] = field(default_factory=dict)

    def watch(self, contender: Contender) -> None:
        """Judge a model on its way, when it has worked long enough since the last time."""
        if (
            isinstance(contender.settings, SolverSettings)
            or contender.done
            or not contender.run.ready
        ):
            return
        curve = self.curves.setdefault(contender.name, [])
        if not curve or contender.seconds >= GROWTH * curve[-1]["seconds"]:
            curve.append(self._point(contender))

    def settle(self, contender: Contender) -> None:
        """Judge a model at its end."""
        curve = self.curves.setdefault(contender.name, [])
        if contender.run.ready:
            curve.append(self._point(contender))
        data = contender.data
        self.cases.append(
            Case(
                "frontier",
                contender.name,
                contender.device.type,
                {"users": data.n_users, "items": data.n_items, "pairs": data.n_pairs},
                Times((contender.seconds,)),
                training_floor(contender),
                is_reference=contender.name == REFERENCE,
                is_rival=contender.name.startswith("implicit-als"),
                figures={
                    "recall@20": curve[-1]["recall@20"] if curve else None,
                    "ndcg@20": curve[-1]["ndcg@20"] if curve else None,
                    "curve": curve,
                },
            )
        )

    def _point(self, contender: Contender) -> dict[str, float]:
        test = self.conditions.dataset.test
        assert test is not None, "the command holds out a test part where there is none"
        figures = judge(contender.run.scorer(), contender.data, test, device=contender.device)
        rounded = {name: round(value, 5) for name, value in figures.items()}
        return {"seconds": round(contender.seconds, 3), "step": contender.run.step, **rounded}
