"""Training of one model by several processes beside one: lists, batches, bytes, memory and time.

    python -m ratiorec_lab.studies.ranks
    python -m ratiorec_lab.studies.ranks --data gowalla --steps 24 --ranks 1,2,4
    python -m ratiorec_lab.studies.ranks --data gowalla --device cuda

From one seed, presets take a fixed number of steps: in one process without torchrun, in several
under torchrun, and in two on hosts of their own, which are network namespaces of this machine with
a link between them (as root; elsewhere they are not run). A batch is equal where users, rows,
columns and candidates of all ranks are, bit by bit, those that the one process would give them.
Seconds are medians over the steps without the first. Where ranks share cores they cannot be
faster; the operations and bytes of each tell what they would have to do on cores of their own.
Two ranks on one GPU speak through the host's memory. A GPU's ways are compared with one process on
the CPU of the same machine, since a single process on a GPU deals batches of its own there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from statistics import median
from typing import Any, NamedTuple

from ratiorec.machine import usable_cores
from ratiorec_lab.bench.step import trained
from ratiorec_lab.studies.study import parser, tell
from ratiorec_lab.together.hosts import run_alone, run_on_two_hosts, run_ranks
from ratiorec_lab.together.watched import MIB, Found, Job, found_by

TOLERANCE = 5e-4
ALONE, HOSTS = "one process", "two hosts"
CPU = "cpu"


class Way(NamedTuple):
    """How a model is trained: by how many processes, on what, and how they are started."""

    name: str
    n_ranks: int
    device: str
    start: Callable[..., None]


def main() -> None:
    """All ways of both presets, one after another."""
    options = parser(__doc__)
    options.add_argument("--data", default="synthetic")
    options.add_argument("--presets", default="dregn-cf,softmax:encoder.dimension=64")
    options.add_argument("--steps", type=int, default=24)
    options.add_argument("--ranks", default="1,2,4", help="numbers of processes on one host")
    options.add_argument("--device", default="cpu")
    options.add_argument("--seed", type=int, default=0)
    asked = options.parse_args()
    sizes = [int(size) for size in asked.ranks.split(",")]
    runs: list[Found] = []
    not_run: dict[str, str] = {}
    for preset in asked.presets.split(","):
        trained(preset)  # a name that is not known is refused before anything is measured
    for preset in asked.presets.split(","):
        of_preset: list[Found] = []
        for way in ways(sizes, asked.device, not_run):
            job = Job(
                asked.data,
                preset,
                asked.steps,
                asked.seed,
                way.device,
                cut_for=sorted({2, *sizes}),
            )
            try:
                (found,) = found_by(way.start, [job])
            except OSError as error:
                not_run[way.name] = f"no network namespaces here: {error}"
                continue
            told = {"preset": preset, "way": way.name, "ranks": way.n_ranks}
            of_preset.append(told | {"found": found})
        alone = of_preset[0]["found"]
        runs += [summary(run, alone) for run in of_preset]
    tell(
        {
            "dataset": asked.data,
            "device": asked.device,
            "steps": asked.steps,
            "seed": asked.seed,
            "cores": usable_cores(),
            "tolerance": TOLERANCE,
            "runs": runs,
            "not_run": not_run,
        }
    )


def ways(sizes: list[int], device: str, not_run: dict[str, str]) -> Iterator[Way]:
    """What to compare with the first, on this machine; what it does not have is told."""
    if device == CPU:
        yield Way(ALONE, 1, CPU, run_alone)
        for size in sizes:
            yield Way(f"torchrun, {size} on one host", size, CPU, partial(run_ranks, size))
        yield Way(HOSTS, 2, CPU, run_on_two_hosts)
        not_run["GPU: one rank by nccl, two that share a GPU, several GPUs"] = "asked for the CPU"
        return
    import torch

    n_gpus = torch.cuda.device_count()
    yield Way(f"{ALONE}, CPU", 1, CPU, run_alone)
    yield Way(f"{ALONE}, GPU", 1, device, run_alone)
    for size in sizes:
        on = f"{min(size, n_gpus)} GPU{'s' if min(size, n_gpus) > 1 else ''}"
        how = "nccl" if size <= n_gpus else "gloo by way of the host"
        yield Way(f"torchrun, {size} on {on}, {how}", size, device, partial(run_ranks, size))
    if n_gpus < 2:
        not_run["several GPUs"] = f"{n_gpus} here"


def summary(run: Found, alone: list[Found]) -> Found:
    """One way, its lists and batches compared with those of the first."""
    found = run.pop("found")
    first = found[0]
    steps = first["steps"][1:] or first["steps"]
    seconds = [step["seconds"] for step in steps]
    differences = {
        name: value - alone[0]["test"][name] for name, value in (first["test"] or {}).items()
    }
    return run | {
        "threads_of_each": first["threads"],
        "test": first["test"],
        "difference": differences,
        "within_tolerance": all(abs(one) <= TOLERANCE for one in differences.values()),
        "batches": batches_compared(found, alone[0]["digests"], run["ranks"]),
        "seconds_per_step": round(median(seconds), 4),
        "fastest_step": round(min(seconds), 4),
        "share_talking": round(sum(step["talking"] for step in steps) / sum(seconds), 4),
        "each_rank": [of_rank(one) for one in found],
    }


def batches_compared(found: list[Found], alone: dict[str, list[str]], n_ranks: int) -> Found:
    """How many batches there were, and how many are equal on all ranks; None where unknown."""
    parts = [f"{rank} of {n_ranks}" for rank in range(n_ranks)]
    if not all(part in alone for part in parts):
        return {"compared": 0, "equal": None}
    theirs = [[told for one in found for told in one["digests"].get(part, [])] for part in parts]
    expected = [alone[part] for part in parts]
    n_equal = sum(
        ours == other
        for ours, other in zip(zip(*theirs, strict=True), zip(*expected, strict=True), strict=True)
    )
    return {"compared": len(expected[0]), "equal": n_equal}


def of_rank(found: Found) -> dict[str, Any]:
    """What one rank had, did and sent."""
    steps = found["steps"]
    return {
        "users": found["users"],
        "pairs": found["pairs"],
        "tables_mb": round(found["bytes"]["tables"] / MIB, 3),
        "optimizer_mb": round(found["bytes"]["optimizer"] / MIB, 3),
        "peak_mb": found["peak_mb"],
        "operations_per_step": found["operations_per_step"],
        "mb_sent_per_step": round(sum(step["n_bytes"] for step in steps) / len(steps) / MIB, 3),
    }


if __name__ == "__main__":
    main()
