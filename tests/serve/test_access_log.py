from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ratiorec.serve.models import ModelInUse
from ratiorec.serve.security import Keys
from ratiorec.serve.server import create_app
from ratiorec.serve.service import Limits, Service, log_event, start_logging
from support.asgi_client import Client, answer_to

NAMES = ("ratiorec.serve", "uvicorn.error")


@pytest.fixture(autouse=True)
def _loggers_as_before() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in NAMES]
    before = [(logger.handlers, logger.propagate, logger.level) for logger in loggers]
    yield
    for logger, (handlers, propagate, level) in zip(loggers, before, strict=True):
        logger.handlers, logger.propagate = handlers, propagate
        logger.setLevel(level)


def lines_of(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_request_is_one_line_without_what_was_asked(client: Client) -> None:
    stream = io.StringIO()
    start_logging("info", stream)
    answer = client.get("/v1/recommend/user1", deny="item3")
    client.post("/v1/recommend", {"users": ["user2"], "deny": ["item4"]})
    client.get("/v1/items", query="tea")
    client.get("/elsewhere/user7")
    first, *_ = lines = lines_of(stream)
    assert [line["route"] for line in lines] == [
        "/v1/recommend/{user}",
        "/v1/recommend",
        "/v1/items",
        "unmatched",
    ]
    assert first.keys() == {
        *("time", "level", "event", "id", "method"),
        *("route", "status", "ms", "bytes", "model", "variant"),
    }
    assert (first["status"], first["bytes"]) == (200, len(answer.body))
    assert first["id"] == answer.headers["x-request-id"]
    for content in ("user1", "item3", "user2", "item4", "tea", "user7", "192.0.2.7"):
        assert content not in stream.getvalue()


def test_a_request_that_is_refused_before_its_address_is_logged_with_it(folder: Path) -> None:
    stream = io.StringIO()
    start_logging("info", stream)
    limits, keys = Limits(max_body_bytes=10, read_seconds=0.01), Keys.of(["a-key-of-ada-1234"])
    service = Service.of(ModelInUse(folder), limits)
    open_to_all, app = create_app(service), create_app(replace(service, keys=keys))
    Client(open_to_all).post("/v1/recommend", {"users": ["user1"]})
    slow = {"headers": {"content-length": "2"}, "chunks": [b"{", b"}"], "chunk_seconds": 0.1}
    asyncio.run(answer_to(open_to_all, "POST", "/v1/why", **slow))
    Client(app).get("/v1/users/user1/history")
    Client(app).get("/elsewhere")
    assert [(line["status"], line["route"]) for line in lines_of(stream)] == [
        (413, "/v1/recommend"),
        (408, "/v1/why"),
        (401, "/v1/users/{user}/history"),
        (401, "unmatched"),
    ]


def test_at_level_debug_a_line_says_what_was_asked(client: Client) -> None:
    stream = io.StringIO()
    start_logging("debug", stream)
    client.get("/v1/recommend/user1", deny="item3")
    (line,) = lines_of(stream)
    assert line["path"] == "/v1/recommend/user1"
    assert line["query"] == "deny=item3"
    assert line["client"] == "192.0.2.7"


def test_at_level_warning_only_what_went_wrong_is_logged(client: Client) -> None:
    stream = io.StringIO()
    start_logging("warning", stream)
    client.get("/v1/recommend/user1")
    client.get("/v1/recommend/eve")
    assert [(line["level"], line["status"]) for line in lines_of(stream)] == [("warning", 404)]


def test_line_ends_in_a_request_do_not_end_a_line(client: Client) -> None:
    stream = io.StringIO()
    start_logging("debug", stream)
    client.get("/v1/recommend/a%0A%7B%22event%22:%22forged%22%7D")
    (line,) = lines_of(stream)
    assert line["path"] == '/v1/recommend/a\n{"event":"forged"}'


def test_an_event_has_its_parts_and_a_traceback_where_there_is_one() -> None:
    stream = io.StringIO()
    start_logging("info", stream)
    log_event("started", address="here")
    try:
        raise ValueError("a bug")
    except ValueError:
        logging.getLogger("ratiorec.serve.events").exception("fault")
    started, fault = lines_of(stream)
    assert (started["event"], started["address"]) == ("started", "here")
    assert fault["traceback"].endswith("ValueError: a bug")
