"""Users of whom attributes alone are known: what users like them have, else what is popular."""

from __future__ import annotations

import pickle
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ratiorec.catalogue.attributes import Attributes
from ratiorec.catalogue.columns import Categories, Numbers, OwnVectors, Tags, Texts
from ratiorec.catalogue.tables import IdTable
from ratiorec.data.interactions import Interactions
from ratiorec.errors import ConfigError
from ratiorec.model.artifact import Artifact
from ratiorec.model.profiles import profile_table
from ratiorec.sinks import Job
from ratiorec.training.experiment import fit
from ratiorec.training.fit import FitOptions

SEGMENTS = ("north", "south")
N_USERS, N_ITEMS = 80, 20


@cache
def shop() -> Artifact:
    """Users of a segment have the items of its half more often; item 0 is had by most."""
    rng = np.random.default_rng(0)
    pairs = [
        (f"u{user}", f"i{item}")
        for user in range(N_USERS)
        for item in range(N_ITEMS)
        if item == 0 or rng.random() < (0.5 if user % 2 == item % 2 else 0.1)
    ]
    data = Interactions.from_pairs(*zip(*pairs, strict=True))
    model = fit(data, preset="item-knn", device="cpu", options=FitOptions(validation=0))
    numbers = [int(name[1:]) for name in model.users.ids]
    stock = Numbers(np.array([int(name[1:]) % 3 for name in model.items.ids], float))
    return model.with_users(table_of(numbers)).with_items(Attributes(N_ITEMS, {"stock": stock}))


def table_of(numbers: list[int]) -> Attributes:
    return Attributes(len(numbers), {"segment": Categories.of([SEGMENTS[n % 2] for n in numbers])})


def new_users() -> IdTable:
    return IdTable(np.array(["u0", "ann", "bob"], object), None, table_of([1, 0, 1]))


def items_of(rows: list[dict[str, Any]], user: Any) -> list[str]:
    return [row["item_id"] for row in rows if row["user_id"] == user]


def halves(items: list[str]) -> list[int]:
    return [int(item[1:]) % 2 for item in items]


def test_lists_are_of_what_users_alike_have() -> None:
    rows = shop().recommend_for([{"segment": "north"}, {"segment": "south"}], k=8).to_dicts()
    assert {row["kind"] for row in rows} == {"fallback"}
    north, south = items_of(rows, 0), items_of(rows, 1)
    assert north[0] == south[0] == "i0"
    assert set(halves(north[1:])) == {0}
    assert set(halves(south[1:])) == {1}


def test_scores_are_shares_between_those_alike_and_everybody() -> None:
    model = shop()
    found = model.recommend_for([{"segment": "north"}], k=N_ITEMS).to_dicts()
    has = np.zeros((N_USERS, N_ITEMS))
    has[np.repeat(np.arange(N_USERS), np.diff(model.seen.indptr)), model.seen.indices] = 1
    north = np.array([int(name[1:]) % 2 == 0 for name in model.users.ids])
    of_all, alike = has.mean(0), has[north].mean(0)
    for row in found:
        item = int(model.items.indices([row["item_id"]])[0])
        low, high = sorted([of_all[item], alike[item]])
        assert low - 1e-5 <= row["score"] <= high + 1e-5


def test_a_request_learns_nothing_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    model, profiles = shop(), [{"segment": "north"}, {"segment": "elsewhere"}]
    before = model.recommend_for(profiles).to_dicts()
    for learning in ("ratiorec.catalogue.content.Content.of", "scipy.linalg.cho_factor"):
        monkeypatch.setattr(learning, None)
    assert model.recommend_for(profiles).to_dicts() == before
    assert pickle.loads(pickle.dumps(model)).recommend_for(profiles).to_dicts() == before


def test_without_attributes_it_is_popularity() -> None:
    model = shop()
    found = items_of(model.recommend_for([{}], k=N_ITEMS).to_dicts(), 0)
    popular = items_of(
        model.recommend(["nobody"], k=N_ITEMS, on_unknown="fallback").to_dicts(), "nobody"
    )
    assert found == popular


def test_lists_of_new_users_stay_within_the_filter() -> None:
    model = shop()
    for rows in (
        model.recommend_for([{"segment": "south"}], k=5, filter="stock > 0").to_dicts(),
        model.recommend(["x"], k=5, on_unknown="fallback", filter="stock > 0").to_dicts(),
    ):
        assert len(rows) == 5
        assert all(int(row["item_id"][1:]) % 3 > 0 for row in rows)
        assert {row["kind"] for row in rows} == {"fallback"}


