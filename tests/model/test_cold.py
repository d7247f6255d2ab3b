"""Items that nobody has had: listed by their content, capped, and warm once somebody has them."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ratiorec.catalogue.attributes import Attributes
from ratiorec.catalogue.columns import Numbers, Tags
from ratiorec.catalogue.tables import IdTable
from ratiorec.data.interactions import Interactions
from ratiorec.data.vocabulary import Vocabulary
from ratiorec.errors import ConfigError, DataError, ModelError
from ratiorec.export import NumpyArrays, export
from ratiorec.model.artifact import Artifact
from ratiorec.model.query import Query
from ratiorec.reranking.rules import Rules
from ratiorec.scorers.scorer import pairs_of
from ratiorec.sinks import Job
from ratiorec.training.experiment import fit
from ratiorec.training.fit import FitOptions

THEMES = ("tea", "jam", "nut")
N_USERS, N_KNOWN, N_NEW = 60, 30, 12


@cache
def shop(preset: str = "ease", *, n_new: int = N_NEW) -> Artifact:
    """Users of one theme each have most items of it; new items are of the themes in turn."""
    rng = np.random.default_rng(0)
    pairs = [
        (f"u{user}", f"i{item}")
        for user in range(N_USERS)
        for item in range(N_KNOWN)
        if rng.random() < (0.7 if user % 3 == item % 3 else 0.05)
    ]
    data = Interactions.from_pairs(*zip(*pairs, strict=True))
    options = FitOptions(validation=0)
    model = fit(data, preset=preset, device="cpu", options=options)
    return with_themes(model).with_cold_items(new_items(n_new))


def with_themes(model: Artifact) -> Artifact:
    return model.with_items(themes_of([int(name[1:]) for name in model.items.ids]))


def themes_of(numbers: list[int]) -> Attributes:
    tags = Tags.of([[THEMES[number % 3]] for number in numbers])
    return Attributes(len(numbers), {"theme": tags, "n": Numbers(np.array(numbers) % 7 + 0.0)})


def new_items(n: int = N_NEW) -> IdTable:
    ids = np.array([f"new{place}" for place in range(n)], object)
    return IdTable(ids, None, themes_of(list(range(n))))


@pytest.fixture(scope="module")
def model() -> Artifact:
    return shop()


def rows_of(model: Artifact, user: str = "u0", **options: Any) -> list[dict[str, Any]]:
    return model.recommend([user], **options).to_dicts()


def cold_in(rows: list[dict[str, Any]]) -> list[str]:
    return [row["item_id"] for row in rows if row["kind"] == "cold"]


@pytest.mark.parametrize("preset", ["ease", "item-knn", "walk", "graph-filter", "wmf"])
def test_new_items_of_a_users_theme_come_before_those_of_others(preset: str) -> None:
    model = shop(preset)
    for user in range(6):
        listed = cold_in(rows_of(model, f"u{user}", k=42, max_cold=N_NEW))
        own = [place for place, item in enumerate(listed) if int(item[3:]) % 3 == user % 3]
        assert sorted(listed) == sorted(f"new{n}" for n in range(N_NEW))
        assert own == [0, 1, 2, 3], (user, listed)


def test_the_cap_is_exact(model: Artifact) -> None:
    """The warm items and the best cold ones, merged by score."""
    everything = model.scorer.scores(np.arange(N_USERS))
    n_known = len(model.items) - model.n_cold
    for user in range(0, N_USERS, 7):
        scores, seen = (
            everything[user],
            pairs_of(model.seen, np.array([user]))[1],
        )
        order = [i for i in np.argsort(-scores, kind="stable").tolist() if i not in seen]
        for k, most in ((10, None), (10, 0), (10, 3), (25, None), (40, 40)):
            allowed = max(1, k // 10) if most is None else most
            cold = [i for i in order if i >= n_known][:allowed]
            wanted = [i for i in order if i < n_known or i in cold][:k]
            found = rows_of(model, str(model.users.ids[user]), k=k, max_cold=most)
            assert [row["item_id"] for row in found] == model.items.ids[wanted].tolist()


def test_with_a_filter_the_cap_is_of_what_it_keeps(model: Artifact) -> None:
    everything = rows_of(model, k=42, max_cold=42, filter='theme has "jam"')
    found = rows_of(model, k=42, max_cold=2, filter='theme has "jam"')
    assert cold_in(found) == cold_in(everything)[:2]
    assert [r["item_id"] for r in found if r["kind"] != "cold"] == [
        r["item_id"] for r in everything if r["kind"] != "cold"
    ]


def test_the_cap_holds_where_few_items_are_scored_alone(model: Artifact) -> None:
    few = ["new1", "new4", "new7", "i1"]
    found = rows_of(model, k=4, max_cold=2, allow=few)
    assert len(cold_in(found)) == 2
    assert cold_in(found) == cold_in(rows_of(model, k=4, max_cold=4, allow=few))[:2]


def test_rules_hold_beside_the_cap(model: Artifact) -> None:
    lifted = Rules(boosts={'theme has "nut"': 100.0})
    found = rows_of(model, k=20, max_cold=3, rules=lifted)
    assert [int(item[3:]) % 3 for item in cold_in(found)] == [2, 2, 2]  # boosted, then capped
    assert len(cold_in(rows_of(model, k=20, rules=Rules(limits={"theme": 30})))) <= 2
    assert not cold_in(rows_of(model, k=20, max_cold=0, rules=lifted))


def test_the_cap_is_a_tenth_of_the_list_however_much_is_asked_for(model: Artifact) -> None:
    asked = [rows_of(model, k=k, exclude_seen=False) for k in (42, 1000)]
    assert asked[0] == asked[1]
    assert len(cold_in(asked[1])) == 4


def test_items_that_could_be_listed_are_counted_within_the_cap(model: Artifact) -> None:
    cold = [str(item) for item in model.items.ids[-N_NEW:]]
    for query, wanted in (
        (Query(20, allow=cold), 2),
        (Query(20, allow=cold, max_cold=0), 0),
        (Query(20, allow=[*cold, "i0"], max_cold=99, exclude_seen=False), N_NEW + 1),
    ):
        assert model.n_listable(["u0"], query).tolist() == [wanted]


@pytest.mark.parametrize("wrong", [-1, "3", 1.5])
def test_a_cap_that_is_no_number_of_items_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigError, match=r"cold items.*max_cold.*a whole number"):
        Query(max_cold=wrong)


def test_bulk_lists_are_capped_and_the_job_is_another(model: Artifact) -> None:
    job = Job.of(model, model.users.ids, k=10, max_cold=2)
    lists = [row for block in job.blocks(0, 25) for row in block.lists.to_dicts()]
    by_user = [cold_in([r for r in lists if r["user_id"] == user]) for user in model.users.ids]
    assert max(map(len, by_user)) == 2
    assert job.identity != Job.of(model, model.users.ids, k=10, max_cold=1).identity


def test_evaluation_judges_the_lists_that_are_served(model: Artifact) -> None:
    test = Interactions.from_pairs(["u0"] * 2, ["new3", "new6"])
    rows = model.recommend(["u0"], k=20).to_dicts()
    hits = sum(row["item_id"] in ("new3", "new6") for row in rows)
    assert model.evaluate(test, (20,)).value("recall@20") == hits / 2


def test_items_that_have_users_are_scored_as_before(model: Artifact) -> None:
    warm = model.without_cold_items()
    n = len(warm.items)
    assert warm.n_cold == 0
    assert "cold_items" not in warm.card
    everyone = np.arange(N_USERS)
    assert model.scorer.scores(everyone)[:, :n] == pytest.approx(
        warm.scorer.scores(everyone), abs=1e-6
    )


def test_similar_items_go_both_ways(model: Artifact) -> None:
    of_cold = model.similar(["new0"], 5).to_dicts()
    assert {int(row["similar_id"].strip("inew")) % 3 for row in of_cold} == {0}
    of_warm = [row["similar_id"] for row in model.similar(["i3"], 42).to_dicts()]
    cold = [int(name[3:]) % 3 for name in of_warm if name.startswith("new")]
    assert cold[:4] == [0] * 4


def test_a_history_may_list_and_hold_cold_items(model: Artifact) -> None:
    rows = model.recommend_to([["i0", "i3", "new0"]], k=42, max_cold=12).to_dicts()
    assert not {"i0", "i3", "new0"} & {row["item_id"] for row in rows}
    assert {int(item[3:]) % 3 for item in cold_in(rows)[:3]} == {0}


@pytest.mark.parametrize("preset", ["wmf", "implicit-als", "ease"])
def test_a_history_of_known_items_is_folded_in_as_without_cold_items(preset: str) -> None:
    model, histories = shop(preset), [["i0", "i3"], ["i1"]]
    known = model.without_cold_items().recommend_to(histories, k=5).to_dicts()
    found = model.recommend_to(histories, k=5, max_cold=0).to_dicts()
    assert [row["item_id"] for row in found] == [row["item_id"] for row in known]
    scores = [row["score"] for row in known]
    assert [row["score"] for row in found] == pytest.approx(scores, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("preset", ["ease", "item-knn", "wmf"])
def test_a_model_with_cold_items_is_the_same_again_from_its_folder(
    preset: str, tmp_path: Path
) -> None:
    model = shop(preset)
    model.save(tmp_path / "model")
    again = Artifact.load(tmp_path / "model")
    assert again.n_cold == N_NEW
    assert rows_of(again, k=20) == rows_of(model, k=20)
    assert again.without_cold_items().items.ids.tolist() == model.items.ids[:-N_NEW].tolist()


@pytest.mark.parametrize("preset", ["ease", "item-knn", "wmf", "walk"])
@pytest.mark.parametrize("how", ["update", "partial_fit"])
def test_a_cold_item_that_gets_users_is_warm(preset: str, how: str) -> None:
    model = shop(preset)
    users = [f"u{user}" for user in range(1, N_USERS, 3)]
    after: Artifact = getattr(model, how)(Interactions.from_pairs(users, ["new5"] * len(users)))
    assert after.n_cold == N_NEW - 1
    assert sorted(after.items.ids) == sorted(model.items.ids)
    place = int(after.items.indices(["new5"])[0])
    assert not after.cold_items[place]
    assert after.item_table.row(place) == {"theme": ["nut"], "n": 5.0}
    rows = rows_of(after, "u4", k=42, max_cold=42, exclude_seen=False)
    assert {r["item_id"]: r["kind"] for r in rows}["new5"] == "personal"
    assert set(cold_in(rows)) == {f"new{n}" for n in range(N_NEW)} - {"new5"}
    expected = getattr(model.without_cold_items(), how)(
        Interactions.from_pairs(users, ["new5"] * len(users))
    )
    n = len(expected.items)
    assert after.scorer.scores(np.arange(9))[:, :n] == pytest.approx(
        expected.scorer.scores(np.arange(9)), rel=1e-5, abs=1e-6
    )


def test_another_table_replaces_the_cold_items_of_the_one_before(model: Artifact) -> None:
    two = new_items(14).take(np.array([2, 13]))
    after = model.with_cold_items(two)
    assert after.items.ids[-2:].tolist() == ["new2", "new13"]
    assert after.n_cold == 2
    assert len(after.items) == len(model.items) - N_NEW + 2
    assert model.with_cold_items(new_items(0)).n_cold == 0


def test_items_that_the_model_knows_stay_where_they_are(model: Artifact) -> None:
    known = IdTable(np.array(["i0", "new0"], object), None, themes_of([0, 0]))
    after = model.with_cold_items(known)
    assert after.n_cold == 1
    assert after.items.ids[:-1].tolist() == model.items.ids[:-N_NEW].tolist()


def test_titles_of_cold_items_are_names() -> None:
    warm = shop(n_new=0)
    named = warm.with_items(warm.item_table, [f"Item {n}" for n in range(len(warm.items))])
    titles = np.array(["New one", None], object)
    table = IdTable(np.array(["a", "b"], object), titles, themes_of([0, 1]))
    after = named.with_cold_items(table)
    assert after.items.names is not None
    assert after.items.names[-2:].tolist() == ["New one", "b"]


def test_ids_of_another_kind_are_refused() -> None:
    data = Interactions.from_pairs([1, 1, 2], [10, 20, 10])
    model = fit(data, preset="popularity", device="cpu", options=FitOptions(validation=0))
    with pytest.raises(DataError, match="two kinds"):
        model.with_cold_items(new_items(2))


def test_without_any_attribute_of_known_items_a_cold_one_is_the_mean() -> None:
    warm = shop(n_new=0).with_items(Attributes.none(N_KNOWN))
    scores = warm.with_cold_items(new_items(2)).scorer.scores(np.arange(5))
    assert scores[:, -2:] == pytest.approx(
        np.repeat(scores[:, :N_KNOWN].mean(axis=1, keepdims=True), 2, axis=1), rel=1e-4
    )


def test_a_folder_that_claims_other_cold_items_is_refused() -> None:
    model = shop(n_new=2)
    fields = {name: getattr(model, name) for name in ("users", "items", "seen")}
    for wrong in (-1, 1000, True, "2", N_KNOWN):
        with pytest.raises(ModelError):
            Artifact(model.scorer, **fields, n_cold=wrong)


def test_vectors_with_cold_items_are_exported(tmp_path: Path) -> None:
    model = shop("wmf")
    export(model, NumpyArrays(), tmp_path / "vectors")
    assert len(np.load(tmp_path / "vectors" / "item_vectors.npy")) == len(model.items)
    assert model.item_map is not None
    assert len(model.item_map.places) == len(model.items)


def test_ids_may_be_whole_numbers() -> None:
    data = Interactions.from_pairs([1, 1, 2, 3], [10, 20, 10, 30])
    model = fit(data, preset="item-knn", device="cpu", options=FitOptions(validation=0))
    prices = Attributes(2, {"price": Numbers(np.array([1.0, 2.0]))})
    after = model.with_cold_items(IdTable(np.array([5, 6]), None, prices))
    assert after.items.same_as(Vocabulary(np.array([10, 20, 30, 5, 6]), "item"))


def test_an_item_of_which_nothing_is_known_is_left_out_and_a_title_is_something() -> None:
    ids, themes = np.array(["told", "titled", "bare"], object), themes_of([0, 1, 2])
    titles = np.array([None, "of theme 1", None], object)
    bare = themes.take(np.array([0, -1, -1]))
    after = shop("ease").with_cold_items(IdTable(ids, titles, bare))
    assert after.items.ids[-after.n_cold :].tolist() == ["told", "titled"]


def test_a_map_stays_and_cold_items_lie_among_those_that_they_are_like() -> None:
    warm = shop("wmf").without_cold_items()
    assert warm.item_map is not None
    after = warm.with_cold_items(new_items())
    assert after.item_map is not None
    places, n_known = after.item_map.places, len(warm.items)
    assert np.array_equal(places[:n_known], warm.item_map.places)
    known = after.similarity.scores(np.arange(n_known, len(after.items)))[:, :n_known]
    for row, place in zip(known, places[n_known:], strict=True):
        nearest = np.argsort(-row, kind="stable")[:3]
        assert place == pytest.approx(places[nearest].mean(axis=0), abs=1e-3)
    again = after.without_cold_items()
    assert again.item_map is not None
    assert np.array_equal(again.item_map.places, warm.item_map.places)


def test_a_model_says_how_many_of_its_items_are_there_by_content(model: Artifact) -> None:
    assert "items: 42, 12 of them by content" in repr(model)


@pytest.mark.parametrize("way", ["update", "partial_fit"])
def test_more_pairs_leave_the_map_as_it_is_and_put_new_items_into_it(way: str) -> None:
    before = shop("wmf")
    assert before.item_map is not None
    pairs = Interactions.from_pairs(["u0", "u0", "zoe"], ["new0", "other", "other"])
    after: Artifact = getattr(before, way)(pairs)
    assert "item_map" in vars(after)
    assert after.item_map is not None
    assert np.array_equal(after.item_map.places[:N_KNOWN], before.item_map.places[:N_KNOWN])
    assert after.item_map.places.shape == (len(after.items), 2)
