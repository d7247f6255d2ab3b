from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np
import pytest
import torch
from optuna.distributions import CategoricalDistribution

from ratiorec.config import kinds_of, named_settings, resolve, to_table
from ratiorec.data.interactions import Interactions
from ratiorec.data.synthetic import Synthetic
from ratiorec.errors import CheckpointError, ConfigError, MemoryBudgetError, StorageError
from ratiorec.presets import PRESETS
from ratiorec.settings import ModelSettings, Settings, SolverSettings
from ratiorec.solvers.settings import WMF
from ratiorec.training import fit as fitting
from ratiorec.training import tune
from ratiorec.training.fit import EpochFinished, FitOptions, FitSession, StepTaken
from ratiorec.training.search_space import (
    RANGES,
    difference,
    fixed_by,
    nested,
    search_space,
    to_toml,
)
from ratiorec.training.tune import Trial, TuneSession, Tuning
from support.quick_presets import QUICK, failing

CPU = torch.device("cpu")
KNN: Mapping[str, ModelSettings] = {"item-knn": PRESETS["item-knn"]}
WMF_SMALL = SolverSettings(WMF(dimension=4, n_sweeps=6))


@pytest.fixture(scope="module")
def data() -> Interactions:
    pairs = Synthetic(n_users=60, n_items=40, mean_pairs=12)(rng=np.random.default_rng(0))
    return pairs.dataset.train


@pytest.fixture(autouse=True)
def no_garbage(monkeypatch: pytest.MonkeyPatch) -> None:
    # to look for garbage takes longer than such a fit
    monkeypatch.setattr(tune, "release_memory", lambda device: True)


@pytest.fixture
def search(data: Interactions, tmp_path: Path) -> Callable[..., Tuning]:
    """A search in the folder of the test; the same one again goes on."""

    def run(starts: Mapping[str, ModelSettings] = KNN, **more: Any) -> Tuning:
        given: dict[str, Any] = {"options": FitOptions(), "seed": 0, "device": CPU}
        given |= {"data": data, "study": tmp_path / "a.study.db", "starts": starts} | more
        return TuneSession(**given)()

    return run


def untimed(trials: list[Trial]) -> list[Trial]:
    return [replace(trial, seconds=0.0) for trial in trials]


def paths_of(cls: type, prefix: str = "") -> Iterator[str]:
    """Every setting that a part may have, whatever kinds are chosen inside it."""
    hints = get_type_hints(cls)
    for one in dataclasses.fields(cls):
        hint = hints[one.name]
        yield prefix + one.name
        inner = list(kinds_of(hint).values()) or [hint]
        for part in inner if get_origin(hint) is not tuple else get_args(hint)[:1]:
            if dataclasses.is_dataclass(part):
                yield from paths_of(part, f"{prefix}{one.name}.")  # type: ignore[arg-type]


def test_every_range_is_of_a_setting_that_exists() -> None:
    assert set(RANGES) <= {*paths_of(Settings), *paths_of(SolverSettings)}


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("on_gpu", [False, True])
def test_ranges_hold_the_presets_own_values_and_their_ends_are_valid(
    name: str, on_gpu: bool
) -> None:
    start, own = PRESETS[name], tune.flat(to_table(PRESETS[name]))
    for path, drawn in search_space(start, on_gpu=on_gpu).items():
        choices = isinstance(drawn, CategoricalDistribution)
        ends = drawn.choices if choices else (drawn.low, drawn.high)  # type: ignore[attr-defined]
        assert own[path] in ends if choices else ends[0] <= own[path] <= ends[1]
        for end in ends:
            resolve(start, nested({path: end}))


