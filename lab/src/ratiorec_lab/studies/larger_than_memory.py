"""Time, memory and disk of splitting a log that does not fit into memory, beside the floor.

    python -m ratiorec_lab.studies.larger_than_memory --rows 200000000

Parquet files with text ids are drawn first; then `ratiorec data split` runs under a budget, in a
process whose memory, with that of its children, is read from /proc. The floor is reading the two
columns once, and sorting as many numbers of eight bytes as there are rows. What some
of the users have, and how many of it is held out, is computed again from the files. The ratio is
one of processor time, which other work on the machine leaves as it is.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from ratiorec_lab.studies.study import in_a_fresh_process, parser, tell

ROWS_AT_ONCE = 1 << 20
SORTED_AT_ONCE = 1 << 24
FLAT_TOP = 100  # of popularity ∝ 1 / (rank + FLAT_TOP): few items have most pairs, none has all
SHARE_OF_SAMPLE = 10_000
SECONDS_BETWEEN_LOOKS = 0.05


def main() -> None:
    """Write, split and compare, or be one of the processes that do."""
    options = parser(__doc__)
    options.add_argument("--rows", type=int, default=200_000_000)
    options.add_argument("--users", type=int, default=5_000_000)
    options.add_argument("--items", type=int, default=1_000_000)
    options.add_argument("--files", type=int, default=20)
    options.add_argument("--memory-mb", type=int, default=6144)
    options.add_argument("--stage", choices=("write", "floor", "check"), help=argparse.SUPPRESS)
    options.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    asked = options.parse_args()
    if asked.stage is None:
        tell(compare(asked))
    else:
        tell({"write": write, "floor": floor, "check": check}[asked.stage](asked))


def compare(asked: argparse.Namespace) -> dict[str, Any]:
    """Draw the files; then the command, the floor, and the sample computed again."""
    sizes = {name: getattr(asked, name) for name in ("rows", "users", "items", "files")}
    words = [f"--{name}={n}" for name, n in sizes.items()]
    with tempfile.TemporaryDirectory() as folder:
        words.append(f"--folder={folder}")
        written = in_a_fresh_process("larger_than_memory", "--stage=write", *words)
        measured = split(Path(folder), asked.memory_mb)
        least = in_a_fresh_process("larger_than_memory", "--stage=floor", *words)
        checked = in_a_fresh_process("larger_than_memory", "--stage=check", *words)
    for result in (least, checked):
        del result["whole_seconds"]
    return {
        "size": sizes,
        "memory_mb": asked.memory_mb,
        "files_mb": round(written["bytes"] / 2**20),
        "split": measured,
        "floor": least,
        "ratio": round(measured["processor_seconds"] / max(least["processor_seconds"], 0.01), 2),
        "sample": checked,
    }


# The files


def text_ids(kind: str, n: int) -> Any:
    """Ids of one length whose order says nothing of their popularity."""
    import pyarrow as pa

    mixed = np.arange(n, dtype=np.uint64) * np.uint64(0x9E3779B1) % np.uint64(2**32)
    return pa.array([f"{kind}-{number:08x}" for number in mixed.tolist()])


def write(asked: argparse.Namespace) -> dict[str, int]:
    """Draw rows, users uniformly and items by Zipf's law, and write them file by file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    users, items = text_ids("user", asked.users), text_ids("item", asked.items)
    schema = pa.schema({"user_id": pa.string(), "item_id": pa.string()})
    ends = np.linspace(0, asked.rows, asked.files + 1).astype(int)
    for part, (start, end) in enumerate(pairwise(ends)):
        with pq.ParquetWriter(asked.folder / f"part-{part:02}.parquet", schema) as writer:
            for first in range(start, end, ROWS_AT_ONCE):
                n = min(ROWS_AT_ONCE, end - first)
                ranks = FLAT_TOP * ((asked.items / FLAT_TOP + 1) ** rng.random(n) - 1)
                columns = [
                    users.take(pa.array(rng.integers(0, asked.users, n))),
                    items.take(pa.array(np.minimum(ranks.astype(np.int64), asked.items - 1))),
                ]
                writer.write_table(pa.table(columns, schema=schema))
    return {"bytes": sum(path.stat().st_size for path in asked.folder.glob("*.parquet"))}


def pieces(folder: Path) -> Iterator[Any]:
    """The rows of all files, as record batches."""
    import pyarrow.parquet as pq

    for path in sorted(folder.glob("*.parquet")):
        with pq.ParquetFile(path) as file:
            yield from file.iter_batches(ROWS_AT_ONCE, columns=["user_id", "item_id"])


# The command


