from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ratiorec.data.interactions import Interactions
from ratiorec.data.vocabulary import Vocabulary
from ratiorec.errors import ConfigError, ModelError, UnknownIdError
from ratiorec.evaluation.evaluate import evaluate
from ratiorec.model.artifact import Artifact
from ratiorec.model.query import Query
from ratiorec.model.store import read_model, write_model
from ratiorec.scorers import SCORERS, InnerProduct
from ratiorec.scorers.item_map import ItemMap
from ratiorec.scorers.scorer import UserItems
from support.small_scorers import MAKERS

N_USERS, N_ITEMS = 30, 50


def interactions(users: Vocabulary, items: Vocabulary, seed: int = 0) -> Interactions:
    rng = np.random.default_rng(seed)
    return Interactions.from_indices(
        users, items, rng.integers(len(users), size=200), rng.integers(len(items), size=200)
    )


def text_ids(n: int, kind: str) -> Vocabulary:
    return Vocabulary(np.array([f"{kind}-{i}é" for i in range(n)], object), kind)


def model(*, text: bool = True, names: bool = True) -> Artifact:
    rng = np.random.default_rng(0)
    users = text_ids(N_USERS, "user") if text else Vocabulary(np.arange(100, 130), "user")
    items = text_ids(N_ITEMS, "item") if text else Vocabulary(np.arange(500, 550), "item")
    if names:
        items = items.with_names([f"Item № {i}" for i in range(N_ITEMS)])
    # whole numbers, so that ties happen
    factors = InnerProduct(
        rng.integers(-3, 4, (N_USERS, 4)).astype(np.float32),
        rng.integers(-3, 4, (N_ITEMS, 4)).astype(np.float32),
    )
    how = {"encoder": {"dimension": 4}, "rate": 0.01}
    return Artifact.of(factors, interactions(users, items), settings=how, card={"seed": 0})


MODEL = model()


def model_of(kind: str) -> Artifact:
    """The same users, items and pairs with a scorer of another kind."""
    return replace(MODEL, scorer=MAKERS[kind](MODEL.seen, N_ITEMS))


def listed(table: Any) -> dict[Any, list[Any]]:
    lists: dict[Any, list[Any]] = {}
    for row in table.to_dicts():
        lists.setdefault(row["user_id"], []).append(row["item_id"])
    return lists


def seen_ids(artifact: Artifact, user: int) -> set[Any]:
    start, stop = artifact.seen.indptr[user : user + 2]
    return set(artifact.items.ids[artifact.seen.indices[start:stop]].tolist())


def test_a_table_has_ids_names_scores_and_ranks() -> None:
    table = MODEL.recommend(["user-3é"], k=4)
    assert list(table.columns()) == ["user_id", "item_id", "item_name", "score", "rank", "kind"]
    assert [row["rank"] for row in table.to_dicts()] == [1, 2, 3, 4]
    for row in table.to_dicts():
        item = int(MODEL.items.indices([row["item_id"]])[0])
        assert row["score"] == float(MODEL.scorer.scores(np.array([3]))[0, item])
        assert row["item_name"] == f"Item № {item}"


def test_a_lone_id_is_one_user_and_not_its_letters() -> None:
    assert set(listed(MODEL.recommend("user-3é"))) == {"user-3é"}
    assert set(listed(model(text=False).recommend(103))) == {103}
    assert set(listed(model(text=False).recommend(np.int64(103)))) == {103}


def test_users_are_listed_in_the_order_asked_even_twice() -> None:
    ids = ["user-7é", "user-2é", "user-7é"]
    rows = MODEL.recommend(ids, k=1).to_dicts()
    assert [row["user_id"] for row in rows] == ids


def test_seen_items_are_left_out_unless_asked_for() -> None:
    for user in range(N_USERS):
        identifier = MODEL.users.ids[user]
        without = listed(MODEL.recommend([identifier], k=N_ITEMS))[identifier]
        assert set(without) == set(MODEL.items.ids.tolist()) - seen_ids(MODEL, user)
        everything = MODEL.recommend([identifier], k=N_ITEMS, exclude_seen=False)
        assert len(everything) == N_ITEMS


