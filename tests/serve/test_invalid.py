from __future__ import annotations

import json
from typing import Any

import pytest

from ratiorec.serve.requests import RecommendRequest
from support.asgi_client import Client

AN_OBJECT = (
    'a JSON object such as {"users": ["ada", "bob"], "k": 20} or '
    '{"histories": [["tea", "jam"], ["oats"]], "k": 20, "on_unknown": "skip"} or '
    '{"profiles": [{"segment": "student"}], "k": 20}'
)
USER = {"users": ["user1"]}


def test_a_value_that_does_not_fit_the_schema_is_named(client: Client) -> None:
    answer = client.get("/v1/recommend/user1", k="many")
    assert answer.status == 422
    assert answer.refusal["where"] == "query k"
    assert answer.refusal["found"] == "'many'"


def test_a_long_value_is_shortened(client: Client) -> None:
    answer = client.get("/v1/recommend/user1", k="9" * 3000 + "x")
    assert answer.status == 422
    assert len(answer.refusal["found"]) < 250


@pytest.mark.parametrize(
    ("body", "where", "found"),
    [
        (b"{bad", "body, character 2", "'{bad' (Expecting property name"),
        (b'{"users": ["user1"]', "body, character 20", '\'{"users": ["user1"]\' (Expecting'),
        (b"[" + b"1, " * 50 + b"x]", "body, character 152", "', 1, 1, 1, 1, 1, 1, x]' (Expecting"),
    ],
)
def test_a_body_that_is_no_json_is_shown_where_it_stops_to_be(
    client: Client, body: bytes, where: str, found: str
) -> None:
    answer = client.post("/v1/recommend", body)
    assert (answer.status, answer.refusal["what"]) == (422, "the body is no JSON")
    assert answer.refusal["where"] == where
    assert answer.refusal["found"].startswith(found)
    assert answer.refusal["wanted"] == AN_OBJECT


def test_the_bodies_that_are_advised_are_right() -> None:
    _, _, examples = AN_OBJECT.partition("such as ")
    for example in examples.split(" or "):
        assert RecommendRequest.model_validate(json.loads(example)).k == 20


@pytest.mark.parametrize(
    ("body", "found"), [(b"", "nothing"), (b"null", "nothing"), (b"[1]", "[1]"), (b'"a"', "'a'")]
)
def test_a_body_that_is_no_object_is_refused(client: Client, body: bytes, found: str) -> None:
    answer = client.post("/v1/recommend", body)
    assert (answer.status, answer.refusal["where"], answer.refusal["found"]) == (422, "body", found)
    assert answer.refusal["wanted"] == AN_OBJECT + ", with Content-Type: application/json"


def test_a_body_of_another_kind_is_refused_with_the_header_that_is_wanted(client: Client) -> None:
    answer = client.post("/v1/recommend", USER, headers={"content-type": "text/plain"})
    assert answer.status == 422
    assert answer.refusal["wanted"].endswith("with Content-Type: application/json")


@pytest.mark.parametrize(
    ("asked", "where", "wanted"),
    [
        ({}, "body", "either users or histories or profiles, and only one"),
        (
            USER | {"histories": [["item1"]]},
            "body",
            "either users or histories or profiles, and only one",
        ),
        (
            USER | {"limit": 5},
            "body limit",
            "only the fields k, exclude_seen, allow, deny, on_unknown, filter, attributes, "
            "max_cold, diversity, variant, rules, users, histories, profiles, visitor",
        ),
        (USER | {"int": 5}, "body int", "only the fields k, exclude_seen, allow, "),
        ({"users": []}, "body users", "a list of 1 or more"),
        ({"users": [1] * 100_001}, "body users", "a list of at most 100,000"),
        ({"users": "user1"}, "body users", "a list"),
        ({"users": ["user1", 1.5]}, "body users 1", "a whole number or text"),
        ({"histories": [["item1", None]]}, "body histories 0 1", "a whole number or text"),
        (USER | {"k": 0}, "body k", "1 or more"),
        (USER | {"k": "20"}, "body k", "a whole number"),
        (USER | {"exclude_seen": "no"}, "body exclude_seen", "true or false"),
        (USER | {"on_unknown": "guess"}, "body on_unknown", "'raise', 'skip' or 'fallback'"),
    ],
)
def test_a_body_that_does_not_fit_is_told_what_would(
    client: Client, asked: Any, where: str, wanted: str
) -> None:
    answer = client.post("/v1/recommend", asked)
    assert (answer.status, answer.refusal["where"]) == (422, where)
    assert answer.refusal["wanted"].startswith(wanted)


