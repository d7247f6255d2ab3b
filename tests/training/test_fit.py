from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from ratiorec.data import split as validation
from ratiorec.data.interactions import Interactions
from ratiorec.data.split import LeaveLast, RatioSplit, TimeSplit, split_for_validation
from ratiorec.data.synthetic import Synthetic
from ratiorec.encoders.settings import Factorisation, LightGCN
from ratiorec.errors import CheckpointError, ConfigError, DivergenceError, StoppedError
from ratiorec.kernels import blocks as sparse_rows
from ratiorec.kernels.blocks import deterministic_threads
from ratiorec.losses.bpr import BPR
from ratiorec.scorers import SCORERS, StoredScorer
from ratiorec.scorers.scorer import UserItems
from ratiorec.settings import (
    PairBatches,
    Settings,
    SolverSettings,
    Training,
    TwoStageSettings,
    UserBatches,
)
from ratiorec.solvers.settings import ItemKNN, PopularitySolver
from ratiorec.training import fit as fitting
from ratiorec.training import team as teams
from ratiorec.training.checkpoint import FILE, Checkpoints, FitState
from ratiorec.training.fit import (
    EpochFinished,
    FitOptions,
    FitResult,
    FitSession,
    StepTaken,
)
from ratiorec.training.loop import GradientTraining
from ratiorec.training.team import evaluate_on_device
from support.small_data import interactions