@given(st.lists(st.integers(0, N_USERS - 1), min_size=1, max_size=8), st.integers(1, 60))
def test_a_batch_gives_what_single_users_get(users: list[int], k: int) -> None:
    ids = [MODEL.users.ids[user] for user in users]
    together = MODEL.recommend(ids, k).to_dicts()
    alone = [row for identifier in ids for row in MODEL.recommend([identifier], k).to_dicts()]
    assert together == alone


@given(
    st.sets(st.integers(0, N_ITEMS - 1)) | st.none(),
    st.sets(st.integers(0, N_ITEMS - 1)) | st.none(),
)
def test_only_allowed_items_without_the_denied_ones_are_listed(
    allow: set[int] | None, deny: set[int] | None
) -> None:
    def ids(items: set[int] | None) -> list[str] | None:
        return None if items is None else [MODEL.items.ids[item] for item in items]

    table = MODEL.recommend(["user-0é"], k=N_ITEMS, allow=ids(allow), deny=ids(deny))
    possible = set(range(N_ITEMS)) if allow is None else allow
    expected = {MODEL.items.ids[item] for item in possible - (deny or set())}
    assert set(table.answer_ids.tolist()) == expected - seen_ids(MODEL, 0)


def test_k_beyond_the_catalogue_shortens_the_table() -> None:
    table = MODEL.recommend(["user-0é"], k=10**12)
    assert len(table) == N_ITEMS - len(seen_ids(MODEL, 0))
    assert len(set(table.answer_ids.tolist())) == len(table)


def test_a_user_who_has_seen_everything_has_no_rows() -> None:
    factors = InnerProduct(np.ones((1, 1), np.float32), np.ones((3, 1), np.float32))
    users, items = Vocabulary.dense(1, kind="user"), Vocabulary.dense(3, kind="item")
    seen = UserItems(np.array([0, 3]), np.array([0, 1, 2], np.int32))
    table = Artifact(factors, users, items, seen).recommend([0])
    assert len(table) == 0
    assert table.n_users == 1


def test_options_come_one_by_one_or_as_a_query() -> None:
    users, allow = MODEL.users.ids[:4], MODEL.items.ids[40:]
    query = Query(k=3, exclude_seen=False, allow=allow)
    expected = MODEL.recommend(users, k=3, exclude_seen=False, allow=allow).to_dicts()
    assert MODEL.recommend(users, query).to_dicts() == expected
    assert MODEL.recommend(users, Query(k=7, allow=allow), k=3, exclude_seen=False).to_dicts() == (
        expected
    )
    (block,) = MODEL.recommend_blocks(users, query)
    assert block.to_dicts() == expected
    (everyone,) = MODEL.recommend_all(query)
    assert everyone.to_dicts() == MODEL.recommend(MODEL.users.ids, query).to_dicts()
    histories = [[MODEL.items.ids[1]]]
    of_nobody = replace(MODEL, settings={})  # how it was trained does not matter here
    assert of_nobody.recommend_to(histories, query).to_dicts() == (
        of_nobody.recommend_to(histories, 3, exclude_seen=False, allow=allow).to_dicts()
    )


@given(
    st.sets(st.integers(0, N_ITEMS - 1)) | st.none(),
    st.sets(st.integers(0, N_ITEMS - 1)) | st.none(),
    st.booleans(),
)
def test_what_could_be_listed_is_counted_without_ranking(
    allow: set[int] | None, deny: set[int] | None, exclude_seen: bool
) -> None:
    def ids(items: set[int] | None) -> list[str] | None:
        return None if items is None else [MODEL.items.ids[item] for item in items]

    users = ["user-4é", "nobody", "user-0é", "user-4é"]
    query = Query(N_ITEMS, exclude_seen, allow=ids(allow), deny=ids(deny), on_unknown="fallback")
    lists = listed(MODEL.recommend(users[:3], query))
    expected = [len(lists.get(user, [])) for user in users]
    assert MODEL.n_listable(users, query).tolist() == expected


