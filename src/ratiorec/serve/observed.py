"""Every request is counted, timed, logged, and answered with the same headers."""

from __future__ import annotations

import asyncio
import logging
import random
import threading
import time
from dataclasses import dataclass
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ratiorec.serve.access_log import EVENTS, log_request
from ratiorec.serve.errors import RefusedError, as_response, fault
from ratiorec.serve.security import HEADERS
from ratiorec.serve.service import Service


class _Answer:
    """Passes an answer on with the headers that all have, and remembers what it was."""

    def __init__(self, send: Send, request_id: str, closing: threading.Event) -> None:
        self._send = send
        self._headers = (*HEADERS, (b"x-request-id", request_id.encode()))
        self._closing = closing
        self.status = 499  # nothing was sent, so nobody was there to send it to
        self.n_bytes = 0
        self.has_begun = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.has_begun = True
            self.status = message["status"]
            own = message.get("headers", [])
            names = {name.lower() for name, _ in own}
            common = [header for header in self._headers if header[0] not in names]
            if self._closing.is_set() and b"connection" not in names:
                common.append((b"connection", b"close"))  # so that the client asks here no more
            message = {**message, "headers": [*own, *common]}
        elif message["type"] == "http.response.body":
            self.n_bytes += len(message.get("body", b""))
        await self._send(message)


@dataclass(frozen=True)
class Observed:
    """The outermost layer: nothing leaves the server that has not passed it."""

    app: ASGIApp
    service: Service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = time.perf_counter()
        request_id = f"{random.getrandbits(64):016x}"
        answer = _Answer(send, request_id, self.service.closing)
        try:
            await self.app(scope, receive, answer)
        except asyncio.CancelledError:
            await _answer_at_the_end(scope, receive, answer)
        except Exception:
            EVENTS.exception("fault", extra={"parts": {"id": request_id}})
            if answer.has_begun:
                raise
            await as_response(fault())(scope, receive, answer)
        finally:
            self._note(scope, answer, request_id, time.perf_counter() - started)

    def _note(self, scope: Scope, answer: _Answer, request_id: str, seconds: float) -> None:
        route = getattr(scope.get("route"), "path_format", "unmatched")
        method, status = scope["method"], answer.status
        self.service.metrics.count(route=route, method=method, status=status, seconds=seconds)
        parts: dict[str, Any] = {
            "id": request_id,
            "method": method if method.isalpha() and len(method) < 10 else "other",
            "route": route,
            "status": status,
            "ms": round(seconds * 1000, 2),
            "bytes": answer.n_bytes,
            "model": self.service.models.current.version,
        }
        content = {
            "path": scope["path"],
            "query": scope["query_string"].decode("latin-1"),
            "client": scope["client"][0] if scope.get("client") else None,
        }
        log_request(status, parts, content)


async def _answer_at_the_end(scope: Scope, receive: Receive, answer: _Answer) -> None:
    """The time for draining is over: say so rather than break off."""
    EVENTS.log(logging.WARNING, "cut off")
    if answer.has_begun:
        raise asyncio.CancelledError
    refused = RefusedError(
        "the server has stopped",
        status=503,
        where="this request",
        found="no answer before the server had to end",
        wanted="another server; the request may be repeated",
        headers={"Retry-After": "1"},
    )
    await as_response(refused)(scope, receive, answer)
