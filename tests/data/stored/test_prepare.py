"""A training set on disk holds what the ordinary reader finds in the same files."""

from __future__ import annotations

import datetime as dt
import lzma
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ratiorec.data.benchmarks import load
from ratiorec.data.formats import Columns, read
from ratiorec.data.formats.reading import BadRows
from ratiorec.data.stored.folder import open_stored
from ratiorec.data.stored.prepare import prepare
from ratiorec.data.stored.source import Asked
from ratiorec.errors import ConfigError, DataError
from support.postgres_server import PostgresServer, postgres
from support.training_sets import MEMORY_MB, by_ids, prepared, write_parts

__all__ = ["postgres"]

IDS = st.sampled_from(["ann", "bob", "Zoë", "10", "9", "💡", "a" * 300])
ROWS = st.lists(
    st.tuples(
        IDS,
        st.integers(-3, 3) | st.just(2**62),
        st.sampled_from([0.0, 0.25, 1.0, 2.0, 3.0]),
        st.integers(1_700_000_000, 1_700_000_009),
        st.sampled_from(["buy", "view", "return"]),
    ),
    min_size=1,
    max_size=30,
)
HOW: list[dict[str, Any]] = [
    {},
    {"repeats": "once"},
    {"repeats": "max"},
    {"half_life": "2s"},
    {"event_weights": {"buy": 5, "view": 0, "return": -5}},
    {"event_weights": {"buy": 5, "view": 0.5, "return": -1}, "repeats": "max", "half_life": 1},
]
COLUMNS = ("user", "item", "weight", "timestamp", "event")


@pytest.mark.parametrize("has_rest", [True, False], ids=["all columns", "ids alone"])
@settings(max_examples=7)
@given(rows=ROWS, cuts=st.sets(st.integers(1, 29), max_size=3), how=st.sampled_from(HOW))
def test_the_pairs_are_those_of_the_ordinary_reader(
    tmp_path_factory: pytest.TempPathFactory,
    has_rest: bool,
    rows: list[tuple[Any, ...]],
    cuts: set[int],
    how: dict[str, Any],
) -> None:
    folder = tmp_path_factory.mktemp("log")
    columns = dict(zip(COLUMNS, zip(*rows, strict=True), strict=True))
    how = {name: value for name, value in how.items() if has_rest or name == "repeats"}
    if not has_rest:
        columns = {name: columns[name] for name in ("user", "item")}
    pattern = write_parts(folder / "parts", columns, sorted(cut for cut in cuts if cut < len(rows)))
    asked = Columns(event="event" if "event_weights" in how else None)
    try:
        wanted = read(pattern, columns=asked, **how)
    except DataError as refused:
        with pytest.raises(DataError, match=refused.what):
            prepared(pattern, folder / "set", columns=asked, **how)
        return
    found = prepared(pattern, folder / "set", columns=asked, **how)
    assert by_ids(found) == by_ids(wanted)
    assert found.reading == wanted.reading
    assert set(wanted.users.ids.tolist()) <= set(found.users.ids.tolist())
    assert found.users.ids.tolist() == sorted(found.users.ids.tolist())
    if "event_weights" not in how:  # who has only taken back stays, without pairs
        assert (found.n_users, found.n_items) == (wanted.n_users, wanted.n_items)