def test_what_is_off_or_fixed_or_without_effect_is_not_searched() -> None:
    softmax = PRESETS["softmax"]
    assert "training.l2" not in search_space(softmax)  # 0 stays 0
    assert "risk.positive_temperature" not in search_space(softmax)  # so does infinity
    assert "encoder.popularity_term" in search_space(softmax)
    assert "encoder.popularity_term" not in search_space(PRESETS["dregn-cf"])  # no cosines
    with_top_k = resolve(softmax, {"risk": {"top_k": 20}})
    assert search_space(with_top_k).keys() - search_space(softmax).keys() == {"risk.top_k_width"}
    fixed = fixed_by(["risk.temperature=0.2", 'encoder={kind="lightgcn", n_layers=1}'])
    assert fixed == {"risk.temperature", "encoder.kind", "encoder.n_layers"}
    left = search_space(softmax).keys() - search_space(softmax, fixed=fixed).keys()
    assert left == {"risk.temperature", "encoder.n_layers"}


def test_a_range_is_stretched_to_a_value_outside() -> None:
    for l2 in (1e-3, 1e6):
        start = resolve(PRESETS["ease"], {"solver": {"l2": l2}})
        assert search_space(start)["solver.l2"]._contains(l2)


def test_wide_vectors_are_for_gpus() -> None:
    space = {on_gpu: search_space(PRESETS["dregn-cf"], on_gpu=on_gpu) for on_gpu in (False, True)}
    widest = {on_gpu: drawn["encoder.dimension"].choices[-1] for on_gpu, drawn in space.items()}  # type: ignore[attr-defined]
    assert widest == {False: 128, True: 512}


def test_only_the_second_stage_of_two_is_searched() -> None:
    assert {path.partition(".")[0] for path in search_space(PRESETS["dregn-cf-static"])} == {
        "second"
    }


@pytest.mark.parametrize("name", PRESETS)
def test_settings_survive_the_way_through_the_file_that_fit_takes(
    name: str, tmp_path: Path
) -> None:
    start, rng, drawn = PRESETS[name], np.random.default_rng(0), {}
    for path, space in search_space(start).items():
        if isinstance(space, CategoricalDistribution):
            drawn[path] = space.choices[0]
        elif isinstance(space.low, int):  # type: ignore[attr-defined]
            drawn[path] = space.high  # type: ignore[attr-defined]
        else:
            drawn[path] = float(rng.uniform(space.low, space.high)) * 1e-3 + space.low  # type: ignore[attr-defined]
    wanted = resolve(start, nested(drawn))
    table = {"preset": name, **difference(to_table(start), to_table(wanted))}
    (tmp_path / "best.toml").write_text(to_toml(table))
    assert named_settings(None, file=tmp_path / "best.toml") == (name, wanted)


def test_a_part_of_another_kind_is_written_whole(tmp_path: Path) -> None:
    start = PRESETS["softmax"]
    # the same dimension as before, but not the default of the new kind
    wanted = resolve(start, {"encoder": {"kind": "factorisation", "dimension": 512}})
    table = difference(to_table(start), to_table(wanted))
    assert table["encoder"]["dimension"] == 512
    (tmp_path / "best.toml").write_text(to_toml({"preset": "softmax", **table}))
    assert named_settings(None, file=tmp_path / "best.toml")[1] == wanted


def test_the_first_trial_is_the_preset_and_the_best_is_what_fit_finds_with_it(
    search: Callable[..., Tuning], data: Interactions
) -> None:
    tuning = search(n_trials=8)
    assert tuning.changes(tuning.trials[0]) == {}
    assert len({str(trial.settings) for trial in tuning.trials}) == 8
    best = tuning.ranked[0]
    assert best.score > tuning.start("item-knn").score
    for trial in (best, tuning.trials[0]):
        settings = resolve(KNN["item-knn"], nested(trial.settings))
        fitted = FitSession(data, settings, FitOptions(), seed=0, device=CPU)()
        assert fitted.validation == trial.validation
    digits = f"{best.settings['solver.shrinkage']}".replace(".", "").strip("0")
    assert len(digits) <= 3


