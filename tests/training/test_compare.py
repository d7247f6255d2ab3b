from __future__ import annotations

import math
import os
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ratiorec.data.interactions import Dataset
from ratiorec.data.split import Folds, LeaveLast, RatioSplit
from ratiorec.data.synthetic import Synthetic
from ratiorec.errors import ConfigError, DataError, DeviceError, DivergenceError, StoppedError
from ratiorec.model.artifact import Artifact
from ratiorec.training import compare as comparison
from ratiorec.training.checkpoint import Checkpoints
from ratiorec.training.compare import (
    Figures,
    PresetResult,
    compare_folds,
    compare_presets,
    figures_of,
    ranked,
    with_test_part,
)
from ratiorec.training.experiment import fit
from ratiorec.training.fit import FitOptions, Observer
from support.quick_presets import failing, use_presets
from support.small_data import interactions, random_interactions

NAMES = ["popularity", "dre-mf", "item-knn"]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    use_presets(monkeypatch)


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return Synthetic(n_users=60, n_items=40, mean_pairs=12)(rng=np.random.default_rng(0)).dataset


@pytest.fixture(scope="module")
def results(dataset: Dataset) -> list[PresetResult]:
    with pytest.MonkeyPatch.context() as patch:
        use_presets(patch)
        return compare_presets(dataset, NAMES, device="cpu")


def test_results_come_in_the_order_asked_for(dataset: Dataset) -> None:
    found = compare_presets(dataset, ["item-knn", "popularity"], device="cpu")
    assert [result.preset for result in found] == ["item-knn", "popularity"]


@pytest.mark.parametrize("name", NAMES)
def test_a_preset_gets_the_figures_that_a_fit_of_it_gets(
    dataset: Dataset, results: list[PresetResult], name: str
) -> None:
    card = fit(dataset, preset=name, device="cpu").card
    figures = figures_of(results[NAMES.index(name)])
    for key in ("validation", "test", "epochs", "steps"):
        assert getattr(figures, key) == card[key]
    assert figures.seconds["total"] >= figures.seconds["train"] > 0


