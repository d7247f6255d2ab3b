"""Lists for everyone into files and databases, when all goes well and when it does not."""

from __future__ import annotations

import contextlib
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ratiorec.model.artifact import Artifact
from support.command_line import CommandLine, full_disk
from support.postgres_server import PASSWORD, PostgresServer, postgres
from support.sink_places import expected, in_parquet, in_sqlite, small_model

__all__ = ["postgres"]

MANY = small_model(n_users=2_000)
ENOUGH = small_model(n_users=600)
ONE_BY_ONE = ("--block-users", 1, "-k", 5)


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """A model of so many users that their lists do not fit on a small disk."""
    MANY.save(tmp_path / "many")
    return tmp_path / "many"


@pytest.fixture
def enough(tmp_path: Path) -> Path:
    """A model of so many users that a command for one after another can be met half-way."""
    ENOUGH.save(tmp_path / "enough")
    return tmp_path / "enough"


def test_everyone_goes_to_sqlite(cli: CommandLine, model: Path, trained: Artifact) -> None:
    outcome = cli("recommend", model, "--all", "-k", 5, "-o", "sqlite:///lists.db")
    assert (outcome.code, outcome.out) == (0, "")
    assert outcome.err == "300 rows in table recommendations of sqlite:///lists.db\n"
    assert in_sqlite(Path("lists.db")) == expected(trained)


def test_the_summary_of_a_table_is_json_too(cli: CommandLine, model: Path) -> None:
    words = ("-k", 5, "-o", "sqlite:///lists.db", "--table", "home", "--json")
    found = cli("recommend", model, "--all", *words).json
    place = {"database": "sqlite:///lists.db", "table": "home"}
    assert found == {"rows": 300, "users": 60, **place}


def test_everyone_goes_to_postgresql_and_the_password_nowhere(
    cli: CommandLine, model: Path, trained: Artifact, postgres: PostgresServer
) -> None:
    url = postgres.new_database()
    words = ("recommend", model, "--all", "-k", 5, "-o", url, "--table", "home")
    for more in ((), ("--json",)):
        outcome = cli(*words, *more)
        assert outcome.code == 0, outcome.err
        assert "sesame" not in outcome.out + outcome.err
        found = postgres.execute("SELECT user_id, item_id, rank FROM home ORDER BY 1, 3", url)
        assert found == [(user, item, rank) for user, item, _, rank, _ in expected(trained)]
    postgres.execute("ALTER TABLE home DROP COLUMN score", url)
    refused = cli(*words).refusal
    assert "other columns" in refused
    assert "sesame" not in refused
    assert PASSWORD == "open:sesame"


@pytest.mark.parametrize("end", ["shop", "shop.parquet"])
def test_lists_for_histories_go_to_no_database_and_the_password_nowhere(
    cli: CommandLine, model: Path, trained: Artifact, end: str
) -> None:
    history = ",".join(trained.items.ids[:3])
    url = f"postgresql://ada:sesame@db/{end}"
    refused = cli("recommend", model, "--history", history, "-o", url).refusal
    assert f"found: postgresql://ada@db/{end};" in refused
    assert "sesame" not in refused


def test_a_table_cannot_smuggle_a_statement_in(cli: CommandLine, model: Path) -> None:
    name = 'x"; DROP TABLE recommendations; --'
    outcome = cli("recommend", model, "--all", "-o", "sqlite:///lists.db", "--table", name)
    assert "letters, digits and underscores" in outcome.refusal
    assert not Path("lists.db").exists()


def test_a_table_without_a_database_is_refused(cli: CommandLine, model: Path) -> None:
    assert "a table needs a database" in cli("recommend", model, "--all", "--table", "x").refusal


def test_a_table_with_other_columns_is_refused(cli: CommandLine, model: Path) -> None:
    with closing(sqlite3.connect("lists.db")) as connection:
        connection.execute("CREATE TABLE recommendations (name TEXT)")
    outcome = cli("recommend", model, "--all", "-o", "sqlite:///lists.db")
    assert (
        "found: name text; wanted: user_id text, item_id text, score real, rank" in outcome.refusal
    )


@pytest.mark.parametrize("place", ["lists.parquet", "sqlite:///lists.db"])
def test_a_disk_that_fills_up_half_way_loses_nothing(
    cli: CommandLine, many: Path, tmp_path: Path, place: str
) -> None:
    words = ("recommend", many, "--all", "-k", 5, "--block-users", 100, "-o", place)
    with full_disk(30_000):
        outcome = cli(*words)
    assert "could not" in outcome.refusal
    kept, _ = outcome.err.splitlines()
    assert kept.endswith("of 2,000 users are written; the same command goes on after them")
    again = cli(*words)
    assert again.code == 0
    assert again.err.startswith(kept.split()[0] + " users were written before; going on")
    assert rows_in(tmp_path, place) == expected(MANY)


def test_a_run_may_be_started_anew(cli: CommandLine, many: Path, tmp_path: Path) -> None:
    words = ("recommend", many, "--all", "-k", 5, "--block-users", 100, "-o", "lists.parquet")
    with full_disk(30_000):
        assert cli(*words).code == 2
    assert cli(*words, "--no-resume").err == "9,995 rows in lists.parquet\n" + NOBODY_LEFT
    assert in_parquet(tmp_path / "lists.parquet") == expected(MANY)


NOBODY_LEFT = "1 of 2,000 users have no item left to list\n"


