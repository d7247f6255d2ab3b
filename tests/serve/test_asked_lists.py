"""Filters, rules and attributes of requests, and the bounds of what they may ask."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ratiorec.catalogue.attributes import Attributes
from ratiorec.catalogue.columns import Categories, Numbers
from ratiorec.errors import ModelError
from ratiorec.model.artifact import Artifact
from ratiorec.reranking.rules import Rules
from ratiorec.serve.models import ModelInUse, RequestNames
from ratiorec.serve.ranking import RankingQueue
from ratiorec.serve.server import create_app
from ratiorec.serve.service import Limits, Service
from support.asgi_client import Client
from support.random_expressions import COLUMNS, random_expression, random_table
from support.small_models import small_model

NAMES = RequestNames(
    {"cheap": "price < 10", "cheap_tea": '@cheap and kind == "tea"'},
    {"varied": Rules(limits={"kind": 2}), "first": Rules(pins={1: "item9"}, diversity=0.1)},
)


def shop(seed: int = 0) -> Artifact:
    """Item n costs n; every third is tea, and the others are jam."""
    kinds = ["tea" if n % 3 == 0 else "jam" for n in range(30)]
    prices = np.array([np.nan, *range(1, 30)])
    table = Attributes(30, {"price": Numbers(prices), "kind": Categories.of(kinds)})
    return small_model(seed).with_items(table)


def service_of(
    artifact: Artifact, folder: Path, names: RequestNames = NAMES, limits: Limits | None = None
) -> Service:
    artifact.save(folder)
    return Service.of(ModelInUse(folder, names=names), limits or Limits(), names=names)


@pytest.fixture
def client(tmp_path: Path) -> Client:
    return Client(create_app(service_of(shop(), tmp_path / "shop")))


def listed(answer: Any) -> list[str]:
    assert answer.status == 200, answer.json
    return [row["item_id"] for row in answer.json["items"]]


def expected(query: Any = None, **options: Any) -> list[str]:
    model = shop().with_filters(NAMES.filters)
    found: list[str] = model.recommend(["user3"], query, **options).answer_ids.tolist()
    return found


# --- filters ---------------------------------------------------------------------------------


def test_200_random_expressions_over_http_equal_brute_force(tmp_path: Path) -> None:
    rng = random.Random(7)
    artifact = small_model(n_items=40)
    table = random_table(rng, 40)
    artifact = artifact.with_items(table)
    client = Client(create_app(service_of(artifact, tmp_path / "m", RequestNames())))
    scores = artifact.scorer.scores(np.arange(20))
    rows, n_listed = table.rows(range(40)), 0
    for _ in range(200):
        text, truth = random_expression(rng, COLUMNS)
        user, k = rng.randrange(20), rng.choice([1, 5, 40])
        start, end = artifact.seen.indptr[user : user + 2]
        seen = set(artifact.seen.indices[start:end].tolist())
        keeps = [item for item in range(40) if truth(rows[item]) and item not in seen]
        best = sorted(keeps, key=lambda item: (-scores[user, item], item))[:k]
        answer = client.get(f"/v1/recommend/user{user}", filter=text, k=k).json
        found = [(row["item_id"], row["score"]) for row in answer["items"]]
        assert found == [(f"item{item}", float(scores[user, item])) for item in best], text
        n_listed += len(found)
    assert 500 < n_listed < 2500  # neither nothing nor all


def test_users_histories_and_similar_items_keep_to_a_filter(client: Client) -> None:
    asked = {"users": ["user1", "user3"], "filter": "@cheap_tea", "exclude_seen": False}
    for one in client.post("/v1/recommend", asked).json["lists"]:
        assert {row["item_id"] for row in one["items"]} == {"item3", "item6", "item9"}
    asked = {"histories": [["item3"]], "filter": "@cheap_tea"}
    (one,) = client.post("/v1/recommend", asked).json["lists"]
    assert {row["item_id"] for row in one["items"]} == {"item6", "item9"}
    near = client.get("/v1/similar/item3", filter="@cheap_tea", deny="item6").json["items"]
    assert [row["similar_id"] for row in near] == ["item9"]
    near = client.get("/v1/similar/item3", allow=["item6", "item3"], deny="sold out").json["items"]
    assert [row["similar_id"] for row in near] == ["item6"]


def test_unknown_users_get_what_is_popular_within_the_filter(client: Client) -> None:
    asked = {"filter": "@cheap_tea", "on_unknown": "fallback"}
    assert set(listed(client.get("/v1/recommend/eve", **asked))) == {"item3", "item6", "item9"}


@pytest.mark.parametrize(
    ("path", "text", "where", "what"),
    [
        ("/v1/recommend/user1", "prise < 5", "filter, character 1", "a column that is not there"),
        ("/v1/recommend/user1", "price <", "filter, character 8", "cannot be read"),
        ("/v1/recommend/user1", 'price == "5"', "filter, character 1", "cannot answer"),
        ("/v1/recommend/user1", "@no", "filter, character 1", "a named filter that is not there"),
        ("/v1/recommend/user1", "", "filter, character 1", "cannot be read"),
        ("/v1/similar/item1", "price << 5", "filter, character 8", "cannot be read"),
    ],
)
def test_a_bad_filter_is_told_by_its_character(
    client: Client, path: str, text: str, where: str, what: str
) -> None:
    answer = client.get(path, filter=text)
    assert (answer.status, answer.refusal["where"]) == (422, where)
    assert what in answer.refusal["what"]


# --- rules -----------------------------------------------------------------------------------


def test_a_set_of_rules_of_the_server_is_asked_for_by_its_name(client: Client) -> None:
    for name, rules in NAMES.rules.items():
        found = listed(client.get("/v1/recommend/user3", rules=name, k=8))
        assert found == expected(8, rules=rules) != expected(8)
    answer = client.get("/v1/recommend/user3", rules="varies")
    assert (answer.status, answer.refusal["where"]) == (422, "rules")
    assert answer.refusal["wanted"] == "one of varied, first; did you mean varied?"


def test_a_request_may_bring_its_own_rules_and_diversity(client: Client) -> None:
    table = {"limits": {"kind": 1}, "boosts": {"price > 20": 2.0}}
    asked = {"users": ["user3"], "k": 8, "rules": table, "diversity": 0.7}
    (one,) = client.post("/v1/recommend", asked).json["lists"]
    rules = replace(Rules.from_table(table, where="rules"), diversity=0.7)
    assert [row["item_id"] for row in one["items"]] == expected(8, rules=rules)
    found = listed(client.get("/v1/recommend/user3", k=8, diversity=0.7))
    assert found == expected(8, rules=Rules(diversity=0.7)) != expected(8)
    found = listed(client.get("/v1/recommend/user3", k=8, rules="first", diversity=0))
    assert found == expected(8, rules=Rules(pins={1: "item9"}))


@pytest.mark.parametrize(
    ("rules", "where"),
    [
        ({"limit": {}}, "rules"),
        ({"limits": {"kind": 0}}, "rules.limits.kind"),
        ({"limits": {"colour": 1}}, "rules.limits"),
        ({"boosts": {"price <": 1}}, "rules.boosts, character 8"),
        ({"pins": {"one": "item1"}}, "rules.pins"),
        ({"calibration": 5}, "rules.calibration"),
        ("nothing", "rules"),
    ],
)
def test_bad_rules_are_refused_with_their_place(client: Client, rules: Any, where: str) -> None:
    answer = client.post("/v1/recommend", {"users": ["user1"], "rules": rules})
    assert (answer.status, answer.refusal["where"]) == (422, where)


# --- bounds ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "where"),
    [
        ({"filter": "price > 1 and price > 2 and price > 3"}, "filter"),
        ({"rules": {"pins": {"1": "item1", "2": "item2", "3": "item3"}}}, "rules"),
        ({"rules": {"boosts": {"price > 1 and price > 2 and price > 3": 1}}}, "rules.boosts"),
        ({"filter": "x" * 4001}, "filter"),
    ],
)
def test_more_than_the_server_allows_is_refused(tmp_path: Path, asked: Any, where: str) -> None:
    names = RequestNames(NAMES.filters, {"large": Rules(pins={n: f"item{n}" for n in range(1, 9)})})
    limits = Limits(max_rules=2, max_conditions=2)
    client = Client(create_app(service_of(shop(), tmp_path / "shop", names, limits)))
    answer = client.post("/v1/recommend", {"users": ["user1"]} | asked)
    assert (answer.status, answer.refusal["where"]) == (422, where)
    fits = {"users": ["user1"], "filter": "@cheap and price > 2", "rules": "large"}
    assert client.post("/v1/recommend", fits).status == 200


CONTAINS = " or ".join(f'kind contains "{n}"' for n in range(20))


@pytest.mark.parametrize(
    "asked",
    [
        {"filter": CONTAINS, "rules": {"boosts": {f"({CONTAINS}) and price > 1": 1}}},
        {"rules": {"boosts": {f'kind contains "{n}"': 1 for n in range(33)}}},
        {"rules": {"boosts": {"@many": 1, "@many and price > 1": 1}}},
    ],
)
def test_contains_is_counted_over_all_conditions_of_a_request(
    tmp_path: Path, asked: dict[str, Any]
) -> None:
    names = RequestNames({"many": CONTAINS}, {"mine": Rules(boosts={CONTAINS: 1, "@many": 1})})
    client = Client(create_app(service_of(shop(), tmp_path / "shop", names)))
    answer = client.post("/v1/recommend", {"users": ["user1"]} | asked)
    assert (answer.status, answer.refusal["where"]) == (422, "filter and rules.boosts")
    assert answer.refusal["wanted"] == "at most 32 conditions with contains"
    assert client.get("/v1/recommend/user1", filter=CONTAINS, rules="mine").status == 200


def test_conditions_are_settled_step_by_step_before_the_ranking(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[tuple[int, bool]] = []

    class Noted(RankingQueue):
        async def steps(self, steps: Any, n_steps: int, *, is_long: bool) -> None:
            taken.append((n_steps, is_long))
            await super().steps(steps, n_steps, is_long=is_long)

    monkeypatch.setattr("ratiorec.serve.conditions._AT_ONCE", 100)
    monkeypatch.setattr("ratiorec.serve.conditions._LONG", 100)
    monkeypatch.setattr("ratiorec.serve.service.RankingQueue", Noted)
    client = Client(create_app(service_of(shop(), tmp_path / "shop")))
    rules = {"boosts": {"price > 10": 2.0, "@cheap": 1.0}}
    asked = {"filter": "price > 2 and price < 20", "rules": rules, "k": 30}
    for body in ({"users": ["user3"]}, {"histories": [["item3"]]}):
        (one,) = client.post("/v1/recommend", asked | body).json["lists"]
        assert one["items"]
    wanted = {"filter": asked["filter"], "rules": Rules.from_table(rules, where="rules")}
    (one,) = client.post("/v1/recommend", asked | {"users": ["user3"]}).json["lists"]
    assert [row["item_id"] for row in one["items"]] == expected(30, **wanted)
    assert taken == [(5, False)]  # from then on they are known
    ids = " or ".join(f'id contains "{n}"' for n in range(4))
    assert len(client.get("/v1/similar/item3", filter=ids).json["items"]) == 20
    assert taken[1:] == [(5, True)]
    client.get("/v1/recommend/user3", filter="price > 7")
    assert taken[2:] == []  # few enough to be a part of the ranking


@pytest.mark.parametrize("diversity", ["nan", "inf", "-0.1", "2", "much", ""])
def test_a_strength_that_cannot_be_is_refused(client: Client, diversity: str) -> None:
    answer = client.get("/v1/recommend/user1", diversity=diversity)
    assert (answer.status, answer.refusal["where"]) == (422, "query diversity")


# --- attributes ------------------------------------------------------------------------------


def test_searches_histories_and_maps_tell_the_attributes_asked_for(client: Client) -> None:
    item = {"item_id": "item7", "item_name": "The 7th Thing"}
    for names, attributes in [("kind", {"kind": "jam"}), ("all", {"price": 7.0, "kind": "jam"})]:
        found = client.get("/v1/items", query="The 7th", attributes=names).json["items"]
        assert found == [item | {"attributes": attributes}]
        (place,) = client.get("/v1/map", item="item7", attributes=names).json["items"]
        assert place["attributes"] == attributes
    history = client.get("/v1/users/user3/history", attributes=["price"]).json["items"]
    assert all(row["attributes"].keys() == {"price"} for row in history)
    assert client.get("/v1/items", query="The 0th", k=1, attributes="price").json["items"][0] == {
        "item_id": "item0",
        "item_name": "The 0th Thing",
        "attributes": {"price": None},
    }


def test_an_unknown_attribute_is_refused_with_those_there_are(client: Client) -> None:
    answer = client.get("/v1/items", attributes=["kind", "prize"])
    assert (answer.status, answer.refusal["where"]) == (422, "attributes")
    assert answer.refusal["wanted"] == "one of price, kind; did you mean price?"


def test_the_card_tells_what_may_be_asked(client: Client) -> None:
    card = client.get("/v1/model").json
    assert card["attributes"] == {"items": {"price": "number", "kind": "category"}, "users": {}}
    assert card["filters"] == NAMES.filters
    assert card["rules"] == ["varied", "first"]
    assert card["variants"] == [{"name": "", "share": 100, "model": card["model"]}]
    assert card["n_cold_items"] == int(shop().cold_items.sum())
    assert (card["variant"], card["members"]) == ("", [])


# --- names and new models --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "where"),
    [
        (RequestNames({"few": "stock < 5"}, {}), "@few, character 1"),
        (RequestNames({}, {"home": Rules(limits={"colour": 1})}), "[home] rules.limits"),
        (RequestNames({}, {"home": Rules(boosts={"stock > 5": 1})}), "[home] rules.boosts"),
    ],
)
def test_a_model_that_cannot_answer_a_name_is_refused(
    tmp_path: Path, names: RequestNames, where: str
) -> None:
    with pytest.raises(ModelError, match="does not fit the filters and rules") as caught:
        service_of(shop(), tmp_path / "shop", names)
    assert caught.value.where.startswith(where)
    assert str(tmp_path / "shop") in caught.value.where


def test_a_new_table_without_a_column_of_a_named_filter_leaves_the_old_model(
    tmp_path: Path,
) -> None:
    service = service_of(shop(), tmp_path / "shop")
    models, client = service.models.first, Client(create_app(service))
    before = models.current
    kinds = Categories.of(["tea"] * 30)
    shop().with_items(Attributes(30, {"kind": kinds})).save(tmp_path / "shop")
    with pytest.raises(ModelError, match="price"):
        models.reload()
    assert models.current is before
    assert listed(client.get("/v1/recommend/user3", filter="@cheap")) == expected(filter="@cheap")
    prices = Numbers(np.full(30, 5.0))
    table = Attributes(30, {"kind": kinds, "price": prices})
    shop().with_items(table).save(tmp_path / "shop")
    assert models.reload() is True
    found = listed(client.get("/v1/recommend/user3", filter="@cheap_tea", k=30))
    assert len(found) == len(expected(30))  # now everything is cheap tea