@pytest.mark.parametrize("k", [0, -3])
def test_a_k_that_is_not_positive_is_refused(k: int) -> None:
    for ask in (
        lambda: MODEL.recommend(["user-0é"], k),
        lambda: MODEL.recommend_all(k),
        lambda: MODEL.similar(["item-0é"], k),
    ):
        with pytest.raises(ConfigError, match="k must be positive"):
            ask()


def test_an_unknown_user_is_refused_by_name() -> None:
    with pytest.raises(UnknownIdError, match="nobody"):
        MODEL.recommend(["user-0é", "nobody"])


def test_an_unknown_user_can_be_skipped() -> None:
    table = MODEL.recommend(["nobody", "user-0é"], on_unknown="skip")
    assert set(listed(table)) == {"user-0é"}
    assert table.n_users == 1


def test_an_unknown_user_can_fall_back_on_what_is_popular() -> None:
    table = MODEL.recommend(["user-1é", "nobody", "user-0é", "noone"], k=5, on_unknown="fallback")
    lists = listed(table)
    counts = np.bincount(MODEL.seen.indices, minlength=N_ITEMS)
    popular = sorted(range(N_ITEMS), key=lambda item: (-counts[item], item))[:5]
    assert list(lists) == ["user-1é", "nobody", "user-0é", "noone"]
    assert lists["nobody"] == lists["noone"] == [MODEL.items.ids[item] for item in popular]
    kinds = {user: set() for user in lists}
    for row in table.to_dicts():
        kinds[row["user_id"]].add(row["kind"])
    assert kinds["nobody"] == kinds["noone"] == {"fallback"}
    assert "fallback" not in kinds["user-0é"] | kinds["user-1é"]
    scores = [row["score"] for row in table.to_dicts() if row["user_id"] == "nobody"]
    assert scores == [float(counts[item]) for item in popular]
    known = listed(MODEL.recommend(["user-1é", "user-0é"], k=5))
    assert {name: lists[name] for name in known} == known


def test_the_fallback_honours_allow_and_deny() -> None:
    allow = [MODEL.items.ids[item] for item in (3, 4, 5)]
    table = MODEL.recommend(
        ["nobody"], allow=allow, deny=[MODEL.items.ids[4]], on_unknown="fallback"
    )
    assert set(table.answer_ids.tolist()) == {MODEL.items.ids[3], MODEL.items.ids[5]}


def test_the_fallback_shows_unknown_ids_as_they_were_asked() -> None:
    numbered = model(text=False)
    assert list(listed(numbered.recommend([7, 103], on_unknown="fallback"))) == [7, 103]
    assert list(listed(numbered.recommend(["x", 103], on_unknown="fallback"))) == ["x", "103"]
    assert list(listed(numbered.recommend(["0103", 103], on_unknown="fallback"))) == ["0103", "103"]


def test_an_unknown_item_to_deny_is_no_mistake() -> None:
    listed_all, denied = (MODEL.recommend(["user-0é"], deny=deny) for deny in ([], ["nothing"]))
    assert denied.to_dicts() == listed_all.to_dicts()


def test_an_unknown_item_to_allow_follows_the_same_policy() -> None:
    with pytest.raises(UnknownIdError, match="nothing"):
        MODEL.recommend(["user-0é"], allow=["nothing"])
    table = MODEL.recommend(["user-0é"], allow=["nothing"], on_unknown="skip")
    assert len(table) == 0


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"found: 'ignore'; wanted: one of raise, skip"):
        MODEL.recommend(["user-0é"], on_unknown="ignore")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="'ignore'"):
        MODEL.similar(["item-0é"], on_unknown="ignore")  # type: ignore[arg-type]


@given(st.floats(0.004, 0.1))
def test_blocks_of_all_users_are_what_recommend_gives(memory_mb: float) -> None:
    blocks = list(MODEL.recommend_all(6, memory_mb=memory_mb))
    rows = [row for block in blocks for row in block.to_dicts()]
    assert rows == MODEL.recommend(MODEL.users.ids, 6).to_dicts()
    assert sum(block.n_users for block in blocks) == N_USERS