def test_popularity_within_a_filter_is_in_order() -> None:
    model = shop()
    rows = model.recommend(["x"], k=N_ITEMS, on_unknown="fallback", filter="stock = 1").to_dicts()
    counts = dict(
        zip(model.items.ids, np.bincount(model.seen.indices, minlength=N_ITEMS), strict=True)
    )
    assert [row["score"] for row in rows] == sorted(
        (counts[f"i{n}"] for n in range(N_ITEMS) if n % 3 == 1), reverse=True
    )


def test_users_of_a_table_without_pairs_have_lists_by_their_attributes() -> None:
    model = shop().with_new_users(new_users())
    asked = ["bob", "u3", "nobody", "ann"]
    rows = model.recommend(asked, k=6, on_unknown="fallback").to_dicts()
    assert {row["user_id"]: row["kind"] for row in rows} == {
        "bob": "fallback",
        "u3": "personal",
        "nobody": "fallback",
        "ann": "fallback",
    }
    profiles = shop().recommend_for([{"segment": "north"}, {"segment": "south"}], k=6).to_dicts()
    assert items_of(rows, "ann") == items_of(profiles, 0)
    assert items_of(rows, "bob") == items_of(profiles, 1)
    assert items_of(rows, "u3") == items_of(shop().recommend(["u3"], k=6).to_dicts(), "u3")


def test_a_user_whom_the_model_knows_is_no_new_one() -> None:
    model = shop().with_new_users(new_users())
    assert model.new_users is not None
    assert model.new_users.ids.tolist() == ["ann", "bob"]


def test_new_users_are_listed_in_bulk_and_belong_to_the_job() -> None:
    model = shop().with_new_users(new_users())
    asked = ["ann", "u3", "bob"]
    job = Job.of(model, asked, k=5, on_unknown="fallback")
    rows = [row for block in job.blocks(0, 2) for row in block.lists.to_dicts()]
    assert rows == model.recommend(asked, k=5, on_unknown="fallback").to_dicts()
    other = shop().with_new_users(IdTable(new_users().ids, None, table_of([1, 1, 1])))
    assert Job.of(other, asked, k=5, on_unknown="fallback").identity != job.identity


def test_new_users_are_saved_with_the_model(tmp_path: Path) -> None:
    model = shop().with_new_users(new_users())
    model.save(tmp_path / "model")
    again = Artifact.load(tmp_path / "model")
    options: dict[str, Any] = {"k": 5, "on_unknown": "fallback"}
    found = again.recommend(["ann", "bob"], **options)
    assert found.to_dicts() == model.recommend(["ann", "bob"], **options).to_dicts()


def test_a_new_user_with_pairs_is_known_with_its_attributes() -> None:
    model = shop().with_new_users(new_users())
    after = model.update(Interactions.from_pairs(["ann", "zoe"], ["i2", "i4"]))
    rows = after.recommend(["ann"], k=3).to_dicts()
    assert {row["kind"] for row in rows} == {"personal"}
    place, other = after.users.indices(["ann", "zoe"])
    assert after.user_table.row(int(place)) == {"segment": "north"}
    assert after.user_table.row(int(other)) == {"segment": None}
    assert after.new_users is not None
    assert after.new_users.ids.tolist() == ["bob"]


def test_an_unknown_attribute_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(ConfigError, match=r"segmnt.*segment"):
        shop().recommend_for([{"segmnt": "north"}])


LIKE = Attributes(
    1,
    {
        "age": Numbers(np.array([30.0])),
        "segment": Categories.of(["north"]),
        "likes": Tags.of([["tea"]]),
        "about": Texts(np.array(["tea"], object)),
        "own": OwnVectors(np.ones((1, 2), np.float32)),
    },
)


@pytest.mark.parametrize(
    "profile",
    [
        {"age": "30"},
        {"age": float("nan")},
        {"age": 10**400},
        {"age": -float("inf")},
        {"age": np.float32("inf")},
        {"segment": 3},
        {"likes": "tea"},
        {"likes": [1]},
        {"about": ["tea"]},
        {"own": [1.0]},
        {"own": ["a", "b"]},
        {"own": [1.0, 10**400]},
        {"own": [1.0, 1e300]},
        {"own": [float("nan"), 1.0]},
    ],
)
def test_a_value_of_another_kind_is_refused(profile: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"profiles\[1\]"):
        profile_table([{}, profile], LIKE)


def test_profiles_become_a_table_and_what_they_lack_is_missing() -> None:
    whole = {"age": 41.0, "segment": "east", "likes": ["jam"], "about": "x", "own": [0.0, 2.0]}
    table = profile_table([whole, {}], LIKE)
    assert table.row(0) == whole
    assert table.row(1) == {
        "age": None,
        "segment": None,
        "likes": [],
        "about": None,
        "own": None,
    }
