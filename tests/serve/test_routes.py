from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest

from ratiorec.data.vocabulary import Vocabulary
from ratiorec.model.artifact import Artifact
from ratiorec.scorers import InnerProduct, PopularityScorer
from ratiorec.scorers.scorer import UserItems
from ratiorec.scorers.table import Recommendations
from ratiorec.serve.answers import encoded_in_pieces
from ratiorec.serve.errors import encoded
from ratiorec.serve.models import ModelInUse
from ratiorec.serve.server import create_app
from ratiorec.serve.service import Limits, Service
from support.asgi_client import Client
from support.small_models import numbered_model, small_model
from support.small_scorers import random_floats, rows_of


def client_of(artifact: Artifact, folder: Path, limits: Limits | None = None) -> Client:
    artifact.save(folder)
    return Client(create_app(Service.of(ModelInUse(folder), limits or Limits())))


def without(table: Recommendations, column: str) -> list[dict[str, Any]]:
    return [{n: v for n, v in row.items() if n != column} for row in table.to_dicts()]


# --- one user --------------------------------------------------------------------------------


def test_a_user_gets_what_the_model_recommends(
    client: Client, artifact: Artifact, service: Service
) -> None:
    answer = client.get("/v1/recommend/user3", k=5)
    assert answer.status == 200
    assert answer.json == {
        "model": service.models.first.current.version,
        "user_id": "user3",
        "items": without(artifact.recommend(["user3"], 5), "user_id"),
    }


def test_twenty_items_without_those_seen_are_the_default(
    client: Client, artifact: Artifact
) -> None:
    items = client.get("/v1/recommend/user3").json["items"]
    assert items == without(artifact.recommend(["user3"], 20), "user_id")


def test_seen_items_may_be_included(client: Client, artifact: Artifact) -> None:
    items = client.get("/v1/recommend/user3", k=30, exclude_seen="false").json["items"]
    assert len(items) == len(artifact.items)


def test_items_may_be_allowed_and_denied(client: Client, artifact: Artifact) -> None:
    allow, deny = ["item1", "item2", "item3", "item4"], ["item2"]
    items = client.get("/v1/recommend/user0", allow=allow, deny=deny).json["items"]
    assert {row["item_id"] for row in items} == {"item1", "item3", "item4"}


def test_a_list_is_no_longer_than_the_catalogue(client: Client) -> None:
    assert len(client.get("/v1/recommend/user0", k=900).json["items"]) == 30


def test_a_user_with_nothing_left_gets_an_empty_list(client: Client, artifact: Artifact) -> None:
    seen = artifact.seen.indices[artifact.seen.indptr[1] : artifact.seen.indptr[2]]
    allow = artifact.items.ids[seen[:1]].tolist() or ["item0"]
    answer = client.get("/v1/recommend/user1", allow=allow, deny=allow)
    assert (answer.status, answer.json["items"]) == (200, [])


def test_an_unknown_user_is_not_found(client: Client) -> None:
    answer = client.get("/v1/recommend/eve")
    assert answer.status == 404
    assert answer.refusal["found"] == "'eve'"


def test_an_unknown_user_may_get_the_items_with_most_users(
    client: Client, artifact: Artifact
) -> None:
    answer = client.get("/v1/recommend/eve", on_unknown="fallback", k=3)
    popular = artifact.recommend(["eve"], 3, on_unknown="fallback")
    assert answer.json["items"] == without(popular, "user_id")
    assert answer.json["user_id"] == "eve"
    assert answer.json["fallback"] is True
    assert {row["kind"] for row in answer.json["items"]} == {"fallback"}
    assert "fallback" not in client.get("/v1/recommend/user1", on_unknown="fallback").json


def test_an_unknown_item_to_allow_is_not_found_or_left_out(client: Client) -> None:
    assert client.get("/v1/recommend/user1", allow="nothing").status == 404
    assert client.get("/v1/recommend/user1", allow="nothing", on_unknown="fallback").status == 200


def test_an_unknown_item_to_deny_changes_nothing(client: Client) -> None:
    plain = client.get("/v1/recommend/user1", deny="item1").json
    assert client.get("/v1/recommend/user1", deny=["item1", "sold out"]).json == plain
    asked = {"users": ["user1"], "deny": ["item1", "sold out"]}
    assert client.post("/v1/recommend", asked).json["lists"][0]["items"] == plain["items"]


