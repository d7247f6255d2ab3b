"""A server under load: rate, latency, memory, swaps of models and the end, on loopback.

    python -m ratiorec_lab.studies.serve_load --requests 100000
    python -m ratiorec_lab.studies.serve_load --model blend --requests 5000 --rates 40 80 --swaps 3

The model has Gowalla's size with random vectors; a blend has the members that the automatic choice
takes on a GPU: popularity, 200 neighbours of each item, 128 and twice 512 dimensions, narrowed.
The client runs on the same cores as the server, so the figures are what both together leave.
`closed` is a number of connections that ask one request after the other; `open` asks at a fixed
rate whatever the answers do, and counts a request's time from when it was due. Each is measured in
several rounds that take turns; all rounds are listed, as others may use the machine, and
`load_average` says how busy it was.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.metadata
import json
import os
import signal
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ratiorec.config import model_preset, to_table
from ratiorec.model.artifact import Artifact
from ratiorec.scorers import Blend, Neighbours, PopularityScorer, StoredScorer
from ratiorec.scorers.scorer import UserItems
from ratiorec.settings import BlendMember, BlendSettings
from ratiorec.training.blending import narrowed
from ratiorec_lab.bench.random_data import dense_pairs, random_model
from ratiorec_lab.loopback import Connection, Server, connected, serving
from ratiorec_lab.studies.study import parser, tell

N_USERS, N_ITEMS, DIMENSION = 29_858, 40_981, 64
N_NEIGHBOURS, BLENDED = 200, (128, 512, 512)
TOKEN = "benchmark-administrator"
_SETTINGS = to_table(
    BlendSettings(
        tuple(
            BlendMember(str(place), 0.2, 1, 0, model_preset(name))
            for place, name in enumerate(
                ("popularity", "local-ease", "dregn-cf-fast", "softmax", "softmax")
            )
        )
    )
)


def model_of_gowallas_size(seed: int, kind: str) -> Artifact:
    """Random vectors; as many seen items as on Gowalla, the popular ones more often."""
    rng = np.random.default_rng(seed)
    lengths = np.clip(rng.lognormal(2.9, 0.8, N_USERS), 8, 811).astype(np.int64)
    items = (N_ITEMS * rng.random(lengths.sum()) ** 2).astype(np.int64)
    data = dense_pairs(N_USERS, N_ITEMS, np.repeat(np.arange(N_USERS), lengths), items)
    single = random_model(N_USERS, N_ITEMS, DIMENSION, seed=seed)
    if kind == "single":
        return Artifact.of(single, data, settings={}, card={})
    return Artifact.of(random_blend(UserItems.of(data), rng), data, settings=_SETTINGS, card={})


def random_blend(histories: UserItems, rng: np.random.Generator) -> Blend:
    """Weights and neighbours are random; the narrowing is that of these vectors."""
    ends = np.arange(N_ITEMS + 1, dtype=np.int64) * N_NEIGHBOURS
    near = np.sort(rng.integers(0, N_ITEMS - N_NEIGHBOURS, (N_ITEMS, N_NEIGHBOURS)), axis=1)
    near += np.arange(N_NEIGHBOURS)  # no item twice
    values = rng.random(near.size, np.float32)
    neighbours = Neighbours(ends, near.astype(np.int32).ravel(), values, histories)
    popularity = PopularityScorer(rng.random(N_ITEMS, np.float32), N_USERS)
    vectors = [random_model(N_USERS, N_ITEMS, d, seed=seed) for seed, d in enumerate(BLENDED)]
    members: tuple[StoredScorer, ...] = (popularity, neighbours, *vectors)
    return narrowed(Blend(members, np.full(len(members), 1 / len(members), np.float32)))


# A client.


@dataclass
class Tally:
    """What became of requests."""

    seconds: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    refused_connections: int = 0
    versions: set[str] = field(default_factory=set)

    def summary(self, wall: float) -> dict[str, Any]:
        milliseconds = np.array(self.seconds) * 1000
        return {
            "requests": len(self.seconds),
            "failed": len(self.failures),
            "failures": self.failures[:5],
            "per_second": round(len(self.seconds) / wall, 1),
            "p50_ms": round(float(np.percentile(milliseconds, 50)), 2),
            "p99_ms": round(float(np.percentile(milliseconds, 99)), 2),
            "max_ms": round(float(milliseconds.max()), 2),
        }


class Clients:
    """Connections to one server that are opened when needed and used again."""

    def __init__(self, port: int, *, seed: int = 0) -> None:
        self._port = port
        self._resting: list[Connection] = []
        self._users = iter(np.random.default_rng(seed).integers(0, N_USERS, 10**6).tolist())
        self.tally = Tally()

    async def ask_for_someone(self, since: float | None = None) -> bool:
        """One recommendation for a random user; False when nobody listens any more."""
        started = time.perf_counter() if since is None else since
        try:
            connection = await connected(self._port, self._resting)
        except OSError:
            self.tally.refused_connections += 1
            return False
        try:
            status, body = await connection.ask(f"/v1/recommend/{next(self._users)}?k=20")
        except OSError as error:
            self.tally.failures.append(repr(error))
            return True
        self.tally.seconds.append(time.perf_counter() - started)
        if status == 200:
            self.tally.versions.add(body[10:26].decode())
        else:
            self.tally.failures.append(f"{status} {body[:200]!r}")
        if connection.transport is not None:
            self._resting.append(connection)
        return True

    def close(self) -> None:
        for connection in self._resting:
            if connection.transport is not None:
                connection.transport.close()


async def closed(port: int, n_connections: int, n_requests: int) -> dict[str, Any]:
    """Connections that ask one request after the other."""
    clients, left = Clients(port, seed=n_connections), iter(range(n_requests))

    async def go_on() -> None:
        for _ in left:
            await clients.ask_for_someone()

    started = time.perf_counter()
    await asyncio.gather(*(go_on() for _ in range(n_connections)))
    clients.close()
    return {"connections": n_connections} | clients.tally.summary(time.perf_counter() - started)


async def at_a_rate(
    port: int, rate: float, seconds: float, until: Callable[[], bool] = lambda: False
) -> tuple[Clients, dict[str, Any]]:
    """Requests at random moments, so many a second on average."""
    clients, pending = Clients(port, seed=int(rate)), set()
    gaps = np.random.default_rng(0).exponential(1 / rate, int(rate * seconds * 2) + 100)
    started = due = time.perf_counter()
    for gap in gaps:
        due += gap
        if due - started > seconds or until():
            break
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        task = asyncio.create_task(clients.ask_for_someone(due))
        pending.add(task)
        task.add_done_callback(pending.discard)
    await asyncio.gather(*pending)
    wall = time.perf_counter() - started
    clients.close()
    return clients, {"asked_per_second": rate} | clients.tally.summary(wall)


# What is measured.


async def swaps(
    server: Server, folder: Path, n_swaps: int, rate: float, kind: str
) -> dict[str, Any]:
    """Turn the link to another model again and again while requests come at a rate."""
    others = [folder.with_name(f"other{seed}") for seed in (1, 2)]
    for seed, other in enumerate(others, 1):
        model_of_gowallas_size(seed, kind).save(other)
    refused: list[str] = []
    is_over = False

    async def replace() -> None:
        nonlocal is_over
        for number in range(n_swaps):
            link = folder.with_name("next")
            link.symlink_to(others[number % 2])
            link.replace(folder)
            loop = asyncio.get_running_loop()
            _, connection = await loop.create_connection(Connection, "127.0.0.1", server.port)
            header = f"Authorization: Bearer {TOKEN}\r\nContent-Length: 0\r\n"
            status, body = await connection.ask("/v1/reload", "POST", header)
            if status != 200 or not json.loads(body)["swapped"]:
                refused.append(f"{status} {body!r}")
            if connection.transport is not None:
                connection.transport.close()
        is_over = True

    replacing = asyncio.create_task(replace())
    clients, summary = await at_a_rate(server.port, rate, 600, lambda: is_over)
    await replacing
    versions = len(clients.tally.versions)
    return {"swaps": n_swaps, "refused": refused, "versions_seen": versions} | summary


async def end(server: Server, n_connections: int) -> dict[str, Any]:
    """SIGTERM while connections ask one request after the other."""
    clients = Clients(server.port)

    async def go_on() -> None:
        while await clients.ask_for_someone():
            pass

    asking = [asyncio.create_task(go_on()) for _ in range(n_connections)]
    started = time.perf_counter()
    await asyncio.sleep(1)
    server.process.send_signal(signal.SIGTERM)
    signalled = time.perf_counter()
    await asyncio.gather(*asking)
    code = await server.process.wait()
    ended = time.perf_counter()
    summary = clients.tally.summary(ended - started)
    return {"exit_code": code, "seconds_to_end": round(ended - signalled, 2)} | summary


async def memory(server: Server, n_requests: int, n_connections: int) -> dict[str, Any]:
    """Resident memory after each tenth of the requests."""
    resident, runs = [server.resident_mb()], []
    for _ in range(10):
        runs.append(await closed(server.port, n_connections, n_requests // 10))
        resident.append(server.resident_mb())
    return {
        "requests": sum(run["requests"] for run in runs),
        "failed": sum(run["failed"] for run in runs),
        "connections": n_connections,
        "resident_mb": resident,
        "growth_after_first_tenth_mb": round(resident[-1] - resident[1], 1),
        "per_second": [run["per_second"] for run in runs],
        "p99_ms": [run["p99_ms"] for run in runs],
    }


def package_sizes() -> dict[str, Any]:
    """Megabytes that the extra `serve` adds to what the core needs."""
    core, extra = _needed("ratiorec", ""), _needed("ratiorec", "serve")
    sizes = {name: _size_mb(name) for name in sorted(extra - core)}
    return {"total_mb": round(sum(sizes.values()), 1), "packages_mb": sizes}


def _needed(name: str, extra: str) -> set[str]:
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    found: set[str] = set()
    waiting = [(name, extra)]
    while waiting:
        package, wanted = waiting.pop()
        for line in importlib.metadata.requires(package) or []:
            requirement = Requirement(line)
            marker = requirement.marker
            name = canonicalize_name(requirement.name)
            holds = marker is None or any(marker.evaluate({"extra": e}) for e in ("", wanted))
            if holds and name not in found:
                found.add(name)
                waiting.append((name, ""))
    return found


def _size_mb(name: str) -> float:
    files = importlib.metadata.files(name) or []
    existing = [Path(str(file.locate())) for file in files]
    return round(sum(file.stat().st_size for file in existing if file.is_file()) / 2**20, 2)


def _rounds(runs: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    """The rounds of each setting, and of them the one with the smallest p99."""
    grouped: dict[float, list[dict[str, Any]]] = {}
    for run in runs:
        grouped.setdefault(run[name], []).append(run)
    return [
        {
            name: setting,
            "requests": sum(run["requests"] for run in group),
            "failed": sum(run["failed"] for run in group),
            "best": {key: best[key] for key in ("per_second", "p50_ms", "p99_ms")},
            "per_second": [run["per_second"] for run in group],
            "p50_ms": [run["p50_ms"] for run in group],
            "p99_ms": [run["p99_ms"] for run in group],
        }
        for setting, group in grouped.items()
        for best in [min(group, key=lambda run: run["p99_ms"])]
    ]


def described(model: Artifact) -> dict[str, Any]:
    """What it is made of."""
    scorer = model.scorer
    if not isinstance(scorer, Blend):
        return {"dimension": DIMENSION}
    assert scorer.narrowing is not None
    return {
        "members": [member.kind for member in scorer.members],
        "joined_dimensions": scorer.joined_dimension,
        "narrowed_to": scorer.narrowing.items.shape[1],
        "neighbours": N_NEIGHBOURS,
    }


async def measure(asked: argparse.Namespace) -> dict[str, Any]:
    """Everything, on one server after its start was timed three times."""
    with tempfile.TemporaryDirectory() as place:
        folder, log, token = Path(place, "model"), Path(place, "log"), Path(place, "token")
        model = model_of_gowallas_size(0, asked.model)
        model.save(folder.with_name("first"))
        folder.symlink_to(folder.with_name("first"))
        token.write_text(TOKEN)
        options = ("--no-watch", "--admin-token-file", str(token))
        starts = []
        for _ in range(3):
            async with serving(folder, log, *options) as server:
                starts.append(server.seconds_to_start)
        async with serving(folder, log, *options) as server:
            await closed(server.port, 4, 500)
            before = server.processor_seconds()
            by_connections = [
                await closed(server.port, n, 1000)
                for _ in range(asked.rounds)
                for n in (1, 4, 8, 16)
            ]
            spent = server.processor_seconds() - before
            n_asked = sum(run["requests"] for run in by_connections)
            by_rate = [
                (await at_a_rate(server.port, rate, asked.seconds))[1]
                for _ in range(asked.rounds)
                for rate in asked.rates
            ]
            result = {
                "part": "" if asked.model == "single" else asked.model,
                "model": {"users": N_USERS, "items": N_ITEMS, "k": 20} | described(model),
                "load_average": [round(value, 2) for value in os.getloadavg()],
                "seconds_to_first_answer": starts,
                "server_processor_ms_per_request": round(1000 * spent / n_asked, 3),
                "closed": _rounds(by_connections, "connections"),
                "open": _rounds(by_rate, "asked_per_second"),
                "swaps": await swaps(server, folder, asked.swaps, asked.rates[0], asked.model),
                "memory": await memory(server, asked.requests, 8),
                "end": await end(server, 8),
            }
        return result | {"packages": package_sizes()}


if __name__ == "__main__":
    options = parser(__doc__)
    options.add_argument("--model", choices=["single", "blend"], default="single")
    options.add_argument("--requests", type=int, default=100_000)
    options.add_argument("--seconds", type=float, default=5)
    options.add_argument("--swaps", type=int, default=20)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--rates", type=float, nargs="+", default=[400.0, 500.0])
    tell(asyncio.run(measure(options.parse_args())))
