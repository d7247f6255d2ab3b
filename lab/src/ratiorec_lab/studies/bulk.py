"""Lists for everyone into each sink, beside ranking alone.

    python -m ratiorec_lab.studies.bulk
    python -m ratiorec_lab.studies.bulk --postgres postgresql://ada@localhost/shop

The model has random factors and the ids are text (`--integers`: numbers). The floor is exact
ranking whose results are thrown away. Every run is a process of its own, so that none is charged
another's memory; the ways take turns, and a ratio compares runs of the same turn. Processor
seconds count all threads, and hold still when others use the machine; `users_per_second` is by
the clock, from the loaded model to the finished file, and `whole_seconds` has the start of the
process and the loading as well.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np

from ratiorec.data.vocabulary import Vocabulary
from ratiorec.model.artifact import Artifact
from ratiorec.scorers.scorer import UserItems
from ratiorec.scorers.topk import Exact
from ratiorec.sinks import Job, sink_of, write_lists
from ratiorec_lab.bench.random_data import random_model, random_pairs
from ratiorec_lab.studies.study import in_a_fresh_process, measured, parser, tell

FLOOR = "ranking alone"
Runs = list[dict[str, Any]]


def main() -> None:
    """Compare, or be one of the processes that are compared."""
    options = parser(__doc__)
    options.add_argument("--users", type=int, default=29_858)
    options.add_argument("--items", type=int, default=40_981)
    options.add_argument("--dimension", type=int, default=64)
    options.add_argument("--pairs", type=int, default=810_128)
    options.add_argument("--k", type=int, default=20)
    options.add_argument("--turns", type=int, default=5)
    options.add_argument("--integers", action="store_true", help="ids that are numbers")
    options.add_argument(
        "--postgres", help="URL of a database of its own; from the second turn on rows are replaced"
    )
    options.add_argument("--place", help=argparse.SUPPRESS)
    options.add_argument("--model", type=Path, help=argparse.SUPPRESS)
    asked = options.parse_args()
    tell(run_here(asked) if asked.place else compare(asked))


def write_model(folder: Path, asked: argparse.Namespace) -> None:
    """Random factors of the size asked for."""
    n_users, n_items = asked.users, asked.items
    pairs = random_pairs(n_users, n_items, asked.pairs)
    scorer = random_model(n_users, n_items, asked.dimension)
    model = Artifact.of(scorer, pairs, settings={}, card={})
    if not asked.integers:
        users = np.array([f"user-{user:07d}" for user in range(n_users)], object)
        items = np.array([f"item-{item:07d}" for item in range(n_items)], object)
        ids = Vocabulary(users, "user"), Vocabulary(items, "item")
        model = Artifact(scorer, *ids, UserItems.of(pairs))
    model.save(folder)


def run_here(asked: argparse.Namespace) -> dict[str, float]:
    """Rank for everyone, and write the lists unless this is the floor."""
    model = Artifact.load(asked.model)
    if asked.place == FLOOR:
        users, ranker = np.arange(len(model.users)), Exact(asked.k)
        stream = ranker.stream(model.scorer, users, seen=model.seen)
        return measured(lambda: deque(stream, maxlen=0))
    job, sink = Job.of(model, model.users.ids, k=asked.k), sink_of(asked.place)
    return measured(lambda: write_lists(job, sink))


def compare(asked: argparse.Namespace) -> dict[str, Any]:
    """All ways in turns."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_model(folder / "model", asked)
        places = {
            FLOOR: FLOOR,
            "parquet": str(folder / "lists.parquet"),
            "sqlite": f"sqlite:///{folder / 'lists.db'}",
        }
        if asked.postgres:
            places["postgresql"] = asked.postgres
        runs: dict[str, Runs] = {name: [] for name in places}
        for _ in range(asked.turns):
            (folder / "lists.db").unlink(missing_ok=True)
            for name, where in places.items():
                words = f"--place={where}", f"--model={folder / 'model'}", f"--k={asked.k}"
                runs[name].append(in_a_fresh_process("bulk", *words))
    sizes = ("users", "items", "dimension", "pairs", "k")
    return {
        "name": "bulk",
        "size": {name: getattr(asked, name) for name in sizes},
        "ids": "integers" if asked.integers else "text",
        "turns": asked.turns,
        "ways": {name: summary(found, runs[FLOOR], asked.users) for name, found in runs.items()},
    }


def summary(runs: Runs, floors: Runs, n_users: int) -> dict[str, Any]:
    """Medians over the turns."""

    def median_of(name: str) -> float:
        return float(statistics.median(run[name] for run in runs))

    def ratio_of(name: str) -> float:
        turns = zip(runs, floors, strict=True)
        return round(float(statistics.median(a[name] / b[name] for a, b in turns)), 3)

    return {
        "seconds": round(median_of("seconds"), 3),
        "whole_seconds": round(median_of("whole_seconds"), 3),
        "processor_seconds": round(median_of("processor_seconds"), 3),
        "users_per_second": round(n_users / median_of("seconds")),
        "users_per_second_of_each_turn": [round(n_users / run["seconds"]) for run in runs],
        "ratio_to_floor": ratio_of("seconds"),
        "processor_ratio_to_floor": ratio_of("processor_seconds"),
        "loaded_mb": round(median_of("loaded_mb")),
        "peak_mb": round(max(run["peak_mb"] for run in runs)),
    }


if __name__ == "__main__":
    main()
