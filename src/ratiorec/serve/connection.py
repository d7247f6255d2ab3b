"""HTTP/1.1 connections that cannot be held open for nothing, and end without losing a request."""

from __future__ import annotations

import asyncio
import re
from inspect import isfunction
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from ratiorec.serve.errors import RefusedError, encoded, four_parts
from ratiorec.serve.service import HEAD_BYTES, Limits

_LINGER_SECONDS = 1.0  # a client may have sent a request just before it could know of the end

# uvicorn has no limit on how long the head of a request may take, and its class of a connection is
# not public. Tested with uvicorn 0.29, 0.34, 0.38, 0.50 and 0.54; any version is asked for the
# names that are used here.
_METHODS = {
    *("connection_made", "connection_lost", "data_received", "on_response_complete", "shutdown"),
    *("timeout_keep_alive_handler", "send_400_response"),
}
_ATTRIBUTES = {"conn", "connections", "cycle", "loop", "response_complete", "transport"}


def require_known(base: type) -> None:
    """Refuse a class of connections without the methods and attributes that are used here."""
    methods = {name: method for name, method in vars(base).items() if isfunction(method)}
    attributes = set().union(*(method.__code__.co_names for method in methods.values()))
    if missing := sorted((_METHODS - methods.keys()) | (_ATTRIBUTES - attributes)):
        raise ImportError(f"{base.__name__} of uvicorn has no {', '.join(missing)}")


require_known(H11Protocol)


# What h11 takes and a proxy in front may read otherwise: then the two see different requests.
_AMBIGUOUS = re.compile(rb"(?<!\r)\n|\n[ \t]")


class _StrictHeads(h11.Connection):
    """HTTP/1.1 whose heads have one meaning and an end; why one is refused is kept."""

    def __init__(self) -> None:
        super().__init__(h11.SERVER, HEAD_BYTES)
        self.status_of_error = 400

    def next_event(self) -> Any:
        """The next event.

        Raises:
            h11.RemoteProtocolError: It is not HTTP, or too large, or ambiguous.
        """
        is_head = self.their_state is h11.IDLE
        before = self.trailing_data[0] if is_head else b""
        try:
            event = super().next_event()
            if is_head and isinstance(event, h11.Request):
                _check_head(before[: len(before) - len(self.trailing_data[0])], event)
        except h11.RemoteProtocolError as error:
            self.status_of_error = error.error_status_hint
            raise
        return event


def _check_head(head: bytes, request: h11.Request) -> None:
    if len(head) > HEAD_BYTES:
        raise h11.RemoteProtocolError("the head is too large", error_status_hint=431)
    names = {name for name, _ in request.headers}
    if {b"transfer-encoding", b"content-length"} <= names or _AMBIGUOUS.search(head):
        raise h11.RemoteProtocolError("the head has more than one meaning")


class BoundedConnection(H11Protocol):
    """A connection whose client must send the head of each request in time.

    When the server ends, a connection that rests stays open for a moment, so that a request
    already on its way is answered.
    """

    def __init__(self, *arguments: Any, limits: Limits, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.conn: _StrictHeads = _StrictHeads()
        self._limits = limits
        self._head_timer: asyncio.TimerHandle | None = None
        self._has_received = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        most = self._limits.max_connections
        if len(self.connections) > most:
            self._refuse(
                429,
                "the server has too many connections",
                f"{most:,} open",
                "fewer; try again in a second",
                retry_after=1,
            )
        else:
            self._time_the_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._has_received = True
        super().data_received(data)
        self._time_the_head()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.conn.trailing_data[0]:  # the next request has begun already
            self._time_the_head()

    def shutdown(self) -> None:
        """End after the next answer, which says so, or after a moment in which none was asked.

        Answers that have not begun close the connection by their headers; a client that has
        read the head of one without that word may still send a request.
        """
        self.loop.call_later(_LINGER_SECONDS, self._leave)

    def timeout_keep_alive_handler(self) -> None:
        """Close a resting connection; a client that does not read its answer is cut off."""
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            super().timeout_keep_alive_handler()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP, with the status that h11 advises and uvicorn leaves out."""
        status = self.conn.status_of_error
        if status == 431:
            wanted = f"at most {HEAD_BYTES:,} bytes before the body"
            self._refuse(status, "the head of the request is too large", "more", wanted)
            return
        wanted = "a head and a body as in RFC 9112, without line folding or a second length"
        self._refuse(status, "this is not a request in HTTP/1.1", "malformed bytes", wanted)

    def _is_resting(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _leave(self) -> None:
        if not self.transport.is_closing():
            super().shutdown()

    def _time_the_head(self) -> None:
        """Run a timer while, and only while, the head of a request is awaited."""
        awaits_head = self._is_resting() and self.conn.their_state is h11.IDLE
        if not awaits_head or self.transport.is_closing():
            self._stop_timing()
        elif self._head_timer is None:
            self._head_timer = self.loop.call_later(self._limits.read_seconds, self._head_is_late)

    def _stop_timing(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_is_late(self) -> None:
        self._head_timer = None
        if self.transport.is_closing():
            return
        if not self._has_received:  # nobody asked anything, so nobody expects an answer
            self.transport.close()
            return
        found = f"no end after {self._limits.read_seconds:g} s"
        self._refuse(408, "the request came too slowly", found, "a whole head within that time")

    def _refuse(
        self, status: int, what: str, found: str, wanted: str, *, retry_after: int | None = None
    ) -> None:
        """Answer in four parts and close, without the application."""
        error = RefusedError(what, status=status, where="connection", found=found, wanted=wanted)
        body = encoded(four_parts(error))
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            (b"x-content-type-options", b"nosniff"),
            (b"connection", b"close"),
        ]
        if retry_after is not None:
            headers.append((b"retry-after", str(retry_after).encode()))
        events = (
            h11.Response(status_code=status, headers=headers),
            h11.Data(data=body),
            h11.EndOfMessage(),
        )
        try:
            answer = b"".join(self.conn.send(event) or b"" for event in events)
        except h11.LocalProtocolError:  # an answer has begun already
            answer = b""
        # at once: a client that still sends may lose what comes after a first piece
        self.transport.write(answer)
        self.transport.close()
