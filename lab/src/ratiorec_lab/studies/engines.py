"""Lists for everyone by one process, and by Ray workers on this machine.

    python -m ratiorec_lab.studies.engines

The model has random factors, as in the study `bulk`, and the floor is ranking alone, on one core
and on all. Every run is a process of its own and starts a Ray of its own; the ways take turns, and
a ratio compares runs of the same turn. `seconds` is from the loaded model to the complete folder
or file, without the start of Ray (`start_seconds`) but with that of the workers, who load the model
too (`first_block_seconds` is when the first block is written). `block_overhead_ms` is the time of
a block in which nothing is done; bytes are those of pickled tasks and answers, and the most that
Ray's object store held whenever a block was finished.
"""

from __future__ import annotations

import argparse
import pickle
import statistics
import tempfile
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ratiorec.engines import Engine, OneProcess, RayCluster, Spread, Work, spread_lists
from ratiorec.engines.cluster import connected
from ratiorec.engines.spread import Task
from ratiorec.model.artifact import Artifact
from ratiorec.scorers.topk import Exact
from ratiorec.sinks import Dataset, Job, Tally, place_of, sink_of, write_lists
from ratiorec.sinks.dataset import Part
from ratiorec_lab.studies.bulk import write_model
from ratiorec_lab.studies.study import in_a_fresh_process, measured, parser, tell

FLOORS = {"ranking alone, 1 core": 1, "ranking alone, all cores": None}
FILE = "one process, one file"
LOCAL = "one process, a folder"
RAYS = {
    "Ray, 1 worker of 1 core": (1, 1),
    "Ray, 1 worker of 2 cores": (1, 2),
    "Ray, 2 workers of 1 core": (2, 1),
}
WAYS = (*FLOORS, FILE, LOCAL, *RAYS)
_N_EMPTY = 500


def main() -> None:
    """Compare, or be one of the processes that are compared."""
    options = parser(__doc__)
    options.add_argument("--users", type=int, default=40_000)
    options.add_argument("--items", type=int, default=40_981)
    options.add_argument("--dimension", type=int, default=64)
    options.add_argument("--pairs", type=int, default=1_000_000)
    options.add_argument("--k", type=int, default=20)
    options.add_argument("--block-users", type=int, default=2_000)
    options.add_argument("--turns", type=int, default=3)
    options.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    options.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    asked = options.parse_args()
    asked.integers = True
    tell(run_here(asked) if asked.way else compare(asked))


def run_here(asked: argparse.Namespace) -> dict[str, float]:
    """One way, once."""
    model = Artifact.load(asked.folder / "model")
    if asked.way in FLOORS:
        ranker = Exact(asked.k, n_threads=FLOORS[asked.way])
        stream = ranker.stream(model.scorer, np.arange(len(model.users)), seen=model.seen)
        return measured(lambda: deque(stream, maxlen=0))
    job = Job.of(model, model.users.ids, k=asked.k)
    place = asked.folder / asked.way
    if asked.way == FILE:
        sink = sink_of(f"{place}.parquet")
        return measured(lambda: write_lists(job, sink, users_at_a_time=asked.block_users))

    def fill(engine: Engine, told: Callable[[], None]) -> None:
        spread = Spread(Dataset(place_of(str(place))), engine, asked.folder / "model")
        spread_lists(job, spread, users_at_a_time=asked.block_users, progress=lambda *_: told())

    if asked.way == LOCAL:
        return measured(lambda: fill(OneProcess(), lambda: None))
    return by_ray(*RAYS[asked.way], fill)