def test_blocks_serve_unknown_users_too() -> None:
    ids = ["user-1é", "nobody"] * 20
    blocks = list(MODEL.recommend_blocks(ids, 3, on_unknown="fallback", memory_mb=0.01))
    assert len(blocks) > 2
    rows = [row for block in blocks for row in block.to_dicts()]
    assert rows == MODEL.recommend(ids, 3, on_unknown="fallback").to_dicts()


def test_similar_items_have_the_largest_cosine_and_leave_out_the_item() -> None:
    table = MODEL.similar(["item-4é"], k=N_ITEMS)
    assert list(table.columns()) == ["item_id", "similar_id", "similar_name", "score", "rank"]
    factors = MODEL.scorer.arrays()["items"].astype(np.float64)
    lengths = np.maximum(np.linalg.norm(factors, axis=1), 1e-9)
    cosines = factors @ factors[4] / (lengths * lengths[4])
    found = MODEL.items.indices(table.answer_ids)
    assert sorted(found.tolist()) == [item for item in range(N_ITEMS) if item != 4]
    np.testing.assert_allclose(table.scores, cosines[found], atol=1e-6)
    assert (np.diff(table.scores) <= 0).all()


@pytest.mark.parametrize("kind", sorted(SCORERS.keys() - {"popularity"}))
def test_similar_items_are_those_the_scorer_finds_most_similar(kind: str) -> None:
    artifact = model_of(kind)
    table = artifact.similar(["item-4é"], k=N_ITEMS)
    found = artifact.items.indices(table.answer_ids)
    scores = artifact.scorer.similarity().scores(np.array([4]))[0]
    assert table.scores.tolist() == scores[found].tolist()
    assert found.tolist() == sorted(
        set(range(N_ITEMS)) - {4}, key=lambda item: (-scores[item], item)
    )


def test_a_kind_that_compares_no_items_says_so() -> None:
    with pytest.raises(ConfigError, match="popularity knows of no similarity"):
        model_of("popularity").similar(["item-4é"])


def test_unknown_items_have_no_similar_ones() -> None:
    with pytest.raises(UnknownIdError, match="nothing"):
        MODEL.similar(["nothing"])
    assert len(MODEL.similar("nothing", on_unknown="skip")) == 0


def test_a_model_is_judged_as_its_scorer_is() -> None:
    test = interactions(MODEL.users, MODEL.items, seed=9)
    report = MODEL.evaluate(test, ks=(5,))
    expected = evaluate(MODEL.scorer, MODEL.seen, test, ks=(5,))
    assert report.per_user["ndcg@5"].tolist() == expected.per_user["ndcg@5"].tolist()
    assert report.user_ids is not None
    assert report.user_ids.tolist() == [f"user-{user}é" for user in expected.users]


def test_test_pairs_are_matched_by_id_and_not_by_place() -> None:
    test = interactions(MODEL.users, MODEL.items, seed=9)
    users = Vocabulary(MODEL.users.ids[::-1].copy(), "user")
    items = Vocabulary(MODEL.items.ids[::-1].copy(), "item")
    mirrored = Interactions.from_indices(
        users, items, N_USERS - 1 - test.pair_users, N_ITEMS - 1 - test.indices
    )
    expected, found = MODEL.evaluate(test), MODEL.evaluate(mirrored)
    assert found.per_user["recall@20"].tolist() == expected.per_user["recall@20"].tolist()


def test_a_test_part_with_unknown_users_is_refused_or_judged_without_them() -> None:
    users = Vocabulary(np.array(["user-0é", "nobody"], object), "user")
    test = Interactions.from_indices(users, MODEL.items, [0, 0, 1], [1, 2, 3])
    with pytest.raises(UnknownIdError, match="nobody"):
        MODEL.evaluate(test)
    assert MODEL.evaluate(test, on_unknown="skip").users.tolist() == [0]


