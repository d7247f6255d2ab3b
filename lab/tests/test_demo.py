from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

from ratiorec.data.synthetic import Synthetic, SyntheticData
from ratiorec.losses.density_ratio import DensityRatio, GeneratorName, UniformWeights
from ratiorec.settings import Settings
from ratiorec.training.experiment import fit
from ratiorec.training.fit import FitOptions
from ratiorec_lab import demo
from ratiorec_lab.demo import Demonstration

SMALL = Synthetic(n_users=200, n_items=80, mean_pairs=30)


def impatient(settings: Settings, **changes: int) -> Settings:
    training = dataclasses.replace(settings.training, **({"patience": 1} | changes))
    return dataclasses.replace(settings, training=training)


def brief_demonstration() -> Demonstration:
    """The demonstration on fewer users, trained more briefly."""
    brief = {"epochs": 40, "min_steps_between_validations": 10}
    recovery = impatient(demo.recovery_settings(), **brief)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "POPULATION", SMALL)
        patch.setattr(demo, "RANKING", impatient(demo.RANKING, **brief))
        patch.setattr(demo, "recovery_settings", lambda: recovery)
        return demo.run(seed=0)


@pytest.fixture(scope="module")
def shown() -> Demonstration:
    return brief_demonstration()


@pytest.fixture(scope="module")
def population() -> SyntheticData:
    """Half the users of the demonstration."""
    return dataclasses.replace(demo.POPULATION, n_users=1500)(rng=np.random.default_rng(0))


@pytest.mark.parametrize("generator", ["least-squares", "kullback-leibler"])
def test_uniform_weights_recover_the_true_ratio(
    population: SyntheticData, generator: GeneratorName
) -> None:
    settings = impatient(demo.recovery_settings(generator), epochs=60)
    whole = FitOptions(validation=0)
    model = fit(population.dataset.train, settings=settings, seed=0, device="cpu", options=whole)
    assert demo.ratio_correlation(model, population) >= 0.9


@pytest.mark.parametrize("generator", ["least-squares", "kullback-leibler", "logistic"])
def test_the_recovery_has_even_weights_and_no_corrections(generator: GeneratorName) -> None:
    risk = demo.recovery_settings(generator).risk
    assert risk == DensityRatio(
        generator=generator,
        weights=UniformWeights(),
        candidate_correction="none",
        upper_bound=float("inf"),
    )


def test_the_demonstration_is_the_papers_method() -> None:
    assert Settings(training=demo.RANKING.training) == demo.RANKING


def test_dregn_cf_beats_most_popular(shown: Demonstration) -> None:
    for metric in demo.METRICS:
        ours, theirs = (shown.reports[name].value(metric) for name in ("DREGN-CF", "most popular"))
        assert ours > theirs


def test_most_popular_lists_items_by_their_users(shown: Demonstration) -> None:
    train = shown.data.dataset.train
    model = demo.most_popular(train)
    listed = model.recommend([train.users.ids[0]], k=train.n_items, exclude_seen=False).to_dicts()
    order = np.argsort(-train.item_degrees, kind="stable")
    assert [row["item_id"] for row in listed] == train.items.ids[order].tolist()


def test_the_correlation_is_over_the_pairs_that_are_not_in_training(shown: Demonstration) -> None:
    train = shown.data.dataset.train
    scores = shown.estimator.scorer.scores(np.arange(train.n_users))
    true, estimated = [], []
    for user in range(train.n_users):
        for item in set(range(train.n_items)) - set(train.positives(user).tolist()):
            true.append(shown.data.ratio[user, item])
            estimated.append(scores[user, item])
    expected = spearmanr(true, estimated).statistic
    assert shown.correlations["uniform weights"] == pytest.approx(expected, abs=1e-6)


def test_the_true_ratio_correlates_perfectly_with_itself(shown: Demonstration) -> None:
    true, estimated = demo.unlabelled_pairs(shown.estimator, shown.data)
    train = shown.data.dataset.train
    assert len(true) == len(estimated) == train.n_users * train.n_items - train.n_pairs
    assert (estimated > 0).all()
    assert spearmanr(true, true).statistic == pytest.approx(1)


def test_three_users_are_shown_by_name(shown: Demonstration) -> None:
    lists = demo.lists(shown)
    train = shown.data.dataset.train
    assert len({entry["user"] for entry in lists}) == 3
    assert [entry["user"] for entry in lists] == [train.users.name(user) for user in (0, 100, 199)]
    names = set(train.items.names.tolist()) if train.items.names is not None else set()
    for entry in lists:
        recommended = [name for name, _ in entry["recommended"]]
        assert len(recommended) == 5
        assert {*recommended, *entry["history"]} <= names
        assert not set(recommended) & set(entry["history"])


def test_the_same_seed_gives_the_same_demonstration(shown: Demonstration) -> None:
    again = brief_demonstration()
    assert again.correlations == shown.correlations
    assert demo.lists(again) == demo.lists(shown)


def test_the_report_is_one_file_that_needs_no_other(shown: Demonstration, tmp_path: Path) -> None:
    demo.write_report(shown, tmp_path / "report.html")
    html = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]
    assert html.lower().startswith("<!doctype html>")
    assert "<link" not in html
    assert re.findall(r"""(?:src|href)\s*=\s*["'](?!#|data:)""", html) == []
    assert re.findall(r"url\((?!['\"]?(?:#|data:))|@import", html) == []


def test_the_report_has_curve_table_lists_and_ratio_plot(
    shown: Demonstration, tmp_path: Path
) -> None:
    demo.write_report(shown, tmp_path / "report.html")
    html = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert html.count("<svg") >= 2
    for heading in ("How good", "When did", "What is recommended?", "Is it the ratio?"):
        assert heading in html
    for name in ("DREGN-CF", "uniform weights", "most popular"):
        assert name in html
    for entry in demo.lists(shown):
        assert entry["user"] in html
    assert f"{shown.correlations['uniform weights']:.3f}" in html
