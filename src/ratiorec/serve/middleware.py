"""Middleware: bounded bodies; every request counted, timed, logged and given the same headers."""

from __future__ import annotations

import asyncio
import logging
import random
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fastapi.routing import APIRoute
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ratiorec.serve.errors import RefusedError, as_response, fault, no_such_address
from ratiorec.serve.security import HEADERS
from ratiorec.serve.service import ANSWERED_BY, EVENTS, Limits, Service, log_request

_END_IN_AN_ID = ("/v1/recommend/", "/v1/similar/")  # an id may end in anything
_DISCARDED = 8  # so many times the limit is read and forgotten, for the client to hear the answer


class _ClientLeftError(Exception):
    """The client went away before its request was whole."""


@dataclass(frozen=True)
class WholePaths:
    """Finds nothing at an address with a line end behind it, which routes would overlook."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        if path.endswith("\n") and not path.startswith(_END_IN_AN_ID):
            refused = no_such_address(scope["method"], path, HTTPException(404))
            await as_response(refused)(scope, receive, send)
        else:
            await self.app(scope, receive, send)


@dataclass(frozen=True)
class BoundedBodies:
    """Hands on requests whose body is whole, not too large and not too slow."""

    app: ASGIApp
    limits: Limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        if "content-length" not in headers and "transfer-encoding" not in headers:
            await self.app(scope, receive, send)
            return
        try:
            async with asyncio.timeout(self.limits.read_seconds):
                body = await self._whole_body(headers, receive)
        except TimeoutError:
            await as_response(_slow(self.limits.read_seconds))(scope, receive, send)
        except RefusedError as refused:
            await as_response(refused)(scope, receive, send)
        except _ClientLeftError:
            return
        else:
            await self.app(scope, _replayed(body, receive), send)

    async def _whole_body(self, headers: Headers, receive: Receive) -> bytes:
        most = self.limits.max_body_bytes
        declared = headers.get("content-length", "0")  # the protocol has seen that it is a number
        asks_first = headers.get("expect", "").lower() == "100-continue"
        if int(declared) > most and (asks_first or int(declared) > _DISCARDED * most):
            raise _too_large(declared, most)
        body = bytearray()
        n_bytes = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise _ClientLeftError
            n_bytes += len(message["body"])
            if n_bytes <= most:
                body += message["body"]
            elif n_bytes > _DISCARDED * most:
                break
            if not message["more_body"]:
                break
        if n_bytes > most:
            raise _too_large(f"{n_bytes:,} or more" if message["more_body"] else n_bytes, most)
        return bytes(body)


def _replayed(body: bytes, receive: Receive) -> Receive:
    """The body as one message, then whatever else the connection says."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return messages.pop() if messages else await receive()

    return replay


def _too_large(n_bytes: object, most: int) -> RefusedError:
    return RefusedError(
        "the body is too large",
        status=413,
        where="body",
        found=f"{n_bytes} bytes",
        wanted=f"at most {most:,} bytes",
        headers={"Connection": "close"},
    )


def _slow(seconds: float) -> RefusedError:
    return RefusedError(
        "the body came too slowly",
        status=408,
        where="body",
        found=f"no end after {seconds:g} s",
        wanted="the whole body within that time",
        headers={"Connection": "close"},
    )


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
    """The outermost layer: nothing leaves the server that has not passed it.

    `routes` tell where a request went that was refused on its way there.
    """

    app: ASGIApp
    service: Service
    routes: Sequence[APIRoute] = ()

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
        route = self._route_of(scope)
        method, status = scope["method"], answer.status
        model, variant = self._answered_by(scope)
        self.service.metrics.count(
            route=route, method=method, status=status, seconds=seconds, variant=variant or ""
        )
        parts: dict[str, Any] = {
            "id": request_id,
            "method": method if method.isalpha() and len(method) < 10 else "other",
            "route": route,
            "status": status,
            "ms": round(seconds * 1000, 2),
            "bytes": answer.n_bytes,
            "model": model,
            "variant": variant,
        }
        content = {
            "path": scope["path"],
            "query": scope["query_string"].decode("latin-1"),
            "client": scope["client"][0] if scope.get("client") else None,
        }
        log_request(status, parts, content)

    def _route_of(self, scope: Scope) -> str:
        """The address as the description of the API has it."""
        alike = (one for one in self.routes if one.path_regex.fullmatch(scope["path"]))
        route = scope.get("route") or next(alike, None)
        return str(getattr(route, "path_format", "unmatched"))

    def _answered_by(self, scope: Scope) -> tuple[str | None, str | None]:
        """Version and variant, where it was one model; one that is alone is always the one."""
        alone = {"": self.service.models.first.current} if len(self.service.models) == 1 else {}
        found = list((scope.get(ANSWERED_BY) or alone).values())
        return (found[0].version, found[0].variant) if len(found) == 1 else (None, None)


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