CPU = torch.device("cpu")
DATA = Synthetic(n_users=60, n_items=40, mean_pairs=12)(rng=np.random.default_rng(0)).dataset.train
STEPS_AN_EPOCH = 3
SETTINGS = Settings(
    encoder=LightGCN(4, n_layers=1),
    batches=UserBatches(60 // STEPS_AN_EPOCH),
    training=Training(
        learning_rate=0.1,
        epochs=4,
        validate_every_epochs=1,
        min_steps_between_validations=1,
        patience=2,
        min_relative_gain=0,
    ),
)


def training_with(**changes: float) -> Settings:
    return dataclasses.replace(SETTINGS, training=dataclasses.replace(SETTINGS.training, **changes))


LONG = training_with(epochs=60, patience=3)


def fit(
    options: FitOptions = FitOptions(),  # noqa: B008 - frozen
    *,
    data: Interactions = DATA,
    settings: Settings = SETTINGS,
    seed: int = 0,
    observe: Callable[[Any], None] = lambda event: None,
    stop_requested: Callable[[], bool] = lambda: False,
) -> FitResult:
    return FitSession(
        data,
        settings,
        options,
        seed=seed,
        device=CPU,
        observe=observe,
        stop_requested=stop_requested,
    )()


def bits(scorer: StoredScorer) -> bytes:
    return b"".join(array.tobytes() for array in scorer.arrays().values())


def without_seconds(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{k: v for k, v in record.items() if k != "seconds"} for record in history]


def assert_same(first: FitResult, second: FitResult) -> None:
    """All but the time it took."""
    assert bits(first.scorer) == bits(second.scorer)
    assert without_seconds(first.history) == without_seconds(second.history)
    assert (first.n_steps, first.n_epochs) == (second.n_steps, second.n_epochs)
    assert first.validation == second.validation
    assert first.n_validation_users == second.n_validation_users


def trained_by_hand(data: Interactions, n_steps: int, *, rng: np.random.Generator) -> StoredScorer:
    """The model after so many steps, without anything that `Fit` adds."""
    with deterministic_threads():
        run = GradientTraining.start(data, SETTINGS, rng=rng, device=CPU)
        steps = itertools.chain.from_iterable(run.one_epoch(n_steps) for _ in itertools.count())
        for _ in itertools.islice(steps, n_steps):
            pass
        return run.scorer()


def metrics(ndcg: float) -> dict[str, float]:
    return {"recall@20": 0.0, "ndcg@20": ndcg}


def rngs(seed: int = 0) -> tuple[np.random.Generator, ...]:
    """For the split, the search and the refit."""
    return tuple(map(np.random.default_rng, np.random.SeedSequence(seed).spawn(3)))


class StopAfter:
    """Asks to stop after the n-th step it is asked about."""

    def __init__(self, n_steps: int) -> None:
        self.n_left = n_steps

    def __call__(self) -> bool:
        self.n_left -= 1
        return self.n_left == 0


class Clock:
    """A clock that moves when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def tick(self, event: StepTaken | EpochFinished) -> None:
        """One second for every step."""
        self.now += isinstance(event, StepTaken)


@pytest.fixture(autouse=True)
def _threads_stay() -> Iterator[None]:
    """What a fit sets up for itself it also takes down."""
    before = torch.get_num_threads()
    yield
    assert torch.get_num_threads() == before


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(fitting, "time", SimpleNamespace(monotonic=clock.monotonic))
    return clock


@pytest.fixture(scope="module")
def whole() -> FitResult:
    """The run that nothing interrupts."""
    return fit()


def test_the_stopping_step_is_that_of_the_best_validation() -> None:
    fitted = fit(settings=LONG)
    judged = [record for record in fitted.history if "validation" in record]
    best = max(judged, key=lambda record: record["validation"]["ndcg@20"])
    assert fitted.n_steps == best["step"]
    assert fitted.validation == best["validation"]
    assert fitted.n_epochs == best["epoch"]
    assert best is not judged[-1]


def test_the_search_ends_when_patience_is_lost() -> None:
    search = [r for r in fit(settings=LONG).history if r["phase"] == "search"]
    scores = [record["validation"]["ndcg@20"] for record in search]
    assert len(search) < LONG.training.epochs
    assert len(search) == scores.index(max(scores)) + 1 + LONG.training.patience


def test_a_gain_that_is_too_small_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = iter([0.5, 0.5 * 1.11, 0.5 * 1.11 * 1.09, 0.5])
    monkeypatch.setattr(
        teams, "evaluate_on_device", lambda *_, **__: {"recall@20": 0.0, "ndcg@20": next(scores)}
    )
    fitted = fit(settings=training_with(min_relative_gain=0.1, patience=9))
    assert fitted.n_epochs == 2
    assert fitted.validation == {"recall@20": 0.0, "ndcg@20": 0.5 * 1.11}


def test_of_equal_validations_the_earliest_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(teams, "evaluate_on_device", lambda *_, **__: metrics(0.5))
    fitted = fit()
    assert fitted.n_epochs == 1
    searched = [record for record in fitted.history if record["phase"] == "search"]
    assert len(searched) == 1 + SETTINGS.training.patience


@pytest.mark.parametrize(
    ("validate_every_epochs", "min_steps_between_validations", "epochs"),
    [
        (2, 1, [2, 4, 5]),
        (1, 2 * STEPS_AN_EPOCH, [2, 4, 5]),
        (1, 2 * STEPS_AN_EPOCH + 1, [3, 5]),
        (99, 1, [5]),
    ],
)
def test_validation_happens_every_so_many_epochs_and_at_the_end(
    validate_every_epochs: int, min_steps_between_validations: int, epochs: list[int]
) -> None:
    settings = training_with(
        epochs=5,
        validate_every_epochs=validate_every_epochs,
        min_steps_between_validations=min_steps_between_validations,
        patience=9,
    )
    fitted = fit(settings=settings)
    search = [record for record in fitted.history if record["phase"] == "search"]
    assert [r["epoch"] for r in search if "validation" in r] == epochs
    assert not any("validation" in r for r in fitted.history if r["phase"] == "refit")


def test_the_refit_keeps_epochs_where_all_pairs_make_more_steps() -> None:
    pairs = PairBatches(20)
    settings = dataclasses.replace(LONG, risk=BPR(), batches=pairs)
    fitted = fit(settings=settings)
    search, refit = (
        [record for record in fitted.history if record["phase"] == phase]
        for phase in ("search", "refit")
    )
    judged = [record for record in search if "validation" in record]
    best = max(judged, key=lambda record: record["validation"]["ndcg@20"])
    assert refit[0]["step"] > search[0]["step"]  # steps of an epoch
    assert fitted.n_epochs == best["epoch"] == refit[-1]["epoch"]


def test_the_refit_trains_as_many_steps_on_all_pairs(whole: FitResult) -> None:
    *_, refit_rng = rngs()
    assert bits(whole.scorer) == bits(trained_by_hand(DATA, whole.n_steps, rng=refit_rng))
    refit = [record for record in whole.history if record["phase"] == "refit"]
    assert [record["step"] for record in refit][-1] == whole.n_steps
    assert whole.n_steps == whole.n_epochs * STEPS_AN_EPOCH


def test_without_refit_the_validated_model_stays() -> None:
    split_rng, search_rng, _ = rngs()
    fitted = fit(FitOptions(refit=False))
    split = RatioSplit(0.1)(DATA, rng=split_rng)
    expected = trained_by_hand(split.train, fitted.n_steps, rng=search_rng)
    assert bits(fitted.scorer) == bits(expected)
    assert fitted.validation == evaluate_on_device(
        fitted.scorer, split.train, split.held_out, device=CPU
    )
    assert {record["phase"] for record in fitted.history} == {"search"}


def test_validation_pairs_are_drawn_in_the_way_that_was_asked_for() -> None:
    data = dataclasses.replace(
        DATA, timestamps=np.random.default_rng(1).permutation(DATA.n_pairs), order=None
    )
    expected = {
        None: RatioSplit(0.1)(data, rng=rngs()[0]).held_out,
        "random": RatioSplit(0.1)(data, rng=rngs()[0]).held_out,
        "last": LeaveLast(fraction=0.1)(data).held_out,
        "time": TimeSplit(0.1)(data).judged,
    }
    identities = []
    for by, held_out in expected.items():
        session = FitSession(data, SETTINGS, FitOptions(validation_by=by), seed=0, device=CPU)
        assert session.split is not None
        assert session.split.held_out.sha256 == held_out.sha256
        identities.append(session.identity)
        if by != "last":  # the rest is the same code
            continue
        assert session().validation_by == "last"
    assert identities[0] == identities[1]
    assert identities[0].keys() == {"data", "settings", "seed", "validation", "refit"}
    assert len({str(identity) for identity in identities}) == 3


def test_later_pairs_of_new_users_alone_leave_none_for_validation_and_it_says_so() -> None:
    days = DATA.pair_users.astype(np.int64)
    timed = dataclasses.replace(DATA, timestamps=days)
    with pytest.raises(ConfigError, match="all of users who have no earlier one") as caught:
        split_for_validation(timed, 0.1, np.random.default_rng(0), "time")
    assert caught.value.where == "--validation-by time"


def test_a_user_without_a_pair_before_the_cut_is_not_validated_on() -> None:
    timed = dataclasses.replace(DATA, timestamps=np.arange(DATA.n_pairs))  # one user by another
    split = split_for_validation(timed, 0.5, np.random.default_rng(0), "time")
    assert np.count_nonzero(split.held_out.user_degrees) == 1
    assert (split.train.user_degrees > 0)[split.held_out.user_degrees > 0].all()
    share = 1 - DATA.indptr[30] / DATA.n_pairs  # the cut is where a user ends
    with pytest.raises(ConfigError, match="no pair is left for validation"):
        split_for_validation(timed, share, np.random.default_rng(0), "time")


def test_a_checkpoint_is_of_the_pairs_that_were_held_out(tmp_path: Path) -> None:
    orders = (np.random.default_rng(seed).permutation(DATA.n_pairs) for seed in (1, 2))
    first, other = (dataclasses.replace(DATA, order=order.astype(np.int32)) for order in orders)
    assert first.sha256 == other.sha256
    options = FitOptions(
        validation_by="last", checkpoints=Checkpoints(tmp_path), checkpoint_seconds=0, resume=True
    )
    with pytest.raises(StoppedError):
        fit(options, data=first, stop_requested=lambda: True)
    with pytest.raises(CheckpointError):
        fit(options, data=other)
    assert_same(fit(options, data=first), fit(FitOptions(validation_by="last"), data=first))


def test_an_unknown_way_to_draw_validation_pairs_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"validation_by.*did you mean last"):
        FitOptions(validation_by="lst")


def test_without_refit_the_best_model_is_kept_and_not_the_last() -> None:
    fitted = fit(FitOptions(refit=False), settings=LONG)
    split = RatioSplit(0.1)(DATA, rng=rngs()[0])
    assert fitted.n_steps < fitted.history[-1]["step"]
    assert fitted.validation == evaluate_on_device(
        fitted.scorer, split.train, split.held_out, device=CPU
    )


def test_the_refit_changes_nothing_about_the_search(whole: FitResult) -> None:
    kept = fit(FitOptions(refit=False))
    assert (kept.n_steps, kept.validation) == (whole.n_steps, whole.validation)
    assert bits(kept.scorer) != bits(whole.scorer)


def test_without_validation_exactly_the_configured_epochs_are_trained() -> None:
    fitted = fit(FitOptions(validation=0))
    assert fitted.n_epochs == SETTINGS.training.epochs
    assert fitted.n_steps == SETTINGS.training.epochs * STEPS_AN_EPOCH
    assert fitted.validation is None
    assert fitted.n_validation_users == 0
    assert [(r["phase"], r["epoch"]) for r in fitted.history] == [
        ("train", epoch + 1) for epoch in range(SETTINGS.training.epochs)
    ]
    assert bits(fitted.scorer) == bits(trained_by_hand(DATA, fitted.n_steps, rng=rngs()[2]))


def test_the_risk_of_an_epoch_is_the_mean_over_its_steps() -> None:
    events: list[Any] = []
    fitted = fit(FitOptions(validation=0), observe=events.append)
    risks = [event.risk for event in events if isinstance(event, StepTaken)]
    for record in fitted.history:
        of_epoch = risks[record["step"] - STEPS_AN_EPOCH : record["step"]]
        assert record["risk"] == pytest.approx(sum(of_epoch) / STEPS_AN_EPOCH)


def test_the_observer_is_told_of_every_step_and_epoch(whole: FitResult) -> None:
    events: list[Any] = []
    fit(observe=events.append)
    steps = [event for event in events if isinstance(event, StepTaken)]
    n_search = SETTINGS.training.epochs * STEPS_AN_EPOCH
    searched = [event for event in steps if event.phase == "search"]
    assert [event.step for event in searched] == list(range(1, len(searched) + 1))
    assert {event.last_step for event in searched} == {n_search}
    refitted = [event for event in steps if event.phase == "refit"]
    assert [event.step for event in refitted] == list(range(1, whole.n_steps + 1))
    assert {event.last_step for event in refitted} == {whole.n_steps}
    told = [event for event in events if isinstance(event, EpochFinished)]
    assert without_seconds([event.record for event in told]) == without_seconds(whole.history)
    assert not any(event.resumed for event in told)


def test_the_same_seed_gives_the_same_bits(whole: FitResult) -> None:
    assert_same(fit(), whole)


def test_another_seed_gives_other_bits(whole: FitResult) -> None:
    other = fit(seed=1)
    assert bits(other.scorer) != bits(whole.scorer)
    assert other.validation != whole.validation


def test_the_same_bits_on_any_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparse_rows, "ENTRIES_PER_BLOCK", 101)
    # so many items that torch by itself would cut one tile of scores into three
    population = Synthetic(n_users=300, n_items=900, mean_pairs=40)
    data = population(rng=np.random.default_rng(0)).dataset.train
    settings = dataclasses.replace(SETTINGS, batches=UserBatches(300))
    n_before = torch.get_num_threads()
    try:
        fits = []
        for n_threads in (1, 2, 3):
            torch.set_num_threads(n_threads)
            fits.append(fit(data=data, settings=settings))
            assert torch.get_num_threads() == n_threads
    finally:
        torch.set_num_threads(n_before)
    assert_same(fits[0], fits[1])
    assert_same(fits[0], fits[2])


def test_a_spent_budget_still_gives_a_model() -> None:
    fitted = fit(FitOptions(max_seconds=1e-9))
    assert fitted.n_steps == 1
    assert fitted.validation is not None
    assert bits(fitted.scorer) == bits(trained_by_hand(DATA, 1, rng=rngs()[2]))


def test_a_spent_budget_keeps_the_validated_model_without_refit() -> None:
    fitted = fit(FitOptions(max_seconds=1e-9, refit=False))
    split_rng, search_rng, _ = rngs()
    split = RatioSplit(0.1)(DATA, rng=split_rng)
    assert bits(fitted.scorer) == bits(trained_by_hand(split.train, 1, rng=search_rng))


def test_the_search_leaves_as_much_time_as_the_refit_will_take(clock: Clock) -> None:
    settings = training_with(epochs=99, validate_every_epochs=99)
    fitted = fit(FitOptions(max_seconds=10), settings=settings, observe=clock.tick)
    assert fitted.n_steps == 10 // 2
    assert fitted.seconds == 10


def test_without_refit_the_search_may_take_all_the_time(clock: Clock) -> None:
    settings = training_with(epochs=99, validate_every_epochs=99)
    fitted = fit(FitOptions(max_seconds=10, refit=False), settings=settings, observe=clock.tick)
    assert fitted.n_steps == 10


def test_a_resumed_run_counts_the_time_it_took_before(clock: Clock, tmp_path: Path) -> None:
    options = FitOptions(validation=0, max_seconds=8, checkpoints=Checkpoints(tmp_path))
    with pytest.raises(StoppedError):
        fit(options, observe=clock.tick, stop_requested=StopAfter(5))
    clock.now = 1000.0
    resumed = dataclasses.replace(options, resume=True)
    fitted = fit(resumed, observe=clock.tick)
    assert fitted.n_steps == fitted.seconds == 8


class CountedCheckpoints(Checkpoints):
    """Notes the step of every checkpoint and writes none."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        object.__setattr__(self, "steps", [])

    def write(self, progress: FitState, tensors: dict[str, torch.Tensor]) -> None:
        position = progress.position
        step = position["epoch"] * STEPS_AN_EPOCH + position["step_in_epoch"]
        self.steps.append(step)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("seconds", "steps"),
    [(0, list(range(1, 13))), (5, [5, 10]), (math.inf, [])],
)
def test_a_checkpoint_is_written_every_so_many_seconds(
    clock: Clock, tmp_path: Path, seconds: float, steps: list[int]
) -> None:
    checkpoints = CountedCheckpoints(tmp_path)
    fit(
        FitOptions(validation=0, checkpoints=checkpoints, checkpoint_seconds=seconds),
        observe=clock.tick,
    )
    assert checkpoints.steps == steps  # type: ignore[attr-defined]