@pytest.mark.parametrize(
    ("users", "items"),
    [
        (["3.0", "12"], ["3.0", "x"]),
        (["6F9619FF-8B86-D011-B42D-00CF4FC964FF"] * 2, ["b", "a"]),
        ([1.0, 7.0], [2**63 + 5, 4]),
        ([1, 2], ["", " b"]),
        ([1.5, 2.0], ["a", "b"]),
        (["a", None], ["a", "b"]),
        (["3.0", "3"], ["a", "b"]),
        (["3.0", "3", "x"], ["a", "b", "c"]),
    ],
)
def test_ids_have_the_forms_that_they_have_elsewhere(
    tmp_path: Path, users: list[Any], items: list[Any]
) -> None:
    kind = pa.uint64() if 2**63 + 5 in items else None
    table = pa.table({"user": users, "item": pa.array(items, kind)})
    pq.write_table(table, tmp_path / "log.parquet")
    outcomes: list[Any] = []
    for reader in (read, lambda path: prepared(path, tmp_path / "set")):
        try:
            outcomes.append(by_ids(reader(tmp_path / "log.parquet")))
        except DataError as refused:
            outcomes.append((refused.where, refused.what.replace("not a whole", "no whole")))
    assert outcomes[0] == outcomes[1]
    assert (tmp_path / "set").exists() == isinstance(outcomes[1], dict)


def test_bad_rows_are_left_out_and_told(tmp_path: Path) -> None:
    columns = {
        "user": ["a", None, "b", " ", "c", "d"],
        "item": [1, 2, 3, 4, None, 5],
        "weight": [1.0, 1.0, -1.0, 1.0, 1.0, float("nan")],
    }
    pattern = write_parts(tmp_path / "log", columns, [2])
    wanted = read(pattern, on_bad_rows="skip")
    asked, bad = Asked(str(pattern), Columns()), BadRows("skip")
    done = prepare(asked, tmp_path / "set", memory_mb=MEMORY_MB, bad=bad)
    assert by_ids(open_stored(tmp_path / "set").train) == by_ids(wanted)
    assert done.reading is not None
    assert wanted.reading is not None
    assert done.reading.n_dropped == wanted.reading.n_dropped == 5
    assert "part-000.parquet, row 2" in done.reading.bad_rows[0]
    with pytest.raises(DataError, match="5 of 6 rows cannot be used"):
        prepare(asked, tmp_path / "other", memory_mb=MEMORY_MB)
    assert not (tmp_path / "other").exists()


def test_text_is_read_as_elsewhere(tmp_path: Path) -> None:
    lines = [
        "user;item;rating;date",
        "7;x;2;2026-05-01",
        "7;x;1;2026-05-03T12:00",
        "12;y;0.5;2026-05-02",
    ]
    (tmp_path / "log.csv").write_text("\n".join(lines))
    found = prepared(tmp_path / "log.csv", tmp_path / "set")
    assert by_ids(found) == by_ids(read(tmp_path / "log.csv"))
    assert found.users.ids.tolist() == [7, 12]
    assert found.users.ids.dtype == np.int64


OFFSETS = [
    "2024-05-01T00:00:00+02:00",
    "2024-05-01 00:00:00-05:00",
    "2024-05-01T00:00:00.5Z",
    "2024-05-01 00:00:00 UTC",
    "2024-05-01",
]


@pytest.mark.parametrize("form", ["csv", "parquet", "text in parquet"])
def test_times_with_zones_are_read_as_elsewhere_on_every_machine(tmp_path: Path, form: str) -> None:
    log: Any = tmp_path / ("log.csv" if form == "csv" else "log.parquet")
    rows = {"user": list("abcde"), "item": list("xyxyx"), "time": OFFSETS}
    if form == "csv":
        log.write_text(
            "\n".join(",".join(row) for row in [rows, *zip(*rows.values(), strict=True)])
        )
    else:
        times: Any = pa.array(OFFSETS)
        if form == "parquet":
            zoned = [dt.datetime.fromisoformat(one.replace(" UTC", "Z")) for one in OFFSETS]
            zoned = [one if one.tzinfo else one.replace(tzinfo=dt.UTC) for one in zoned]
            times = pa.array(zoned, pa.timestamp("us", tz="America/New_York"))
        pq.write_table(pa.table({**rows, "time": times}), log)
    command = [sys.executable, "-m", "ratiorec", "data", "prepare", log, "-o", tmp_path / "set"]
    command += ["--memory-mb", MEMORY_MB]
    away = {**os.environ, "TZ": "America/New_York"}
    subprocess.run(list(map(str, command)), env=away, check=True, capture_output=True)
    assert by_ids(open_stored(tmp_path / "set").train) == by_ids(read(log))
    moments = read(log).timestamps
    assert moments is not None
    midnight = np.datetime64("2024-05-01", "us").astype(np.int64)
    hours = (moments - midnight) / 3.6e9
    assert hours.tolist() == [-2, 5, 0.5 / 3600, 0, 0]


