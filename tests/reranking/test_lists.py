from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ratiorec.catalogue.attributes import Attributes
from ratiorec.catalogue.columns import Categories
from ratiorec.errors import ConfigError
from ratiorec.model.artifact import Artifact
from ratiorec.model.query import Query
from ratiorec.reranking.rules import Rules, pairs
from ratiorec.scorers.table import Recommendations
from reference.reranking import SlowRules
from reranking.conftest import model_of

SETS: list[dict[str, Any]] = [
    {"limits": {"category": 2}},
    {"limits": {"category": 1, "tags": 2}},
    {"limits": {"brand": 1}},
    {"apart": {"category": 2}},
    {"apart": {"brand": 4, "tags": 2}},
    {"pins": {1: "item7", 4: "item20", 99: "item3"}},
    {
        "pins": {2: "item0", 3: "item1", 5: "item2"},
        "limits": {"category": 2},
        "apart": {"brand": 3},
    },
    {"diversity": 0.3},
    {"diversity": 1.0},
    {"calibration": {"category": 0.5}},
    {"calibration": {"tags": 0.7, "category": 0.2}},
    {
        "diversity": 0.4,
        "calibration": {"brand": 0.5},
        "limits": {"tags": 3},
        "apart": {"category": 2},
    },
    {"diversity": 0.2, "pins": {3: "item5"}, "limits": {"category": 3}},
]


def slow_lists(
    model: Artifact, rules: Rules, k: int, *, exclude_seen: bool = True, vectors: Any = None
) -> dict[str, list[str]]:
    """The lists of all users, by brute force over the full matrix of scores."""
    ids = model.items.ids.tolist()
    scores = model.scorer.scores(np.arange(len(model.users))).astype(np.float64)
    table = model.item_table.rows(range(len(ids)))
    found = {}
    for user, name in enumerate(model.users.ids.tolist()):
        start, end = model.seen.indptr[user : user + 2]
        history = model.seen.indices[start:end].tolist()
        if exclude_seen:
            scores[user, history] = -math.inf
        slow = SlowRules(
            table,
            history,
            model.scorer.item_vectors if vectors is None else vectors,
            limits=dict(pairs(rules.limits)),
            apart=dict(pairs(rules.apart)),
            pins={place: ids.index(item) for place, item in pairs(rules.pins)},
            diversity=rules.diversity,
            calibration=dict(pairs(rules.calibration)),
        )
        found[name] = [ids[i] for i in slow.list_of(scores[user].tolist(), k)]
    return found


def lists_in(table: Recommendations, model: Artifact) -> dict[str, list[str]]:
    lists: dict[str, list[str]] = {user: [] for user in model.users.ids.tolist()}
    for row in table.to_dicts():
        lists[row["user_id"]].append(row["item_id"])
    return lists


@pytest.mark.parametrize("rules", SETS, ids=str)
@pytest.mark.parametrize("k", [8, 45])
def test_lists_under_rules_are_those_of_brute_force(
    shop: Artifact, rules: dict[str, Any], k: int
) -> None:
    asked = Rules(**rules)
    lists = lists_in(shop.recommend(shop.users.ids, k, rules=asked), shop)
    assert lists == slow_lists(shop, asked, k)


@pytest.mark.parametrize("kind", ["neighbours", "walk", "blend", "popularity", "autoencoder"])
def test_every_kind_of_model_ranks_under_rules(kind: str) -> None:
    model = model_of(kind)
    vectors = getattr(model.scorer, "item_vectors", None)
    if vectors is None:  # the users of each item stand for it
        vectors = np.zeros((len(model.items), len(model.users)))
        rows = np.repeat(np.arange(len(model.users)), np.diff(model.seen.indptr))
        vectors[model.seen.indices, rows] = 1
    rules = Rules(limits={"category": 3}, apart={"brand": 2}, diversity=0.5, pins={2: "item9"})
    lists = lists_in(model.recommend(model.users.ids, 10, rules=rules), model)
    assert lists == slow_lists(model, rules, 10, vectors=vectors)


