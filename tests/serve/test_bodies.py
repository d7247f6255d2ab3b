from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ratiorec.serve.models import ModelInUse
from ratiorec.serve.server import create_app
from ratiorec.serve.service import Limits, Service
from support.asgi_client import Answer, Client, answer_to

BODY = b'{"users": ["user1"], "k": 1}'


@pytest.fixture
def app(folder: Path) -> Any:
    limits = Limits(max_body_bytes=len(BODY), read_seconds=0.2)
    return create_app(Service.of(ModelInUse(folder), limits))


def post(app: Any, chunks: Sequence[bytes], seconds: float = 0, **headers: str) -> Answer:
    given = {"content-type": "application/json"} | headers
    return asyncio.run(
        answer_to(app, "POST", "/v1/recommend", headers=given, chunks=chunks, chunk_seconds=seconds)
    )


def test_a_body_in_pieces_is_put_together(app: Any) -> None:
    assert post(app, [BODY[:7], b"", BODY[7:]]).status == 200


def test_a_body_of_one_byte_too_many_is_refused_whether_announced_or_not(app: Any) -> None:
    announced = post(app, [BODY + b" "], **{"content-length": str(len(BODY) + 1)})
    unannounced = post(app, [BODY, b" "])
    for answer in (announced, unannounced):
        assert (answer.status, answer.headers["connection"]) == (413, "close")
        assert answer.refusal["wanted"] == f"at most {len(BODY)} bytes"


def test_a_body_without_end_is_read_only_so_far(app: Any) -> None:
    answer = post(app, [b"x" * len(BODY)] * 10_000)
    assert answer.status == 413
    assert "or more" in answer.refusal["found"]


def test_a_client_that_asks_before_it_sends_is_refused_before_anything_is_read(app: Any) -> None:
    headers = {"content-length": "100", "expect": "100-continue"}
    assert post(app, [], **headers).status == 413


def test_a_body_announced_as_huge_is_refused_unread(app: Any) -> None:
    assert post(app, [], **{"content-length": "99999999999999"}).status == 413


def test_a_slow_body_is_refused(app: Any) -> None:
    answer = post(app, [BODY[:9], BODY[9:]], seconds=0.15)
    assert (answer.status, answer.headers["connection"]) == (408, "close")
    assert "0.2 s" in answer.refusal["found"]


def test_a_body_where_none_is_needed_is_read_and_forgotten(app: Any) -> None:
    answer = asyncio.run(answer_to(app, "GET", "/v1/recommend/user1", chunks=[b"x", b"y"]))
    assert answer.status == 200


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[" * 20_000, b"1" * 20_000, b"\xff\xfe", b"null", b"[]", b'{"k": NaN}', b'"x"'],
)
def test_a_body_that_is_no_request_is_refused(client: Client, body: bytes) -> None:
    answer = client.post("/v1/recommend", body)
    assert answer.status in (400, 422)
    assert answer.refusal
