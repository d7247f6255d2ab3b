"""How long presets train to the step that validation chooses, and what they are worth then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ratiorec.errors import RatiorecError
from ratiorec.settings import Settings, SolverSettings
from ratiorec.training.fit import EpochFinished, Fit, FitOptions, StepTaken
from ratiorec.training.loop import GradientTraining
from ratiorec.training.runs import Run
from ratiorec.training.validation import judge
from ratiorec_lab.bench.case import Case, Measured
from ratiorec_lab.bench.ceilings import Floor
from ratiorec_lab.bench.conditions import Conditions
from ratiorec_lab.bench.contenders import settings_of
from ratiorec_lab.bench.race import Contender, race
from ratiorec_lab.bench.step_floor import step_floor
from ratiorec_lab.bench.timing import Times

USUAL = ("dregn-cf",)
QUICK = ("dre-mf",)
QUICK_EPOCHS = 2
RIVAL = "implicit-als:solver.factors=64:solver.n_sweeps=15"


@dataclass(frozen=True)
class Length:
    """How far a preset is trained, and who says so; None for as far as its settings say."""

    last_step: Callable[[Run], int]
    chosen_by: str
    search_seconds: float | None = None


def measure(conditions: Conditions) -> Measured:
    """Training alone, on all pairs; the search for the step comes before and is told apart."""
    data, names = conditions.dataset.train, conditions.chosen(USUAL, QUICK)
    lengths: dict[str, Length] = {}
    left_out: dict[str, str] = {}
    for name in dict.fromkeys((*names, RIVAL)):
        try:
            lengths[name] = _length(name, conditions)
        except RatiorecError as error:
            left_out[name] = str(error)
    contenders = [
        Contender(
            name,
            settings_of(name),
            data,
            device=conditions.device,
            last_step=length.last_step,
        )
        for name, length in lengths.items()
    ]
    cases: list[Case] = []
    raced = race(
        "fit",
        contenders,
        conditions,
        settle=lambda one: cases.append(_case(one, lengths[one.name], conditions)),
    )
    cases.sort(key=lambda case: list(lengths).index(case.execution))
    return Measured("fit", cases, raced.ceilings, left_out | raced.left_out)


def _length(name: str, conditions: Conditions) -> Length:
    settings = settings_of(name)
    epochs = conditions.epochs or (QUICK_EPOCHS if conditions.effort.is_quick else None)
    if isinstance(settings, SolverSettings):
        return Length(lambda run: run.last_step, "its settings")
    if epochs is not None:
        chosen_by = "--epochs" if conditions.epochs else "--quick"
        return Length(lambda run: min(epochs * run.n_steps, run.last_step), chosen_by)
    return _searched(name, conditions)


def _searched(name: str, conditions: Conditions) -> Length:
    """What a fit would choose on a tenth of the pairs."""

    def observe(event: StepTaken | EpochFinished) -> None:
        if isinstance(event, StepTaken):
            share = max(
                event.step / event.last_step, search.seconds / conditions.effort.max_seconds
            )
            conditions.tell(f"fit: searching for the steps of {name}", share, 1.0)

    search = Fit(
        conditions.dataset.train,
        settings_of(name),
        FitOptions(refit=False, max_seconds=conditions.effort.max_seconds),
        seed=0,
        device=conditions.device,
        observe=observe,
    )
    found = search()
    return Length(
        lambda run: found.n_steps, f"validation, until {found.stopped_by}", round(found.seconds, 3)
    )


def _case(contender: Contender, length: Length, conditions: Conditions) -> Case:
    run, data, test = contender.run, contender.data, conditions.dataset.test
    return Case(
        "fit",
        contender.name,
        contender.device.type,
        {"users": data.n_users, "items": data.n_items, "pairs": data.n_pairs, "steps": run.step},
        Times((contender.seconds,)),
        training_floor(contender),
        is_reference=contender.name == RIVAL,
        is_rival=contender.name == RIVAL,
        figures={
            "epochs": run.step / run.n_steps,
            "chosen_by": length.chosen_by,
            "search_seconds": length.search_seconds,
            "test": test and judge(run.scorer(), data, test, device=contender.device),
        },
    )


def training_floor(contender: Contender) -> Floor | None:
    """That of a step, as often as steps were taken; of a solver it is not known."""
    run, settings = contender.run, contender.settings
    if not isinstance(run, GradientTraining) or not isinstance(settings, Settings):
        return None
    n_parameters = sum(parameter.numel() for parameter in run.encoder.parameters())
    return step_floor(settings, contender.data, n_parameters).times(run.step)