def assert_same(a: Artifact, b: Artifact) -> None:
    """Bit for bit the same model."""
    for name, array in a.scorer.arrays().items():
        assert b.scorer.arrays()[name].tobytes() == array.tobytes()
    for one, other in ((a.users, b.users), (a.items, b.items)):
        assert one.kind == other.kind
        assert one.ids.dtype == other.ids.dtype
        assert one.ids.tolist() == other.ids.tolist()
        assert (one.names is None) == (other.names is None)
        assert one.names is None or one.names.tolist() == other.names.tolist()
    assert a.seen.indptr.tolist() == b.seen.indptr.tolist()
    assert a.seen.indices.tolist() == b.seen.indices.tolist()
    assert (dict(a.settings), dict(a.card)) == (dict(b.settings), dict(b.card))


@pytest.mark.parametrize("text", [True, False])
@pytest.mark.parametrize("names", [True, False])
def test_a_saved_model_comes_back_bit_for_bit(tmp_path: Path, text: bool, names: bool) -> None:
    before = model(text=text, names=names)
    before.save(tmp_path / "model")
    after = Artifact.load(tmp_path / "model")
    assert_same(before, after)
    ids = before.users.ids
    assert after.recommend(ids).to_dicts() == before.recommend(ids).to_dicts()


@pytest.mark.parametrize("kind", list(SCORERS))
def test_a_model_of_any_kind_comes_back_and_recommends_the_same(kind: str, tmp_path: Path) -> None:
    before = model_of(kind)
    before.save(tmp_path / "model")
    after = Artifact.load(tmp_path / "model")
    assert after.scorer.kind == kind
    assert_same(before, after)
    ids = before.users.ids
    assert after.recommend(ids).to_dicts() == before.recommend(ids).to_dicts()


def test_a_saved_model_has_its_map_and_loading_makes_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = MODEL.item_map
    MODEL.save(tmp_path / "model")
    monkeypatch.setattr(ItemMap, "of", None)
    kept = Artifact.load(tmp_path / "model").item_map
    assert expected is not None
    assert kept is not None
    assert kept.places.tobytes() == expected.places.tobytes()
    assert kept.shown == expected.shown


def test_a_model_of_other_parts_keeps_no_map_of_the_old_ones(tmp_path: Path) -> None:
    MODEL.save(tmp_path / "model")
    loaded = Artifact.load(tmp_path / "model")
    assert loaded.item_map is not None
    other = replace(loaded, scorer=model_of("autoencoder").scorer)
    assert other.item_map is not None
    assert other.item_map.places.tolist() != loaded.item_map.places.tolist()
    assert replace(loaded, scorer=model_of("popularity").scorer).item_map is None


def test_other_attributes_names_and_cards_keep_the_map(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    MODEL.save(tmp_path / "model")
    loaded = Artifact.load(tmp_path / "model")
    monkeypatch.setattr(ItemMap, "of", None)  # it takes seconds where items are many
    for other in (
        loaded.with_items(loaded.item_table, ["a thing"] * len(loaded.items)),
        loaded.with_users(loaded.user_table),
        loaded.with_card({}),
    ):
        assert other.item_map is loaded.item_map


def test_a_folder_from_the_time_of_inner_products_only_still_loads(tmp_path: Path) -> None:
    content = {
        "scorer": "inner_product",
        "users": {"ids": "int64", "names": False},
        "items": {"ids": "int64", "names": False},
        "settings": {"rate": 0.01},
        "card": {},
    }
    arrays = {
        "scorer.users": np.array([[1], [-1]], np.float32),
        "scorer.items": np.array([[1], [2], [3]], np.float32),
        "seen.indptr": np.array([0, 1, 1]),
        "seen.indices": np.array([2], np.int32),
        "user.ids": np.array([70, 80]),
        "item.ids": np.array([10, 20, 30]),
    }
    write_model(tmp_path / "model", content, arrays)
    loaded = Artifact.load(tmp_path / "model")
    assert listed(loaded.recommend([70, 80])) == {70: [20, 10], 80: [10, 20, 30]}
    assert loaded.similar([10], k=1).scores.tolist() == [1]
    assert loaded.item_map is not None
    assert loaded.item_map.places.tolist() == [[0, 0]] * 3  # all in one direction


DTYPES = (np.float32, np.float64, np.int32, np.int64, np.uint8)


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(list(SCORERS)), st.data())
def test_a_model_with_arrays_of_another_is_refused_or_has_finite_scores(
    tmp_path: Path, kind: str, data: st.DataObject
) -> None:
    path = tmp_path / "model"
    model_of(kind).save(path)
    content, arrays = read_model(path)
    name = data.draw(st.sampled_from(sorted(arrays)))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    shape = list(arrays[name].shape)
    axis = data.draw(st.integers(0, len(shape)))
    if axis < len(shape):
        shape[axis] = data.draw(st.integers(0, 60))
    dtype = data.draw(st.sampled_from([arrays[name].dtype, *DTYPES]))
    bits = rng.integers(256, size=(*shape, np.dtype(dtype).itemsize), dtype=np.uint8)
    kept = {part: content[part] for part in ("scorer", "users", "items", "settings", "card")}
    write_model(path, kept, arrays | {name: bits.view(dtype)[..., 0]})
    try:
        loaded = Artifact.load(path)
    except ModelError:
        return
    assert np.isfinite(loaded.scorer.scores(np.arange(len(loaded.users)))).all()


