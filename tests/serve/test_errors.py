from __future__ import annotations

import json

import pytest

from asgi_client import Client
from ratiorec.errors import (
    ConfigError,
    DataError,
    ModelError,
    RatiorecError,
    StorageError,
    UnknownIdError,
)
from ratiorec.serve.errors import RefusedError, as_response, fault, four_parts, status_of

PARTS = {"where": "a", "found": "b", "wanted": "c"}


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        (UnknownIdError, 404),
        (ModelError, 409),
        (ConfigError, 422),
        (DataError, 422),
        (StorageError, 500),
    ],
)
def test_a_kind_of_error_has_its_status(kind: type[RatiorecError], status: int) -> None:
    assert status_of(kind("what", **PARTS)) == status


def test_a_refusal_is_answered_with_its_status_headers_and_four_parts() -> None:
    error = RefusedError("what", status=503, headers={"Retry-After": "1"}, **PARTS)
    answer = as_response(error)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert json.loads(answer.body) == {"what": "what", **PARTS} == four_parts(error)


def test_text_that_is_no_unicode_can_be_answered() -> None:
    answer = as_response(ConfigError("\ud800", **PARTS))
    assert json.loads(answer.body)["what"] == "\ud800"


def test_a_fault_says_nothing_of_its_inside() -> None:
    assert fault().status == 500
    assert "X-Request-ID" in fault().found


@pytest.mark.parametrize("path", ["/nothing", "/v1", "/v1/recommendation", "/static/none.js"])
def test_an_address_that_is_not_there_is_refused(client: Client, path: str) -> None:
    answer = client.get(path)
    assert answer.status == 404
    assert answer.refusal["where"] == f"GET '{path}'"


def test_a_method_that_is_not_answered_is_refused_with_those_that_are(client: Client) -> None:
    answer = client.post("/v1/model")
    assert (answer.status, answer.headers["allow"]) == (405, "GET")
    assert answer.refusal["what"] == "this method is not answered here"


def test_a_value_that_does_not_fit_the_schema_is_named(client: Client) -> None:
    answer = client.get("/v1/recommend/user1", k="many")
    assert answer.status == 422
    assert answer.refusal["where"] == "query k"
    assert answer.refusal["found"] == "'many'"


def test_a_long_value_is_shortened(client: Client) -> None:
    answer = client.get("/v1/recommend/user1", k="9" * 3000 + "x")
    assert answer.status == 422
    assert len(answer.refusal["found"]) < 250