def places(tmp_path: Path, rows: dict[str, list[Any]]) -> dict[str, tuple[str, str]]:
    """Databases with a table of these rows, by their kind: the place and the query."""
    table = pa.table(rows)
    with duckdb.connect(str(tmp_path / "log.duckdb")) as connection:
        connection.register("rows_of_the_log", table)
        connection.execute("CREATE TABLE log AS SELECT * FROM rows_of_the_log")
    with closing(sqlite3.connect(tmp_path / "log.db")) as connection, connection:
        connection.execute("CREATE TABLE log (customer TEXT, sku INTEGER, day TEXT)")
        connection.executemany("INSERT INTO log VALUES (?, ?, ?)", zip(*rows.values(), strict=True))
    pq.write_table(table, tmp_path / "log.parquet")
    query = "SELECT customer, sku, day AS date FROM log"
    return {
        "duckdb": (str(tmp_path / "log.duckdb"), query),
        "sqlite": (f"sqlite:///{tmp_path / 'log.db'}", query),
        "memory": (":memory:", query.replace("log", f"'{tmp_path / 'log.parquet'}'")),
    }


LOG: dict[str, list[Any]] = {
    "customer": ["ann", "bob", "ann", "ann"],
    "sku": [5, 7, 5, 9],
    "day": ["2026-05-01", "2026-05-02", "2026-05-04", "2026-05-03"],
}


@pytest.mark.parametrize("kind", ["duckdb", "sqlite", "memory"])
def test_a_query_is_streamed(tmp_path: Path, kind: str) -> None:
    place, query = places(tmp_path, LOG)[kind]
    _prepare_query(place, query, tmp_path)
    pq.write_table(pa.table(LOG), tmp_path / "other.parquet")
    wanted = read(tmp_path / "other.parquet", columns=Columns(timestamp="day"))
    assert by_ids(open_stored(tmp_path / "set").train) == by_ids(wanted)


def _prepare_query(place: str, query: str, tmp_path: Path) -> None:
    prepare(Asked(place, Columns(), query), tmp_path / "set", memory_mb=MEMORY_MB)


def test_a_server_of_postgresql_is_streamed(tmp_path: Path, postgres: PostgresServer) -> None:
    url = postgres.new_database()
    postgres.execute("CREATE TABLE log (customer uuid, sku bigint, day timestamptz)", url)
    postgres.execute(
        "INSERT INTO log SELECT md5((n % 50)::text)::uuid, n % 700, "
        "'2026-05-01Z'::timestamptz + n * interval '1 minute' FROM generate_series(1, 150000) n",
        url,
    )
    address = url.replace("postgresql://", "postgresql+psycopg://")
    _prepare_query(address, "SELECT customer, sku, day AS date FROM log", tmp_path)
    found = open_stored(tmp_path / "set").train
    assert (found.n_users, found.n_items, found.n_pairs) == (50, 700, 700)
    assert found.timestamps is not None
    assert found.timestamps.max() - np.asarray(found.earliest).min() == 149_999 * 60_000_000


def test_a_query_that_fails_shows_no_password(tmp_path: Path, postgres: PostgresServer) -> None:
    address = postgres.url().replace("postgresql://", "postgresql+psycopg://")
    with pytest.raises(DataError, match="the query cannot be run") as caught:
        _prepare_query(address, "SELECT * FROM nothing", tmp_path)
    assert "sesame" not in str(caught.value)


@pytest.fixture
def memory_address() -> Iterator[str]:
    fsspec = pytest.importorskip("fsspec")
    files = fsspec.filesystem("memory")
    yield "memory://shop"
    files.rm("/shop", recursive=True)


