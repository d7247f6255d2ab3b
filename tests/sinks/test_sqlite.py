from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from ratiorec.errors import StorageError
from ratiorec.sinks import Job, Sqlite, write_lists
from support.command_line import full_disk
from support.sink_places import (
    PulledPlugError,
    expected,
    in_sqlite,
    small_model,
    stop_after,
)

MODEL = small_model()
JOB = Job.of(MODEL, MODEL.users.ids, 5)
LARGE = small_model(n_users=600)


def query(path: Path, statement: str) -> list[Any]:
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute(statement).fetchall()
        connection.commit()
        return rows


def test_ids_have_the_type_of_the_model(tmp_path: Path) -> None:
    text = small_model(["a", "b"])
    write_lists(JOB, Sqlite(tmp_path / "lists.db", "numbers"))
    write_lists(Job.of(text, text.users.ids), Sqlite(tmp_path / "lists.db", "mixed"))
    kinds = "SELECT type FROM pragma_table_info('{}')"
    assert query(tmp_path / "lists.db", kinds.format("numbers")) == [
        *(("BIGINT",), ("BIGINT",), ("REAL",), ("INTEGER",), ("TEXT",))
    ]
    assert query(tmp_path / "lists.db", kinds.format("mixed"))[:2] == [("TEXT",), ("BIGINT",)]


def test_two_tables_have_a_progress_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "lists.db"
    for table in ("a", "b"):
        write_lists(JOB, Sqlite(path, table))
    found = query(path, "SELECT table_name, n_done, n_users, n_rows FROM ratiorec_progress")
    assert found == [("a", 60, 60, 295), ("b", 60, 60, 295)]


def test_users_who_were_not_asked_for_keep_their_lists(tmp_path: Path) -> None:
    path = tmp_path / "lists.db"
    write_lists(JOB, Sqlite(path))
    write_lists(Job.of(MODEL, [3, 6], 2), Sqlite(path))
    kept = [row for row in expected(MODEL) if row[0] not in (3, 6)]
    new = [row for row in expected(MODEL, 2) if row[0] in (3, 6)]
    assert in_sqlite(path) == sorted(kept + new, key=lambda row: (row[0], row[3]))


def test_other_tables_of_the_file_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "lists.db"
    query(path, "CREATE TABLE shop (name)")
    query(path, "INSERT INTO shop VALUES ('tea')")
    write_lists(JOB, Sqlite(path))
    assert query(path, "SELECT * FROM shop") == [("tea",)]


@pytest.mark.parametrize(
    "columns",
    [
        "user_id bigint",
        "user_id text, item_id bigint, score real, rank integer",
        "user_id bigint, item_id bigint, score real, rank integer, more text",
        "name",
    ],
)
def test_a_table_with_other_columns_is_refused_before_ranking(tmp_path: Path, columns: str) -> None:
    path, ranked = tmp_path / "lists.db", []
    query(path, f"CREATE TABLE recommendations ({columns})")
    with pytest.raises(StorageError) as caught:
        write_lists(JOB, Sqlite(path), progress=lambda done, _: ranked.append(done))
    assert "other columns" in caught.value.what
    assert "table recommendations" in caught.value.where
    assert caught.value.found == columns
    assert "user_id bigint, item_id bigint, score real, rank integer" in caught.value.wanted
    assert ranked == []
    assert query(path, "SELECT name FROM sqlite_master") == [("recommendations",)]


def test_a_locked_file_is_told_before_ranking(tmp_path: Path) -> None:
    path, ranked = tmp_path / "lists.db", []
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StorageError, match=r"database is locked; wanted: .* the same command"):
            write_lists(
                JOB,
                Sqlite(path, seconds_to_wait=0.05),
                progress=lambda done, _: ranked.append(done),
            )
    assert ranked == []
    write_lists(JOB, Sqlite(path))
    assert in_sqlite(path) == expected(MODEL)


