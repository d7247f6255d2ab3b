"""A server under everything at once for half an hour: latency, failures, memory, on loopback.

    python -m ratiorec_lab.studies.soak
    python -m ratiorec_lab.studies.soak --minutes 5 --model FOLDER

Short requests (known users, k = 20), new users by their histories, searches, slow clients and
malformed HTTP all come at fixed rates, whatever the answers do, and the model is replaced by a real
`ratiorec update` of its folder every `--swap-seconds`. In every other phase long requests come as
well, some at a rate and some ten at a time: *why* of long histories, and many histories at once.
So the short ones are measured with and without the long ones in the same run. A request's time
counts from when it was due. What fails is counted by kind: a short request must be answered, a
long one may be refused (429 or 503) if it is told when to come back.

The model is fitted on Gowalla (`dregn-cf-fast`, one minute); with `--data synthetic` it has
Gowalla's size and random vectors. Client and updates run on the same cores as the server.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ratiorec.model.artifact import Artifact
from ratiorec_lab.studies.serve_load import (
    Connection,
    Server,
    model_of_gowallas_size,
    serving,
)
from ratiorec_lab.studies.study import parser, tell

PLAIN, WITH_LONG = "without long requests", "with long requests"
_FIT = ("--preset", "dregn-cf-fast", "--no-refit", "--device", "cpu", "--max-seconds")
_LONG = ("why", "many histories")
_PATIENCE = 30.0
_BURST, _BURST_SECONDS = 10, 10.0
_N_SLOW, _DRIP_SECONDS = 20, 1.0
_PAIRS_OF_AN_UPDATE = 50
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


def _get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: h\r\n\r\n".encode()


def _post(path: str, content: object) -> bytes:
    body = json.dumps(content).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


class Requests:
    """Requests that a model can answer, written out beforehand."""

    def __init__(self, model: Artifact, rng: np.random.Generator) -> None:
        self._model, self._rng = model, rng
        n_users = len(model.users)
        users = model.users.ids[rng.integers(0, n_users, 5000)].tolist()
        items = model.items.ids[rng.integers(0, len(model.items), 500)].tolist()
        self._kinds = {
            "user": [_get(f"/v1/recommend/{user}?k=20") for user in users],
            "history": [
                _post("/v1/recommend", {"histories": [self._items(n)], "k": 20})
                for n in rng.integers(1, 60, 200).tolist()
            ],
            "search": [
                *(_get(f"/v1/similar/{item}") for item in items),
                *(_get(f"/v1/items?query={str(item)[:3]}&k=10") for item in items),
                *(_get(f"/v1/users/{user}/history") for user in users[:500]),
            ],
            "why": [self._why(n) for n in (200, 100, 200, 50) for _ in range(8)],
            "many histories": [
                _post("/v1/recommend", {"histories": [self._items(50) for _ in range(n)], "k": 20})
                for n in (64, 32, 64, 16)
                for _ in range(8)
            ],
        }
        rng.shuffle(self._kinds["search"])

    def of(self, kind: str) -> Iterator[bytes]:
        """Requests of a kind without end."""
        while True:
            yield from self._kinds[kind]

    def _items(self, n: int) -> list[Any]:
        """So many items of people, the popular ones more often."""
        found = np.unique(self._rng.choice(self._model.seen.indices, 3 * n))
        chosen: list[Any] = self._model.items.ids[self._rng.permutation(found)[:n]].tolist()
        return chosen

    def _why(self, n: int) -> bytes:
        item, *history = self._items(n + 1)
        return _post("/v1/why", {"history": history, "item": item})


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


class Clients:
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
                connection = await self._connection()
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
        elif kind in _LONG and status in (429, 503) and b"\r\nretry-after: " in head:
            found.refused[status] += 1
        else:
            found.failed[str(status)] += 1

    def _answers(self, phase: str, kind: str) -> Answers:
        return self.answers.setdefault((phase, kind), Answers())

    async def _connection(self) -> Connection:
        while self._resting:
            connection = self._resting.pop()
            if connection.transport is not None:
                return connection
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(Connection, "127.0.0.1", self._port)
        return connection

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


# The server.


async def prepare(asked: argparse.Namespace, folder: Path) -> str:
    """A model in this folder, and where it comes from."""
    if asked.model is not None:
        shutil.copytree(asked.model, folder)
        return Path(asked.model).name
    if asked.data == "synthetic":
        model_of_gowallas_size(0, "single").save(folder)
        return "random vectors of Gowalla's size"
    await _command("fit", asked.data, "-o", str(folder), *_FIT, str(asked.fit_seconds))
    return f"{asked.data}, dregn-cf-fast"


async def _command(*words: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "ratiorec.cli", *words), stdout=sys.stderr, stderr=sys.stderr
    )
    if code := await process.wait():
        raise RuntimeError(f"ratiorec {words[0]} ended with {code}")


@dataclass
class Updates:
    """Replaces the model by real updates, each of a few new pairs of known users."""

    folder: Path
    every: float
    seconds: list[float] = field(default_factory=list)

    async def go_on(self, clients: Clients, rng: np.random.Generator) -> None:
        model = Artifact.load(self.folder)
        pairs, due = self.folder.with_name("new.csv"), time.perf_counter()
        while not clients.over.is_set():
            due += self.every
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(clients.over.wait(), max(0.0, due - time.perf_counter()))
                return
            users, items = (
                ids[rng.integers(0, len(ids), _PAIRS_OF_AN_UPDATE)].tolist()
                for ids in (model.users.ids, model.items.ids)
            )
            lines = [f"{user},{item}\n" for user, item in zip(users, items, strict=True)]
            pairs.write_text("user_id,item_id\n" + "".join(lines))
            started = time.perf_counter()
            await _command("update", str(self.folder), str(pairs))
            self.seconds.append(time.perf_counter() - started)


async def memory_of(server: Server, clients: Clients) -> list[tuple[float, float]]:
    """When, and resident megabytes, twice a second."""
    found = []
    while not clients.over.is_set():
        found.append((time.perf_counter(), server.resident_mb()))
        await asyncio.sleep(0.5)
    return found


async def measure(asked: argparse.Namespace) -> dict[str, Any]:
    """The load, the phases and the figures."""
    rng = np.random.default_rng(asked.seed)
    with tempfile.TemporaryDirectory() as place:
        folder, log = Path(place, "model"), Path(place, "log")
        source = await prepare(asked, folder)
        requests = Requests(model := Artifact.load(folder), rng)
        size = {"users": len(model.users), "items": len(model.items), "kind": model.scorer.kind}
        del model
        async with serving(folder, log, "--log-level", "warning") as server:
            clients, updates = Clients(server.port, asked.seed), Updates(folder, asked.swap_seconds)
            streams = [
                clients.requests("user", asked.rate, requests.of("user")),
                clients.requests("history", asked.rate / 20, requests.of("history")),
                clients.requests("search", asked.rate / 20, requests.of("search")),
                clients.long_ones(
                    asked.long_rate,
                    [(kind, requests.of(kind)) for kind in _LONG],
                ),
                clients.malformed(1.0),
                clients.slow(),
                updates.go_on(clients, rng),
            ]
            started = time.perf_counter()
            working = [asyncio.ensure_future(stream) for stream in streams]
            memory = asyncio.ensure_future(memory_of(server, clients))
            phases = await _phases(asked, clients)
            clients.over.set()
            await asyncio.gather(*working)
            await clients.finished()
            timeline = _timeline(phases, clients, await memory)
            spent = server.processor_seconds()
        faults = [line for line in log.read_text().splitlines() if '"event": "fault"' in line]
    return {
        "model": {"source": source, **size},
        "minutes": round((time.perf_counter() - started) / 60, 2),
        "rates_per_second": {"user": asked.rate, "long": asked.long_rate},
        "load_average": [round(value, 2) for value in os.getloadavg()],
        "server_processor_seconds": round(spent, 1),
        **figures(clients, timeline),
        "updates": {
            "done": len(updates.seconds),
            "slowest_seconds": round(max(updates.seconds, default=0.0), 2),
            "versions_seen": len(clients.versions),
        },
        "faults_in_the_log": len(faults),
        "timeline": timeline,
    }


async def _phases(asked: argparse.Namespace, clients: Clients) -> list[tuple[float, str]]:
    """When each span between two swaps began, and its phase; the kinds of phases take turns."""
    spans: list[tuple[float, str]] = []
    n_pairs = max(1, round(asked.minutes * 60 / (2 * asked.phase_seconds)))
    n_spans = max(1, round(asked.phase_seconds / asked.swap_seconds))
    for clients.phase in (PLAIN, WITH_LONG) * n_pairs:
        for _ in range(n_spans):
            spans.append((time.perf_counter(), clients.phase))
            await asyncio.sleep(asked.phase_seconds / n_spans)
    return [*spans, (time.perf_counter(), "")]


def _timeline(
    spans: Sequence[tuple[float, str]], clients: Clients, memory: Sequence[tuple[float, float]]
) -> list[dict[str, Any]]:
    """Latency of the short requests and memory, span by span."""
    rows = []
    due, seconds = np.array(sorted(clients.short_ones)).reshape(-1, 2).T
    moments, resident = np.array(memory).reshape(-1, 2).T
    for (begin, phase), (end, _) in itertools.pairwise(spans):
        inside = (due >= begin) & (due < end)
        held = resident[(moments >= begin) & (moments < end)]
        rows.append(
            {
                "minute": round((end - spans[0][0]) / 60, 2),
                "phase": phase,
                **percentiles(seconds[inside].tolist()),
                "resident_mb": round(float(np.median(held)), 1),
                "most_resident_mb": round(float(held.max()), 1),
            }
        )
    return rows


def figures(clients: Clients, timeline: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What has to hold, and what it is made of."""
    kinds = {
        phase: {kind: one.summary() for (p, kind), one in clients.answers.items() if p == phase}
        for phase in (PLAIN, WITH_LONG)
    }
    p99 = {phase: kinds[phase]["user"]["p99_ms"] for phase in kinds}
    p50 = {phase: kinds[phase]["user"]["p50_ms"] for phase in kinds}
    n_warm_up = max(1, len(timeline) // 4) if len(timeline) < 12 else 6
    settled = [row["resident_mb"] for row in timeline[n_warm_up:]]
    middle = float(np.median(settled))
    bad = ("5", "2", "no answer")
    faults = {
        told: n for told, n in clients.misbehaved.items() if told.split(": ")[1].startswith(bad)
    }
    return {
        "must_hold": {
            "failed_requests": sum(one.failed.total() for one in clients.answers.values()),
            "p99_ratio": round(p99[WITH_LONG] / p99[PLAIN], 2),
            "p50_ratio": round(p50[WITH_LONG] / p50[PLAIN], 2),
            "memory_away_from_its_median_percent": round(
                100 * max(abs(mb / middle - 1) for mb in settled), 2
            ),
            "faults_of_malformed_and_slow": sum(faults.values()),
        },
        "memory": {
            "settled_mb": [min(settled), round(middle, 1), max(settled)],
            "most_while_swapping_mb": max(row["most_resident_mb"] for row in timeline),
        },
        "requests": kinds,
        "malformed_and_slow": dict(sorted(clients.misbehaved.items())),
    }


def options() -> argparse.ArgumentParser:
    """The options of a run."""
    found = parser(__doc__)
    found.add_argument("--minutes", type=float, default=30)
    found.add_argument("--phase-seconds", type=float, default=60)
    found.add_argument("--swap-seconds", type=float, default=20)
    found.add_argument("--rate", type=float, default=50, help="short requests a second")
    found.add_argument("--long-rate", type=float, default=1, help="long requests a second")
    found.add_argument("--model", type=Path, help="a folder, of which a copy is served")
    found.add_argument("--data", default="gowalla", help="to be fitted, or: synthetic")
    found.add_argument("--fit-seconds", type=float, default=60)
    found.add_argument("--seed", type=int, default=0)
    return found


if __name__ == "__main__":
    tell(asyncio.run(measure(options().parse_args())))