def test_an_address_is_read_through_fsspec(tmp_path: Path, memory_address: str) -> None:
    import fsspec

    pattern = write_parts(tmp_path / "log", {"user": ["a", "b", "a"], "item": [1, 2, 3]}, [1])
    wanted = by_ids(read(pattern))
    for path in sorted(pattern.parent.iterdir()):
        fsspec.filesystem("memory").pipe(f"/shop/{path.name}", path.read_bytes())
    addresses = (memory_address, f"{memory_address}/*.parquet", f"file://{pattern.parent}")
    for place, address in enumerate(addresses):
        assert by_ids(prepared(address, tmp_path / f"set-{place}")) == wanted, address
    assert load(tmp_path / "set-0").name == "shop"
    with pytest.raises(DataError, match="no files of one format at the address"):
        prepared(f"{memory_address}/nothing", tmp_path / "other")


def test_what_cannot_be_streamed_is_refused_by_name(tmp_path: Path) -> None:
    from pyarrow import feather

    feather.write_feather(pa.table({"user": [1], "item": [2]}), tmp_path / "log.feather")
    (tmp_path / "log.csv").write_text("1,2\n")
    pq.write_table(pa.table({"user": [b"\x01"], "item": [2]}), tmp_path / "bytes.parquet")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "train.txt").write_text("0 1 2\n")
    (tmp_path / "log.csv.xz").write_bytes(lzma.compress(b"user,item\n1,2\n"))
    for data, found in (("log.feather", "Arrow"), ("folder", "LightGCN"), ("log.csv.xz", ".xz")):
        with pytest.raises(DataError, match=f"this format cannot be streamed.*{found}"):
            prepared(tmp_path / data, tmp_path / "set")
    with pytest.raises(DataError, match="standard input"):
        prepared("-", tmp_path / "set")
    with pytest.raises(DataError, match=r"user column cannot hold ids that are streamed.*BLOB"):
        prepared(tmp_path / "bytes.parquet", tmp_path / "set")
    asked = Asked(str(tmp_path / "log.csv"), Columns(), header=False)
    with pytest.raises(ConfigError, match="text without a header"):
        prepare(asked, tmp_path / "set", memory_mb=MEMORY_MB)
    assert not (tmp_path / "set").exists()


@pytest.mark.parametrize(
    ("second", "what", "found"),
    [
        ({"user": [1], "item": ["x"]}, "user columns of different types", "BIGINT, after VARCHAR"),
        ({"user": ["b"], "sku": ["x"]}, "different columns", "item = 'sku'"),
        ({"user": ["b"], "thing": ["x"]}, "no item column", "'thing'"),
    ],
)
def test_a_file_with_other_columns_is_named(
    tmp_path: Path, second: dict[str, list[Any]], what: str, found: str
) -> None:
    for name, rows in (("1", {"user": ["a"], "item": ["x"]}), ("2", second)):
        pq.write_table(pa.table(rows), tmp_path / f"{name}.parquet")
    with pytest.raises(DataError, match=what) as caught:
        prepared(tmp_path / "*.parquet", tmp_path / "set")
    assert caught.value.where == str(tmp_path / "2.parquet")
    assert found in caught.value.found


@pytest.mark.parametrize("damage", ["cut", "altered"])
def test_a_damaged_file_is_named(tmp_path: Path, damage: str) -> None:
    write_parts(tmp_path, {"user": list(map(str, range(5000))), "item": [1] * 5000}, [2000])
    path = tmp_path / "part-001.parquet"
    content = path.read_bytes()
    path.write_bytes(
        content[:-20] if damage == "cut" else content[:50] + b"\xff" * 200 + content[250:]
    )
    with pytest.raises(DataError, match="cannot be read") as caught:
        prepared(tmp_path / "*.parquet", tmp_path / "set")
    assert "part-001.parquet" in str(caught.value)
    assert not (tmp_path / "set").exists()