def test_another_card_makes_another_model_of_the_same_parts() -> None:
    other = MODEL.with_card({"seed": 5})
    assert other.card == {"seed": 5}
    assert other.scorer is MODEL.scorer
    assert MODEL.card == {"seed": 0}


def test_parts_that_do_not_fit_each_other_are_refused() -> None:
    parts = {
        "scorer": MODEL.scorer,
        "users": MODEL.users,
        "items": MODEL.items,
        "seen": MODEL.seen,
    }
    indptr, indices = MODEL.seen.indptr, MODEL.seen.indices
    wrong = {
        "users": [Vocabulary.dense(N_USERS + 1, kind="user")],
        "items": [Vocabulary.dense(N_ITEMS - 1, kind="item")],
        "seen": [
            UserItems(indptr[:-1], indices),
            UserItems(indptr, indices[:-1]),
            UserItems(indptr + 1, indices),
            UserItems(np.r_[indptr[:-2], indptr[-1] + 1, indptr[-1]], indices),
            UserItems(indptr, np.where(indices == indices.max(), N_ITEMS, indices)),
            UserItems(indptr, -indices),
            UserItems(indptr.astype(np.int32), indices),  # type: ignore[arg-type]
            UserItems(indptr, indices.astype(np.int64)),  # type: ignore[arg-type]
        ],
    }
    for name, values in wrong.items():
        for value in values:
            with pytest.raises(ModelError, match="do not fit"):
                Artifact(**parts | {name: value})


def test_a_model_loads_and_recommends_without_torch(tmp_path: Path) -> None:
    MODEL.save(tmp_path / "model")
    script = """
import sys
from ratiorec.model.artifact import Artifact
model = Artifact.load(sys.argv[1])
assert len(model.recommend([model.users.ids[0]], 3)) == 3
assert len(model.similar([model.items.ids[0]], 3)) == 3
heavy = {"torch", "pandas", "polars", "pyarrow", "scipy"} & set(sys.modules)
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "model")], check=True)


def test_a_model_of_gowalla_size_loads_in_well_under_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ItemMap, "of", ItemMap.plane_of)  # how it lies is of no weight here
    rng = np.random.default_rng(0)
    factors = InnerProduct(
        rng.standard_normal((29_858, 64), dtype=np.float32),
        rng.standard_normal((40_981, 64), dtype=np.float32),
    )
    users, items = text_ids(29_858, "user"), text_ids(40_981, "item")
    seen = UserItems(
        np.linspace(0, 810_128, 29_859).astype(np.int64),
        rng.integers(40_981, size=810_128).astype(np.int32),
    )
    Artifact(factors, users, items, seen).save(tmp_path / "model")
    started = time.process_time()  # of this process alone, whatever else the machine does
    Artifact.load(tmp_path / "model")
    assert time.process_time() - started < 0.7
