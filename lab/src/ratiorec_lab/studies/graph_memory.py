"""Memory and time to build the graph of ten million pairs, measured in a fresh process.

    python -m ratiorec_lab.studies.graph_memory

Ends with 1 when the process went over its budget of 2 GiB.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from ratiorec_lab.studies.study import in_a_fresh_process, parser, tell

BUDGET_MB = 2048


def main() -> int:
    """Write the pairs, and build their graph in another process."""
    options = parser(__doc__)
    options.add_argument("--users", type=int, default=1_000_000)
    options.add_argument("--items", type=int, default=200_000)
    options.add_argument("--pairs", type=int, default=10_000_000)
    options.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    asked = options.parse_args()
    if asked.measure:
        tell(measure(asked.measure, n_users=asked.users, n_items=asked.items))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        write_pairs(Path(folder), n_users=asked.users, n_items=asked.items, n_pairs=asked.pairs)
        sizes = f"--users={asked.users}", f"--items={asked.items}"
        result = in_a_fresh_process("graph_memory", f"--measure={folder}", *sizes)
    del result["whole_seconds"]
    tell(result)
    return int(result["peak_mb"] > BUDGET_MB)


def write_pairs(folder: Path, *, n_users: int, n_items: int, n_pairs: int) -> None:
    """Random pairs, the same number for every user, as the two arrays of a row matrix."""
    degree = n_pairs // n_users
    rng = np.random.default_rng(0)
    items = rng.integers(0, n_items - degree, (n_users, degree), dtype=np.int32)
    items.sort(axis=1)
    items += np.arange(degree, dtype=np.int32)  # sorted numbers become strictly increasing ones
    np.save(folder / "indices.npy", items.ravel())
    np.save(folder / "indptr.npy", np.arange(n_users + 1, dtype=np.int64) * degree)


def measure(folder: Path, *, n_users: int, n_items: int) -> dict[str, Any]:
    """Build the graph in this process."""
    from ratiorec.data.interactions import Interactions
    from ratiorec.data.vocabulary import Vocabulary
    from ratiorec.encoders.encoder import Graph
    from ratiorec_lab.bench.clock import CPU, seconds_of
    from ratiorec_lab.bench.side_by_side import peak_mb, restarted_peak_mb

    data = Interactions(
        Vocabulary.dense(n_users, kind="user"),
        Vocabulary.dense(n_items, kind="item"),
        np.load(folder / "indptr.npy"),
        np.load(folder / "indices.npy"),
    )
    loading, before = peak_mb(), restarted_peak_mb()
    graphs = []
    seconds = seconds_of(lambda: graphs.append(Graph(data, self_loops=True, device=CPU)))
    n_nodes = graphs[0].n_nodes
    floor_bytes = (2 * data.n_pairs + n_nodes) * (4 + 4) + (n_nodes + 1) * 4
    extra = peak_mb() - before
    return {
        "name": "graph-memory",
        "size": {"users": n_users, "items": n_items, "pairs": data.n_pairs},
        "seconds": round(seconds, 2),
        "peak_extra_mb": round(extra),
        "peak_mb": round(max(loading, peak_mb())),
        "floor_bytes": floor_bytes,
        "ratio_to_floor": round(extra * 2**20 / floor_bytes, 2),
    }


if __name__ == "__main__":
    sys.exit(main())
