from __future__ import annotations

import asyncio
from typing import Any

import pytest

from support.asgi_client import Client, answer_to


@pytest.mark.parametrize("path", ["/nothing", "/v1", "/v1/recommendation", "/static/none.js"])
def test_an_address_that_is_not_there_is_refused(client: Client, path: str) -> None:
    answer = client.get(path)
    assert answer.status == 404
    assert answer.refusal["where"] == f"GET '{path}'"


def test_a_method_that_is_not_answered_is_refused_with_those_that_are(client: Client) -> None:
    answer = client.post("/v1/model")
    assert (answer.status, answer.headers["allow"]) == (405, "GET")
    assert answer.refusal["what"] == "this method is not answered here"


@pytest.mark.parametrize("path", ["/health/live", "/health/ready", "/"])
def test_head_is_answered_where_machines_look_first(client: Client, path: str) -> None:
    answer = asyncio.run(answer_to(client.app, "HEAD", path))
    assert (answer.status, answer.headers) == (200, answer.headers | {"x-frame-options": "DENY"})
    assert "head" not in client.get("/openapi.json").json["paths"].get(path, {})


@pytest.mark.parametrize(
    "asked",
    [
        {"rules": {"x" * 500_000: 1}},
        {"rules": "x" * 500_000},
        {"rules": {"limits": {"x" * 500_000: 1}}},
        {"rules": {"limits": {"x" * 500_000: 0}}},
        {"users": ["x" * 500_000]},
        {"variant": "x" * 60, "attributes": ["x" * 500_000]},
    ],
)
def test_a_refusal_repeats_no_more_than_a_part_of_a_long_request(
    client: Client, asked: dict[str, Any]
) -> None:
    answer = client.post("/v1/recommend", {"users": ["user1"]} | asked)
    assert answer.status in (404, 422)
    assert len(answer.body) < 5000


@pytest.mark.parametrize(
    ("path", "query", "wanted"),
    [
        ("/v1/recommend/eve", {}, "one of the 20 known users, or on_unknown=fallback"),
        (
            "/v1/recommend/user1",
            {"allow": "nothing"},
            "one of the 30 known items, or on_unknown=fallback",
        ),
        ("/v1/users/eve/history", {}, "one of the 20 known users"),
        ("/v1/similar/nothing", {}, "one of the 30 known items"),
        ("/v1/map", {"item": "nothing"}, "one of the 30 known items"),
    ],
)
def test_an_unknown_id_is_refused_with_what_its_address_can_do_about_it(
    client: Client, path: str, query: dict[str, str], wanted: str
) -> None:
    answer = client.get(path, **query)
    assert (answer.status, answer.refusal["wanted"]) == (404, wanted)


def test_an_unknown_id_in_a_body_is_refused_with_what_its_address_can_do_about_it(
    client: Client,
) -> None:
    asked = {"users": ["user1", "eve"]}
    refused = client.post("/v1/recommend", asked)
    wanted = 'one of the 20 known users, or on_unknown="skip"'
    assert (refused.status, refused.refusal["wanted"]) == (404, wanted)
    assert client.post("/v1/recommend", asked | {"on_unknown": "skip"}).status == 200
    for body in ({"history": ["nothing"], "item": "item1"}, {"history": ["item1"], "item": "x"}):
        refused = client.post("/v1/why", body)
        assert (refused.status, refused.refusal["wanted"]) == (404, "one of the 30 known items")


@pytest.mark.parametrize(
    ("body", "found"),
    [(b"\xff\xfe\xff", "codec can't decode"), (b"[" * 100_000, "recursion")],
    ids=["no text", "too deep"],
)
def test_a_body_that_cannot_be_read_is_refused_with_one_that_can(
    client: Client, body: bytes, found: str
) -> None:
    answer = client.post("/v1/why", body)
    assert (answer.status, answer.refusal["where"]) == (400, "body")
    assert answer.refusal["what"] == "the body cannot be read"
    assert found in answer.refusal["found"]
    assert '{"history": ["tea", "jam"], "item": "oats"}' in answer.refusal["wanted"]
