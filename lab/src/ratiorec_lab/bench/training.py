"""Targets `fit` and `frontier`: whole trainings in turns, by their seconds and their quality.

`fit` trains each preset to the step that validation chooses. `frontier` draws R@20 against
training seconds; its figures are of the test part, which judges here and chooses nothing: a curve
goes on to the end of its time, however it bends. An automatic choice is a point for each budget.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ratiorec.errors import RatiorecError
from ratiorec.settings import Settings, SolverSettings
from ratiorec.training.fit import (
    EpochFinished,
    FitOptions,
    FitSession,
    StepTaken,
)
from ratiorec.training.loop import GradientTraining
from ratiorec.training.runs import TrainingRun
from ratiorec.training.team import evaluate_on_device
from ratiorec_lab.bench.case import Case, Measured
from ratiorec_lab.bench.clock import Conditions, Floor, Times
from ratiorec_lab.bench.race import Automatic, Contender, budget_of, race, settings_of
from ratiorec_lab.bench.step import n_parameters, step_floor

FITTED, QUICKLY_FITTED = ("dregn-cf",), ("dre-mf",)
QUICK_EPOCHS = 2
RIVAL = "implicit-als:solver.dimension=64:solver.n_sweeps=15"

REFERENCE = "implicit-als:solver.dimension=64"
CURVES = (
    *("auto@5", "auto@30", "dregn-cf", "dregn-cf-fast", "dre-mf", "lightgcn"),
    *(REFERENCE, "implicit-als:solver.dimension=128", "implicit-als:solver.dimension=256"),
    *("item-knn", "ease"),
)
QUICK_CURVES = ("auto@1", "dre-mf", REFERENCE, "item-knn")
GROWTH = 1.4
"""The time from one validation to the next: points that stand evenly on a logarithmic axis."""


def _case(target: str, contender: Contender, reference: str, **more: Any) -> Case:
    data = contender.data
    size = {"users": data.n_users, "items": data.n_items, "pairs": data.n_pairs}
    return Case(
        target,
        contender.name,
        contender.device.type,
        size | more.pop("size", {}),
        Times((contender.seconds,)),
        training_floor(contender),
        is_reference=contender.name == reference,
        **more,
    )


def training_floor(contender: Contender) -> Floor | None:
    """That of a step, as often as steps were taken; of a solver it is not known."""
    settings = contender.settings
    if not isinstance(settings, Settings) or not isinstance(contender.run, GradientTraining):
        return None
    run = contender.run
    return step_floor(settings, contender.data, n_parameters(run)).times(run.step)


# fit


@dataclass(frozen=True)
class Length:
    """How far a preset is trained, and who says so."""

    last_step: Callable[[TrainingRun], int]
    chosen_by: str
    search_seconds: float | None = None


def measure_fit(conditions: Conditions) -> Measured:
    """Training alone, on all pairs; the search for the step comes before and is told apart."""
    lengths: dict[str, Length] = {}
    left_out: dict[str, str] = {}
    for name in dict.fromkeys((*conditions.chosen(FITTED, QUICKLY_FITTED), RIVAL)):
        try:
            lengths[name] = _length(name, conditions)
        except RatiorecError as error:
            left_out[name] = str(error)
    data, device = conditions.dataset.train, conditions.device
    contenders = [
        Contender(name, settings_of(name), data, device=device, last_step=length.last_step)
        for name, length in lengths.items()
    ]
    cases: dict[str, Case] = {}

    def settle(one: Contender) -> None:
        cases[one.name] = _fit_case(one, lengths[one.name], conditions)

    raced = race("fit", contenders, conditions, settle=settle)
    in_order = [cases[name] for name in lengths if name in cases]
    return Measured("fit", in_order, raced.ceilings, left_out | raced.left_out)


def _length(name: str, conditions: Conditions) -> Length:
    epochs = conditions.epochs or (QUICK_EPOCHS if conditions.effort.is_quick else None)
    if isinstance(settings_of(name), SolverSettings):
        return Length(lambda run: run.last_step, "its settings")
    if epochs is not None:
        chosen_by = "--epochs" if conditions.epochs else "--quick"
        return Length(lambda run: min(epochs * run.n_steps, run.last_step), chosen_by)
    return _searched(name, conditions)


def _searched(name: str, conditions: Conditions) -> Length:
    """What a fit would choose on a tenth of the pairs."""
    budget = conditions.effort.max_seconds

    def observe(event: StepTaken | EpochFinished) -> None:
        if isinstance(event, StepTaken):
            share = max(event.step / event.last_step, search.seconds / budget)
            conditions.tell(f"fit: searching for the steps of {name}", share, 1.0)

    search = FitSession(
        conditions.dataset.train,
        settings_of(name),
        FitOptions(refit=False, max_seconds=budget),
        seed=0,
        device=conditions.device,
        observe=observe,
    )
    found = search()
    chosen_by = f"validation, until {found.stopped_by}"
    return Length(lambda run: found.n_steps, chosen_by, round(found.seconds, 3))


def _fit_case(contender: Contender, length: Length, conditions: Conditions) -> Case:
    run, data, test = contender.run, contender.data, conditions.dataset.test
    figures = {
        "epochs": run.step / run.n_steps,
        "chosen_by": length.chosen_by,
        "search_seconds": length.search_seconds,
        "test": test and evaluate_on_device(run.scorer(), data, test, device=contender.device),
    }
    is_rival = contender.name == RIVAL
    steps = {"steps": run.step}
    return _case("fit", contender, RIVAL, is_rival=is_rival, figures=figures, size=steps)


# frontier


def measure_frontier(conditions: Conditions) -> Measured:
    """A curve for what is trained by gradients, judged on paused clocks; a point for a solver."""
    names = conditions.chosen(CURVES, QUICK_CURVES)
    contenders = [_on_the_frontier(name, conditions) for name in names]
    bench = _Frontier(conditions)
    raced = race("frontier", contenders, conditions, watch=bench.watch, settle=bench.settle)
    in_order = [bench.cases[name] for name in names if name in bench.cases]
    return Measured("frontier", in_order, raced.ceilings, raced.left_out)


def _on_the_frontier(name: str, conditions: Conditions) -> Contender:
    data, device = conditions.dataset.train, conditions.device
    budget = budget_of(name)
    if budget is not None:
        return Automatic(name, budget, data, device=device)
    seconds = conditions.effort.max_seconds
    return Contender(name, settings_of(name), data, device=device, max_seconds=seconds)


@dataclass
class _Frontier:
    """Who judges, and what was found."""

    conditions: Conditions
    cases: dict[str, Case] = field(default_factory=dict)
    curves: dict[str, list[dict[str, float]]] = field(default_factory=dict)

    def watch(self, contender: Contender) -> None:
        """Judge a model on its way, when it has worked long enough since the last time."""
        is_solved = isinstance(contender.settings, SolverSettings)
        if is_solved or contender.done or not contender.ready:
            return
        curve = self.curves.setdefault(contender.name, [])
        if not curve or contender.seconds >= GROWTH * curve[-1]["seconds"]:
            curve.append(self._point(contender))

    def settle(self, contender: Contender) -> None:
        """Judge a model at its end."""
        curve = self.curves.setdefault(contender.name, [])
        if contender.ready:
            curve.append(self._point(contender))
        end = curve[-1] if curve else {}
        figures: dict[str, Any] = {name: end.get(name) for name in ("recall@20", "ndcg@20")}
        figures["curve"] = curve
        if isinstance(contender, Automatic) and contender.fitted is not None:
            figures["members"] = contender.fitted.members
        is_rival = contender.name.startswith("implicit-als")
        self.cases[contender.name] = _case(
            "frontier", contender, REFERENCE, is_rival=is_rival, figures=figures
        )

    def _point(self, contender: Contender) -> dict[str, float]:
        test = self.conditions.dataset.test
        assert test is not None, "the command holds out a test part where there is none"
        found = evaluate_on_device(
            contender.scorer(), contender.data, test, device=contender.device
        )
        rounded = {name: round(value, 5) for name, value in found.items()}
        return {"seconds": round(contender.seconds, 3), "step": contender.step, **rounded}