def by_ray(
    n_workers: int, n_cores: int, fill: Callable[[Engine, Callable[[], None]], None]
) -> dict[str, float]:
    """The way of a Ray of its own, with what it costs beside the work."""
    started = time.perf_counter()
    with connected(n_cores=n_workers * n_cores) as ray:
        start_seconds = time.perf_counter() - started
        whole = _free_bytes(ray)
        cluster = RayCluster(n_workers=n_workers, cores_per_worker=n_cores)
        engine, finished, most_held = Weighed(cluster), list[float](), 0

        def told() -> None:
            nonlocal most_held
            finished.append(time.perf_counter())
            most_held = max(most_held, whole - _free_bytes(ray))

        started = time.perf_counter()
        fill(engine, told)
        return {
            "seconds": time.perf_counter() - started,
            "start_seconds": start_seconds,
            "first_block_seconds": finished[0] - started,
            "most_in_store_bytes": most_held,
            "block_overhead_ms": 1e3 * _empty_block_seconds(cluster),
            **engine.n_bytes,
        }


def _free_bytes(ray: Any) -> int:
    return int(ray.available_resources().get("object_store_memory", 0))


@dataclass
class Weighed:
    """An engine that knows how much it has sent."""

    engine: Engine
    n_bytes: dict[str, int] = field(default_factory=dict)

    def __call__(self, work: Work, tasks: Sequence[Task]) -> Generator[Tally]:
        self.n_bytes = {
            "worker_bytes": len(pickle.dumps(work)),
            "block_bytes": len(pickle.dumps(tasks[0])) + len(pickle.dumps(Tally())),
        }
        return self.engine(work, tasks)


@dataclass(frozen=True)
class Nothing:
    """Work that is done at once."""

    memory_mb: float = 0

    def begin(self, *, n_threads: int | None) -> Callable[[Task], Tally]:
        """Nothing to make ready."""
        return lambda task: Tally()


def _empty_block_seconds(engine: Engine) -> float:
    """From the first finished block to the last."""
    from ratiorec_lab.studies.engines import Nothing as Found  # workers know no __main__

    tasks = [Task(Part(n, n + 1, ""), None) for n in range(_N_EMPTY)]
    ends = [time.perf_counter() for _ in engine(Found(), tasks)]
    return (ends[-1] - ends[0]) / (len(ends) - 1)


def compare(asked: argparse.Namespace) -> dict[str, Any]:
    """All ways in turns; every one but the floors must write the same lists."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_model(folder / "model", asked)
        runs: dict[str, list[dict[str, Any]]] = {way: [] for way in WAYS}
        for _ in range(asked.turns):
            for way in WAYS:
                words = [f"--way={way}", f"--folder={folder}", f"--k={asked.k}"]
                words.append(f"--block-users={asked.block_users}")
                runs[way].append(in_a_fresh_process("engines", *words))
                _require_same_lists(folder, way)
    sizes = ("users", "items", "dimension", "pairs", "k", "block_users")
    return {
        "name": "engines",
        "size": {name: getattr(asked, name) for name in sizes},
        "turns": asked.turns,
        "ways": {way: _summary(found, runs[FILE], asked.users) for way, found in runs.items()},
    }


def _require_same_lists(folder: Path, way: str) -> None:
    """Compare with the file, and make room for the next turn."""
    from shutil import rmtree

    from pyarrow import parquet

    if (folder / way).exists():
        one = parquet.read_table(folder / f"{FILE}.parquet")
        if not parquet.read_table(folder / way).equals(one):
            raise AssertionError(f"{way} has written other lists than one process")
        rmtree(folder / way)


def _summary(
    runs: list[dict[str, Any]], file: list[dict[str, Any]], n_users: int
) -> dict[str, Any]:
    """Medians over the turns."""
    medians = {
        name: round(float(statistics.median(run[name] for run in runs)), 3) for name in runs[0]
    }
    turns = zip(runs, file, strict=True)
    ratio = statistics.median(one["seconds"] / other["seconds"] for one, other in turns)
    return {
        **medians,
        "users_per_second": round(n_users / medians["seconds"]),
        "users_per_second_of_each_turn": [round(n_users / run["seconds"]) for run in runs],
        "ratio_to_one_process": round(float(ratio), 3),
    }


if __name__ == "__main__":
    main()