def test_ids_that_are_numbers_are_found_by_their_digits(tmp_path: Path) -> None:
    client = client_of(numbered_model(), tmp_path / "numbers")
    assert client.get("/v1/recommend/102").json["user_id"] == 102
    assert client.get("/v1/recommend/102", deny=["7", "8"], k=9).json["items"][0]["item_id"] > 8
    assert client.get("/v1/recommend/0102").status == 404
    unknown = client.get("/v1/recommend/eve", on_unknown="fallback").json
    assert (unknown["user_id"], len(unknown["items"])) == ("eve", 7)


@pytest.mark.parametrize("user", ["a/b", "../../etc/passwd", "a b", "ü?#", "%41", "x\x00"])
def test_an_id_may_hold_any_character(tmp_path: Path, user: str) -> None:
    artifact = Artifact(
        InnerProduct(np.ones((1, 1), np.float32), np.ones((2, 1), np.float32)),
        Vocabulary(np.array([user], object), "user"),
        Vocabulary(np.array([user, "other"], object), "item"),
        UserItems(np.zeros(2, np.int64), np.zeros(0, np.int32)),
    )
    client = client_of(artifact, tmp_path / "strange")
    answer = client.get(f"/v1/recommend/{quote(user, safe='')}")
    assert (answer.status, answer.json["user_id"]) == (200, user)
    similar = client.get(f"/v1/similar/{quote(user, safe='')}")
    assert [row["similar_id"] for row in similar.json["items"]] == ["other"]


@pytest.mark.parametrize("k", ["0", "-1", "x", "1.5", "", "1001", "9" * 400])
def test_a_length_that_cannot_be_is_refused(client: Client, k: str) -> None:
    answer = client.get("/v1/recommend/user1", k=k)
    assert answer.status == 422
    assert answer.refusal["where"] in ("query k", "k")


def test_too_many_listed_items_are_refused(tmp_path: Path) -> None:
    client = client_of(small_model(), tmp_path / "m", Limits(max_listed=2))
    assert client.get("/v1/recommend/user1", deny=["item1", "item2"]).status == 200
    answer = client.get("/v1/recommend/user1", deny=["item1", "item2", "item3"])
    assert (answer.status, answer.refusal["where"]) == (422, "deny")


def test_an_unknown_user_has_the_type_that_ids_of_the_model_have(tmp_path: Path) -> None:
    client = client_of(numbered_model(), tmp_path / "model")
    asked = {"users": [987654, "987655"], "on_unknown": "fallback"}
    lists = client.post("/v1/recommend", asked).json["lists"]
    assert [one["user_id"] for one in lists] == [987654, 987655]
    one = client.get("/v1/recommend/987654", on_unknown="fallback").json
    assert (one["user_id"], one["items"]) == (987654, lists[0]["items"])
    long = "9" * 5000
    assert client.get(f"/v1/recommend/{long}", on_unknown="fallback").json["user_id"] == long


# --- many users ------------------------------------------------------------------------------


def test_users_get_their_lists_in_the_order_asked_for(client: Client, artifact: Artifact) -> None:
    users = ["user5", "user2", "user5"]
    lists = client.post("/v1/recommend", {"users": users, "k": 4}).json["lists"]
    assert [one["user_id"] for one in lists] == users
    for one in lists:
        assert one["items"] == without(artifact.recommend([one["user_id"]], 4), "user_id")


def test_more_users_than_are_ranked_at_once_all_get_their_lists(tmp_path: Path) -> None:
    artifact = small_model(n_users=100)
    client = client_of(artifact, tmp_path / "many")
    users = artifact.users.ids.tolist()
    lists = client.post("/v1/recommend", {"users": users, "k": 15}).json["lists"]
    rows = [{"user_id": one["user_id"]} | row for one in lists for row in one["items"]]
    assert rows == artifact.recommend(users, 15).to_dicts()


def test_unknown_users_are_refused_left_out_or_given_what_is_popular(
    client: Client, artifact: Artifact
) -> None:
    asked = {"users": ["user1", "eve", "user2", 7], "k": 2}
    assert client.post("/v1/recommend", asked).status == 404
    skipped = client.post("/v1/recommend", asked | {"on_unknown": "skip"}).json["lists"]
    assert [one["user_id"] for one in skipped] == ["user1", "user2"]
    given = client.post("/v1/recommend", asked | {"on_unknown": "fallback"}).json["lists"]
    assert [one["user_id"] for one in given] == ["user1", "eve", "user2", 7]
    popular = without(artifact.recommend(["eve"], 2, on_unknown="fallback"), "user_id")
    assert given[1]["items"] == given[3]["items"] == popular
    assert [one.get("fallback") for one in given] == [None, True, None, True]
    assert given[0]["items"] == without(artifact.recommend(["user1"], 2), "user_id")