def split(folder: Path, memory_mb: int) -> dict[str, float]:
    """Run the command and watch it."""
    target = folder / "training-set"
    words = ["data", "split", str(folder / "*.parquet"), "-o", str(target)]
    command = [sys.executable, "-m", "ratiorec", *words, "--memory-mb", str(memory_mb)]
    started, processor_started = time.perf_counter(), processor_seconds()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    peak_kb, peak_bytes, written = 0, 0, 0
    while child.poll() is None:
        peak_kb = max(peak_kb, sum(map(resident_kb, tree(child.pid))))
        written = max(written, written_bytes(child.pid))
        peak_bytes = max(peak_bytes, sum(map(size, folder.glob(".training-set.*/work/**/*"))))
        time.sleep(SECONDS_BETWEEN_LOOKS)
    seconds = time.perf_counter() - started
    if child.returncode:
        raise SystemExit(child.returncode)
    result = sum(map(size, target.iterdir()))
    mb = {"peak": peak_kb / 2**10, "work": peak_bytes / 2**20, "result": result / 2**20}
    return {
        "seconds": round(seconds, 1),
        "processor_seconds": round(processor_seconds() - processor_started, 1),
        **{f"{name}_mb": round(value) for name, value in mb.items()},
        "written_mb": round(written / 2**20),
    }


def processor_seconds() -> float:
    """The time that processors have spent on all children so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def tree(pid: int) -> list[int]:
    """A process and all that it started."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    except OSError:
        return []
    return [pid, *(one for child in children for one in tree(int(child)))]


def resident_kb(pid: int) -> int:
    """The most that a process has had in memory, what is shared included."""
    return _number(Path(f"/proc/{pid}/status"), "VmHWM")


def written_bytes(pid: int) -> int:
    """What a process has handed to the system to write."""
    return _number(Path(f"/proc/{pid}/io"), "wchar")


def _number(path: Path, name: str) -> int:
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except OSError:  # it has ended
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(f"{name}:")), 0)


def size(path: Path) -> int:
    """The bytes of a file, 0 of one that has just gone."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


# The floor, and the sample


def floor(asked: argparse.Namespace) -> dict[str, float]:
    """Reading both columns once, and sorting a number for each row, block by block."""
    started, processor_started = time.perf_counter(), time.process_time()
    n_bytes = sum(batch.nbytes for batch in pieces(asked.folder))
    read_seconds = time.perf_counter() - started
    processor = time.process_time() - processor_started
    rng, sort_seconds = np.random.default_rng(0), 0.0
    for start in range(0, asked.rows, SORTED_AT_ONCE):
        keys = rng.integers(0, 2**62, min(SORTED_AT_ONCE, asked.rows - start))
        started, processor_started = time.perf_counter(), time.process_time()
        keys.sort()
        sort_seconds += time.perf_counter() - started
        processor += time.process_time() - processor_started
    return {
        "read_mb": round(n_bytes / 2**20),
        "read_seconds": round(read_seconds, 1),
        "sorted_mb": round(8 * asked.rows / 2**20),
        "sort_seconds": round(sort_seconds, 1),
        "processor_seconds": round(processor, 1),
    }


def check(asked: argparse.Namespace) -> dict[str, Any]:
    """The pairs of some users by way of sets, and those of the training set."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from ratiorec.data.benchmarks import load

    started = time.perf_counter()
    data = load(asked.folder / "training-set")
    open_seconds = time.perf_counter() - started
    assert data.test is not None
    n_sampled = max(asked.users // SHARE_OF_SAMPLE, 10)
    sampled = text_ids("user", asked.users).slice(0, n_sampled)
    wanted: dict[str, set[str]] = {user: set() for user in sampled.to_pylist()}
    for batch in pieces(asked.folder):
        found = batch.filter(pc.is_in(batch.column(0), value_set=pa.array(sampled)))
        for user, item in zip(*(column.to_pylist() for column in found.columns), strict=True):
            wanted[user].add(item)
    n_wrong = 0
    users = sorted(user for user, has in wanted.items() if has)
    for user, index in zip(users, data.train.users.indices(users).tolist(), strict=True):
        kept, held_out = (
            data.train.items.ids[part.positives(index)].tolist() for part in (data.train, data.test)
        )
        n_held_out = min(int(len(wanted[user]) / 10 + 0.5), len(wanted[user]) - 1)
        is_right = set(kept) | set(held_out) == wanted[user] and len(held_out) == n_held_out
        n_wrong += not (is_right and len(kept) + len(held_out) == len(wanted[user]))
    return {
        "users": len(users),
        "pairs": sum(map(len, wanted.values())),
        "users_who_differ": n_wrong,
        "train_pairs": data.train.n_pairs,
        "test_pairs": data.test.n_pairs,
        "open_seconds": round(open_seconds, 1),
    }


if __name__ == "__main__":
    main()
