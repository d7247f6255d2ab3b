"""Time and memory of reading a Parquet file with text ids, beside the floor.

    python benchmarks/read_parquet.py --rows 20000000

The floor is pyarrow reading the same two columns and doing nothing with them. Writing, reading
and the floor each run in a process of their own, so that none is charged another's memory.
Prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

ROWS_AT_ONCE = 1 << 20


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


def read_pairs(path: Path) -> dict[str, float]:
    from ratiorec.data.formats import read

    data = read(path)
    return {"n_users": data.n_users, "n_items": data.n_items, "n_pairs": data.n_pairs}


def read_columns(path: Path) -> dict[str, float]:
    import pyarrow.parquet as pq

    return {"n_rows": pq.read_table(path, columns=["user_id", "item_id"]).num_rows}


def measured(work: Callable[[Path], dict[str, float]], path: Path) -> dict[str, float]:
    start = time.perf_counter()
    result = work(path)
    seconds = time.perf_counter() - start
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {**result, "seconds": round(seconds, 2), "peak_mb": round(peak_mb)}


def in_a_fresh_process(stage: str, path: Path, arguments: argparse.Namespace) -> dict[str, float]:
    sizes = ("rows", "users", "items")
    options = [f"--{name}={getattr(arguments, name)}" for name in sizes]
    command = [sys.executable, __file__, f"--stage={stage}", f"--path={path}", *options]
    finished = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    result: dict[str, float] = json.loads(finished.stdout)
    return result


def compare(arguments: argparse.Namespace) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pairs.parquet"
        written = in_a_fresh_process("write", path, arguments)
        floor = in_a_fresh_process("floor", path, arguments)
        result = in_a_fresh_process("read", path, arguments)
    return {
        "rows": arguments.rows,
        **result,
        "floor": {
            "file_mb": round(written["bytes"] / 2**20),
            "seconds": floor["seconds"],
            "peak_mb": floor["peak_mb"],
            "mb_per_second": round(written["bytes"] / 2**20 / max(floor["seconds"], 0.01)),
        },
        "ratio": round(result["seconds"] / max(floor["seconds"], 0.01), 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--users", type=int, default=1_000_000)
    parser.add_argument("--items", type=int, default=200_000)
    parser.add_argument("--stage", choices=("write", "floor", "read"), help=argparse.SUPPRESS)
    parser.add_argument("--path", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.stage == "write":
        sizes = {"n_users": arguments.users, "n_items": arguments.items}
        result: object = write(arguments.path, n_rows=arguments.rows, **sizes)
    elif arguments.stage:
        work = {"floor": read_columns, "read": read_pairs}[arguments.stage]
        result = measured(work, arguments.path)
    else:
        result = compare(arguments)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