def test_the_time_in_all_includes_the_test(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([1000.0, 3000.0])  # before and after judging
    monkeypatch.setattr(comparison, "time", SimpleNamespace(monotonic=clock.__next__))
    seconds = figures_of(compare_presets(dataset, ["popularity"], device="cpu")[0]).seconds
    assert seconds["train"] < 2000 < seconds["total"]


def test_the_seed_and_the_options_are_those_of_every_fit(dataset: Dataset) -> None:
    options = FitOptions(validation=0.3, refit=False)
    for name, result in zip(
        NAMES, compare_presets(dataset, NAMES, seed=3, device="cpu", options=options), strict=True
    ):
        card = fit(dataset, preset=name, seed=3, device="cpu", options=options).card
        assert (figures_of(result).validation, figures_of(result).test) == (
            card["validation"],
            card["test"],
        )


def judged(name: str, *, ndcg: float, recall: float, validation: float) -> PresetResult:
    """A result made by hand, with a test part."""
    figures = Figures(
        seconds={"train": 1.0, "total": 1.0},
        epochs=1.0,
        steps=1,
        validation={"recall@20": validation, "ndcg@20": validation},
        test={"recall@20": recall, "ndcg@20": ndcg},
    )
    return PresetResult(name, {}, figures)


def test_the_order_is_that_of_ndcg_on_the_test_part_and_then_as_asked_for() -> None:
    results = [
        judged("a", ndcg=0.2, recall=0.9, validation=0.1),
        PresetResult("b", {}, error="it could not run"),
        judged("c", ndcg=0.3, recall=0.1, validation=0.2),
        judged("d", ndcg=0.3, recall=0.2, validation=0.9),
    ]
    assert [result.preset for result in ranked(results)] == ["c", "d", "a"]


def test_the_difference_to_the_best_is_paired_by_user(
    dataset: Dataset, results: list[PresetResult]
) -> None:
    assert dataset.test is not None
    best, *others = ranked(results)
    assert best.against_best is None
    per_user = {
        name: fit(dataset, preset=name, device="cpu").evaluate(dataset.test).per_user["ndcg@20"]
        for name in NAMES
    }
    for result in others:
        gaps = (per_user[result.preset] - per_user[best.preset]).tolist()
        mean = sum(gaps) / len(gaps)
        assert result.against_best is not None
        assert result.against_best.difference == pytest.approx(mean, abs=1e-12)
        assert mean < 0
        spread = math.sqrt(sum((gap - mean) ** 2 for gap in gaps) / (len(gaps) - 1))
        within = 2.5 * spread / math.sqrt(len(gaps))
        assert mean - within < result.against_best.low < mean < result.against_best.high
        assert 0 < result.against_best.p_value < 1


def test_without_a_test_part_the_validation_pairs_decide(dataset: Dataset) -> None:
    found = compare_presets(Dataset("pairs", dataset.train), NAMES, device="cpu")
    by_validation = {result.preset: figures_of(result).validation["ndcg@20"] for result in found}
    assert ranked(found)[0].preset == max(NAMES, key=by_validation.__getitem__)
    for result in found:
        assert figures_of(result).test is None
        assert result.against_best is None


def test_a_test_part_without_a_pair_is_none(dataset: Dataset) -> None:
    empty = dataset.train.select(np.zeros(dataset.train.n_pairs, bool))
    found = compare_presets(Dataset("pairs", dataset.train, empty), ["popularity"], device="cpu")
    assert figures_of(found[0]).test is None


def test_validation_may_be_left_out_where_a_test_part_judges(dataset: Dataset) -> None:
    options = FitOptions(validation=0)
    figures = figures_of(compare_presets(dataset, ["dre-mf"], device="cpu", options=options)[0])
    assert figures.validation is None
    assert figures.test is not None
    assert figures.epochs == 3


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            DivergenceError("it\ndiverged", where="step 1", found="nan", wanted="less"),
            "it diverged (where: step 1; found: nan; wanted: less)",
        ),
        (MemoryError("no room\n  for it"), "MemoryError: no room for it"),
        (MemoryError(), "MemoryError"),
        (RuntimeError("can't allocate"), "RuntimeError: can't allocate"),
    ],
)
def test_a_preset_that_cannot_run_does_not_lose_the_others(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch, error: Exception, told: str
) -> None:
    use_presets(monkeypatch, broken=failing(error))
    found = compare_presets(dataset, ["popularity", "broken", "item-knn"], device="cpu")
    assert [result.error for result in found] == [None, told, None]
    assert [result.figures is None for result in found] == [False, True, False]
    assert [result.preset for result in ranked(found)] == ["item-knn", "popularity"]


