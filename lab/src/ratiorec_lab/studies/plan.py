"""What `ratiorec plan` says, held against what trainings by several processes take.

    python -m ratiorec_lab.studies.plan

Every size is trained for a few steps in fresh processes, one for each rank, with one
thread each. Memory is the peak of a process with all that is in it; what a process holds without
data is the one constant that is fitted. Seconds are of the processor, least of some steps: what
the thread that trains takes is compute, what the others take is exchange, so that neighbours on
the machine matter little; seconds by the clock stand beside them. Constants are fitted to some
sizes and tried on four others.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ratiorec.config import named_settings
from ratiorec.distributed.counts import Bytes, SharedTraining, Work
from ratiorec.settings import Settings
from ratiorec_lab.studies.graph_memory import write_pairs
from ratiorec_lab.studies.study import parser, tell

N_STEPS = 4
# every larger array is given back at once, as those above 32 MiB always are: glibc keeps smaller
# ones for later, which hides what is needed, and takes more memory where all are small
GIVING_BACK = {"MALLOC_MMAP_THRESHOLD_": str(2**20), "MALLOC_TRIM_THRESHOLD_": str(2**20)}
DEALING = ("dealt pairs", "items to deal")
Run = dict[str, Any]


@dataclass(frozen=True)
class Size:
    """A training to be measured."""

    users: int
    items: int
    pairs: int
    dim: int
    ranks: int
    preset: str
    batch: int
    layers: int = 3

    @property
    def settings(self) -> Settings:
        """Those of the preset, at this size."""
        changes = (
            f"encoder.dimension={self.dim}",
            f"encoder.n_layers={self.layers}",
            f"batches.n_users={self.batch}",
            "batches.min_steps_per_epoch=1",
        )
        _, settings = named_settings(self.preset, assignments=changes)
        assert isinstance(settings, Settings)
        return settings

    @property
    def training(self) -> SharedTraining:
        """The same as a plan knows it."""
        return SharedTraining.of(
            self.settings,
            n_users=self.users,
            n_items=self.items,
            n_pairs=self.pairs,
            n_ranks=self.ranks,
        )


FITTED = (
    Size(3_000, 2_000, 60_000, 32, 1, "dregn-cf", 300),
    Size(30_000, 10_000, 600_000, 64, 1, "dregn-cf", 1000),
    Size(300_000, 30_000, 2_100_000, 64, 1, "dregn-cf", 1000),
    Size(100_000, 100_000, 1_000_000, 64, 2, "dregn-cf", 1000),
    Size(20_000, 5_000, 2_000_000, 64, 1, "dregn-cf", 500),
    Size(30_000, 3_000, 900_000, 16, 2, "dregn-cf", 3000),
    Size(200_000, 200_000, 1_000_000, 32, 4, "dregn-cf", 1000),
    Size(10_000, 100_000, 300_000, 64, 1, "softmax", 300),
    Size(30_000, 30_000, 300_000, 128, 2, "softmax", 500),
    Size(300_000, 10_000, 3_000_000, 32, 2, "softmax", 1000, 2),
)
HELD_OUT = (
    Size(600_000, 60_000, 4_200_000, 64, 2, "dregn-cf", 2500),
    Size(160_000, 80_000, 1_600_000, 96, 1, "softmax", 800, 2),
    Size(50_000, 200_000, 1_000_000, 64, 2, "softmax", 500),
    Size(1_000_000, 100_000, 4_000_000, 32, 4, "dregn-cf", 2500),
)
QUICK = (
    Size(300, 200, 3_000, 8, 1, "dregn-cf", 50),
    Size(300, 201, 3_000, 8, 2, "softmax", 50, 2),
)


def main() -> None:
    """Measure, fit and predict, or be one of the processes that are measured."""
    options = parser(__doc__)
    options.add_argument("--quick", action="store_true", help="tiny sizes, to try the study")
    options.add_argument("--runs", type=Path, help="fit again to what such a record has measured")
    options.add_argument("--measure", help=argparse.SUPPRESS)
    asked = options.parse_args()
    if asked.measure:
        tell(measure_rank(**json.loads(asked.measure)))
    elif asked.runs:
        tell(fitted_to(json.loads(asked.runs.read_text())["result"]["runs"]))
    else:
        fitted, held_out = (QUICK, QUICK[1:]) if asked.quick else (FITTED, HELD_OUT)
        runs = [run for size in fitted for run in measure(size, fitted=True)]
        runs += [run for size in held_out for run in measure(size, fitted=False)]
        tell(fitted_to(runs))


def fitted_to(runs: list[Run]) -> dict[str, Any]:
    """The constants that some runs give, and how well they predict the others."""
    known = [run for run in runs if run["fitted"]]
    process = statistics.median(
        run["peak_mib"] - counted_mib(training_of(run)) for run in known if "peak_mib" in run
    )
    seconds = rates_of_work(known)
    talking = [run for run in known if run["size"]["ranks"] > 1]
    exchange = fit_rates(
        [said(training_of(run)) for run in talking], [run["exchange_seconds"] for run in talking]
    )
    rows = [compare(run, process, seconds, exchange) for run in runs if "peak_mib" in run]
    tried = [row for row in rows if not row["fitted"]]
    return {
        "name": "plan",
        "part": "cpu",
        "device": "cpu",
        "process_mib": round(process, 1),
        "seconds": seconds,
        "exchange": exchange,
        "errors": {
            name: max(abs(row[name]["error"]) for row in tried) for name in ("memory", "step")
        },
        "sizes": rows,
        "runs": runs,
    }


def rates_of_work(runs: Sequence[Run]) -> dict[str, float]:
    """The seconds of each piece of work: of dealing by itself, then of what it leaves."""
    works = [training_of(run).work() for run in runs]
    dealing = [{kind: work[kind] for kind in (*DEALING, "steps")} for work in works]
    rates = fit_rates(dealing, [run["dealing_seconds"] for run in runs])
    left = [
        run["compute_seconds"] - cost(dealt, rates)
        for run, dealt in zip(runs, dealing, strict=True)
    ]
    others = [{kind: work[kind] for kind in work if kind not in DEALING} for work in works]
    rest = fit_rates(others, left)
    return rates | rest | {"steps": rates["steps"] + rest["steps"]}


def training_of(run: Run) -> SharedTraining:
    """What a plan knows of a run."""
    return Size(**run["size"]).training


def counted_mib(training: SharedTraining) -> float:
    """What a plan counts, without the process itself."""
    parts: list[Bytes] = [training.tables(), training.buffers("cpu"), training.host()]
    counted = sum(sum(part.values()) for part in parts)
    return (counted + training.graph("cpu") + training.batch()) / 2**20


def said(training: SharedTraining) -> Work:
    """What a rank has to say in a step, by kind."""
    return {"bytes": float(training.bytes_sent), "messages": float(training.n_messages)}


def fit_rates(works: Sequence[Work], seconds: Sequence[float]) -> dict[str, float]:
    """The seconds of each piece of work, none below 0, by least squares of relative errors."""
    from scipy.optimize import nnls

    kinds = sorted({kind for work in works for kind in work})
    table = np.array([[work.get(kind, 0.0) for kind in kinds] for work in works])
    relative = table / np.asarray(seconds)[:, None]
    scale = relative.max(axis=0)
    rates, _ = nnls(relative / scale, np.ones(len(works)))
    return {kind: float(rate) for kind, rate in zip(kinds, rates / scale, strict=True)}


def cost(work: Work, rates: dict[str, float]) -> float:
    """The seconds of some work."""
    return sum(amount * rates[kind] for kind, amount in work.items())


def compare(
    run: Run, process: float, seconds: dict[str, float], exchange: dict[str, float]
) -> dict[str, Any]:
    """A size as it was predicted and measured."""
    training = training_of(run)
    talk = cost(said(training), exchange) if training.n_ranks > 1 else 0.0
    spoken = run["exchange_seconds"] if training.n_ranks > 1 else 0.0
    step = cost(training.work(), seconds) + talk, run["compute_seconds"] + spoken
    return {
        **run["size"],
        "fitted": run["fitted"],
        "memory": _pair(process + counted_mib(training), run["peak_mib"], digits=1),
        "usual_allocator_mib": run.get("usual_allocator_mib"),
        "step": _pair(*step, digits=4),
        "exchange": _pair(talk, spoken, digits=4) if spoken else None,
        "wall_seconds": round(run["wall_seconds"], 4),
        "sent": {"counted": training.bytes_sent, "measured": run["bytes_sent"]},
    }


def _pair(predicted: float, measured: float, *, digits: int) -> dict[str, float]:
    error = predicted / measured - 1
    return {
        "predicted": round(predicted, digits),
        "measured": round(measured, digits),
        "error": round(error, 4),
    }


def measure(size: Size, *, fitted: bool) -> list[Run]:
    """A size, and the same data with smaller batches and with one layer, of which only time.

    Of a size that is not fitted also the memory with the allocator as it usually is.
    """
    others = replace(size, batch=max(10, size.batch // 4)), replace(size, layers=1)
    sizes = (size, *others) if fitted else (size,)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_pairs(folder, n_users=size.users, n_items=size.items, n_pairs=size.pairs)
        told = together(folder, sizes, GIVING_BACK)
        usual = [] if fitted else together(folder, sizes, {})
    runs: list[Run] = []
    for number, one in enumerate(sizes):
        each = [of_rank[number] for of_rank in told]
        slowest = max(each, key=lambda run: run["compute_seconds"] + run["exchange_seconds"])
        largest = {name: max(run[name] for run in each) for name in each[0] if "mib" in name}
        runs.append({"size": asdict(one), "fitted": fitted, **slowest, **largest})
    if usual:
        runs[0]["usual_allocator_mib"] = max(of_rank[0]["peak_mib"] for of_rank in usual)
    return runs


def together(
    folder: Path, sizes: Sequence[Size], environment: dict[str, str]
) -> list[list[dict[str, Any]]]:
    """What each rank tells of each size."""
    meeting = str(folder / f"meeting-{len(environment)}")
    asked = {"folder": str(folder), "meeting": meeting, "sizes": [asdict(one) for one in sizes]}
    command = sys.executable, "-m", "ratiorec_lab.studies.plan", "--measure"
    ranks = [
        subprocess.Popen(
            [*command, json.dumps({**asked, "rank": rank})],
            stdout=subprocess.PIPE,
            env=os.environ | {"OMP_NUM_THREADS": "1"} | environment,
        )
        for rank in range(sizes[0].ranks)
    ]
    return [json.loads(rank.communicate()[0]) for rank in ranks]


def measure_rank(
    folder: str, meeting: str, rank: int, sizes: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Train a few steps of each size as one rank; the first alone tells of memory."""
    import torch
    import torch.distributed as dist

    from ratiorec.data.interactions import Interactions
    from ratiorec.data.vocabulary import Vocabulary
    from ratiorec.distributed.ranks import Ranks
    from ratiorec_lab.bench.side_by_side import peak_mb

    first, *others = (Size(**size) for size in sizes)
    dist.init_process_group(
        "gloo", init_method=f"file://{meeting}", rank=rank, world_size=first.ranks
    )
    ranks = Ranks(torch.device("cpu"))
    loaded = peak_mb()
    data = Interactions(
        Vocabulary.dense(first.users, kind="user"),
        Vocabulary.dense(first.items, kind="item"),
        np.load(Path(folder, "indptr.npy")),
        np.load(Path(folder, "indices.npy")),
    )
    own = data.of_users(ranks.rows(data.n_users))
    runs: list[dict[str, Any]] = [steps(first, own, ranks)]
    runs[0] |= {"loaded_mib": round(loaded, 1), "peak_mib": round(peak_mb(), 1)}
    runs += [steps(size, own, ranks) for size in others]
    ranks.leave()
    return runs


def steps(size: Size, own: Any, ranks: Any) -> dict[str, float]:
    """What the quickest of some steps takes, and what it sends."""
    from ratiorec.distributed.shards import start_shared

    run = start_shared(own, size.settings, ranks, rng=np.random.default_rng(0))
    taken = run.one_epoch(min(N_STEPS, run.n_steps))
    found = []
    while True:
        before = time.perf_counter(), time.process_time(), time.thread_time(), ranks.n_bytes
        if next(taken, None) is None:
            break
        after = time.perf_counter(), time.process_time(), time.thread_time(), ranks.n_bytes
        found.append([b - a for a, b in zip(before, after, strict=True)])
    wall, processor, thread, sent = (min(values) for values in zip(*found[1:], strict=True))
    dealt, dealing = run.epochs(np.random.default_rng(1)), []
    for _ in range(min(N_STEPS, run.n_steps)):
        began = time.thread_time()
        next(dealt)
        dealing.append(time.thread_time() - began)
    return {
        "wall_seconds": wall,
        "compute_seconds": thread,
        "exchange_seconds": processor - thread,
        "dealing_seconds": min(dealing[1:]),
        "bytes_sent": int(sent),
    }


if __name__ == "__main__":
    main()