def test_a_field_that_is_missing_is_named(client: Client) -> None:
    answer = client.post("/v1/why", {"history": ["item1"]})
    assert (answer.status, answer.refusal["where"]) == (422, "body item")
    example = '{"history": ["tea", "jam"], "item": "oats"}'
    assert answer.refusal["wanted"] == f"the field item, as in {example}"


@pytest.mark.parametrize(
    ("path", "name", "value", "wanted"),
    [
        ("/v1/recommend/user1", "k", "many", "a whole number"),
        ("/v1/recommend/user1", "k", "1.5", "a whole number"),
        ("/v1/recommend/user1", "k", "9" * 5000, "a whole number of fewer digits"),
        ("/v1/recommend/user1", "k", "0", "1 or more"),
        ("/v1/recommend/user1", "exclude_seen", "maybe", "true or false"),
        ("/v1/recommend/user1", "on_unknown", "skip", "'raise' or 'fallback'"),
        ("/v1/items", "query", "x" * 201, "at most 200 characters"),
    ],
)
def test_a_parameter_that_does_not_fit_is_told_what_would(
    client: Client, path: str, name: str, value: str, wanted: str
) -> None:
    answer = client.get(path, **{name: value})
    assert (answer.status, answer.refusal["where"]) == (422, f"query {name}")
    assert answer.refusal["wanted"] == wanted


@pytest.mark.parametrize(
    ("path", "name", "wanted"),
    [
        (
            "/v1/recommend/user1",
            "category",
            "k, exclude_seen, allow, deny, on_unknown, filter, attributes, max_cold, diversity, "
            "variant, rules",
        ),
        ("/v1/similar/item1", "category", "variant, k, allow, deny, filter, attributes"),
        ("/v1/users/user1/history", "limit", "variant, k, attributes"),
        ("/v1/items", "q", "variant, k, query, attributes"),
        ("/v1/users", "attributes", "variant, k, query"),
        ("/v1/map", "items", "variant, item, attributes"),
        ("/v1/model", "x", "variant"),
    ],
)
def test_an_unknown_parameter_is_refused_with_those_there_are(
    client: Client, path: str, name: str, wanted: str
) -> None:
    answer = client.get(path, **{name: "TOY"})
    assert (answer.status, answer.refusal["where"]) == (422, f"query {name}")
    assert (answer.refusal["found"], answer.refusal["wanted"]) == (
        "'TOY'",
        f"only the parameters {wanted}",
    )


@pytest.mark.parametrize(
    ("path", "asked"),
    [("/v1/recommend", USER), ("/v1/why", {"history": ["item1"], "item": "item2"})],
)
def test_an_address_that_takes_json_takes_no_parameter(
    client: Client, path: str, asked: Any
) -> None:
    assert client.post(path, asked).status == 200
    answer = client.post(f"{path}?k=3", asked)
    assert (answer.status, answer.refusal["where"]) == (422, "query k")
    assert answer.refusal["wanted"] == "no parameter, but fields in JSON"


@pytest.mark.parametrize(
    ("asked", "where", "wanted"),
    [
        ({"filter": 5}, "body filter", "text"),
        ({"diversity": 1.5}, "body diversity", "1 or less"),
        ({"diversity": "0.5"}, "body diversity", "a number"),
        ({"diversity": True}, "body diversity", "a number"),
        ({"max_cold": -1}, "body max_cold", "0 or more"),
        ({"attributes": "price"}, "body attributes", "a list"),
        ({"rules": 5}, "body rules", "text or a table"),
        (
            {"visitor": "v"},
            "body",
            "a visitor with histories or profiles; users are known by their ids",
        ),
    ],
)
def test_what_is_asked_of_a_list_is_told_what_would_fit(
    client: Client, asked: Any, where: str, wanted: str
) -> None:
    answer = client.post("/v1/recommend", USER | asked)
    assert (answer.status, answer.refusal["where"]) == (422, where)
    assert answer.refusal["wanted"] == wanted
