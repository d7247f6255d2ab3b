"""Memory and time to build the graph of ten million pairs, measured in a fresh process.

Prints one JSON object; ends with 1 when the process went over its budget of 2 GiB.

    python benchmarks/graph_memory.py
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

BUDGET_MB = 2048


def write_pairs(folder: Path, *, n_users: int, n_items: int, n_pairs: int) -> None:
    """Random pairs, the same number for every user, as the two arrays of a row matrix."""
    degree = n_pairs // n_users
    rng = np.random.default_rng(0)
    items = rng.integers(0, n_items - degree, (n_users, degree), dtype=np.int32)
    items.sort(axis=1)
    items += np.arange(degree, dtype=np.int32)  # sorted numbers become strictly increasing ones
    np.save(folder / "indices.npy", items.ravel())
    np.save(folder / "indptr.npy", np.arange(n_users + 1, dtype=np.int64) * degree)


def memory_mb(field: str) -> float:
    """A line of this process's own account: VmRSS is now, VmHWM the highest so far."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(field):
            return int(line.split()[1]) / 1024
    raise LookupError(field)


def measure(folder: Path, *, n_users: int, n_items: int) -> dict[str, Any]:
    """Build the graph in this process."""
    import torch

    from ratiorec.data.interactions import Interactions
    from ratiorec.data.vocabulary import Vocabulary
    from ratiorec.encoders.lightgcn import Graph

    data = Interactions(
        Vocabulary.dense(n_users, kind="user"),
        Vocabulary.dense(n_items, kind="item"),
        np.load(folder / "indptr.npy"),
        np.load(folder / "indices.npy"),
    )
    before, start = memory_mb("VmRSS"), time.perf_counter()
    graph = Graph(data, self_loops=True, device=torch.device("cpu"))
    seconds = time.perf_counter() - start
    n_entries = 2 * data.n_pairs + graph.n_nodes
    floor_bytes = n_entries * (4 + 4) + (graph.n_nodes + 1) * 4
    extra = memory_mb("VmHWM") - before
    return {
        "name": "graph-memory",
        "size": {"users": n_users, "items": n_items, "pairs": data.n_pairs},
        "seconds": round(seconds, 2),
        "peak_extra_mb": round(extra),
        "peak_mb": round(memory_mb("VmHWM")),
        "floor_bytes": floor_bytes,
        "ratio_to_floor": round(extra * 2**20 / floor_bytes, 2),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--users", type=int, default=1_000_000)
    parser.add_argument("--items", type=int, default=200_000)
    parser.add_argument("--pairs", type=int, default=10_000_000)
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        found = measure(options.measure, n_users=options.users, n_items=options.items)
        print(json.dumps(found))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        write_pairs(
            Path(folder), n_users=options.users, n_items=options.items, n_pairs=options.pairs
        )
        sizes = ["--users", str(options.users), "--items", str(options.items)]
        command = [sys.executable, __file__, "--measure", folder, *sizes]
        child = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    result = json.loads(child.stdout)
    print(json.dumps(result))
    return int(result["peak_mb"] > BUDGET_MB)


if __name__ == "__main__":
    sys.exit(main())