def test_numbers_are_found_as_numbers_and_as_text(tmp_path: Path) -> None:
    client = client_of(numbered_model(), tmp_path / "numbers")
    lists = client.post("/v1/recommend", {"users": [101, "102"], "k": 2}).json["lists"]
    assert [one["user_id"] for one in lists] == [101, 102]


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"users": []},
        {"users": ["user1"], "histories": [["item1"]]},
        {"users": "user1"},
        {"users": [1.5]},
        {"users": [None]},
        {"users": [True]},
        {"users": ["user1"], "k": 0},
        {"users": ["user1"], "k": "20"},
        {"users": ["user1"], "k": True},
        {"users": ["user1"], "limit": 5},
        {"users": ["user1"], "on_unknown": "guess"},
        {"users": ["user1"], "exclude_seen": "no"},
        {"users": [["user1"]]},
        {"histories": ["item1"]},
        {"histories": []},
        {"users": ["\ud800"], "k": 0},
    ],
)
def test_a_request_that_does_not_fit_the_schema_is_refused(client: Client, asked: Any) -> None:
    answer = client.post("/v1/recommend", asked)
    assert answer.status == 422
    assert answer.refusal


@pytest.mark.parametrize("user", ["", "\ud800", "x" * 5000, 10**30, -1, 10**400])
def test_a_strange_id_is_only_unknown(client: Client, user: object) -> None:
    answer = client.post("/v1/recommend", {"users": [user]})
    assert answer.status in (404, 422)
    assert answer.refusal
    given = client.post("/v1/recommend", {"users": [user], "on_unknown": "fallback"})
    assert given.status in (200, 422)


def test_more_users_histories_or_rows_than_allowed_are_refused(tmp_path: Path) -> None:
    limits = Limits(max_users=3, max_history=2, max_rows=40)
    client = client_of(small_model(), tmp_path / "m", limits)
    for asked, where in [
        ({"users": ["user1"] * 4}, "users or histories"),
        ({"histories": [["item1"]] * 4}, "users or histories"),
        ({"histories": [["item1"], ["item1"] * 3]}, "histories[1]"),
        ({"users": ["user1"] * 3, "k": 14}, "k times users or histories"),
    ]:
        answer = client.post("/v1/recommend", asked)
        assert (answer.status, answer.refusal["where"]) == (422, where)


# --- histories -------------------------------------------------------------------------------


def test_histories_get_lists_by_their_place(client: Client, artifact: Artifact) -> None:
    histories = [["item1", "item2"], ["item3"]] * 20  # more than are ranked at once
    lists = client.post("/v1/recommend", {"histories": histories, "k": 3}).json["lists"]
    assert [one["history"] for one in lists] == list(range(40))
    expected = artifact.recommend_to(histories, 3).to_dicts()
    rows = [{"user_id": one["history"]} | row for one in lists for row in one["items"]]
    assert rows == expected


def test_an_unknown_item_of_a_history_is_refused_or_left_out(client: Client) -> None:
    asked = {"histories": [["item1", "nothing"]], "k": 3}
    assert client.post("/v1/recommend", asked).status == 404
    given = client.post("/v1/recommend", asked | {"on_unknown": "skip"})
    plain = client.post("/v1/recommend", {"histories": [["item1"]], "k": 3})
    assert given.json["lists"] == plain.json["lists"]


def test_a_history_without_a_known_item_may_get_what_is_popular_and_is_marked(
    client: Client, artifact: Artifact
) -> None:
    asked = {"histories": [["item1"], ["nothing"], []], "k": 2, "on_unknown": "fallback"}
    lists = client.post("/v1/recommend", asked).json["lists"]
    assert [one.get("fallback") for one in lists] == [None, True, True]
    popular = without(artifact.recommend(["eve"], 2, on_unknown="fallback"), "user_id")
    assert lists[1]["items"] == lists[2]["items"] == popular


# --- items and the model ---------------------------------------------------------------------


def test_similar_items_are_those_of_the_model(client: Client, artifact: Artifact) -> None:
    answer = client.get("/v1/similar/item4", k=3)
    assert answer.json["item_id"] == "item4"
    assert answer.json["items"] == without(artifact.similar(["item4"], 3), "item_id")


