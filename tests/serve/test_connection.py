"""Clients that misbehave, at a real server."""

from __future__ import annotations

import json
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ratiorec.serve import server as server_module
from ratiorec.serve.connection import require_known
from ratiorec.serve.service import EVENTS, Limits
from support.serve_process import PATIENCE, Server, running, running_here
from support.small_models import small_model

LINE = b"GET /v1/recommend/user1 HTTP/1.1\r\n"
HEAD = LINE + b"Host: here\r\nConnection: close\r\n\r\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    small_model().save(folder / "model")
    limits = Limits(read_seconds=0.6, max_connections=20, max_body_bytes=1000)
    with running_here(folder / "model", folder / "log", limits) as started:
        yield started


def parts_of(answer: bytes) -> tuple[int, dict[str, str]]:
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)


def still_answers(server: Server) -> bool:
    return server.ask("GET", "/v1/recommend/user1")[0] == 200


def test_a_head_that_comes_byte_by_byte_is_cut_off_in_time(server: Server) -> None:
    started = time.monotonic()
    with socket.create_connection((server.host, server.port), timeout=PATIENCE) as client:
        client.settimeout(0.05)
        answer = b""
        while not answer and time.monotonic() - started < PATIENCE:
            client.sendall(b"G")
            try:
                answer = client.recv(65536)
            except TimeoutError:
                continue
    status, refusal = parts_of(answer)
    assert (status, refusal["what"]) == (408, "the request came too slowly")
    assert still_answers(server)


def test_a_second_head_that_does_not_end_is_cut_off_too(server: Server) -> None:
    first = LINE + b"Host: here\r\n\r\n"
    answer = server.raw(first, b"GET /v1/rec")
    assert answer.count(b"HTTP/1.1 200 OK") == 1
    assert b"HTTP/1.1 408" in answer


def test_a_client_that_says_nothing_is_let_go_without_an_answer(server: Server) -> None:
    assert server.raw() == b""


def test_a_body_that_does_not_come_is_not_waited_for(server: Server) -> None:
    head = b"POST /v1/recommend HTTP/1.1\r\nHost: here\r\nContent-Length: 100\r\n\r\n"
    status, refusal = parts_of(server.raw(head, b"{"))
    assert (status, refusal["what"]) == (408, "the body came too slowly")


@pytest.mark.parametrize("n_bytes", [1001, 7000, 500_000])
def test_a_body_that_is_too_large_is_refused_and_the_answer_can_be_read(
    server: Server, n_bytes: int
) -> None:
    head = f"POST /v1/recommend HTTP/1.1\r\nHost: here\r\nContent-Length: {n_bytes}\r\n\r\n"
    sent = b" " * n_bytes if n_bytes < 8000 else b""  # what is far too large is refused unread
    status, refusal = parts_of(server.raw(head.encode(), sent))
    assert (status, refusal["wanted"]) == (413, "at most 1,000 bytes")
    assert still_answers(server)


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"\x00\x01\x02\r\n\r\n",
        b"GET / HTTP/x\r\n\r\n",
        LINE + b"no colon\r\n\r\n",
        LINE + b"A: b\x00c\r\n\r\n",
        LINE + b"Host: here\r\nA: b\rSet-Cookie: c\r\n\r\n",
        LINE + b"Host: here\r\nContent-Length: -1\r\n\r\n",
        LINE + b"Host: here\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        LINE + b"Host: here\r\nTransfer-Encoding: strange\r\n\r\n",
        # what a proxy in front may read otherwise, and so see other requests
        LINE + b"Host: here\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        LINE.replace(b"\r\n", b"\n") + b"Host: here\n\n",
        LINE + b"Host: here\r\nA: b\nC: d\r\n\r\n",
        LINE + b"Host: here\r\nA: b\r\n c\r\n\r\n",
        LINE + b"Host: here\r\nA: b\r\n\tc\r\n\r\n",
    ],
)
def test_what_is_not_http_is_refused_in_four_parts(server: Server, request_bytes: bytes) -> None:
    status, refusal = parts_of(server.raw(request_bytes))
    assert status in (400, 501)
    assert set(refusal) == {"what", "where", "found", "wanted"}
    assert still_answers(server)


def test_of_two_requests_the_second_is_looked_at_as_closely(server: Server) -> None:
    both = b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    answer = server.raw(LINE + b"Host: here\r\n\r\n" + LINE + b"Host: here\r\n" + both)
    assert answer.count(b"HTTP/1.1 200 OK") == 1
    assert answer.count(b"HTTP/1.1 400") == 1


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: here\r\n\r\n",
        LINE + b"Host: here\r\n" + b"X: y\r\n" * 12_000 + b"\r\n",
        LINE + b"Host: here\r\nX: " + b"y" * 70_000 + b"\r\n\r\n",
        LINE + b"Host: here\r\nX: " + b"y" * 400_000 + b"\r\n\r\n",
        LINE + b"Host: here\r\nX: " + b"y" * 70_000,  # no end in sight
        b"GET /" + b"a" * 400_000 + b" HTTP/1.1\r\nHost: here\r\n\r\n",
    ],
)
def test_a_head_that_is_too_large_is_refused_however_it_comes(
    server: Server, request_bytes: bytes
) -> None:
    status, refusal = parts_of(server.raw(request_bytes))
    assert (status, refusal["wanted"]) == (431, "at most 65,536 bytes before the body")
    assert still_answers(server)