def test_a_search_that_was_stopped_and_goes_on_finds_what_it_would_have_found(
    search: Callable[..., Tuning], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tune, "_N_RANDOM", 2)  # so that the sampler has its say
    presets = {"item-knn": PRESETS["item-knn"], "wmf": WMF_SMALL}
    whole = search(presets, n_trials=12, study=tmp_path / "whole.db")
    steps = itertools.count()
    part = search(presets, n_trials=12, stop_requested=lambda: next(steps) > 24)
    assert 0 < len(part.trials) < 12

    def kill(event: StepTaken | EpochFinished) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search(presets, n_trials=12, observe=kill)
    again = search(presets, n_trials=12)
    assert untimed(again.trials) == untimed(whole.trials)
    assert again.importance == whole.importance
    assert untimed(search(presets, n_trials=12).trials) == untimed(whole.trials)
    other = search(presets, n_trials=12, seed=1, study=tmp_path / "other.db")
    assert untimed(other.trials) != untimed(whole.trials)


def test_a_search_that_is_killed_in_its_first_trial_begins_with_the_preset(
    search: Callable[..., Tuning],
) -> None:
    def kill(event: StepTaken | EpochFinished) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search(n_trials=2, observe=kill)
    tuning = search(n_trials=2)
    assert [bool(tuning.changes(trial)) for trial in tuning.trials] == [False, True]


def test_so_many_users_judge_at_most(
    search: Callable[..., Tuning], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tune, "_MOST_JUDGED", 7)
    assert search(n_trials=1).n_validation_users == 7


def test_trials_behind_most_others_are_pruned(
    search: Callable[..., Tuning], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tune, "_N_UNPRUNED", 2)
    start = resolve(QUICK["dre-mf"], {"training": {"epochs": 5, "patience": 50}})
    records: list[Any] = []
    tuning = search({"dre-mf": start}, n_trials=7, observe=records.append)
    states = [trial.state for trial in tuning.trials]
    assert states[:2] == ["done", "done"]
    assert "pruned" in states
    epochs = [event.record["epoch"] for event in records if isinstance(event, EpochFinished)]
    assert len(epochs) < 7 * 5  # those pruned took fewer
    for trial in tuning.trials:
        assert trial.validation is not None
        assert trial.state == "done" or trial.score < tuning.ranked[0].score


def test_what_takes_one_step_is_never_pruned_after_it(search: Callable[..., Tuning]) -> None:
    assert {trial.state for trial in search(n_trials=9).trials} == {"done"}


