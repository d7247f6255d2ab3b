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
Gowalla's size and random vectors. Client and updates run on the same cores as the server, the
updates by `nice`.
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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ratiorec.model.artifact import Artifact
from ratiorec_lab.loopback import LONG, PLAIN, WITH_LONG, Crowd, Server, percentiles, serving
from ratiorec_lab.studies.serve_load import model_of_gowallas_size
from ratiorec_lab.studies.study import parser, tell

_FIT = ("--preset", "dregn-cf-fast", "--no-refit", "--device", "cpu", "--max-seconds")
_PAIRS_OF_AN_UPDATE = 50


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
    """One at low priority, as beside a server it should be."""
    command = ("nice", "-n", "10", sys.executable, "-m", "ratiorec.cli", *words)
    process = await asyncio.create_subprocess_exec(*command, stdout=sys.stderr, stderr=sys.stderr)
    if code := await process.wait():
        raise RuntimeError(f"ratiorec {words[0]} ended with {code}")


@dataclass
class Updates:
    """Replaces the model by real updates, each of a few new pairs of known users."""

    folder: Path
    every: float
    seconds: list[float] = field(default_factory=list)

    async def go_on(self, crowd: Crowd, rng: np.random.Generator) -> None:
        model = Artifact.load(self.folder)
        pairs, due = self.folder.with_name("new.csv"), time.perf_counter()
        while not crowd.over.is_set():
            due += self.every
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(crowd.over.wait(), max(0.0, due - time.perf_counter()))
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


async def memory_of(server: Server, crowd: Crowd) -> list[tuple[float, float]]:
    """When, and resident megabytes, twice a second."""
    found = []
    while not crowd.over.is_set():
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
            crowd, updates = Crowd(server.port, asked.seed), Updates(folder, asked.swap_seconds)
            streams = [
                crowd.requests("user", asked.rate, requests.of("user")),
                crowd.requests("history", asked.rate / 20, requests.of("history")),
                crowd.requests("search", asked.rate / 20, requests.of("search")),
                crowd.long_ones(
                    asked.long_rate,
                    [(kind, requests.of(kind)) for kind in LONG],
                ),
                crowd.malformed(1.0),
                crowd.slow(),
                updates.go_on(crowd, rng),
            ]
            started = time.perf_counter()
            working = [asyncio.ensure_future(stream) for stream in streams]
            memory = asyncio.ensure_future(memory_of(server, crowd))
            phases = await _phases(asked, crowd)
            crowd.over.set()
            await asyncio.gather(*working)
            await crowd.finished()
            timeline = _timeline(phases, crowd, await memory)
            spent = server.processor_seconds()
        faults = [line for line in log.read_text().splitlines() if '"event": "fault"' in line]
    return {
        "model": {"source": source, **size},
        "minutes": round((time.perf_counter() - started) / 60, 2),
        "rates_per_second": {"user": asked.rate, "long": asked.long_rate},
        "load_average": [round(value, 2) for value in os.getloadavg()],
        "server_processor_seconds": round(spent, 1),
        **figures(crowd, timeline),
        "updates": {
            "done": len(updates.seconds),
            "slowest_seconds": round(max(updates.seconds, default=0.0), 2),
            "versions_seen": len(crowd.versions),
        },
        "faults_in_the_log": len(faults),
        "timeline": timeline,
    }


async def _phases(asked: argparse.Namespace, crowd: Crowd) -> list[tuple[float, str]]:
    """When each span between two swaps began, and its phase; the kinds of phases take turns."""
    spans: list[tuple[float, str]] = []
    n_pairs = max(1, round(asked.minutes * 60 / (2 * asked.phase_seconds)))
    n_spans = max(1, round(asked.phase_seconds / asked.swap_seconds))
    for crowd.phase in (PLAIN, WITH_LONG) * n_pairs:
        for _ in range(n_spans):
            spans.append((time.perf_counter(), crowd.phase))
            await asyncio.sleep(asked.phase_seconds / n_spans)
    return [*spans, (time.perf_counter(), "")]


def _timeline(
    spans: Sequence[tuple[float, str]], crowd: Crowd, memory: Sequence[tuple[float, float]]
) -> list[dict[str, Any]]:
    """Latency of the short requests and memory, span by span."""
    rows = []
    due, seconds = np.array(sorted(crowd.short_ones)).reshape(-1, 2).T
    moments, resident = np.array(memory).reshape(-1, 2).T
    for (begin, phase), (end, _) in itertools.pairwise(spans):
        inside = (due >= begin) & (due < end)
        held = resident[(moments >= begin) & (moments < end)]
        rows.append(
            {
                "minute": round((end - spans[0][0]) / 60, 2),
                "phase": phase,
                **percentiles(seconds[inside].tolist()),
                # just before the next update: no second model is held then
                "resident_mb": round(float(np.median(held[-4:])), 1),
                "most_resident_mb": round(float(held.max()), 1),
            }
        )
    return rows


def figures(crowd: Crowd, timeline: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What has to hold, and what it is made of."""
    kinds = {
        phase: {kind: one.summary() for (p, kind), one in crowd.answers.items() if p == phase}
        for phase in (PLAIN, WITH_LONG)
    }
    p99 = {phase: kinds[phase]["user"]["p99_ms"] for phase in kinds}
    p50 = {phase: kinds[phase]["user"]["p50_ms"] for phase in kinds}
    # one span in which something else took the cores does not decide these
    spans = {
        phase: float(np.median([row["p99_ms"] for row in timeline if row["phase"] == phase]))
        for phase in kinds
    }
    n_warm_up = max(1, len(timeline) // 4) if len(timeline) < 12 else 6
    settled = {
        phase: [row["resident_mb"] for row in timeline[n_warm_up:] if row["phase"] == phase]
        for phase in kinds
    }
    bad = ("5", "2", "no answer")
    faults = {
        told: n for told, n in crowd.misbehaved.items() if told.split(": ")[1].startswith(bad)
    }
    return {
        "must_hold": {
            "failed_requests": sum(one.failed.total() for one in crowd.answers.values()),
            "p99_ratio": round(p99[WITH_LONG] / p99[PLAIN], 2),
            "p99_ratio_of_median_spans": round(spans[WITH_LONG] / spans[PLAIN], 2),
            "p50_ratio": round(p50[WITH_LONG] / p50[PLAIN], 2),
            "memory_away_from_its_median_percent": {
                phase: round(100 * max(abs(mb / np.median(of) - 1) for mb in of), 2)
                for phase, of in settled.items()
            },
            "memory_growth_percent": growth(timeline),
            "faults_of_malformed_and_slow": sum(faults.values()),
        },
        "memory": {
            "settled_mb": {phase: [min(of), max(of)] for phase, of in settled.items()},
            "most_while_swapping_mb": max(row["most_resident_mb"] for row in timeline),
        },
        "requests": kinds,
        "malformed_and_slow": dict(sorted(crowd.misbehaved.items())),
    }


def growth(timeline: Sequence[dict[str, Any]]) -> float:
    """Percent between the median memory of the first third after warming up and of the last.

    Without long requests. Medians: an update that is slow holds two models at a reading.
    """
    plain = [row["resident_mb"] for row in timeline if row["phase"] == PLAIN]
    settled = plain[max(1, len(plain) // 10) :]
    n = max(1, len(settled) // 3)
    return round(100 * float(np.median(settled[-n:]) / np.median(settled[:n]) - 1), 2)


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
