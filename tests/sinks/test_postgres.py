from __future__ import annotations

import contextlib
import sys
import threading

import pytest

from ratiorec.errors import MissingExtraError, StorageError
from ratiorec.sinks import Job, sink_of, write_lists
from ratiorec.sinks.postgres import _PostgresDatabase
from support.postgres_server import PASSWORD, PostgresServer
from support.sink_places import Place, expected, small_model

MODEL = small_model()
JOB = Job.of(MODEL, MODEL.users.ids, 5)


def test_the_table_has_its_columns_and_its_key(postgres: PostgresServer) -> None:
    url, text = postgres.new_database(), small_model(["a", "b"])
    write_lists(JOB, sink_of(url, "numbers"))
    write_lists(Job.of(text, text.users.ids), sink_of(url, "Mixed"))
    query = "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = "
    last = [("score", "real"), ("rank", "integer"), ("kind", "text")]
    numbers = postgres.execute(query + "'numbers' ORDER BY ordinal_position", url)
    assert numbers == [("user_id", "bigint"), ("item_id", "bigint"), *last]
    mixed = postgres.execute(query + "'Mixed' ORDER BY ordinal_position", url)
    assert mixed == [("user_id", "text"), ("item_id", "bigint"), *last]
    key = postgres.execute("SELECT pg_get_constraintdef(oid) FROM pg_constraint", url)
    assert ("PRIMARY KEY (user_id, rank)",) in key


def test_a_server_that_goes_away_half_way_loses_nothing(
    postgres: PostgresServer, postgres_place: Place
) -> None:
    said: list[str] = []
    try:
        with pytest.raises(StorageError) as caught:
            write_lists(
                JOB,
                postgres_place.sink,
                users_at_a_time=10,
                progress=lambda done, _: postgres.stop() if done == 40 else None,
                notify=said.append,
            )
        with pytest.raises(StorageError, match="wanted: a server that answers there"):
            write_lists(JOB, postgres_place.sink)
    finally:
        postgres.start()
    assert "the database back; then the same command again" in caught.value.wanted
    assert said[0].endswith("of 60 users are written; the same command goes on after them")
    n_done = int(said[0].split()[0])
    assert n_done in (20, 30)
    written = set(MODEL.users.ids[:n_done].tolist())
    assert postgres_place.rows() == [row for row in expected(MODEL) if row[0] in written]
    said.clear()
    write_lists(JOB, postgres_place.sink, users_at_a_time=10, notify=said.append)
    assert said == [f"{n_done} users were written before; going on after them"]
    assert postgres_place.rows() == expected(MODEL)


def test_nothing_is_logged_when_a_server_goes_away(
    postgres: PostgresServer, postgres_place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    try:
        with pytest.raises(StorageError):
            write_lists(
                JOB,
                postgres_place.sink,
                users_at_a_time=10,
                progress=lambda done, _: postgres.stop() if done == 40 else None,
            )
    finally:
        postgres.start()
    assert caplog.messages == []


@pytest.mark.parametrize("fault", ["password", "user", "port", "option"])
def test_a_database_that_cannot_be_reached_is_told_without_the_password(
    postgres: PostgresServer, fault: str
) -> None:
    url = {
        "password": postgres.url().replace("sesame", "barley"),
        "user": postgres.url(user="nobody"),
        "port": postgres.url().replace(str(postgres.port), "1"),
        "option": f"postgresql://127.0.0.1:{postgres.port}/postgres?password=sesame&sesame=1",
    }[fault]
    with pytest.raises(StorageError, match=r"127\.0\.0\.1") as caught:
        write_lists(JOB, sink_of(url))
    assert "sesame" not in str(caught.value)
    assert "barley" not in str(caught.value)


def test_a_database_that_is_not_there_is_told(postgres: PostgresServer) -> None:
    with pytest.raises(
        StorageError, match=r'"nowhere" does not exist; wanted: .*, a database that'
    ):
        write_lists(JOB, sink_of(postgres.url("nowhere")))


def test_a_table_with_other_columns_is_refused_before_ranking(postgres: PostgresServer) -> None:
    url, ranked = postgres.new_database(), []
    postgres.execute("CREATE TABLE recommendations (user_id uuid, item_id bigint)", url)
    with pytest.raises(StorageError) as caught:
        write_lists(JOB, sink_of(url), progress=lambda done, _: ranked.append(done))
    assert "other columns" in caught.value.what
    assert caught.value.found == "user_id uuid, item_id bigint"
    assert ranked == []
    assert postgres.execute("SELECT to_regclass('ratiorec_progress')", url) == [(None,)]


@pytest.mark.parametrize("right", ["create", "write"])
def test_a_role_without_rights_is_refused_before_ranking(
    postgres: PostgresServer, right: str
) -> None:
    url, ranked = postgres.new_database(), []
    role = f"reader_{right}"
    postgres.execute(f"CREATE ROLE {role} LOGIN PASSWORD '{PASSWORD}'", url)
    postgres.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC", url)
    if right == "write":
        write_lists(JOB, sink_of(url))
        postgres.execute(f"GRANT ALL ON ratiorec_progress TO {role}", url)
        postgres.execute(f"GRANT SELECT ON recommendations TO {role}", url)
    as_role = postgres.url(url.rpartition("/")[2], user=role)
    with pytest.raises(StorageError, match=r"permission denied|no right to INSERT"):
        write_lists(JOB, sink_of(as_role), progress=lambda done, _: ranked.append(done))
    assert ranked == []


def test_an_id_that_the_database_cannot_hold_is_refused_and_nothing_is_written(
    postgres_place: Place,
) -> None:
    model = small_model(["a", "b\0c", "d"])
    with pytest.raises(StorageError, match="could not be written"):
        write_lists(Job.of(model, model.users.ids), postgres_place.sink)
    assert postgres_place.rows() == []


@pytest.mark.parametrize("k", [3, 5])
def test_a_second_command_for_the_same_table_is_noticed(postgres_place: Place, k: int) -> None:
    place = postgres_place.sink

    def second(done: int, _: int) -> None:
        if done == 40:
            write_lists(Job.of(MODEL, MODEL.users.ids, k), place, users_at_a_time=30)

    with pytest.raises(StorageError, match="another command writes lists to the same table"):
        write_lists(JOB, place, users_at_a_time=10, progress=second)
    write_lists(Job.of(MODEL, MODEL.users.ids, k), place)  # either may have been the one
    assert postgres_place.rows() == expected(MODEL, k)


def test_two_first_commands_at_once_are_told_of_each_other(
    postgres_place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    both_have_looked, outcomes = threading.Barrier(2), list[StorageError]()
    columns = _PostgresDatabase.columns

    def slowly(self: _PostgresDatabase, table: str) -> dict[str, str]:
        found = columns(self, table)
        with contextlib.suppress(threading.BrokenBarrierError):  # the other waits for us
            both_have_looked.wait(1)
        return found

    def write() -> None:
        try:
            write_lists(JOB, postgres_place.sink, users_at_a_time=10)
        except StorageError as error:
            outcomes.append(error)

    monkeypatch.setattr(_PostgresDatabase, "columns", slowly)
    threads = [threading.Thread(target=write) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcomes) <= 1  # one has come to its end
    assert [error.what for error in outcomes] == [
        "another command writes lists to the same table" for _ in outcomes
    ]
    assert postgres_place.rows() == expected(MODEL)


def test_without_its_driver_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtraError, match=r"ratiorec\[postgres\]"):
        write_lists(JOB, sink_of("postgresql://db/shop"))
