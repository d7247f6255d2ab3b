"""Held-out items: nothing of them is in training, and content is judged on them alone."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from ratiorec.catalogue.attributes import Attributes
from ratiorec.catalogue.columns import Numbers, Texts
from ratiorec.data.interactions import Interactions
from ratiorec.data.synthetic import Synthetic
from ratiorec.data.vocabulary import Vocabulary
from ratiorec.errors import ConfigError, DataError
from ratiorec.training.cold_items import (
    CONTENT,
    POPULARITY,
    RANDOM,
    ColdItemsReport,
    HeldOutItems,
    LastItems,
    RandomScores,
    evaluate_cold_items,
)
from ratiorec.training.fit import FitOptions
from reference.metrics import recall
from support.small_data import random_interactions
from support.small_scorers import inner_product, random_rows

QUICK = FitOptions(validation=0)


@cache
def themed() -> Interactions:
    """Pairs that follow themes, and names whose nouns tell the theme."""
    population = Synthetic(n_users=300, n_items=200, mean_pairs=40, taste_strength=2.0)
    return population(rng=np.random.default_rng(0)).dataset.train


def names_of(data: Interactions) -> Attributes:
    assert data.items.names is not None
    return Attributes(data.n_items, {"name": Texts(data.items.names)})


@cache
def judged(preset: str = "item-knn") -> ColdItemsReport:
    data = themed()
    return evaluate_cold_items(
        data, names_of(data), preset=preset, ks=(5, 20), device="cpu", options=QUICK
    )


@pytest.mark.parametrize("preset", ["item-knn", "ease", "wmf"])
def test_informative_text_tells_more_than_chance_and_popularity(preset: str) -> None:
    for rival in (RANDOM, POPULARITY):
        lead = judged(preset).against(rival).metrics["recall@20"]
        assert lead.low > 0
        assert lead.p_value < 0.001


def test_text_that_says_nothing_is_no_better_than_chance() -> None:
    data, rng = themed(), np.random.default_rng(1)
    data = unnamed(data)  # names say a lot
    noise = Attributes(data.n_items, {"name": Numbers(rng.standard_normal(data.n_items))})
    report = evaluate_cold_items(data, noise, preset="item-knn", device="cpu", options=QUICK)
    assert report.against(RANDOM).metrics["recall@20"].difference < 0.05


def test_nothing_of_the_held_out_items_is_in_training() -> None:
    data = themed()
    drawn = HeldOutItems.drawn(data, names_of(data), share=0.2, rng=np.random.default_rng(3))
    assert len(drawn.cold) == round(0.2 * (data.item_degrees > 0).sum())
    assert not set(drawn.train.items.ids) & set(drawn.cold.ids)
    assert drawn.train.n_pairs + drawn.held.n_pairs == data.n_pairs
    assert drawn.train.n_items + len(drawn.cold) == data.n_items
    place = {item: row for row, item in enumerate(data.items.ids)}
    for row in range(3):
        known = place[drawn.train.items.ids[row]], place[drawn.cold.ids[row]]
        for index, table in zip(known, (drawn.table, drawn.cold.attributes), strict=True):
            assert table.row(row) == names_of(data).row(index)


def test_the_figures_are_those_of_lists_of_held_out_items_alone() -> None:
    report, data = judged(), themed()
    drawn = HeldOutItems.drawn(data, names_of(data), share=0.2, rng=np.random.default_rng(0))
    found, scores = report.reports[CONTENT], report.model.scorer
    for place in range(0, len(found.users), 50):
        user = int(found.users[place])
        row = scores.scores(np.array([user]))[0, len(drawn.train.items) :]
        ranked = np.argsort(-row, kind="stable").tolist()
        wanted = recall(ranked, set(drawn.held.positives(user).tolist()), 5)
        assert found.per_user["recall@5"][place] == pytest.approx(wanted)


def test_the_report_has_the_keys_of_an_evaluation_and_what_it_is_held_against() -> None:
    told = judged().to_json()
    assert told.keys() == {
        *("metrics", "users", "definition", "cold_items", "baselines", "against")
    }
    assert told["metrics"].keys() == told["baselines"]["random"]["metrics"].keys()
    assert told["metrics"]["recall@20"].keys() == {"value", "low", "high"}
    assert told["against"]["popularity"]["metrics"]["ndcg@20"].keys() == {
        *("difference", "low", "high", "p_value")
    }
    counts = told["cold_items"]
    assert counts["held_out"] + counts["trained"] == themed().n_items
    assert counts.keys() >= {"pairs", "share", "seed", "strength", "weights"}


def test_the_same_seed_gives_the_same_figures() -> None:
    data = themed()
    again = evaluate_cold_items(
        data, names_of(data), preset="item-knn", ks=(5, 20), device="cpu", options=QUICK
    )
    assert again.to_json() == judged().to_json()


def test_users_of_held_out_items_alone_are_not_judged() -> None:
    data = random_interactions(np.random.default_rng(0), n_users=40, n_items=12, n_pairs=60)
    table = Attributes(12, {"n": Numbers(np.arange(12.0))})
    drawn = HeldOutItems.drawn(data, table, share=0.4, rng=np.random.default_rng(0))
    report = evaluate_cold_items(
        data, table, share=0.4, preset="item-knn", device="cpu", options=QUICK
    )
    both = np.flatnonzero((drawn.train.user_degrees > 0) & (drawn.held.user_degrees > 0))
    assert report.reports[CONTENT].users.tolist() == both.tolist()
    assert len(both) < (drawn.held.user_degrees > 0).sum()


@pytest.mark.parametrize("share", [0.0, 1.0, -0.2, 0.001, 0.995])
def test_a_share_that_leaves_one_side_empty_is_refused(share: float) -> None:
    with pytest.raises(ConfigError, match="cold_items"):
        evaluate_cold_items(themed(), names_of(themed()), share=share)


def unnamed(data: Interactions) -> Interactions:
    return replace(data, items=Vocabulary(data.items.ids, "item"))


def test_without_attributes_there_is_nothing_to_judge() -> None:
    data = unnamed(themed())
    for table in (
        Attributes.none(data.n_items),
        names_of(themed()).take(np.full(data.n_items, -1)),
    ):
        with pytest.raises(ConfigError, match="nothing is known"):
            evaluate_cold_items(data, table)


def test_titles_alone_are_content() -> None:
    nothing = Attributes.none(themed().n_items)
    report = evaluate_cold_items(themed(), nothing, preset="item-knn", device="cpu", options=QUICK)
    assert report.against(RANDOM).metrics["recall@20"].low > 0


def test_items_of_which_nothing_is_known_are_not_held_out_and_counted() -> None:
    data, whole = unnamed(themed()), names_of(themed())
    has_pairs = data.item_degrees > 0
    is_told = np.arange(data.n_items) % 3 > 0
    table = whole.take(np.where(is_told, np.arange(data.n_items), -1))
    report = evaluate_cold_items(data, table, preset="item-knn", device="cpu", options=QUICK)
    n_told = int((has_pairs & is_told).sum())
    assert report.counts["untold"] == has_pairs.sum() - n_told
    assert report.counts["held_out"] == round(0.2 * n_told) == report.model.n_cold
    held = report.model.items.ids[-report.model.n_cold :]
    assert is_told[data.items.indices(held)].all()


def test_without_anybody_who_has_both_there_is_nothing_to_judge() -> None:
    lonely = Interactions.from_pairs(range(10), range(10))
    table = Attributes(10, {"n": Numbers(np.arange(10.0))})
    with pytest.raises(DataError, match="nothing to judge by"):
        evaluate_cold_items(lonely, table, preset="popularity", device="cpu", options=QUICK)


def test_scorers_of_the_study_keep_the_contract() -> None:
    whole = inner_product(random_rows(9, 20), 20)
    users = np.array([3, 1, 8])
    last = LastItems(whole, 15)
    assert (last.n_users, last.n_items) == (9, 5)
    assert last.scores(users).tolist() == whole.scores(users)[:, 15:].tolist()
    chance = RandomScores(9, 5, seed=1)
    assert chance.scores(users)[1].tolist() == chance.scores(np.array([1]))[0].tolist()
    for scorer in (last, chance):
        buffer = np.empty((3, 5), np.float32)
        assert scorer.scores(users, out=buffer) is buffer
