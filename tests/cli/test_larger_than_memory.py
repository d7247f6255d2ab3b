"""Data larger than memory, by the commands."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ratiorec.data.formats.lightgcn_text import read_lightgcn
from ratiorec.data.stored.buckets import ranges_of
from ratiorec.data.stored.database import opened
from ratiorec.data.stored.folder import open_stored
from ratiorec.errors import MemoryBudgetError, StorageError
from ratiorec.model.artifact import Artifact
from support.command_line import CommandLine, everything_in, full_disk


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Two files of the pairs of forty shoppers, who like either half of the goods."""
    rng = np.random.default_rng(0)
    users = np.repeat(np.arange(40), 12)
    items = rng.integers(0, 15, len(users)) + 15 * (users % 2)
    columns = {"customer": [f"c{n}" for n in users], "sku": [f"s{n}" for n in items]}
    table = pa.table({**columns, "day": rng.integers(1_700_000_000, 1_709_000_000, len(users))})
    (tmp_path / "logs").mkdir()
    for part in range(2):
        pq.write_table(table.slice(240 * part, 240), tmp_path / "logs" / f"{part}.parquet")
    return tmp_path / "logs"


COLUMNS = ("--timestamp-column", "day")


def test_a_training_set_on_disk_is_data_like_any_other(cli: CommandLine, logs: Path) -> None:
    done = cli("data", "split", logs, "-o", "set", *COLUMNS, "--memory-mb", 1024)
    assert done.code == 0, done.err
    assert "timestamp = 'day'; 480 rows" in done.err
    data = open_stored(Path("set"))
    assert data.test is not None
    assert f"{data.train.n_pairs:,} pairs for training and {data.test.n_pairs:,} held" in done.out
    described = cli("data", "describe", "set", "--json").json
    assert described["n_test_pairs"] == data.test.n_pairs
    assert described["reading"]["n_rows"] == 480
    assert described["order"]["is_informative"]
    fitted = cli("fit", "set", "-o", "model", "--preset", "item-knn", "--json").json
    judged = cli("evaluate", "model", "--data", "set", "--json").json
    assert fitted["test"]["recall@20"] == judged["metrics"]["recall@20"]["value"] > 0.5
    assert Artifact.load("model").users.ids.tolist() == data.train.users.ids.tolist()
    assert cli("data", "split", "set", "-o", "plain", "--by", "last").code == 0
    assert read_lightgcn("plain").train.n_users == 40


def test_a_day_is_added(cli: CommandLine, logs: Path) -> None:
    one, two = logs / "0.parquet", logs / "1.parquet"
    assert cli("data", "prepare", one, "-o", "set", *COLUMNS).code == 0
    assert "20 users" in cli("data", "prepare", one, "-o", "set", "--append", *COLUMNS).out
    done = cli("data", "prepare", two, "-o", "set", "--append", *COLUMNS)
    assert "40 users" in done.out
    assert "720 rows" in done.err


def test_mistakes_end_in_one_line(cli: CommandLine, logs: Path) -> None:
    words = ("data", "prepare", logs, "-o", "set")
    assert "--memory-mb 100; found: 100; wanted: 512" in cli(*words, "--memory-mb", 100).refusal
    assert "--bad-rows-file" in cli(*words, "--bad-rows-file", "bad.tsv").refusal
    assert "--half-life" in cli(*words, "--half-life", "ten days").refusal
    assert "wanted: the column of times, as --timestamp-column" in (
        cli(*words, "--half-life", "9d").refusal
    )
    (logs / "1.parquet").write_bytes(b"PAR1 and no more")
    assert "1.parquet" in cli(*words).refusal
    assert not Path("set").exists()
    (logs / "1.parquet").unlink()
    assert cli(*words).code == 0
    refusal = cli("fit", "set", "-o", "model", "--repeats", "max").refusal
    assert "a training set on disk has no rows with events, times or repeats" in refusal
    assert "this is a training set already" in cli("data", "prepare", "set", "-o", "b").refusal


def test_a_full_disk_leaves_the_old_training_set(
    cli: CommandLine, logs: Path, tmp_path: Path
) -> None:
    pytest.importorskip("resource", reason="no limits of file sizes on this system")
    assert cli("data", "prepare", logs / "0.parquet", "-o", "set").code == 0
    before = everything_in(tmp_path)
    for n_bytes in (500, 1_200_000):  # the database, whose first file has more; the pairs
        many = pa.table({"user": np.arange(200_000), "item": np.arange(200_000) % 7})
        pq.write_table(many, tmp_path / "many.parquet")
        with full_disk(n_bytes):
            refusal = cli("data", "prepare", "many.parquet", "-o", "set").refusal
        assert "no room for what does not fit" in refusal or "could not write" in refusal
        (tmp_path / "many.parquet").unlink()
        assert everything_in(tmp_path) == before


def test_what_duckdb_runs_out_of_is_told(tmp_path: Path) -> None:
    query = (
        "SELECT count(*) FROM (SELECT range || 'a long text' AS x FROM range(400000) GROUP BY 1)"
    )
    with opened(tmp_path, origin="logs", memory_mb=700, limit_mb=8) as database:
        with pytest.raises(MemoryBudgetError, match=r"memory budget is too small.*memory_mb 700"):
            database.run(query)
        database.run("SET memory_limit = '16MB'")
        database.run("SET max_temp_directory_size = '1MB'")
        with pytest.raises(StorageError, match="no room for what does not fit into memory"):
            database.run(query)


def test_a_user_with_more_rows_than_the_budget_is_refused() -> None:
    n_rows = np.array([100_000, 2_000_000, 5])
    assert ranges_of(n_rows, 0, memory_mb=300, of=600) == [(0, 3)]
    assert ranges_of(n_rows, 0, memory_mb=195, of=600) == [(0, 1), (1, 3)]
    with pytest.raises(MemoryBudgetError, match="2,000,000 of them of one user"):
        ranges_of(n_rows, 0, memory_mb=100, of=600)


TELL_PEAK = """
import contextlib
from pathlib import Path
from ratiorec.cli import main

with contextlib.suppress(SystemExit):
    main()
lines = Path("/proc/self/status").read_text().splitlines()
print(next(line for line in lines if line.startswith("VmHWM")))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="no /proc on this system")
def test_the_budget_is_kept(tmp_path: Path) -> None:
    """Four million rows at once would take more."""
    n = 4_000_000
    rng = np.random.default_rng(0)
    users = pa.array([f"user-{number}" for number in range(100_000)])
    table = pa.table(
        {
            "user": users.take(pa.array(rng.integers(0, 100_000, n))),
            "item": rng.integers(0, 5000, n),
            "weight": rng.random(n),
            "timestamp": rng.integers(0, 10**9, n),
        }
    )
    pq.write_table(table, tmp_path / "log.parquet")
    words = ["data", "split", str(tmp_path / "log.parquet"), "-o", str(tmp_path / "set")]
    done = subprocess.run(
        [sys.executable, "-c", TELL_PEAK, *words, "--memory-mb", "512"],
        stdout=subprocess.PIPE,
        check=True,
    )
    assert int(done.stdout.split()[-2]) < 512 * 2**10
    assert open_stored(tmp_path / "set").train.n_users == 100_000