class Clock:
    """Seconds that pass with the steps of training, and with nothing else."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        for module in (tune, fitting):
            monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: self.now))

    def __call__(self, event: StepTaken | EpochFinished) -> None:
        self.now += isinstance(event, StepTaken)


def test_the_budget_ends_a_trial_and_the_search(
    search: Callable[..., Tuning], monkeypatch: pytest.MonkeyPatch
) -> None:
    start = {"wmf": replace(WMF_SMALL, stopping=replace(WMF_SMALL.stopping, patience=9))}
    options = FitOptions(max_seconds=4)
    (cut,) = search(start, options=options, observe=Clock(monkeypatch)).trials
    assert (cut.seconds, cut.why, cut.state) == (4, "time budget", "done")
    more = search(start, options=options, observe=Clock(monkeypatch))
    assert len(more.trials) == 2  # a budget is that of one run


def test_no_trial_of_what_cannot_be_cut_starts_without_the_time_for_it(
    search: Callable[..., Tuning], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tuning = search(options=FitOptions(max_seconds=3.5), observe=Clock(monkeypatch))
    assert [trial.seconds for trial in tuning.trials] == [1, 1, 1]
    monkeypatch.setattr(TuneSession, "_cost", lambda self, name: 100.0)
    left = search(
        options=FitOptions(max_seconds=50), observe=Clock(monkeypatch), study=tmp_path / "b.db"
    )
    assert left.trials == []
    assert left.left_out == {"item-knn": "about 100 s needed, 50 s left"}


def test_first_trials_of_several_presets_share_half_of_the_time(
    search: Callable[..., Tuning], monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = replace(WMF_SMALL, stopping=replace(WMF_SMALL.stopping, patience=99))
    slow = replace(slow, solver=replace(slow.solver, n_sweeps=99))
    presets = {"slow": slow, "slower": slow, "item-knn": PRESETS["item-knn"]}
    tuning = search(presets, options=FitOptions(max_seconds=60), observe=Clock(monkeypatch))
    assert [trial.seconds for trial in tuning.trials[:3]] == [10, 10, 1]
    assert sum(trial.seconds for trial in tuning.trials) == pytest.approx(60, abs=1)


def scored(
    monkeypatch: pytest.MonkeyPatch, score: Callable[[Any], float], stopped_by: str = "no gain"
) -> None:
    """Let trials cost nothing and have these scores by their settings."""

    def session(self: TuneSession, settings: Any, *_: object) -> Any:
        def search() -> Any:
            metrics = {"recall@20": 0.5, "ndcg@20": score(settings)}
            fitted = SimpleNamespace(validation=metrics, stopped_by=stopped_by, n_epochs=1.0)
            return None, fitted

        return SimpleNamespace(search=search)

    monkeypatch.setattr(TuneSession, "_session", session)


def test_what_the_clock_has_cut_is_done_only_where_it_is_ahead(
    search: Callable[..., Tuning], monkeypatch: pytest.MonkeyPatch
) -> None:
    scored(monkeypatch, lambda settings: settings.solver.user_exponent, "time budget")
    trials = search(n_trials=6).trials
    scores = [trial.score for trial in trials]
    ahead = [score > max(scores[:place], default=0) for place, score in enumerate(scores)]
    assert [trial.state for trial in trials] == ["done" if one else "pruned" for one in ahead]
    assert set(ahead) == {True, False}


def test_the_best_few_presets_go_on_in_turn(
    search: Callable[..., Tuning], monkeypatch: pytest.MonkeyPatch
) -> None:
    scored(monkeypatch, lambda settings: settings.solver.l2 / 1e9)
    ridges = {name: replace(PRESETS["wmf"], solver=WMF(l2=l2)) for name, l2 in LEVELS.items()}
    tuning = search(ridges, n_trials=13, fixed={"solver.l2"})
    tried = [trial.preset for trial in tuning.trials]
    assert tried[:4] == list(LEVELS)
    assert tried[4:] == ["d", "c", "b"] * 3
    assert tuning.ranked[0].preset == "d"


LEVELS = {"a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0}


def test_the_setting_that_decides_is_the_important_one(
    search: Callable[..., Tuning], monkeypatch: pytest.MonkeyPatch
) -> None:
    scored(monkeypatch, lambda settings: 1 - (settings.solver.user_exponent - 0.8) ** 2)
    tuning = search(n_trials=25)
    shares = tuning.importance["item-knn"]
    assert next(iter(shares)) == "solver.user_exponent"
    assert shares["solver.user_exponent"] > 0.6
    assert sum(shares.values()) == pytest.approx(1, abs=1e-3)
    # the sampler learns: the later half is nearer to the best
    misses = [abs(trial.settings["solver.user_exponent"] - 0.8) for trial in tuning.trials]
    assert np.mean(misses[13:]) < np.mean(misses[1:13])


def test_trials_that_fail_are_told_and_the_others_go_on(
    search: Callable[..., Tuning], monkeypatch: pytest.MonkeyPatch
) -> None:
    def score(settings: Any) -> float:
        if settings.solver.user_exponent > 0.5:
            raise MemoryBudgetError("too large", where="here", found="1", wanted="0")
        return float(settings.solver.user_exponent)

    scored(monkeypatch, score)
    tuning = search(n_trials=20)
    states = {trial.state for trial in tuning.trials}
    assert states == {"done", "failed"}
    failed = [trial for trial in tuning.trials if trial.state == "failed"]
    assert failed[0].why == "too large (where: here; found: 1; wanted: 0)"
    assert {trial.settings["solver.user_exponent"] > 0.5 for trial in failed} == {True}
    assert len(failed) < 10  # the sampler keeps away from them


def test_a_preset_that_never_runs_is_given_up(
    search: Callable[..., Tuning], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(settings: Any) -> float:
        raise failing().solver.error  # type: ignore[attr-defined]

    scored(monkeypatch, refuse)
    tuning = search(n_trials=20)
    assert [trial.state for trial in tuning.trials] == ["failed"] * 3
    assert tuning.ranked == []


def test_what_has_no_settings_is_tried_once(search: Callable[..., Tuning]) -> None:
    tuning = search({"popularity": PRESETS["popularity"]}, n_trials=5)
    assert len(tuning.trials) == 1
    assert tuning.config == {"preset": "popularity"}


@pytest.mark.parametrize(
    ("told", "change"),
    [
        ("another seed", {"seed": 1}),
        ("another validation part", {"options": FitOptions(validation=0.3)}),
        ("another list of presets", {"starts": {"wmf": WMF_SMALL}}),
        ("another list of presets", {"starts": {**KNN, "wmf": WMF_SMALL}}),
        (
            "another setting",
            {"starts": {"item-knn": resolve(KNN["item-knn"], {"stopping": {"patience": 9}})}},
        ),
        ("another search space", {"fixed": {"solver.shrinkage"}}),
    ],
)
def test_the_study_of_another_search_is_refused(
    told: str, change: dict[str, Any], search: Callable[..., Tuning]
) -> None:
    search(n_trials=1)
    with pytest.raises(CheckpointError, match=told):
        search(n_trials=1, **change)
    assert len(search(n_trials=1).trials) == 1  # what was refused has left nothing in the study


def test_the_study_of_other_data_is_refused(
    search: Callable[..., Tuning], data: Interactions
) -> None:
    search(n_trials=1)
    keep = np.arange(data.n_pairs) > 0
    with pytest.raises(CheckpointError, match="another data set"):
        search(n_trials=1, data=data.select(keep))


def test_a_file_that_is_no_study_is_refused_and_left_as_it_is(
    search: Callable[..., Tuning], tmp_path: Path
) -> None:
    (tmp_path / "a.study.db").write_text("something else, which is no database at all" * 99)
    with pytest.raises(StorageError, match=r"a\.study\.db"):
        search(n_trials=1)
    assert (tmp_path / "a.study.db").read_text().startswith("something else")


def test_a_study_may_have_any_name(search: Callable[..., Tuning], tmp_path: Path) -> None:
    place = tmp_path / "100%{x}? #.db"
    assert len(search(n_trials=1, study=place).trials) == 1
    assert place.exists()


def test_without_held_out_pairs_there_is_nothing_to_choose_by(
    search: Callable[..., Tuning],
) -> None:
    with pytest.raises(ConfigError, match="nothing to choose settings by"):
        search(options=FitOptions(validation=0), n_trials=1)


def test_judges_are_the_last_pairs_where_the_data_know_an_order(
    search: Callable[..., Tuning],
    data: Interactions,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    assert search(n_trials=1).validation_by == "random"
    timed = replace(data, order=np.arange(data.n_pairs, dtype=np.int32))
    known = SimpleNamespace(is_informative=True)
    monkeypatch.setattr(tune, "order_evidence", lambda data: known)
    for asked, by in ((None, "last"), ("random", "random")):
        options = FitOptions(validation_by=asked)
        found = search(n_trials=1, data=timed, study=tmp_path / f"{by}.db", options=options)
        assert found.validation_by == by
        options = FitOptions(validation_by=by)
        fitted = FitSession(timed, KNN["item-knn"], options, seed=0, device=CPU)()
        assert found.trials[0].validation == fitted.validation
