"""Sources beyond one file: parts, standard input, packed text, queries; and missing libraries."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ratiorec.data.benchmarks import load
from ratiorec.data.formats import Columns, read, read_sql, reading
from ratiorec.data.interactions import Interactions
from ratiorec.errors import DataError, DataNotFoundError, MemoryBudgetError, MissingExtraError

TEXT = b"user,item\nann,x\nbob,y\nann,y\n"
PAIRS = {("ann", "x"), ("bob", "y"), ("ann", "y")}


def pairs_of(data: Interactions) -> set[tuple[Any, Any]]:
    user_ids, item_ids = data.users.ids[data.pair_users], data.items.ids[data.indices]
    return set(zip(user_ids.tolist(), item_ids.tolist(), strict=True))


def refusal(path: object, **options: Any) -> DataError:
    with pytest.raises(DataError) as caught:
        read(str(path), **options)
    return caught.value


def zstd(content: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(content)
    return bytes(sink.getvalue())


PACKED = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress, ".zst": zstd}


@pytest.mark.parametrize("suffix", PACKED)
def test_packed_text_is_read(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"clicks.csv{suffix}"
    path.write_bytes(PACKED[suffix](TEXT))
    assert pairs_of(read(path)) == PAIRS
    assert load(path).name == "clicks"


@pytest.mark.parametrize("suffix", PACKED)
def test_packed_text_that_is_cut_short_is_refused(tmp_path: Path, suffix: str) -> None:
    text = TEXT + b"".join(b"u%d,i%d\n" % (n, n * n % 997) for n in range(50_000))
    packed = PACKED[suffix](text)
    path = tmp_path / f"clicks.csv{suffix}"
    path.write_bytes(packed[: len(packed) * 3 // 4])
    assert refusal(path).what == "the file cannot be read to its end"


def test_parts_in_a_folder_or_a_pattern_are_one_table(tmp_path: Path) -> None:
    parts = tmp_path / "log"
    (parts / "day=2").mkdir(parents=True)
    (parts / "a.csv").write_bytes(b"user,item\nann,x\n")
    (parts / "b.csv.gz").write_bytes(gzip.compress(b"item,user\ny,bob\n"))
    (parts / "c.csv").write_bytes(b"user,item\n")  # a part may be empty
    (parts / "d.csv").touch()
    (parts / "day=2" / "e.csv").write_bytes(b"user,item\nann,y\n")
    (parts / "_SUCCESS").touch()
    (parts / ".a.csv.crc").write_bytes(b"\0")
    for path in (parts, parts / "**" / "*.csv*"):
        data = read(path)
        assert pairs_of(data) == PAIRS
        assert data.reading is not None
        assert data.reading.n_rows == 3
        assert load(path).name == "log"


def test_parts_of_parquet_are_one_table(tmp_path: Path) -> None:
    for name, users, items in (("a", ["ann"], ["x"]), ("b", ["bob", "ann"], ["y", "y"])):
        pq.write_table(pa.table({"user": users, "item": items}), tmp_path / f"{name}.parquet")
    assert pairs_of(read(tmp_path)) == pairs_of(load(tmp_path / "*.parquet").train) == PAIRS


def test_integers_of_two_widths_in_parts_are_the_same_ids(tmp_path: Path) -> None:
    for name, kind in (("a", pa.int32()), ("b", pa.int64())):
        table = pa.table({"user": pa.array([7], kind), "item": [name]})
        pq.write_table(table, tmp_path / f"{name}.parquet")
    assert read(tmp_path).users.ids.tolist() == [7]


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_parts_with_other_columns_are_refused(tmp_path: Path, form: str) -> None:
    for name, columns in (("a", ["user", "item"]), ("b", ["customer", "item"])):
        if form == "csv":
            (tmp_path / f"{name}.csv").write_text(f"{','.join(columns)}\n1,2\n")
        else:
            pq.write_table(pa.table([[1], [2]], columns), tmp_path / f"{name}.parquet")
    error = refusal(tmp_path)
    assert error.what == "the parts have different columns"
    assert error.where.endswith(f"b.{form}")
    assert error.found == "user = 'customer', item = 'item'"
    assert error.wanted == f"user = 'user', item = 'item', as in a.{form}"


def test_a_bad_row_is_told_by_its_part(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("user,item\n1,2\n")
    (tmp_path / "b.csv").write_text("user,item\n1,2\n3,\n")
    assert refusal(tmp_path).where == f"{tmp_path / 'b.csv'}, line 3"
    tables = tmp_path / "tables"
    tables.mkdir()
    for name, items in (("a", ["x", "y"]), ("b", ["x", None])):
        pq.write_table(pa.table({"user": [1, 2], "item": items}), tables / f"{name}.parquet")
    assert refusal(tables).where == f"{tables / 'b.parquet'}, row 2 (the first is row 1)"


def test_parts_of_two_formats_and_patterns_without_files_are_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path / "*.csv").found == "no file"
    (tmp_path / "a.csv").write_bytes(TEXT)
    pq.write_table(pa.table({"user": [1], "item": [2]}), tmp_path / "b.parquet")
    assert refusal(tmp_path).found == ".csv, .parquet"
    assert pairs_of(read(tmp_path / "*.csv")) == PAIRS


def test_a_folder_without_tables_is_still_a_lightgcn_folder(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing")
    with pytest.raises(DataNotFoundError, match=r"train\.txt"):
        load(tmp_path)


@pytest.mark.parametrize("content", [TEXT, gzip.compress(TEXT)], ids=["plain", "gzip"])
def test_text_is_read_from_standard_input(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    for _ in range(2):  # it is not closed by the first reading
        stdin = io.TextIOWrapper(io.BufferedReader(io.BytesIO(content)))  # type: ignore[arg-type]
        monkeypatch.setattr(sys, "stdin", stdin)
        data = load("-")
        assert pairs_of(data.train) == PAIRS
        assert not stdin.closed
    assert data.name == "stdin"
    assert data.train.reading is not None
    assert data.train.reading.source == "standard input"


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    path = tmp_path / "shop.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            "CREATE TABLE orders AS SELECT * FROM (VALUES"
            " ('ann', 'x', 2, DATE '2026-01-01'), ('bob', 'y', 1, DATE '2026-01-03'),"
            " ('ann', 'y', 5, DATE '2026-01-02')) AS t(customer, sku, qty, day)"
        )
    return path


def test_a_query_of_duckdb_gives_pairs(shop: Path) -> None:
    data = read_sql("SELECT customer, sku, qty, day AS date FROM orders", str(shop))
    assert pairs_of(data) == PAIRS
    assert data.weights is not None
    assert data.weights.tolist() == [2, 5, 1]
    assert data.reading is not None
    assert data.reading.first_time == "2026-01-01 00:00:00"


def test_a_query_over_files_gives_pairs(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(TEXT)
    query = f"SELECT \"user\" AS u, item AS thing FROM '{tmp_path}/*.csv'"
    assert pairs_of(read_sql(query, ":memory:", columns=Columns("u", "thing"))) == PAIRS


def test_a_query_of_a_database_with_an_address_gives_pairs(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "shop.db") as connection:
        connection.execute("CREATE TABLE t (user_id, item_id)")
        connection.executemany("INSERT INTO t VALUES (?, ?)", sorted(PAIRS))
    connection.close()
    url = f"sqlite:///{tmp_path}/shop.db"
    assert pairs_of(read_sql("SELECT * FROM t", url)) == PAIRS
    with pytest.raises(DataError, match="no such table: orders") as caught:
        read_sql("SELECT * FROM orders", url)
    assert caught.value.where == "sqlite://…"


def test_a_query_that_cannot_be_run_is_refused(shop: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="the query cannot be run"):
        read_sql("SELECT * FROM clients", str(shop))
    with pytest.raises(DataError, match="no item column"):
        read_sql("SELECT customer FROM orders", str(shop))
    with pytest.raises(DataNotFoundError, match="no such database"):
        read_sql("SELECT 1", str(tmp_path / "none.duckdb"))


def test_a_password_in_an_address_is_not_shown() -> None:
    with pytest.raises((DataError, MissingExtraError)) as caught:
        read_sql("SELECT 1", "mysql+nodriver://shop:sesame@localhost/shop")
    assert "sesame" not in str(caught.value)


WITHOUT = """
import sys
for name in ("pyarrow", "torch", "pandas", "polars", "duckdb", "sqlalchemy"):
    sys.modules[name] = None
