"""Bodies are read whole before a request is worked on, and only so much and so long."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ratiorec.serve.errors import RefusedError, as_response
from ratiorec.serve.limits import Limits

_DISCARDED = 8  # so many times the limit is read and forgotten, for the client to hear the answer


class _ClientLeftError(Exception):
    """The client went away before its request was whole."""


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