def test_where_none_can_run_there_is_no_best(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_presets(monkeypatch, broken=failing())
    assert ranked(compare_presets(dataset, ["broken"], device="cpu")) == []


def test_a_bug_is_no_preset_that_cannot_run(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_presets(monkeypatch, broken=failing(TypeError("a bug")))
    with pytest.raises(TypeError, match="a bug"):
        compare_presets(dataset, ["broken"], device="cpu")


def test_json_has_null_for_what_could_not_run(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_presets(monkeypatch, broken=failing())
    line = compare_presets(dataset, ["broken"], device="cpu")[0].to_json()
    assert line.pop("preset") == "broken"
    assert line.pop("error").startswith("a library is missing (where: solver; ")
    assert set(line) == {
        *("seconds", "validation", "test", "epochs", "steps", "against_best"),
        *("peak_memory_mb", "peak_device_memory_mb", "intervals", "beyond", "folds"),
    }
    assert set(line.values()) == {None}


@pytest.mark.parametrize(
    ("names", "what"),
    [
        (["popularity", "item-kn"], "did you mean item-knn"),
        (["popularity", "dre-mf", "popularity"], "listed twice .*found: popularity;"),
        ([], "nothing to compare"),
    ],
)
def test_names_are_checked_before_anything_is_trained(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch, names: list[str], what: str
) -> None:
    monkeypatch.setattr(comparison, "fit", lambda *_, **__: pytest.fail("training began"))
    with pytest.raises(ConfigError, match=what):
        compare_presets(dataset, names)


def test_what_no_preset_could_do_is_refused_at_once(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparison, "fit", lambda *_, **__: pytest.fail("training began"))
    without_test = Dataset("pairs", dataset.train)
    with pytest.raises(ConfigError, match="nothing to compare presets by"):
        compare_presets(without_test, NAMES, options=FitOptions(validation=0))
    with pytest.raises(DataError):
        compare_presets(Dataset("one", interactions([0], [0], n_users=1, n_items=1)), NAMES)
    with pytest.raises(DeviceError):
        compare_presets(dataset, NAMES, device="abacus")
    for shared in (
        FitOptions(checkpoints=Checkpoints(tmp_path / "checkpoint")),
        FitOptions(log=tmp_path / "log"),
    ):
        with pytest.raises(ConfigError, match="cannot share"):
            compare_presets(dataset, NAMES, options=shared)


def test_a_request_to_stop_ends_the_whole_comparison(dataset: Dataset) -> None:
    begun: list[str] = []
    taken: list[Any] = []

    def watch(name: str) -> AbstractContextManager[Observer]:
        begun.append(name)
        return nullcontext(taken.append)

    with pytest.raises(StoppedError, match=r"stopped \(where: dre-mf;") as caught:
        compare_presets(
            dataset,
            ["popularity", "dre-mf", "item-knn"],
            device="cpu",
            watch=watch,
            stop_requested=lambda: begun[-1:] == ["dre-mf"] and bool(taken),
        )
    assert begun == ["popularity", "dre-mf"]
    assert "checkpoint" not in str(caught.value)


def test_a_request_between_two_presets_begins_no_other(dataset: Dataset) -> None:
    begun: list[str] = []
    finished: list[str] = []

    def watch(name: str) -> AbstractContextManager[Observer]:
        begun.append(name)
        return nullcontext(lambda event: None)

    with pytest.raises(StoppedError, match="where: item-knn"):
        compare_presets(
            dataset,
            ["popularity", "item-knn"],
            device="cpu",
            watch=watch,
            finish=lambda result, model: finished.append(result.preset),
            stop_requested=lambda: bool(finished),
        )
    assert begun == finished == ["popularity"]


def test_each_model_is_handed_over_as_a_fit_gives_it(dataset: Dataset) -> None:
    models: dict[str, Artifact | None] = {}

    def finish(result: PresetResult, model: Artifact | None) -> None:
        models[result.preset] = model

    compare_presets(dataset, ["dre-mf"], device="cpu", finish=finish)
    model, alone = models["dre-mf"], fit(dataset, preset="dre-mf", device="cpu")
    assert model is not None
    assert model.card.keys() == alone.card.keys()
    assert model.card["test"] == alone.card["test"]
    assert model.settings == alone.settings
    for name, array in alone.scorer.arrays().items():
        np.testing.assert_array_equal(model.scorer.arrays()[name], array)


def test_no_model_is_kept_while_the_next_is_trained(dataset: Dataset) -> None:
    handed: list[Callable[[], Artifact | None]] = []
    alive: list[int] = []

    def watch(name: str) -> AbstractContextManager[Observer]:
        alive.append(sum(reference() is not None for reference in handed))
        return nullcontext(lambda event: None)

    def finish(result: PresetResult, model: Artifact | None) -> None:
        assert model is not None
        handed.append(weakref.ref(model))

    compare_presets(dataset, NAMES, device="cpu", watch=watch, finish=finish)
    assert alive == [0, 0, 0]


@pytest.mark.skipif(
    not os.access("/proc/self/clear_refs", os.W_OK), reason="peaks cannot begin anew here"
)
def test_the_peak_of_memory_is_that_of_each_preset(dataset: Dataset) -> None:
    n_megabytes = 200

    def watch(name: str) -> AbstractContextManager[Observer]:
        if name == "popularity":
            np.ones((n_megabytes, 2**20), np.uint8)
        return nullcontext(lambda event: None)

    first, second = compare_presets(dataset, NAMES[::2], device="cpu", watch=watch)
    peaks = [figures_of(result).peak_memory_mb or 0 for result in (first, second)]
    assert peaks[0] > peaks[1] + n_megabytes / 2


def test_a_peak_that_may_be_of_an_earlier_preset_is_not_told(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparison, "release_memory", lambda device: False)
    found = compare_presets(dataset, ["popularity"], device="cpu")
    assert figures_of(found[0]).peak_memory_mb is None


def test_a_test_part_is_a_share_of_each_users_pairs_and_follows_from_the_seed() -> None:
    whole = Dataset(
        "whole", random_interactions(np.random.default_rng(0), n_users=20, n_items=30, n_pairs=300)
    )
    with_test = with_test_part(whole, 0.2, seed=3)
    assert with_test.test is not None
    assert with_test.train.n_pairs + with_test.test.n_pairs == whole.train.n_pairs
    assert 0.1 < with_test.test.n_pairs / whole.train.n_pairs < 0.3
    again, other = (with_test_part(whole, 0.2, seed=seed) for seed in (3, 4))
    assert again.train.sha256 == with_test.train.sha256 != other.train.sha256


def test_a_test_part_that_is_there_stays_as_it_is() -> None:
    train = random_interactions(np.random.default_rng(0), n_users=20, n_items=30, n_pairs=300)
    split = RatioSplit(0.3)(train, rng=np.random.default_rng(0))
    there = Dataset("parts", split.train, split.held_out)
    assert with_test_part(there, 0.2) is there
    bare = Dataset("bare", train)
    assert with_test_part(bare, 0) is bare


def test_what_lists_are_like_stands_beside_their_accuracy(
    dataset: Dataset, results: list[PresetResult]
) -> None:
    assert dataset.test is not None
    figures = figures_of(results[0])
    report = fit(dataset, preset="popularity", device="cpu").evaluate(dataset.test)
    assert figures.beyond is not None
    assert figures.intervals is not None
    for name, (value, *ends) in figures.beyond.items():
        assert value == report.value(name)
        assert name == "coverage@20" or tuple(ends) == report.intervals[name]
    assert figures.intervals == {name: report.intervals[name] for name in ("recall@20", "ndcg@20")}
    plain = results[0].to_json()
    assert plain["beyond"].keys() == set(comparison.BEYOND)
    assert plain["beyond"]["coverage@20"]["low"] is None


def test_folds_are_judged_by_models_of_the_others_and_their_mean_is_told(dataset: Dataset) -> None:
    names = ["popularity", "item-knn"]
    found = compare_folds(dataset, names, 3, seed=4, device="cpu")
    folds = Folds(3)(dataset.train, rng=np.random.default_rng(4))
    for result in found:
        figures = figures_of(result)
        values = []
        for fold, split in zip(figures.folds, folds, strict=True):
            model = fit(split.train, preset=result.preset, seed=4, device="cpu")
            report = model.evaluate(split.held_out)
            assert fold.test == {name: report.value(name) for name in ("recall@20", "ndcg@20")}
            values.append(fold.metrics["ndcg@20"])
        mean = sum(values) / 3
        spread = math.sqrt(sum((value - mean) ** 2 for value in values) / 2)
        half = 4.302652729696 * spread / math.sqrt(3)  # of Student, two degrees of freedom
        assert figures.metrics["ndcg@20"] == pytest.approx(mean)
        assert figures.intervals is not None
        ends = (mean - half, mean + half)
        assert figures.intervals["ndcg@20"] == pytest.approx(ends)
        assert len(result.to_json()["folds"]) == 3
    best, other = ranked(found)
    gaps = [
        b.metrics["ndcg@20"] - a.metrics["ndcg@20"]
        for a, b in zip(figures_of(best).folds, figures_of(other).folds, strict=True)
    ]
    assert best.against_best is None
    assert other.against_best is not None
    assert other.against_best.difference == pytest.approx(sum(gaps) / 3)
    assert other.against_best.low < other.against_best.difference < other.against_best.high


def test_a_preset_that_fails_in_a_fold_has_no_figures(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_presets(monkeypatch, broken=failing())
    broken, popular = compare_folds(dataset, ["broken", "popularity"], 2, device="cpu")
    assert broken.figures is None
    assert broken.error is not None
    assert len(figures_of(popular).folds) == 2


def test_more_folds_than_pairs_are_refused() -> None:
    few = Dataset("few", interactions([0, 0, 1, 1], [0, 1, 0, 1], n_users=2, n_items=2))
    with pytest.raises(DataError, match=r"a fold has no pair.*found: 9 folds of 4 pairs"):
        compare_folds(few, ["popularity"], 9, device="cpu")


def test_a_test_part_is_drawn_like_the_validation_pairs() -> None:
    train = random_interactions(np.random.default_rng(0), n_users=20, n_items=30, n_pairs=300)
    order = np.random.default_rng(1).permutation(train.n_pairs).astype(np.int32)
    whole = Dataset("whole", replace(train, order=order))
    last = with_test_part(whole, 0.2, by="last")
    assert last.test is not None
    assert last.test.sha256 == LeaveLast(fraction=0.2)(whole.train).held_out.sha256
    with pytest.raises(DataError, match='where: validation_by="time"'):
        with_test_part(whole, 0.2, by="time")