@pytest.mark.parametrize("place", ["lists.parquet", "sqlite:///lists.db"])
def test_a_killed_command_run_again_finishes_with_the_same_rows(
    cli: CommandLine, enough: Path, tmp_path: Path, place: str
) -> None:
    words = ("recommend", enough, "--all", *ONE_BY_ONE, "-o", place)
    process = started(words, tmp_path)
    wait_until(lambda: n_done(tmp_path, place) >= 20, process)
    process.kill()
    process.communicate()
    assert 20 <= n_done(tmp_path, place) < 600
    assert not (tmp_path / "lists.parquet").exists()
    done = cli(*words)
    assert done.code == 0, done.err
    assert "users were written before; going on after them" in done.err
    assert rows_in(tmp_path, place) == expected(ENOUGH)


def test_a_database_that_goes_away_half_way_is_told_and_the_same_command_finishes(
    cli: CommandLine, enough: Path, tmp_path: Path, postgres: PostgresServer
) -> None:
    url = postgres.new_database()
    words = ("recommend", enough, "--all", *ONE_BY_ONE, "-o", url)
    process = started(words, tmp_path)
    try:
        wait_until(lambda: n_done_in(postgres, url) >= 20, process)
        postgres.stop()
        out, err = process.communicate()
    finally:
        postgres.start()
    assert (process.returncode, out) == (2, "")
    kept, refusal = err.splitlines()
    assert kept.endswith("of 600 users are written; the same command goes on after them")
    assert refusal.startswith("ratiorec: the rows could not be written to the database (where: ")
    assert "sesame" not in err
    lists = "SELECT user_id, item_id, rank FROM recommendations ORDER BY 1, 3"
    rows = [(user, item, rank) for user, item, _, rank, _ in expected(ENOUGH)]
    n_users = n_done_in(postgres, url)
    n_told = int(kept.split()[0].replace(",", ""))
    assert n_users - n_told in (0, 1)  # the answer to the last commit may be lost on its way
    assert postgres.execute(lists, url) == [row for row in rows if row[0] < 3 * n_users]
    done = cli(*words)
    assert done.code == 0, done.err
    assert done.err.startswith(f"{n_users:,} users were written before")
    assert postgres.execute(lists, url) == rows


def test_a_killed_command_leaves_whole_lists_in_postgresql(
    cli: CommandLine, enough: Path, tmp_path: Path, postgres: PostgresServer
) -> None:
    url = postgres.new_database()
    words = ("recommend", enough, "--all", *ONE_BY_ONE, "-o", url)
    process = started(words, tmp_path)
    wait_until(lambda: n_done_in(postgres, url) >= 20, process)
    process.kill()
    process.communicate()
    done = cli(*words)
    assert done.code == 0, done.err
    lists = "SELECT user_id, item_id, rank FROM recommendations ORDER BY 1, 3"
    rows = [(user, item, rank) for user, item, _, rank, _ in expected(ENOUGH)]
    assert postgres.execute(lists, url) == rows


def started(words: tuple[object, ...], folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "ratiorec.cli", *map(str, words)],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_until(reached: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    while not reached():
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)


def rows_in(folder: Path, place: str) -> list[tuple[object, ...]]:
    if place.endswith(".parquet"):
        return list(in_parquet(folder / place))
    return list(in_sqlite(folder / "lists.db"))


def n_done(folder: Path, place: str) -> int:
    """Users whose lists are written for good."""
    if place.endswith(".parquet"):
        return len(list(folder.glob(".lists.parquet.*.parts/users-*.arrow")))
    with (
        contextlib.suppress(sqlite3.Error, TypeError),  # no file, no table, no row yet
        closing(sqlite3.connect(f"file:{folder / 'lists.db'}?mode=ro", uri=True)) as connection,
    ):
        return int(connection.execute("SELECT n_done FROM ratiorec_progress").fetchone()[0])
    return 0


def n_done_in(postgres: PostgresServer, url: str) -> int:
    if postgres.execute("SELECT to_regclass('ratiorec_progress')", url) == [(None,)]:
        return 0
    return max(
        (n for (n,) in postgres.execute("SELECT n_done FROM ratiorec_progress", url)), default=0
    )


def test_an_engine_writes_a_folder_of_parts(
    cli: CommandLine, model: Path, trained: Artifact, tmp_path: Path
) -> None:
    words = ("recommend", model, "--all", "-k", 5, "-o", "lists", "--engine", "local")
    outcome = cli(*words, "--block-users", 25)
    assert (outcome.code, outcome.out) == (0, "")
    assert outcome.err == f"300 rows in {tmp_path}/lists\n"
    lists = trained.recommend(trained.users.ids, 5).to_dicts()
    assert pq.read_table(tmp_path / "lists").to_pylist() == lists
    found = cli(*words, "--json").json
    assert found == {"rows": 300, "users": 60, "folder": f"{tmp_path}/lists"}
    assert "k = 5 there, 3 asked for" in cli(*words, "-k", 3).refusal


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("-o", "lists", "--workers", 2), "only Ray has workers"),
        (("-o", "lists", "--engine", "local", "--worker-cores", 2), "only Ray has workers"),
        (("--engine", "local"), "an engine writes a folder of parts"),
        (("--engine", "local", "-o", "lists", "--table", "x"), "an engine writes a folder"),
        (("--engine", "local", "-o", "postgresql://ada:sesame@db/x"), "names no store"),
    ],
)
def test_options_that_no_engine_fits_are_refused(
    cli: CommandLine, model: Path, words: tuple[object, ...], told: str
) -> None:
    refused = cli("recommend", model, "--all", *words).refusal
    assert told in refused
    assert "sesame" not in refused
