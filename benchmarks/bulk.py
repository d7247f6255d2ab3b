"""Lists for everyone into each destination, beside ranking alone.

    python benchmarks/bulk.py
    python benchmarks/bulk.py --postgres postgresql://ada@localhost/shop

The model has random factors and the ids are text (`--integers`: numbers). The floor is exact
ranking whose results are thrown away. Every run is a process of its own, so that none is charged
another's memory; the ways take turns, and a ratio compares runs of the same turn. Processor
seconds count all threads, and hold still when others use the machine; `users_per_second` is by
the clock, from the loaded model to the finished file, and `whole_seconds` has the start of the
process and the loading as well. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ratiorec.data.vocabulary import Vocabulary
from ratiorec.model.artifact import Artifact
from ratiorec.scorers.topk import Exact
from ratiorec.scorers.user_items import UserItems
from ratiorec.sinks import Job, destination_of, write_lists
from ratiorec_lab.bench.stand_in import random_model, random_pairs

FLOOR = "ranking alone"


def write_model(folder: Path, arguments: argparse.Namespace) -> None:
    n_users, n_items = arguments.users, arguments.items
    pairs = random_pairs(n_users, n_items, arguments.pairs)
    scorer = random_model(n_users, n_items, arguments.dimension)
    model = Artifact.of(scorer, pairs, settings={}, card={})
    if not arguments.integers:
        users = np.array([f"user-{user:07d}" for user in range(n_users)], object)
        items = np.array([f"item-{item:07d}" for item in range(n_items)], object)
        ids = Vocabulary(users, "user"), Vocabulary(items, "item")
        model = Artifact(scorer, *ids, UserItems.of(pairs))
    model.save(folder)


def rank_alone(model: Artifact, k: int) -> None:
    users = np.arange(len(model.users))
    deque(Exact(k).stream(model.scorer, users, seen=model.seen), maxlen=0)


def write(model: Artifact, k: int, place: str) -> None:
    write_lists(Job.of(model, model.users.ids, k), destination_of(place))


def measured(work: Callable[[], None]) -> dict[str, float]:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start, processor_start = time.perf_counter(), time.process_time()
    work()
    return {
        "seconds": time.perf_counter() - start,
        "processor_seconds": time.process_time() - processor_start,
        "loaded_mb": before / 1024,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def run_here(arguments: argparse.Namespace) -> dict[str, float]:
    model = Artifact.load(arguments.model)
    if arguments.place == FLOOR:
        return measured(lambda: rank_alone(model, arguments.k))
    return measured(lambda: write(model, arguments.k, arguments.place))


def in_a_fresh_process(place: str, model: Path, k: int) -> dict[str, float]:
    command = [sys.executable, __file__, f"--place={place}", f"--model={model}", f"--k={k}"]
    start = time.perf_counter()
    finished = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    result: dict[str, float] = json.loads(finished.stdout)
    return result | {"whole_seconds": time.perf_counter() - start}


def summary(runs: list[dict[str, float]], floors: list[dict[str, float]], n: int) -> dict[str, Any]:
    def median_of(name: str) -> float:
        return statistics.median(run[name] for run in runs)

    def ratio_of(name: str) -> float:
        turns = zip(runs, floors, strict=True)
        return round(statistics.median(run[name] / floor[name] for run, floor in turns), 3)

    return {
        "seconds": round(median_of("seconds"), 3),
        "whole_seconds": round(median_of("whole_seconds"), 3),
        "processor_seconds": round(median_of("processor_seconds"), 3),
        "users_per_second": round(n / median_of("seconds")),
        "users_per_second_of_each_turn": [round(n / run["seconds"]) for run in runs],
        "ratio_to_floor": ratio_of("seconds"),
        "processor_ratio_to_floor": ratio_of("processor_seconds"),
        "loaded_mb": round(median_of("loaded_mb")),
        "peak_mb": round(max(run["peak_mb"] for run in runs)),
    }


def compare(arguments: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_model(folder / "model", arguments)
        places = {
            FLOOR: FLOOR,
            "parquet": str(folder / "lists.parquet"),
            "sqlite": f"sqlite:///{folder / 'lists.db'}",
        }
        if arguments.postgres:
            places["postgresql"] = arguments.postgres
        runs: dict[str, list[dict[str, float]]] = {name: [] for name in places}
        for _ in range(arguments.turns):
            (folder / "lists.db").unlink(missing_ok=True)
            for name, where in places.items():
                runs[name].append(in_a_fresh_process(where, folder / "model", arguments.k))
    sizes = ("users", "items", "dimension", "pairs", "k")
    return {
        "name": "bulk",
        "size": {name: getattr(arguments, name) for name in sizes},
        "ids": "integers" if arguments.integers else "text",
        "turns": arguments.turns,
        "ways": {
            name: summary(found, runs[FLOOR], arguments.users) for name, found in runs.items()
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--users", type=int, default=29_858)
    parser.add_argument("--items", type=int, default=40_981)
    parser.add_argument("--dimension", type=int, default=64)
    parser.add_argument("--pairs", type=int, default=810_128)
    parser.add_argument("--k", type=int, default=20)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--integers", action="store_true", help="ids that are numbers")
    parser.add_argument(
        "--postgres", help="URL of a database of its own; from the second turn on rows are replaced"
    )
    parser.add_argument("--place", help=argparse.SUPPRESS)
    parser.add_argument("--model", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    print(json.dumps(run_here(arguments) if arguments.place else compare(arguments)))


if __name__ == "__main__":
    main()
