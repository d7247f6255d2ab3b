"""Time and memory of reading a Parquet file with text ids, beside the floor.

    python -m ratiorec_lab.studies.read_parquet --rows 20000000

The floor is pyarrow reading the same two columns and doing nothing with them. Writing, reading
and the floor each run in a process of their own, so that none is charged another's memory.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from ratiorec_lab.studies.study import in_a_fresh_process, measured, parser, tell

ROWS_AT_ONCE = 1 << 20
STAGES = ("write", "floor", "read")


def main() -> None:
    """Compare, or be one of the processes that are compared."""
    options = parser(__doc__)
    options.add_argument("--rows", type=int, default=20_000_000)
    options.add_argument("--users", type=int, default=1_000_000)
    options.add_argument("--items", type=int, default=200_000)
    options.add_argument("--stage", choices=STAGES, help=argparse.SUPPRESS)
    options.add_argument("--path", type=Path, help=argparse.SUPPRESS)
    asked = options.parse_args()
    if asked.stage == "write":
        tell(write(asked.path, n_rows=asked.rows, n_users=asked.users, n_items=asked.items))
    else:
        tell(read(asked.stage, asked.path) if asked.stage else compare(asked))


def write(path: Path, *, n_rows: int, n_users: int, n_items: int) -> dict[str, float]:
    """Draw pairs, users uniformly and items by popularity, and write them piece by piece."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    user_ids = pa.array([f"user-{user:07d}" for user in range(n_users)])
    item_ids = pa.array([f"item-{item:06d}" for item in range(n_items)])
    schema = pa.schema({"user_id": pa.string(), "item_id": pa.string()})
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, n_rows, ROWS_AT_ONCE):
            n = min(ROWS_AT_ONCE, n_rows - start)
            users = rng.integers(0, n_users, n)
            items = (n_items * rng.random(n) ** 2).astype(np.int64)
            columns = [user_ids.take(pa.array(users)), item_ids.take(pa.array(items))]
            writer.write_table(pa.table(columns, schema=schema))
    return {"bytes": path.stat().st_size}


def read(stage: str, path: Path) -> dict[str, float]:
    """Read the pairs, or for the floor the columns alone."""
    counts: dict[str, float] = {}

    def read_pairs() -> None:
        from ratiorec.data.formats import read

        data = read(path)
        counts.update(n_users=data.n_users, n_items=data.n_items, n_pairs=data.n_pairs)

    def read_columns() -> None:
        import pyarrow.parquet as pq

        counts.update(n_rows=pq.read_table(path, columns=["user_id", "item_id"]).num_rows)

    found = measured(read_pairs if stage == "read" else read_columns)
    return counts | {"seconds": round(found["seconds"], 2), "peak_mb": round(found["peak_mb"])}


def compare(asked: argparse.Namespace) -> dict[str, Any]:
    """Write once; then the floor, and the reader."""
    sizes = [f"--{name}={getattr(asked, name)}" for name in ("rows", "users", "items")]
    with tempfile.TemporaryDirectory() as folder:
        path = f"--path={Path(folder) / 'pairs.parquet'}"
        written, floor, result = (
            in_a_fresh_process("read_parquet", f"--stage={stage}", path, *sizes) for stage in STAGES
        )
    del result["whole_seconds"]
    file_mb, floor_seconds = written["bytes"] / 2**20, max(floor["seconds"], 0.01)
    return {
        "rows": asked.rows,
        **result,
        "floor": {
            "file_mb": round(file_mb),
            "seconds": floor["seconds"],
            "peak_mb": floor["peak_mb"],
            "mb_per_second": round(file_mb / floor_seconds),
        },
        "ratio": round(result["seconds"] / floor_seconds, 2),
    }


if __name__ == "__main__":
    main()