def test_limits_find_their_items_however_far_down_they_stand() -> None:
    """The best hundreds are of one category: a head of a fixed length would leave lists short."""
    model = model_of("inner_product", n_items=1200)
    scores = model.scorer.scores(np.arange(len(model.users)))
    kinds = np.where(scores.max(axis=0) > np.quantile(scores.max(axis=0), 0.02), "a", "b")
    kinds[:9] = [*"cdefghijk"]
    model = model.with_items(Attributes(1200, {"category": Categories.of(kinds.tolist())}))
    for rules in (Rules(limits={"category": 2}), Rules(limits={"category": 2}, diversity=0.1)):
        lists = lists_in(model.recommend(model.users.ids, 7, rules=rules), model)
        assert {len(items) for items in lists.values()} == {7}
        assert lists == slow_lists(model, rules, 7)


def test_a_list_does_not_depend_on_the_other_users_nor_on_memory(shop: Artifact) -> None:
    rules = Rules(diversity=0.5, calibration={"tags": 0.5}, limits={"brand": 2}, pins={2: "item1"})
    together = lists_in(shop.recommend(shop.users.ids, 9, rules=rules), shop)
    for user in shop.users.ids.tolist():
        alone = shop.recommend([user], 9, rules=rules, memory_mb=0.1)
        assert lists_in(alone, shop)[user] == together[user]


def test_a_boost_adds_standard_deviations_of_the_best_scores(shop: Artifact) -> None:
    plain = shop.recommend(["user3"], 45, exclude_seen=False)
    by_item = dict(zip(plain.answer_ids.tolist(), plain.scores.tolist(), strict=True))
    unit = float(np.std(plain.scores.astype(np.float64)))
    prices = dict(
        zip(shop.items.ids.tolist(), shop.item_table.columns["price"].values, strict=True)
    )
    rules = Rules(boosts={"price < 30": 0.5, "price<60": 0.25, "price > 90": -1})
    found = shop.recommend(["user3"], 45, exclude_seen=False, rules=rules)
    assert found.scores.tolist() == sorted(found.scores.tolist(), reverse=True)
    for item, score in zip(found.answer_ids.tolist(), found.scores.tolist(), strict=True):
        price = prices[item]
        shift = 0.5 * (price < 30) + 0.25 * (price < 60) - (price > 90)
        assert score == pytest.approx(by_item[item] + unit * shift, abs=1e-5)


def test_a_boost_lifts_what_a_head_would_not_hold() -> None:
    model = model_of("inner_product", n_items=1200)
    lowest = model.recommend(["user3"], 1200).answer_ids[-1]
    price = float(model.item_table.columns["price"].values[model.items.indices([lowest])[0]])
    found = model.recommend(["user3"], 1200, rules=Rules(boosts={f"price = {price:g}": 1000}))
    n_equal = int((model.item_table.columns["price"].values == price).sum())
    assert lowest in found.answer_ids[:n_equal]


def test_a_boost_is_written_as_a_filter_is(shop: Artifact) -> None:
    first, second = shop.items.ids[:2].tolist()
    plain = shop.recommend(["user3"], 45, exclude_seen=False, rules=Rules(boosts={"price < 30": 2}))
    cheap, dear = (shop.with_filters({"cheap": f"price < {price}"}) for price in (30, 60))
    by_name = Rules(boosts={"@cheap": 2})
    found = cheap.recommend(["user3"], 45, exclude_seen=False, rules=by_name)
    assert found.to_dicts() == plain.to_dicts()
    # another meaning of the name is another list, whatever the model has kept of the first
    other = dear.recommend(["user3"], 45, exclude_seen=False, rules=by_name)
    assert other.to_dicts() != plain.to_dicts()
    text = f"id in [{json.dumps(first)}, {json.dumps(second)}]"
    lifted = shop.recommend(["user3"], 2, exclude_seen=False, rules=Rules(boosts={text: 1000}))
    assert set(lifted.answer_ids.tolist()) == {first, second}


