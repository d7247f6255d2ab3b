from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ratiorec.config import settings_in
from ratiorec.data.interactions import Dataset, Interactions
from ratiorec.data.synthetic import Synthetic
from ratiorec.errors import CheckpointError, ConfigError, MemoryBudgetError, StoppedError
from ratiorec.model.artifact import Artifact
from ratiorec.presets import PRESETS
from ratiorec.scorers import Blend, PopularityScorer
from ratiorec.settings import SolverSettings
from ratiorec.solvers.settings import EASE, WMF, ItemKNN
from ratiorec.training import auto
from ratiorec.training.checkpoint import FILE, Checkpoints
from ratiorec.training.compare import compare_presets
from ratiorec.training.experiment import fit
from ratiorec.training.fit import FitOptions
from ratiorec.training.portfolio import Candidate
from support.small_data import interactions

POPULARITY = Candidate("popularity", (PRESETS["popularity"],), is_floor=True)
KNN = Candidate("item-knn", (SolverSettings(ItemKNN(5)), SolverSettings(ItemKNN(40))))
WMF_SMALL = Candidate("wmf", (SolverSettings(WMF(dimension=6, n_sweeps=4)),))
SMALL = [POPULARITY, KNN, WMF_SMALL]


@pytest.fixture(scope="module")
def data() -> Interactions:
    return Synthetic(n_users=300, n_items=120, mean_pairs=20)(
        rng=np.random.default_rng(1)
    ).dataset.train


def choose_from(candidates: list[Candidate], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto, "portfolio", lambda data, device: candidates)


def members_of(model: Artifact) -> dict[str, dict[str, Any]]:
    return {member["name"]: member for member in model.card["members"]}


def equal(one: Artifact, other: Artifact) -> bool:
    first, second = one.scorer.arrays(), other.scorer.arrays()
    same = first.keys() == second.keys()
    return same and all(first[name].tobytes() == second[name].tobytes() for name in first)


def test_it_is_the_default(data: Interactions, monkeypatch: pytest.MonkeyPatch) -> None:
    choose_from(SMALL, monkeypatch)
    model = fit(data, options=FitOptions(max_seconds=60))
    assert model.card["preset"] == "auto"
    assert set(members_of(model)) == {"popularity", "item-knn", "wmf"}