def test_a_file_that_is_locked_half_way_keeps_whole_blocks(tmp_path: Path) -> None:
    path, said = tmp_path / "lists.db", []
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:

        def lock(done: int, _: int) -> None:
            # by then the first block is written, and perhaps the second
            if done == 30:
                other.execute("PRAGMA busy_timeout = 5000")
                other.execute("BEGIN IMMEDIATE")

        with pytest.raises(StorageError, match="database is locked"):
            write_lists(
                JOB,
                Sqlite(path, seconds_to_wait=0.05),
                users_at_a_time=10,
                progress=lock,
                notify=said.append,
            )
    (n_done,) = query(path, "SELECT n_done FROM ratiorec_progress")[0]
    assert n_done in (10, 20)
    assert said == [f"{n_done} of 60 users are written; the same command goes on after them"]
    written = set(MODEL.users.ids[:n_done].tolist())
    assert in_sqlite(path) == [row for row in expected(MODEL) if row[0] in written]
    write_lists(JOB, Sqlite(path), users_at_a_time=10)
    assert in_sqlite(path) == expected(MODEL)


def test_a_disk_that_fills_up_keeps_whole_blocks_and_the_job_goes_on(tmp_path: Path) -> None:
    path, said = tmp_path / "lists.db", []
    job = Job.of(LARGE, LARGE.users.ids, 20)
    with full_disk(100_000), pytest.raises(StorageError) as caught:
        write_lists(job, Sqlite(path), users_at_a_time=50, notify=said.append)
    assert "room on the disk" in caught.value.wanted
    (n_done,) = query(path, "SELECT n_done FROM ratiorec_progress")[0]
    assert 0 < n_done < 600
    assert said == [f"{n_done} of 600 users are written; the same command goes on after them"]
    written = set(LARGE.users.ids[:n_done].tolist())
    assert in_sqlite(path) == [row for row in expected(LARGE, 20) if row[0] in written]
    assert query(path, "PRAGMA integrity_check") == [("ok",)]
    write_lists(job, Sqlite(path), users_at_a_time=50)
    assert in_sqlite(path) == expected(LARGE, 20)


def test_a_file_that_is_no_database_is_refused_and_left(tmp_path: Path) -> None:
    path = tmp_path / "lists.db"
    path.write_bytes(b"a letter to a friend" * 100)
    with pytest.raises(StorageError, match="wanted: an SQLite file, or a path"):
        write_lists(JOB, Sqlite(path))
    assert path.read_bytes() == b"a letter to a friend" * 100


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="a folder that exists"):
        write_lists(JOB, Sqlite(tmp_path / "missing" / "lists.db"))


@pytest.mark.parametrize("shut", ["file", "folder"])
def test_a_place_without_permission_is_told(shut: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lists.db"
        write_lists(JOB, Sqlite(path))
        path.chmod(0o444)
        Path(folder).chmod(0o555)
        with (
            without_privileges(),
            pytest.raises(StorageError, match="may be written to"),
        ):
            write_lists(JOB, Sqlite(path if shut == "file" else Path(folder) / "other.db"))
        assert in_sqlite(path) == expected(MODEL)
        Path(folder).chmod(0o755)


@contextmanager
def without_privileges() -> Iterator[None]:
    """Root may write everywhere, so be someone else for a while."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.parametrize("k", [3, 5])
def test_a_second_command_for_the_same_table_is_noticed(tmp_path: Path, k: int) -> None:
    path = tmp_path / "lists.db"

    def second(done: int, _: int) -> None:
        if done == 40:
            write_lists(Job.of(MODEL, MODEL.users.ids, k), Sqlite(path), users_at_a_time=30)

    with pytest.raises(StorageError, match="another command writes lists to the same table"):
        write_lists(JOB, Sqlite(path), users_at_a_time=10, progress=second)
    write_lists(Job.of(MODEL, MODEL.users.ids, k), Sqlite(path))  # either may have been the one
    assert in_sqlite(path) == expected(MODEL, k)


def test_going_on_in_a_locked_file_is_refused_before_ranking(tmp_path: Path) -> None:
    path, ranked = tmp_path / "lists.db", []
    with pytest.raises(PulledPlugError):
        write_lists(JOB, Sqlite(path), users_at_a_time=10, progress=stop_after(35))
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StorageError, match="database is locked"):
            write_lists(
                JOB,
                Sqlite(path, seconds_to_wait=0.05),
                progress=lambda done, _: ranked.append(done),
            )
    assert ranked == []
