"""Lists under a filter: the same as ranking everything and leaving out what the filter refuses."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable
from copy import deepcopy

import numpy as np
import pytest

from ratiorec.catalogue.attributes import Attributes
from ratiorec.catalogue.columns import Categories, Numbers
from ratiorec.data.vocabulary import Vocabulary
from ratiorec.errors import ConfigError, UnknownIdError
from ratiorec.model.artifact import Artifact
from ratiorec.model.query import Query
from ratiorec.reranking.rules import Rules
from ratiorec.scorers import Scorer
from ratiorec.scorers.table import Recommendations
from ratiorec.sinks import Job
from support.small_models import small_model
from support.small_scorers import MAKERS, random_rows

N_USERS, N_ITEMS = 15, 230


def shop(kind: str) -> Artifact:
    """A model of that kind; item n costs n, and every tenth is tea."""
    seen = random_rows(N_USERS, N_ITEMS)
    kinds = ["tea" if n % 10 == 0 else "jam" for n in range(N_ITEMS)]
    table = Attributes(
        N_ITEMS,
        {
            "price": Numbers(np.arange(N_ITEMS, dtype=np.float64)),
            "kind": Categories.of(kinds),
        },
    )
    users = Vocabulary(np.array([f"u{n}" for n in range(N_USERS)], object), "user")
    items = Vocabulary(np.array([f"i{n}" for n in range(N_ITEMS)], object), "item")
    return Artifact(MAKERS[kind](seen, N_ITEMS), users, items, seen, item_table=table)


def by_brute_force(
    scorer: Scorer, user: int, seen: set[int], keeps: list[bool], k: int
) -> list[tuple[int, float]]:
    scores = scorer.scores(np.array([user]))[0].tolist()
    order = sorted(range(len(scores)), key=lambda item: (-scores[item], item))
    listed = [item for item in order if keeps[item] and item not in seen]
    return [(item, scores[item]) for item in listed[:k]]


def pairs(table: Recommendations, user: str) -> list[tuple[int, float]]:
    return [
        (int(row["item_id"][1:]), row["score"])
        for row in table.to_dicts()
        if row["user_id"] == user
    ]


FILTERS = {
    "price < 2": lambda n: n < 2,
    'kind == "tea" and price < 100': lambda n: n % 10 == 0 and n < 100,
    'not kind == "tea"': lambda n: n % 10 != 0,
    "price in [3, 50, 117, 229]": lambda n: n in (3, 50, 117, 229),
    "price > 1e6": lambda n: False,
    'id in ["i3", "i200"]': lambda n: n in (3, 200),
}


@pytest.mark.parametrize("kind", list(MAKERS))
def test_lists_equal_brute_force_to_the_last_bit(kind: str) -> None:
    model, rng = shop(kind), random.Random(1)
    for text, truth in FILTERS.items():
        keeps = [truth(n) for n in range(N_ITEMS)]
        k, denied = rng.choice([1, 5, 40]), rng.randrange(N_ITEMS)
        keeps[denied] = False
        lists = model.recommend(model.users.ids, k, filter=text, deny=[f"i{denied}"])
        for user in range(N_USERS):
            start, end = model.seen.indptr[user : user + 2]
            seen = set(model.seen.indices[start:end].tolist())
            expected = by_brute_force(model.scorer, user, seen, keeps, k)
            assert pairs(lists, f"u{user}") == expected, text


@pytest.mark.parametrize("kind", list(MAKERS))
def test_rules_make_the_same_lists_where_few_items_are_scored(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = shop(kind)
    rules = Rules(limits={"kind": 3}, boosts={"price > 40": 1.0}, diversity=0.3, pins={2: "i20"})
    queries = [Query(6, filter=text, rules=rules) for text in ("price < 22", 'kind == "tea"')]
    few = [model.recommend(model.users.ids, query).to_dicts() for query in queries]
    monkeypatch.setattr("ratiorec.scorers.topk.few_items", lambda scorer, blocked: None)
    assert [model.recommend(model.users.ids, query).to_dicts() for query in queries] == few
    assert all(len(rows) > N_USERS for rows in few)


def test_lists_of_unknown_users_and_of_histories_keep_to_the_filter() -> None:
    model = shop("inner_product")
    query = Query(5, on_unknown="fallback", filter='kind == "tea"')
    counts = np.bincount(model.seen.indices, minlength=N_ITEMS)
    popular = sorted(range(0, N_ITEMS, 10), key=lambda item: (-counts[item], item))[:5]
    assert [item for item, _ in pairs(model.recommend("eve", query), "eve")] == popular
    folded = model.recommend_to([["i1", "i10"], []], query)
    assert {int(one[1:]) % 10 for one in folded.answer_ids} == {0}
    assert "i10" not in folded.answer_ids[folded.query_ids == 0]
    assert len(folded) == 10


def test_how_many_could_be_listed_is_counted_under_the_filter() -> None:
    model = shop("inner_product")
    query = Query(filter="price in [3, 4]", exclude_seen=False)
    assert model.n_listable(["u0", "u1"], query).tolist() == [2, 2]


def test_similar_items_keep_to_a_filter() -> None:
    model = shop("item_factors")
    similar = model.similar("i7", 4, filter='kind == "tea"')
    assert len(similar) == 4
    everything = [one for one in model.similar("i7", N_ITEMS).answer_ids if int(one[1:]) % 10 == 0]
    assert similar.answer_ids.tolist() == everything[:4]


def test_similar_items_take_what_a_query_has() -> None:
    model = shop("item_factors")
    everything = model.similar("i7", N_ITEMS).answer_ids.tolist()
    assert "i7" not in everything
    allowed = model.similar(
        ["i7", "unknown"], 3, allow=["i3", "i8", "i200", "no"], deny=["i8"], on_unknown="skip"
    )
    assert allowed.answer_ids.tolist() == [one for one in everything if one in ("i3", "i200")]
    with pytest.raises(UnknownIdError):
        model.similar("i7", 3, allow=["no"])
    limited = model.similar("i7", Query(5, rules=Rules(limits={"kind": 1})))
    firsts = [
        next(one for one in everything if (int(one[1:]) % 10 == 0) == is_tea)
        for is_tea in (True, False)
    ]
    assert sorted(limited.answer_ids) == sorted(firsts)
    assert limited.kinds is None


def test_similar_items_may_be_calibrated_to_the_item_itself() -> None:
    model = shop("item_factors")
    for item, kind in (("i10", 0), ("i7", 1)):
        found = model.similar(item, 5, rules=Rules(calibration={"kind": 1}))
        assert {int(int(one[1:]) % 10 > 0) for one in found.answer_ids} == {kind}


def test_named_filters_are_of_one_model_and_may_use_one_another() -> None:
    model = shop("inner_product")
    named = model.with_filters({"cheap": "price < 30", "cheap_tea": '@cheap and kind = "tea"'})
    assert sorted(named.recommend("u0", filter="@cheap_tea").answer_ids) == ["i0", "i10", "i20"]
    assert named.scorer is model.scorer
    with pytest.raises(ConfigError, match="names a named filter that is not there"):
        model.recommend("u0", filter="@cheap_tea")


@pytest.mark.parametrize("copied", [deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_a_model_can_be_copied_after_a_filter(copied: Callable[[Artifact], Artifact]) -> None:
    model = shop("inner_product").with_filters({"cheap": "price < 30"})
    found = model.recommend("u0", filter="@cheap").answer_ids
    assert copied(model).recommend("u0", filter="@cheap").answer_ids.tolist() == found.tolist()


@pytest.mark.parametrize(
    ("texts", "where", "found"),
    [
        ({"a": "@b", "b": "price > 1 or @c", "c": "not @a"}, "@c", "@a → @b → @c → @a"),
        ({"a": "@a"}, "@a", "@a → @a"),
        ({"a": "prise < 1"}, "@a, character 1", "prise"),
        ({"a": "@b", "b": "kind > 1"}, "@b, character 1", "kind > 1"),
        ({"a": "price < 1 or @d"}, "@a, character 14", "at the ^ in price < 1 or ^@d"),
    ],
)
def test_bad_named_filters_are_refused(texts: dict[str, str], where: str, found: str) -> None:
    with pytest.raises(ConfigError) as caught:
        shop("inner_product").with_filters(texts)
    assert caught.value.where == where
    assert found in caught.value.found


def test_names_that_multiply_are_refused_and_not_written_out() -> None:
    texts = {"f0": "price > 1"} | {f"f{n}": f"@f{n - 1} and @f{n - 1}" for n in range(1, 30)}
    with pytest.raises(ConfigError, match="the filter is too large"):
        shop("inner_product").with_filters(texts)


def test_titles_and_ids_are_columns_beside_those_of_the_table() -> None:
    model = small_model()
    found = model.recommend("user0", 30, filter='title contains "1TH" and id != "item11"')
    assert sorted(found.answer_ids) == ["item1", "item21"]


def test_another_filter_makes_a_job_another_and_another_spelling_does_not() -> None:
    model = shop("inner_product")
    jobs = [
        Job.of(model, model.users.ids, filter=text).identity
        for text in (None, "price < 5", "(price<5.0)", "price < 6")
    ]
    assert jobs[1] == jobs[2]
    assert len(set(jobs)) == 3


def test_what_filters_keep_is_remembered_up_to_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ratiorec.catalogue.filters._REMEMBERED_BYTES", 8 * 250)
    model = shop("inner_product")
    filters = model.filters
    first = filters.kept(Query(filter="price < 200").filter)
    assert filters.kept(Query(filter="price<200.0").filter) is first
    assert not first.flags.writeable
    filters.kept(Query(filter="price < 100").filter)
    again = filters.kept(Query(filter="price < 200").filter)
    assert again is not first
    assert again.tolist() == first.tolist()