def test_a_head_that_is_just_small_enough_is_answered(server: Server) -> None:
    rest = b"Host: here\r\nConnection: close\r\nX: "
    filled = LINE + rest + b"y" * (2**16 - len(LINE) - len(rest) - 4) + b"\r\n\r\n"
    assert len(filled) == 2**16
    assert parts_of(server.raw(filled))[0] == 200


def test_a_line_end_in_an_address_makes_no_header(server: Server) -> None:
    target = b"/v1/recommend/x%0d%0aSet-Cookie:%20a=b?k=1%0d%0aX-Evil:%201"
    answer = server.raw(b"GET " + target + b" HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
    head = answer.partition(b"\r\n\r\n")[0].lower()
    assert b"set-cookie" not in head
    assert b"x-evil" not in head
    assert parts_of(answer)[0] in (404, 422)


@pytest.mark.parametrize(
    "target",
    [
        "/../../../../etc/passwd",
        "/static/../../../../etc/passwd",
        "/static/..%2f..%2fapp.py",
        "/static/%2e%2e/app.py",
        "//etc/passwd",
        "/static//etc/passwd",
        "/static/....//app.py",
    ],
)
def test_no_address_leads_out_of_the_pages(server: Server, target: str) -> None:
    request = f"GET {target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
    status, refusal = parts_of(server.raw(request.encode()))
    assert status == 404
    assert "root:" not in str(refusal)


def test_more_connections_than_allowed_are_refused_and_later_let_in(server: Server) -> None:
    address = (server.host, server.port)
    held = [socket.create_connection(address, timeout=PATIENCE) for _ in range(20)]
    try:
        answer = server.raw(HEAD)
        status, refusal = parts_of(answer)
        assert (status, refusal["what"]) == (429, "the server has too many connections")
        assert b"\r\nretry-after: 1\r\n" in answer
    finally:
        for connection in held:
            connection.close()
    end = time.monotonic() + PATIENCE
    while parts_of(server.raw(HEAD))[0] != 200:
        assert time.monotonic() < end


def test_requests_sent_one_behind_the_other_are_answered_in_order(server: Server) -> None:
    second = HEAD.replace(b"user1", b"user2")
    answer = server.raw(LINE + b"Host: here\r\n\r\n" + second)
    assert answer.count(b"HTTP/1.1 200 OK") == 2
    assert answer.index(b'"user1"') < answer.index(b'"user2"')


def test_a_client_that_leaves_in_the_middle_does_no_harm(server: Server) -> None:
    for _ in range(10):  # fewer than the server lets in at once
        with socket.create_connection((server.host, server.port), timeout=PATIENCE) as client:
            client.sendall(HEAD)
    assert still_answers(server)


def test_the_log_has_one_line_of_json_for_each_and_no_traceback(server: Server) -> None:
    server.ask("GET", "/health/live")
    text = Path(server.log).read_text()
    assert all(json.loads(line) for line in text.splitlines())
    assert "traceback" not in text


def test_the_class_of_this_uvicorn_is_known() -> None:
    assert server_module.connections(Limits()).func.__name__ == "BoundedConnection"


class Changed:
    """A class of connections that has little to do with the one that is known."""

    def connection_made(self, transport: object) -> None:
        """Somebody has come."""


@pytest.mark.parametrize("other", [None, SimpleNamespace(), SimpleNamespace(H11Protocol=Changed)])
def test_another_class_of_connections_is_replaced_by_the_plain_one_with_a_warning(
    other: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn.protocols.http.h11_impl", other)
    monkeypatch.delitem(sys.modules, "ratiorec.serve.connection", raising=False)
    assert server_module.connections(Limits()) == "h11"
    # the server of the other tests may still write of their requests
    (record,) = [one for one in caplog.records if one.name == EVENTS.name]
    assert record.levelname == "WARNING"
    assert record.message == "slow and too many connections are not refused"


def test_a_method_that_is_gone_is_named() -> None:
    with pytest.raises(ImportError, match=r"Changed of uvicorn has no conn, .*send_400_response"):
        require_known(Changed)


def test_a_server_with_plain_connections_answers_and_ends(tmp_path: Path) -> None:
    small_model().save(tmp_path / "model")
    # what is imported before everything else: a class without one of the methods
    (tmp_path / "sitecustomize.py").write_text(
        "from uvicorn.protocols.http.h11_impl import H11Protocol as known\n"
        "known.refuse = known.__dict__['send_400_response']\n"
        "del known.send_400_response\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
        with running(tmp_path / "model", tmp_path / "log") as server:
            assert still_answers(server)
            assert server.stop() == 0
    (line,) = server.events("slow and too many connections are not refused")
    assert line["level"] == "warning"
    assert "H11Protocol of uvicorn has no send_400_response" in line["found"]
