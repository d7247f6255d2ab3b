"""Latency of lists under filters and rules, of a catalogue of 100,000 items, on loopback.

    python -m ratiorec_lab.studies.filter_latency

Two models of random numbers are served, one of vectors and one of item neighbours, over a table of
attributes. Requests (k = 20, known users) come one after the other on each connection, in rounds
in which the cases take turns. The 1 % filters keep about a thousand items: `fresh` ones are never
asked for twice, so that nothing that is remembered helps; `repeated` ones are twenty that come
again and again. The client runs on the same cores as the server, and others may use the machine:
the figures are those of the round with the smallest p99, and p99 of all rounds is listed.
`must_hold` has p99 of each case over p99 without a filter.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from ratiorec.catalogue.attributes import Attributes
from ratiorec.catalogue.columns import Categories, Numbers, Tags
from ratiorec.model.artifact import Artifact
from ratiorec.scorers import Neighbours, StoredScorer
from ratiorec.scorers.scorer import UserItems
from ratiorec_lab.bench.random_data import dense_pairs, random_model
from ratiorec_lab.loopback import Server, connected, percentiles, serving
from ratiorec_lab.studies.study import parser, tell

N_USERS, DIMENSION, N_NEIGHBOURS, K = 20_000, 64, 100, 20
KINDS = ("vectors", "neighbours")
RULES = """
[limits]
limits = {category = 3, brand = 2}

[boosts]
boosts = {"stock > 90" = 0.5, "labels has \\"label-7\\"" = -0.5}
"""
PLAIN, FRESH, REPEATED = "no filter", "1 % filter, fresh", "1 % filter, repeated"
Address = Callable[[np.random.Generator], str]
"""What stands behind the user in an address."""


def attributes(n_items: int, rng: np.random.Generator) -> Attributes:
    """Prices, stock, categories, brands and labels, all at random."""
    labels = [[f"label-{n}" for n in row] for row in rng.integers(0, 50, (n_items, 3))]
    return Attributes(
        n_items,
        {
            "price": Numbers(rng.random(n_items) * 100),
            "stock": Numbers(rng.integers(0, 100, n_items).astype(np.float64)),
            "category": Categories.of(f"category-{n}" for n in rng.integers(0, 200, n_items)),
            "brand": Categories.of(f"brand-{n}" for n in rng.integers(0, 5000, n_items)),
            "labels": Tags.of(labels),
        },
    )


def model_of(kind: str, n_items: int, rng: np.random.Generator) -> Artifact:
    """A model whose users have about twenty items, the first items more often."""
    lengths = np.clip(rng.lognormal(2.8, 0.6, N_USERS), 5, 200).astype(np.int64)
    items = (n_items * rng.random(lengths.sum()) ** 2).astype(np.int64)
    data = dense_pairs(N_USERS, n_items, np.repeat(np.arange(N_USERS), lengths), items)
    scorer: StoredScorer = random_model(N_USERS, n_items, DIMENSION, seed=0)
    if kind == "neighbours":
        near = np.sort(rng.integers(0, n_items - N_NEIGHBOURS, (n_items, N_NEIGHBOURS)), axis=1)
        near += np.arange(N_NEIGHBOURS)  # no item twice
        ends = np.arange(n_items + 1, dtype=np.int64) * N_NEIGHBOURS
        values = rng.random(near.size, np.float32)
        scorer = Neighbours(ends, near.astype(np.int32).ravel(), values, UserItems.of(data))
    model = Artifact.of(scorer, data, settings={}, card={})
    return model.with_items(attributes(n_items, rng))


def one_percent(rng: np.random.Generator) -> str:
    """An expression that about a hundredth of the items fit, as good as never the same."""
    low = 98 * rng.random()
    return f"price >= {low:.6f} and price < {low + 1.25:.6f} and stock >= 20"


def cases(rng: np.random.Generator) -> dict[str, Address]:
    """What is asked for, by the names of the cases."""
    often = [one_percent(rng) for _ in range(20)]
    return {
        PLAIN: lambda rng: "",
        FRESH: lambda rng: f"&filter={quote(one_percent(rng))}",
        REPEATED: lambda rng: f"&filter={quote(often[rng.integers(len(often))])}",
        "limits": lambda rng: "&rules=limits",
        "boosts": lambda rng: "&rules=boosts",
        "diversity 0.3": lambda rng: "&diversity=0.3",
        "1 % filter, fresh, and limits": lambda rng: (
            f"&rules=limits&filter={quote(one_percent(rng))}"
        ),
    }


async def asked(
    server: Server, address: Address, n_requests: int, n_connections: int, rng: np.random.Generator
) -> list[float]:
    """Seconds of so many requests, by connections that ask one after the other."""
    seconds: list[float] = []

    async def ask_on(n: int) -> None:
        connection = await connected(server.port, [])
        for user in rng.integers(0, N_USERS, n).tolist():
            path = f"/v1/recommend/{user}?k={K}{address(rng)}"
            started = time.perf_counter()
            status, body = await connection.ask(path)
            seconds.append(time.perf_counter() - started)
            if status != 200 or not json.loads(body)["items"]:
                raise RuntimeError(f"{path}: {status} {body!r}")
        assert connection.transport is not None
        connection.transport.close()

    await asyncio.gather(*(ask_on(n_requests // n_connections) for _ in range(n_connections)))
    return seconds


async def judged(
    server: Server, n_rounds: int, n_requests: int, n_connections: int
) -> dict[str, dict[str, Any]]:
    """Figures of each case."""
    rng = np.random.default_rng(1)
    wanted = cases(rng)
    rounds: dict[str, list[dict[str, Any]]] = {name: [] for name in wanted}
    for address in wanted.values():
        await asked(server, address, 40, n_connections, rng)  # what is made once is made
    for _ in range(n_rounds):
        for name, address in wanted.items():
            seconds = await asked(server, address, n_requests, n_connections, rng)
            rounds[name].append(percentiles(seconds))
    return {name: best_of(found) for name, found in rounds.items()}


def best_of(rounds: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The round with the smallest p99, and p99 of all."""
    best = min(rounds, key=lambda found: found["p99_ms"])
    figures = {name: best[name] for name in ("p50_ms", "p99_ms")}
    n_requests = sum(found["answered"] for found in rounds)
    return {"requests": n_requests, **figures, "p99_ms_of": [one["p99_ms"] for one in rounds]}