def test_every_candidate_is_judged_and_the_blend_is_as_good_as_any(
    data: Interactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose_from(SMALL, monkeypatch)
    model = fit(data, preset="auto", options=FitOptions(max_seconds=60))
    found = members_of(model)
    best = max(member["validation"]["ndcg@20"] for member in found.values())
    assert model.card["validation"]["ndcg@20"] >= best - 1e-9
    assert sum(member["weight"] for member in found.values()) == pytest.approx(1, abs=1e-3)
    chosen = [name for name, member in found.items() if member["weight"]]
    assert all(found[name]["why"] == "chosen" for name in chosen)
    assert isinstance(model.scorer, Blend) == (len(chosen) > 1)
    low, high = found["popularity"]["lead"]
    assert low <= high < 0  # the chosen model is better, and surely so


def test_the_better_variant_stands_for_a_candidate(
    data: Interactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose_from([POPULARITY, KNN], monkeypatch)
    both = members_of(fit(data, options=FitOptions(max_seconds=60)))["item-knn"]
    alone = []
    for variant in KNN.variants:
        choose_from([POPULARITY, replace(KNN, variants=(variant,))], monkeypatch)
        alone.append(members_of(fit(data, options=FitOptions(max_seconds=60)))["item-knn"])
    best = max(alone, key=lambda member: member["validation"]["ndcg@20"])
    assert both["settings"] == best["settings"]
    assert both["validation"] == best["validation"]


def test_a_plan_gives_the_same_model_without_a_search(
    data: Interactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose_from([KNN, WMF_SMALL], monkeypatch)
    model = fit(data, options=FitOptions(max_seconds=60))
    choose_from([], monkeypatch)
    again = fit(data, settings=settings_in(model.settings), options=FitOptions())
    assert equal(model, again)
    assert again.card["validation"] is None


def test_what_does_not_fit_the_budget_is_left_out_with_its_reason(
    data: Interactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = replace(WMF_SMALL, seconds=lambda data, device: 400.0)
    choose_from([POPULARITY, slow], monkeypatch)
    model = fit(data, options=FitOptions(max_seconds=30))
    assert isinstance(model.scorer, PopularityScorer)
    left_out = members_of(model)["wmf"]
    assert left_out["why"].startswith("left out: about 800 s needed, ")
    assert left_out["validation"] is None


def test_a_budget_too_small_for_anything_gets_popularity(data: Interactions) -> None:
    model = fit(data, options=FitOptions(max_seconds=0.001))
    assert isinstance(model.scorer, PopularityScorer)
    found = members_of(model)
    assert found["popularity"]["why"] == "chosen"
    assert all(m["why"].startswith("left out") for n, m in found.items() if n != "popularity")


def test_members_that_fail_are_listed_and_the_rest_goes_on(
    data: Interactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = Candidate("ease", (SolverSettings(EASE()),))
    choose_from([POPULARITY, large, KNN], monkeypatch)

    def too_large(*_: Any, **__: Any) -> None:
        raise MemoryBudgetError("too large", where="ease", found="1 GiB", wanted="2 GiB")

    monkeypatch.setattr("ratiorec.solvers.ease.start_ease", too_large)
    found = members_of(fit(data, options=FitOptions(max_seconds=60)))
    assert "too large" in found["ease"]["why"]
    assert found["item-knn"]["weight"]


@pytest.mark.parametrize(
    "pairs",
    [([0], [0]), ([0, 1, 2], [0, 1, 2]), ([0, 0, 0], [0, 1, 2]), ([0, 1, 2], [0, 0, 0])],
    ids=["one pair", "no user with two", "one user", "one item"],
)
def test_data_with_next_to_nothing_get_a_model(pairs: tuple[list[int], list[int]]) -> None:
    users, items = pairs
    data = interactions(users, items, n_users=max(users) + 1, n_items=max(items) + 1)
    model = fit(data, options=FitOptions(max_seconds=20))
    assert len(model.recommend([0], 3, exclude_seen=False)) > 0


def test_without_validation_it_says_that_nothing_was_compared(data: Interactions) -> None:
    model = fit(data, options=FitOptions(validation=0))
    assert "nothing was compared" in members_of(model)["walk"]["why"]
    alone = interactions([0, 1, 2], [0, 1, 2], n_users=3, n_items=3)
    assert "popularity" in members_of(fit(alone))


def test_the_last_pairs_choose_where_there_are_timestamps(
    data: Interactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose_from([KNN], monkeypatch)
    rng = np.random.default_rng(0)
    timed = replace(data, timestamps=rng.integers(0, 10**6, data.n_pairs), order=None)
    options = FitOptions(max_seconds=60)
    assert fit(timed, options=options).card["validation_by"] == "last"
    of_one_order = replace(timed, timestamps=data.pair_users.astype(np.int64))
    assert fit(of_one_order, options=options).card["validation_by"] == "random"
    untimed = replace(data, timestamps=None, order=None)
    assert fit(untimed, options=options).card["validation_by"] == "random"
    asked = replace(options, validation_by="random")
    assert fit(timed, options=asked).card["validation_by"] == "random"


@pytest.mark.parametrize("n_asked", [1, 2, 3, 4, 6, 8, 9])
def test_a_stopped_fit_goes_on_to_the_same_model(
    data: Interactions, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, n_asked: int
) -> None:
    choose_from(SMALL, monkeypatch)
    options = FitOptions(max_seconds=60, checkpoints=Checkpoints(tmp_path / "c"))
    whole = fit(data, options=FitOptions(max_seconds=60))
    asked = itertools.count(1)
    with pytest.raises(StoppedError):
        fit(data, options=options, stop_requested=lambda: next(asked) == n_asked)
    resumed = fit(data, options=replace(options, resume=True))
    assert equal(whole, resumed)
    weights = {n: m["weight"] for n, m in members_of(whole).items()}
    assert {n: m["weight"] for n, m in members_of(resumed).items()} == weights
    Checkpoints(tmp_path / "c").remove()
    assert not (tmp_path / "c").exists()


def test_it_does_not_go_on_with_other_data(
    data: Interactions, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    choose_from(SMALL, monkeypatch)
    options = FitOptions(max_seconds=60, checkpoints=Checkpoints(tmp_path / "c"))
    asked = itertools.count(1)
    with pytest.raises(StoppedError):
        fit(data, options=options, stop_requested=lambda: next(asked) == 6)
    other = Synthetic(n_users=300, n_items=120, mean_pairs=20)(
        rng=np.random.default_rng(2)
    ).dataset.train
    with pytest.raises(CheckpointError, match="another run"):
        fit(other, options=replace(options, resume=True))


def test_it_does_not_go_on_with_other_validation_pairs(
    data: Interactions, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    choose_from(SMALL, monkeypatch)
    rng = np.random.default_rng(0)
    first, second = (
        replace(data, timestamps=rng.permutation(data.n_pairs), order=None) for _ in range(2)
    )
    options = FitOptions(max_seconds=60, checkpoints=Checkpoints(tmp_path / "c"))
    asked = itertools.count(1)
    with pytest.raises(StoppedError):
        fit(first, options=options, stop_requested=lambda: next(asked) == 6)
    options = replace(options, resume=True)
    with pytest.raises(CheckpointError, match="validation_by = random"):
        fit(first, options=replace(options, validation_by="random"))
    with pytest.raises(CheckpointError, match="pairs of the search"):
        fit(second, options=options)
    longer = replace(options, max_seconds=80)  # more time, and so more users to judge by
    assert fit(first, options=longer).card["validation_by"] == "last"


def test_it_has_no_model_to_keep_without_a_refit(
    data: Interactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose_from(SMALL, monkeypatch)
    with pytest.raises(ConfigError, match="fitted again on all pairs"):
        fit(data, options=FitOptions(refit=False))
    popularity, chosen = compare_presets(
        Dataset("data", data), ["popularity", "auto"], options=FitOptions(refit=False)
    )
    assert popularity.error is None
    assert "fitted again on all pairs" in str(chosen.error)


@pytest.mark.parametrize("resume", [False, True])
def test_a_foreign_checkpoint_of_a_member_is_removed_or_refused(
    data: Interactions, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, resume: bool
) -> None:
    choose_from(SMALL, monkeypatch)
    foreign = tmp_path / "c" / "item-knn" / FILE
    foreign.parent.mkdir(parents=True)
    foreign.write_text("of another run")
    options = FitOptions(
        max_seconds=60, checkpoints=Checkpoints(tmp_path / "c"), checkpoint_seconds=1e9
    )
    if resume:
        with pytest.raises(CheckpointError, match="cannot be read"):
            fit(data, options=replace(options, resume=True))
    else:
        found = members_of(fit(data, options=options))
        assert found["item-knn"]["validation"]
    assert foreign.exists() == resume


def test_a_member_whose_refit_would_break_the_budget_is_left_out(
    data: Interactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An estimate may be wrong: what the search has taken tells what the refit will take."""
    choose_from(SMALL, monkeypatch)
    monkeypatch.setattr(auto, "_refit_seconds", lambda fitted: 500 * (fitted.n_steps > 1))
    found = members_of(fit(data, options=FitOptions(max_seconds=60)))
    assert found["wmf"]["why"].startswith("left out: about 500 s needed for its refit")
    assert found["wmf"]["weight"] == 0
    assert found["item-knn"]["weight"] > 0


def test_the_chosen_settings_of_a_candidate_are_fitted_again_with_another_seed(
    data: Interactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    weak, strong = WMF(dimension=6, l2=1e6), WMF(dimension=6)
    first = Candidate("wmf", (SolverSettings(weak), SolverSettings(strong)))
    choose_from([POPULARITY, first, Candidate("wmf-2", (), seed=3, again="wmf")], monkeypatch)
    found = members_of(fit(data, seed=2, options=FitOptions(max_seconds=60)))
    assert found["wmf-2"]["settings"] == found["wmf"]["settings"]
    assert found["wmf"]["settings"]["solver"]["l2"] == strong.l2
    assert [found[name]["seed"] for name in ("wmf", "wmf-2")] == [2, 5]


def test_without_the_first_there_is_nothing_to_fit_again(
    data: Interactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    dear = Candidate("wmf", (SolverSettings(WMF()),), seconds=lambda data, device: 1e6)
    choose_from([POPULARITY, dear, Candidate("wmf-2", (), seed=1, again="wmf")], monkeypatch)
    found = members_of(fit(data, options=FitOptions(max_seconds=60)))
    assert found["wmf-2"]["why"] == "left out: wmf was"
    assert found["popularity"]["weight"] == 1