def test_an_unknown_item_is_not_found(client: Client) -> None:
    answer = client.get("/v1/similar/nothing")
    assert (answer.status, answer.refusal["found"]) == (404, "'nothing'")


def test_a_model_that_compares_no_items_says_so(tmp_path: Path) -> None:
    counts = np.arange(3, dtype=np.float32)
    artifact = Artifact(
        PopularityScorer(counts, 2),
        Vocabulary.dense(2, kind="user"),
        Vocabulary.dense(3, kind="item"),
        UserItems(np.zeros(3, np.int64), np.zeros(0, np.int32)),
    )
    client = client_of(artifact, tmp_path / "popularity")
    answer = client.get("/v1/similar/1")
    assert answer.status == 422
    assert "no similarity" in answer.refusal["what"]


def test_items_are_found_by_a_part_of_their_name(client: Client) -> None:
    found = client.get("/v1/items", query="thE 7TH")
    assert found.json["items"] == [{"item_id": "item7", "item_name": "The 7th Thing"}]
    assert len(client.get("/v1/items", k=4).json["items"]) == 4
    assert client.get("/v1/items", query="x" * 201).status == 422


def test_the_card_has_the_model_and_the_limits(client: Client, service: Service) -> None:
    card = client.get("/v1/model").json
    assert card["model"] == service.models.first.current.version
    assert (card["kind"], card["n_users"], card["n_items"]) == ("inner_product", 20, 30)
    assert card["card"] == {"metrics": {"recall@20": 0.5}, "seed": 0}
    assert card["limits"]["max_k"] == 1000
    assert str(service.models.first.folder) not in client.get("/v1/model").body.decode()


def test_health_is_given(client: Client) -> None:
    assert client.get("/health/live").json == {"status": "alive"}
    assert client.get("/health/ready").json == {"status": "ready"}


# --- the description -------------------------------------------------------------------------


def test_the_description_has_every_address_with_its_refusals_and_examples(client: Client) -> None:
    description = client.get("/openapi.json").json
    assert set(description["paths"]) == {
        *("/v1/recommend/{user}", "/v1/recommend", "/v1/similar/{item}", "/v1/items"),
        *("/v1/users", "/v1/users/{user}/history", "/v1/why", "/v1/map"),
        *("/v1/model", "/v1/reload", "/health/live", "/health/ready", "/metrics"),
    }
    schemas = description["components"]["schemas"]
    assert len(schemas["RecommendRequest"]["examples"]) == 3
    for status in ("404", "408", "413", "422", "429"):
        answer = description["paths"]["/v1/recommend"]["post"]["responses"][status]
        assert answer["content"]["application/json"]["schema"]["$ref"].endswith("/Problem")
    assert schemas["Users"]["examples"]


def test_the_examples_of_requests_fit_the_schema(client: Client) -> None:
    from ratiorec.serve.requests import RecommendRequest

    schema = client.get("/openapi.json").json["components"]["schemas"]["RecommendRequest"]
    for example in schema["examples"]:
        assert RecommendRequest.model_validate(example)


def odd_model(ids: list[str]) -> Artifact:
    """A model whose users and items have these ids."""
    factors = [random_floats(len(ids), 4), random_floats(len(ids), 4)[::-1]]
    users, items = (Vocabulary(np.array(ids, object), kind) for kind in ("user", "item"))
    return Artifact(InnerProduct(*factors), users, items, rows_of([[0]] * len(ids)))


ODD = ["a", "a\n", "\na", "a\nb", "a\r\nb", " a", "a ", "\u2028", "a/history", "\n/history"]


@pytest.mark.parametrize("identifier", ODD)
def test_an_id_is_found_by_its_address_whatever_it_is_made_of(
    identifier: str, tmp_path: Path
) -> None:
    client = client_of(odd_model(ODD), tmp_path / "model")
    written = quote(identifier, safe="")
    assert client.get(f"/v1/recommend/{written}").json["user_id"] == identifier
    assert client.get(f"/v1/similar/{written}").json["item_id"] == identifier
    assert client.get(f"/v1/users/{written}/history").json["user_id"] == identifier


def test_a_long_answer_is_the_same_bytes_written_piece_by_piece() -> None:
    content = {"model": "a", "n": 3, "none": [], "lists": [{"items": [1.5, "é"]}, {"items": []}]}
    assert encoded_in_pieces(content) == encoded(content)