def ratios(found: dict[str, dict[str, Any]]) -> dict[str, dict[str, float]]:
    """p99 of each case over that without a filter."""
    return {
        f"{name} over {PLAIN}": round(one["p99_ms"] / found[PLAIN]["p99_ms"], 2)
        for name, one in found.items()
        if name != PLAIN
    }


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Both models, each with one connection and with several."""
    models: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as place:
        rules = Path(place, "rules.toml")
        rules.write_text(RULES)
        for kind in KINDS:
            folder = Path(place, kind)
            model_of(kind, options.items, np.random.default_rng(0)).save(folder)
            words = ("--no-watch", "--log-level", "warning", "--rules", str(rules))
            async with serving(folder, Path(place, "log"), *words) as server:
                models[kind] = {
                    str(n): await judged(server, options.rounds, options.requests, n)
                    for n in options.connections
                }
    return {
        "catalogue": {"items": options.items, "users": N_USERS, "k": K},
        "models": {"dimension": DIMENSION, "neighbours": N_NEIGHBOURS},
        "load_average": [round(value, 2) for value in os.getloadavg()],
        "must_hold": {
            f"{kind}, {n} connections": ratios(found)
            for kind, by_connections in models.items()
            for n, found in by_connections.items()
        },
        "latency": models,
    }


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """The options of a run."""
    found = parser(__doc__)
    found.add_argument("--items", type=int, default=100_000)
    found.add_argument("--requests", type=int, default=200, help="of a case in a round")
    found.add_argument("--rounds", type=int, default=12)
    found.add_argument("--connections", type=int, nargs="+", default=[1, 4])
    return found.parse_args(words)


if __name__ == "__main__":
    tell(asyncio.run(measure(arguments())))