def test_of_equal_scores_the_boosted_come_first() -> None:
    model = model_of("popularity")
    model = replace(model, scorer=replace(model.scorer, counts=np.ones(45, np.float32)))
    found = model.recommend(["user3"], 45, rules=Rules(boosts={'category = "jam"': 0.1}))
    jams = [
        row["category"] == "jam"
        for row in model.item_table.rows(model.items.indices(found.answer_ids))
    ]
    assert jams == sorted(jams, reverse=True)
    assert any(jams)


def test_a_pin_stands_only_where_its_item_may_be_listed(shop: Artifact) -> None:
    seen = int(shop.seen.indices[shop.seen.indptr[3]])
    had, free = shop.items.ids[seen], "item40"
    rules = Rules(pins={1: had, 2: free, 3: "nobody's"})
    first = shop.recommend(["user3"], 5, rules=rules).answer_ids.tolist()
    assert had not in first
    assert first[1] == free
    assert shop.recommend(["user3"], 5, rules=rules, exclude_seen=False).answer_ids[0] == had
    without = shop.recommend(["user3"], 5, rules=rules, deny=[free]).answer_ids.tolist()
    assert (
        without
        == [item for item in shop.recommend(["user3"], 6).answer_ids.tolist() if item != free][:5]
    )
    short = shop.recommend(["user3"], 9, rules=Rules(pins={9: free}), allow=["item41", free])
    assert short.answer_ids.tolist() == ["item41", free]


def test_fallback_lists_and_those_of_histories_keep_to_rules(shop: Artifact) -> None:
    rules = Rules(limits={"category": 1}, calibration={"category": 0.9}, pins={1: "item40"})
    query = Query(5, on_unknown="fallback", rules=rules)
    for found in (
        shop.recommend(["eve"], query),
        shop.recommend_to([["item1", "item2"], []], query),
    ):
        assert found.answer_ids[0] == "item40"
        for _, rows in itertools.groupby(found.to_dicts(), lambda row: row["user_id"]):
            kinds = [
                kind
                for row in rows
                for kind in [
                    shop.item_table.row(int(shop.items.indices([row["item_id"]])[0]))["category"]
                ]
                if kind is not None
            ]
            assert len(kinds) == len(set(kinds))


def test_lists_for_a_history_are_calibrated_to_it(shop: Artifact) -> None:
    kinds = shop.item_table.columns["category"]
    jams = [f"item{item}" for item in range(45) if kinds.value(item) == "jam"]
    assert len(jams) > 4
    rules = Rules(calibration={"category": 1.0})
    found = shop.recommend_to([jams[:3]], len(jams) - 3, rules=rules)
    assert set(found.answer_ids.tolist()) == set(jams[3:])


@pytest.mark.parametrize(
    ("rules", "where", "found"),
    [
        ({"limits": {"kategory": 2}}, "rules.limits", "did you mean category"),
        ({"apart": {"about": 2}}, "rules.apart", "free text and vectors have no values to count"),
        ({"calibration": {"colour": 0.5}}, "rules.calibration", "one of category, brand"),
        ({"boosts": {"prize > 3": 0.5}}, "rules.boosts", "did you mean"),
    ],
)
def test_a_rule_about_what_the_items_do_not_have_is_refused(
    shop: Artifact, rules: dict[str, Any], where: str, found: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        shop.recommend(["user3"], 3, rules=Rules(**rules))
    assert where in caught.value.where
    assert found in str(caught.value)


def test_a_model_without_attributes_says_so(shop: Artifact) -> None:
    bare = shop.with_items(Attributes.none(45))
    with pytest.raises(ConfigError, match="none, as there is none"):
        bare.recommend(["user3"], 3, rules=Rules(limits={"category": 2}))
    assert len(bare.recommend(["user3"], 3, rules=Rules(diversity=0.5))) == 3
