from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from ratiorec.serve.middleware import Observed
from ratiorec.serve.server import create_app
from ratiorec.serve.service import Service
from support.asgi_client import Answer, Client, answer_to


def ask(app: Any) -> Answer:
    return asyncio.run(answer_to(app, "GET", "/v1/recommend/secret-user"))


def test_each_answer_has_an_id_of_its_own(client: Client) -> None:
    ids = {client.get("/health/live").headers["x-request-id"] for _ in range(20)}
    assert len(ids) == 20


def test_an_id_that_a_client_sends_is_not_sent_back(client: Client) -> None:
    answer = client.get("/health/live", {"X-Request-ID": "forged"})
    assert "forged" not in answer.headers.values()


def test_a_bug_is_answered_in_four_parts_and_is_in_the_log_under_its_id(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(scope: Any, receive: Any, send: Any) -> None:
        raise RuntimeError("a bug")

    answer = ask(Observed(broken, service))
    assert answer.status == 500
    assert "a bug" not in json.dumps(answer.refusal)
    (record,) = [record for record in caplog.records if record.message == "fault"]
    assert record.exc_info is not None
    assert record.parts == {"id": answer.headers["x-request-id"]}  # type: ignore[attr-defined]


def test_a_bug_after_the_answer_has_begun_ends_the_connection(service: Service) -> None:
    async def broken(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise RuntimeError("a bug")

    with pytest.raises(RuntimeError, match="a bug"):
        ask(Observed(broken, service))


def test_a_request_that_is_cut_off_at_the_end_is_told_so(service: Service) -> None:
    async def endless(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.sleep(60)

    async def go() -> Answer:
        asked = asyncio.ensure_future(answer_to(Observed(endless, service), "GET", "/"))
        await asyncio.sleep(0.01)
        asked.cancel()
        return await asked

    answer = asyncio.run(go())
    assert (answer.status, answer.headers["retry-after"]) == (503, "1")
    assert answer.refusal["what"] == "the server has stopped"


def test_a_server_that_is_told_to_end_is_not_ready_and_still_answers(service: Service) -> None:
    client = Client(create_app(service))
    service.draining.set()
    ready = client.get("/health/ready")
    assert (ready.status, ready.refusal["what"]) == (503, "the server is about to end")
    assert client.get("/v1/recommend/user1").status == 200


def test_a_server_that_listens_no_more_sends_its_clients_away(service: Service) -> None:
    client = Client(create_app(service))
    assert "connection" not in client.get("/v1/recommend/user1").headers
    service.closing.set()
    answer = client.get("/v1/recommend/user1")
    assert (answer.status, answer.headers["connection"]) == (200, "close")
