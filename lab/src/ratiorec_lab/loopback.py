"""A server on loopback, and a crowd of clients: all kinds at fixed rates, good and bad ones."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np


class Connection(asyncio.Protocol):
    """HTTP/1.1, one request at a time; an answer ends where its length says."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._answer: asyncio.Future[tuple[int, bytes, bytes]] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(exc or ConnectionError("closed without an answer"))
        self.transport = None

    def data_received(self, data: bytes) -> None:
        self._received += data
        head_end = self._received.find(b"\r\n\r\n")
        if head_end < 0 or self._answer is None:
            return
        head = bytes(self._received[:head_end]).lower()
        length = re.search(rb"content-length: (\d+)", head)
        end = head_end + 4 + (int(length[1]) if length else 0)
        if len(self._received) >= end and not self._answer.done():
            body = bytes(self._received[head_end + 4 : end])
            del self._received[:end]
            self._answer.set_result((int(head[9:12]), body, head))

    async def ask(self, path: str, method: str = "GET", headers: str = "") -> tuple[int, bytes]:
        head = f"{method} {path} HTTP/1.1\r\nHost: h\r\n{headers}\r\n"
        status, body, _ = await self.send(head.encode())
        return status, body

    async def send(self, request: bytes) -> tuple[int, bytes, bytes]:
        """The status, body and head of the answer to a request that is written out."""
        assert self.transport is not None
        self._answer = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        status, body, head = await self._answer
        if b"connection: close" in head and self.transport is not None:
            self.transport.close()
            self.transport = None
        return status, body, head


@dataclass
class Server:
    """The process of a server, and what the system says of it."""

    process: asyncio.subprocess.Process
    port: int
    seconds_to_start: float

    def resident_mb(self) -> float:
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return round(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, 1)

    def processor_seconds(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.asynccontextmanager
async def serving(
    folder: Path, log: Path, *options: str, user: object = 0
) -> AsyncIterator[Server]:
    """A server that has answered this user once."""
    command = [sys.executable, "-m", "ratiorec.cli", "serve", str(folder), "--port", "0", "--json"]
    started = time.perf_counter()
    with log.open("w") as errors:
        process = await asyncio.create_subprocess_exec(
            *command, *options, stdout=subprocess.PIPE, stderr=errors
        )
    try:
        assert process.stdout is not None
        line = await process.stdout.readline()
        port = int(json.loads(line)["address"].rsplit(":", 1)[1])
        connection = await connected(port, [])
        status, body = await connection.ask(f"/v1/recommend/{user}")
        assert status == 200, body
        assert connection.transport is not None
        connection.transport.close()
        yield Server(process, port, round(time.perf_counter() - started, 2))
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


PLAIN, WITH_LONG = "without long requests", "with long requests"
LONG = ("why", "many histories")
_PATIENCE = 30.0
_BURST, _BURST_SECONDS = 10, 10.0
_N_SLOW, _DRIP_SECONDS = 20, 1.0
_LINE = b"GET /v1/recommend/0 HTTP/1.1\r\n"
_MALFORMED = (
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n",
    b"GET / HTTP/x\r\n\r\n",
    _LINE + b"no colon\r\n\r\n",
    _LINE + b"Host: h\r\nContent-Length: -1\r\n\r\n",
    _LINE + b"Host: h\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    _LINE + b"Host: h\r\nX: " + b"y" * 70_000 + b"\r\n\r\n",
    _LINE.replace(b"\r\n", b"\n") + b"Host: h\n\n",
    b"POST /v1/why HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 4\r\n\r\n[[[[",
    b"GET /v1/recommend/nobody%00 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
    b"PUT /v1/recommend/0 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
)


async def connected(port: int, resting: list[Connection]) -> Connection:
    """One of the connections that rest and are still open, or a new one."""
    while resting:
        connection = resting.pop()
        if connection.transport is not None:
            return connection
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(Connection, "127.0.0.1", port)
    return connection


@dataclass
class Answers:
    """What became of the requests of one kind in one phase."""

    seconds: list[float] = field(default_factory=list)
    refused: Counter[int] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)

    def summary(self) -> dict[str, Any]:
        answered = percentiles(self.seconds)
        refused = {str(status): n for status, n in sorted(self.refused.items())}
        return answered | {"refused": refused, "failed": dict(self.failed)}


def percentiles(seconds: Sequence[float]) -> dict[str, Any]:
    """How many were answered, and how fast."""
    found: dict[str, Any] = {"answered": len(seconds)}
    if seconds:
        ms = 1000 * np.array(seconds)
        found |= {f"p{p}_ms": round(float(np.percentile(ms, p)), 2) for p in (50, 99)}
        found["max_ms"] = round(float(ms.max()), 2)
    return found


