from __future__ import annotations

import json

import pytest

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