from ratiorec.data.formats import read, read_lightgcn, read_sql, write_lightgcn
from ratiorec.data.interactions import Dataset, Interactions
from ratiorec.data.vocabulary import Vocabulary
from ratiorec.errors import MissingExtraError
for name in ("x.csv", "x.csv.gz"):
    assert read(name).n_pairs == 3
write_lightgcn(Dataset("x", read("x.csv")), "folder")
assert read_lightgcn("folder").train.users.ids.tolist() == ["ann", "bob"]
assert Interactions.from_pairs(["a", "b"], [1, 2], timestamps=[3, 4]).n_pairs == 2
assert Vocabulary.from_ids(["b", "a"], kind="item").indices(["a"]) == 1
for call in (lambda: read("x.parquet"), lambda: read("x.arrow"), lambda: read("x.csv.zst"),
             lambda: read_sql("SELECT 1", ":memory:"), lambda: read_sql("SELECT 1", "sqlite://")):
    try:
        call()
    except MissingExtraError as error:
        print(error.wanted)
"""


def test_text_needs_neither_arrow_nor_torch_and_other_files_say_what_they_need(
    tmp_path: Path,
) -> None:
    (tmp_path / "x.csv").write_bytes(TEXT)
    (tmp_path / "x.csv.gz").write_bytes(gzip.compress(TEXT))
    (tmp_path / "x.csv.zst").write_bytes(zstd(TEXT))
    (tmp_path / "x.parquet").write_bytes(b"PAR1")
    (tmp_path / "x.arrow").write_bytes(b"ARROW1")
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    arrow = 3 if sys.version_info < (3, 14) else 2
    assert done.stdout.splitlines() == [
        *["pip install 'ratiorec[arrow]'"] * arrow,
        *["pip install 'ratiorec[sql]'"] * 2,
    ]


# What is no plain file, and what is too large


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="a system without named pipes")
@pytest.mark.parametrize("reads_folder", [False, True])
def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path, reads_folder: bool) -> None:
    name = "train.txt" if reads_folder else "p.csv"
    os.mkfifo(tmp_path / name)
    with pytest.raises(DataError) as caught:
        load(tmp_path if reads_folder else tmp_path / name)
    assert "a device" in caught.value.found


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="a system without /dev/zero")
@pytest.mark.parametrize("name", ["train.txt", "test.txt", "user_list.txt", "p.csv"])
def test_a_device_without_end_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "train.txt").write_text("0 1\n1 0\n")
    (tmp_path / name).unlink(missing_ok=True)
    (tmp_path / name).symlink_to("/dev/zero")
    with pytest.raises(DataError) as caught:
        load(tmp_path / name if name == "p.csv" else tmp_path)
    assert "a device" in caught.value.found


@pytest.mark.parametrize("name", ["train.txt", "item_list.txt"])
def test_a_sparse_file_larger_than_memory_is_refused_unread(tmp_path: Path, name: str) -> None:
    (tmp_path / "train.txt").write_text("0 1\n1 0\n")
    with (tmp_path / name).open("wb") as file:
        file.truncate(100 * 2**30)
    with pytest.raises(MemoryBudgetError, match=r"1,200\.0 GiB"):
        load(tmp_path)


def test_packed_text_with_more_rows_than_memory_can_hold_is_refused_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "p.csv.gz"
    path.write_bytes(gzip.compress(b"user,item\n" + b"ann,x\n" * 2_000_000))
    monkeypatch.setattr(reading, "available_memory_mb", lambda device: 50)
    with pytest.raises(MemoryBudgetError) as caught:
        read(path)
    n_rows = int(caught.value.found.split()[0].replace(",", ""))
    assert 50 * 2**20 / 40 < n_rows < 2_000_000
    assert caught.value.where == str(path)


@pytest.mark.parametrize("reads_folder", [False, True])
def test_memory_that_cannot_be_had_is_told_as_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reads_folder: bool
) -> None:
    def too_much(*words: Any, **options: Any) -> None:
        raise MemoryError("no 3 GiB")

    (tmp_path / "train.txt").write_text("0 1\n1 0\n")
    monkeypatch.setattr(Interactions, "from_indices", too_much)
    with pytest.raises(MemoryBudgetError) as caught:
        load(tmp_path) if reads_folder else read(tmp_path / "train.txt", header=False)
    assert caught.value.found == "no 3 GiB"
