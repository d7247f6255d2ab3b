"""Cost of parsing a binary file first in a process of its own, beside the reading itself.

    python -m ratiorec_lab.studies.foreign_files --rows 5000000

A Parquet and an Arrow file with text ids and times, a sparse matrix, and a small file; the least of
three runs each.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse

from ratiorec.data.formats import Columns, read
from ratiorec.data.formats.binary import SPARSE_MATRIX, TRUST, require_survived
from ratiorec_lab.studies.study import parser, tell

N_USERS, N_ITEMS, N_RUNS = 500_000, 100_000, 3
FORMATS = {".parquet": "Parquet", ".arrow": "Arrow", ".npz": SPARSE_MATRIX}


def main() -> None:
    """Time the check and the reading of each file."""
    options = parser(__doc__)
    options.add_argument("--rows", type=int, default=5_000_000)
    asked = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tell(
            {"rows": asked.rows, "files": [cost(path) for path in write(Path(folder), asked.rows)]}
        )


def write(folder: Path, n_rows: int) -> list[Path]:
    """The files, users drawn uniformly and items by popularity."""
    rng = np.random.default_rng(0)
    users = rng.integers(0, N_USERS, n_rows)
    items = (N_ITEMS * rng.random(n_rows) ** 2).astype(np.int64)
    table = pa.table(
        {
            "user_id": pa.array([f"user-{user:07d}" for user in users.tolist()]),
            "item_id": pa.array([f"item-{item:06d}" for item in items.tolist()]),
            "timestamp": rng.integers(10**9, 2 * 10**9, n_rows),
        }
    )
    names = ("pairs.parquet", "pairs.arrow", "pairs.npz", "small.parquet")
    paths = [folder / name for name in names]
    pq.write_table(table, paths[0])
    with pa.OSFile(str(paths[1]), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=1 << 16)
    matrix = scipy.sparse.coo_array((np.ones(n_rows, np.float32), (users, items)))
    scipy.sparse.save_npz(paths[2], matrix.tocsr(), compressed=False)
    pq.write_table(table.slice(0, 100), paths[3])
    return paths


def cost(path: Path) -> dict[str, Any]:
    """Seconds of the check alone, and of the reading without it."""
    check = partial(require_survived, FORMATS[path.suffix], [path], Columns())
    check_seconds = min(_seconds(check) for _ in range(N_RUNS))
    os.environ[TRUST] = "1"
    read_seconds = min(_seconds(partial(read, path)) for _ in range(N_RUNS))
    del os.environ[TRUST]
    return {
        "file": path.name,
        "file_mb": round(path.stat().st_size / 1e6, 1),
        "check_seconds": round(check_seconds, 2),
        "read_seconds": round(read_seconds, 2),
    }


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