class Crowd:
    """All who ask one server, until they are told to stop."""

    def __init__(self, port: int, seed: int) -> None:
        self._port = port
        self._rng = np.random.default_rng(seed)
        self._resting: list[Connection] = []
        self._pending: set[asyncio.Task[None]] = set()
        self.phase = PLAIN
        self.over = asyncio.Event()
        self.answers: dict[tuple[str, str], Answers] = {}
        self.short_ones: list[tuple[float, float]] = []  # when due, and seconds
        self.misbehaved: Counter[str] = Counter()
        self.versions: set[bytes] = set()

    async def at_rate(self, rate: float, ask: Callable[[float], Awaitable[None]]) -> None:
        """Ask at random moments, so many times a second, whatever the answers do."""
        due = time.perf_counter()
        while not self.over.is_set():
            due += self._rng.exponential(1 / rate)
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            self._start(ask(due))

    async def requests(self, kind: str, rate: float, requests: Iterator[bytes]) -> None:
        """Valid requests of a kind at a rate."""
        await self.at_rate(rate, lambda due: self._ask(kind, next(requests), due))

    async def long_ones(self, rate: float, kinds: Sequence[tuple[str, Iterator[bytes]]]) -> None:
        """Long requests in their phases: at a rate, and now and then several at once."""

        async def ask(due: float) -> None:
            if self.phase == WITH_LONG:
                kind, requests = kinds[int(self._rng.integers(len(kinds)))]
                await self._ask(kind, next(requests), due)

        async def burst(due: float) -> None:
            await asyncio.gather(*(ask(due) for _ in range(_BURST)))

        await asyncio.gather(self.at_rate(rate, ask), self.at_rate(1 / _BURST_SECONDS, burst))

    async def malformed(self, rate: float) -> None:
        """What is not HTTP, or not a request, each on a connection of its own."""
        await self.at_rate(
            rate, lambda _: self._misbehave(_MALFORMED[int(self._rng.integers(len(_MALFORMED)))])
        )

    async def slow(self) -> None:
        """Connections whose head never ends, a letter at a time."""

        async def drip() -> None:
            while not self.over.is_set():
                await self._misbehave(b"GET /", drip=True)

        for _ in range(_N_SLOW):
            self._start(drip())
            await asyncio.sleep(0.1)

    async def finished(self) -> None:
        """All that has been asked is answered, or has failed."""
        await asyncio.gather(*self._pending)
        for connection in self._resting:
            if connection.transport is not None:
                connection.transport.close()

    def _start(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._pending.add(task)
        task.add_done_callback(self._pending.discard)

    async def _ask(self, kind: str, request: bytes, due: float) -> None:
        phase = self.phase
        try:
            async with asyncio.timeout(_PATIENCE):
                connection = await connected(self._port, self._resting)
                status, body, head = await connection.send(request)
        except (OSError, TimeoutError) as error:
            self._answers(phase, kind).failed[type(error).__name__] += 1
            return
        seconds = time.perf_counter() - due
        if connection.transport is not None:
            self._resting.append(connection)
        self.note(kind, status, body, head, due=due, seconds=seconds, phase=phase)

    def note(
        self,
        kind: str,
        status: int,
        body: bytes,
        head: bytes,
        *,
        due: float,
        seconds: float,
        phase: str | None = None,
    ) -> None:
        """An answer: a right one, a refusal that a long request may have, or a failure."""
        found = self._answers(phase or self.phase, kind)
        if status == 200:
            found.seconds.append(seconds)
            self.versions.add(body[10:26])
            if kind == "user":
                self.short_ones.append((due, seconds))
        elif kind in LONG and status in (429, 503) and b"\r\nretry-after: " in head:
            found.refused[status] += 1
        else:
            found.failed[str(status)] += 1

    def _answers(self, phase: str, kind: str) -> Answers:
        return self.answers.setdefault((phase, kind), Answers())

    async def _misbehave(self, sent: bytes, *, drip: bool = False) -> None:
        """Count by status what the server says to it; a refusal is right, a fault is not."""
        status = "closed without a word"
        try:
            async with asyncio.timeout(_PATIENCE):
                reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
                with contextlib.closing(writer):
                    answer = asyncio.ensure_future(reader.read(12))
                    while not answer.done():
                        with contextlib.suppress(ConnectionError):
                            writer.write(sent)
                            await writer.drain()
                        await asyncio.wait([answer], timeout=_DRIP_SECONDS if drip else None)
                        sent = b"x"
                    status = answer.result()[9:12].decode() or status
        except TimeoutError:
            status = "no answer"
        except ConnectionError:
            status = "reset"
        self.misbehaved[f"slow: {status}" if drip else f"malformed: {status}"] += 1