def test_a_request_to_stop_saves_and_says_how_to_go_on(tmp_path: Path) -> None:
    options = FitOptions(checkpoints=Checkpoints(tmp_path / "run"), checkpoint_seconds=math.inf)
    with pytest.raises(StoppedError) as caught:
        fit(options, stop_requested=StopAfter(2))
    assert caught.value.where == "search, step 2"
    assert "--resume" in caught.value.wanted
    assert [file.name for file in (tmp_path / "run").iterdir()] == [FILE]


def test_a_request_to_stop_without_checkpoints_stops_all_the_same() -> None:
    with pytest.raises(StoppedError) as caught:
        fit(stop_requested=StopAfter(1))
    assert "--resume" not in caught.value.wanted


def all_steps(options: FitOptions) -> int:
    events: list[Any] = []
    fit(options, observe=events.append)
    return sum(isinstance(event, StepTaken) for event in events)


OPTIONS = {
    "refit": FitOptions(checkpoint_seconds=math.inf),
    "no refit": FitOptions(checkpoint_seconds=math.inf, refit=False),
    "no validation": FitOptions(checkpoint_seconds=math.inf, validation=0),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_a_run_stopped_at_any_step_and_resumed_equals_the_uninterrupted(
    name: str, tmp_path: Path
) -> None:
    plain = OPTIONS[name]
    uninterrupted = fit(plain)
    n_steps = all_steps(plain)
    assert n_steps >= 12
    for n_before in range(1, n_steps + 1):
        options = dataclasses.replace(plain, checkpoints=Checkpoints(tmp_path / str(n_before)))
        with pytest.raises(StoppedError):
            fit(options, stop_requested=StopAfter(n_before))
        assert_same(fit(dataclasses.replace(options, resume=True)), uninterrupted)


@pytest.mark.parametrize("name", OPTIONS)
def test_a_run_stopped_after_every_step_equals_the_uninterrupted(name: str, tmp_path: Path) -> None:
    options = dataclasses.replace(OPTIONS[name], checkpoints=Checkpoints(tmp_path), resume=True)
    n_steps, n_stops = all_steps(OPTIONS[name]), 0
    while n_stops <= n_steps:
        try:
            fitted = fit(options, stop_requested=StopAfter(1))
            break
        except StoppedError:
            n_stops += 1
    assert n_stops == n_steps
    assert_same(fitted, fit(OPTIONS[name]))


def test_patience_counts_on_after_an_interruption(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    falling = itertools.count(-1, -1)
    monkeypatch.setattr(
        teams, "evaluate_on_device", lambda *_, **__: {"recall@20": 0.0, "ndcg@20": next(falling)}
    )
    settings = training_with(epochs=9, patience=3)
    options = FitOptions(checkpoints=Checkpoints(tmp_path))
    with pytest.raises(StoppedError):
        fit(options, settings=settings, stop_requested=StopAfter(3 * STEPS_AN_EPOCH))
    fitted = fit(dataclasses.replace(options, resume=True), settings=settings)
    assert fitted.n_epochs == 1
    searched = [record["epoch"] for record in fitted.history if record["phase"] == "search"]
    assert searched == [1, 2, 3, 4]


def test_a_resumed_run_tells_its_earlier_epochs_again(tmp_path: Path) -> None:
    options = FitOptions(validation=0, checkpoints=Checkpoints(tmp_path))
    with pytest.raises(StoppedError):
        fit(options, stop_requested=StopAfter(2 * STEPS_AN_EPOCH + 1))
    events: list[Any] = []
    fit(dataclasses.replace(options, resume=True), observe=events.append)
    told = [(e.record["epoch"], e.resumed) for e in events if isinstance(e, EpochFinished)]
    assert told == [(1, True), (2, True), (3, False), (4, False)]


def test_resuming_where_there_is_no_checkpoint_starts_anew(
    tmp_path: Path, whole: FitResult
) -> None:
    assert_same(fit(FitOptions(checkpoints=Checkpoints(tmp_path), resume=True)), whole)


def test_without_resume_a_checkpoint_is_not_looked_at(tmp_path: Path, whole: FitResult) -> None:
    (tmp_path / FILE).write_bytes(b"garbage")
    assert_same(fit(FitOptions(checkpoints=Checkpoints(tmp_path))), whole)


OTHER_DATA = DATA.select(np.arange(DATA.n_pairs) > 0)
OTHERS: dict[str, tuple[str, dict[str, Any]]] = {
    "seed": ("seed", {"seed": 1}),
    "settings": ("settings", {"settings": LONG}),
    "data": ("data", {"data": OTHER_DATA}),
    "validation": ("validation", {"options": {"validation": 0.2}}),
    "refit": ("refit", {"options": {"refit": False}}),
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_checkpoint_of_another_run_is_refused_and_kept(name: str, tmp_path: Path) -> None:
    differs, arguments = OTHERS[name]
    options = FitOptions(checkpoints=Checkpoints(tmp_path))
    with pytest.raises(StoppedError):
        fit(options, stop_requested=StopAfter(4))
    before = (tmp_path / FILE).read_bytes()
    changed = dict(arguments)
    resumed = dataclasses.replace(options, resume=True, **changed.pop("options", {}))
    with pytest.raises(CheckpointError) as caught:
        fit(resumed, **changed)
    assert caught.value.what == f"the checkpoint belongs to another run: {differs} differ"
    assert "without --resume training starts anew" in caught.value.wanted
    assert (tmp_path / FILE).read_bytes() == before


def test_a_run_that_goes_non_finite_stops_with_the_step() -> None:
    with pytest.raises(DivergenceError) as caught:
        fit(settings=training_with(learning_rate=1e30))
    assert "step" in caught.value.where
    assert "learning_rate" in caught.value.wanted


def test_a_share_that_leaves_no_pair_for_validation_is_refused() -> None:
    users, items = np.repeat(np.arange(6), 2), np.tile(np.arange(2), 6)
    data = interactions(users, items, n_users=6, n_items=4)
    with pytest.raises(ConfigError) as caught:
        fit(FitOptions(validation=0.1), data=data)
    assert caught.value.where == "--validation"
    assert caught.value.found == "0.1 of users with at most 2 pairs"


def test_so_many_validation_users_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validation, "MOST_VALIDATION_USERS", 7)
    fitted = fit()
    assert fitted.n_validation_users == 7
    assert_same(fit(), fitted)


def test_every_user_with_a_held_out_pair_is_judged(whole: FitResult) -> None:
    split = RatioSplit(0.1)(DATA, rng=rngs()[0])
    assert whole.n_validation_users == (split.held_out.user_degrees > 0).sum() > 7


def test_a_negative_seed_is_refused() -> None:
    with pytest.raises(ConfigError, match="this is no seed"):
        fit(seed=-1)


def test_another_encoder_fits_in_without_change() -> None:
    settings = dataclasses.replace(SETTINGS, encoder=Factorisation(dimension=3))
    fitted = fit(settings=settings)
    assert fitted.scorer.users.shape == (60, 3)
    assert fitted.scorer.items.shape == (40, 3)


def test_time_spent_in_a_first_stage_leaves_no_model_to_choose(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock()
    monkeypatch.setattr(fitting, "time", SimpleNamespace(monotonic=clock.monotonic))
    with pytest.raises(ConfigError, match=r"first\.training\.epochs") as caught:
        fit(
            FitOptions(max_seconds=4),
            settings=TwoStageSettings(SETTINGS, SETTINGS),  # type: ignore[arg-type]
            observe=clock.tick,
        )
    assert caught.value.where == "--max-seconds"


def test_a_second_stage_is_searched_and_refitted_after_the_first() -> None:
    fitted = fit(settings=TwoStageSettings(SETTINGS, SETTINGS))  # type: ignore[arg-type]
    validated = [record["epoch"] for record in fitted.history if "validation" in record]
    assert min(validated) == SETTINGS.training.epochs + 1
    assert fitted.n_steps > SETTINGS.training.epochs * STEPS_AN_EPOCH


@pytest.mark.parametrize(
    ("settings", "options", "why"),
    [
        (SETTINGS, FitOptions(), "last step"),
        (LONG, FitOptions(), "no gain"),
        (SETTINGS, FitOptions(validation=0), None),
    ],
)
def test_what_ended_the_search_is_told(
    settings: Settings, options: FitOptions, why: str | None
) -> None:
    assert fit(options, settings=settings).stopped_by == why


def test_a_search_that_ran_out_of_time_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(fitting, "time", SimpleNamespace(monotonic=clock.monotonic))
    fitted = fit(FitOptions(max_seconds=6), settings=LONG, observe=clock.tick)
    assert fitted.stopped_by == "time budget"


def test_a_solved_model_is_searched_in_one_sweep_and_refitted_on_all_pairs() -> None:
    fitted = fit(settings=SolverSettings(PopularitySolver()))  # type: ignore[arg-type]
    assert [(r["phase"], r["epoch"], r["risk"]) for r in fitted.history] == [
        ("search", 1, None),
        ("refit", 1, None),
    ]
    assert np.array_equal(fitted.scorer.arrays()["counts"], DATA.item_degrees)


@pytest.mark.parametrize("refit", [True, False])
def test_a_model_that_reads_histories_reads_all_pairs_in_the_end(refit: bool) -> None:
    fitted = fit(FitOptions(refit=refit), settings=SolverSettings(ItemKNN()))  # type: ignore[arg-type]
    again = SCORERS[fitted.scorer.kind].from_arrays(fitted.scorer.arrays(), UserItems.of(DATA))
    users = np.arange(DATA.n_users)
    assert again.scores(users).tobytes() == fitted.scorer.scores(users).tobytes()


@pytest.mark.parametrize(("fraction", "n_epochs"), [(0, 4 + 2), (0.25, 4 + 2), (1.0, 4 + 4)])
def test_a_slow_curve_is_given_a_share_of_its_steps_to_rise_again(
    fraction: float, n_epochs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # the best of all is the fourth
    scores = itertools.chain([0.1, 0.2, 0.3, 0.4], itertools.repeat(0.4))
    monkeypatch.setattr(teams, "evaluate_on_device", lambda *_, **__: metrics(next(scores)))
    fitted = fit(settings=training_with(epochs=60, patience=2, extra_patience_fraction=fraction))
    assert sum(record["phase"] == "search" for record in fitted.history) == n_epochs
    assert fitted.n_epochs == 4
