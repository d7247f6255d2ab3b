"""The event loop of docs/how-to/event-loop.md: a Redis stream, PostgreSQL, and a fit from it."""

from __future__ import annotations

import importlib
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.postgres_server import PostgresServer, postgres
from support.redis_server import redis_server

__all__ = ["postgres"]

ROOT = Path(__file__).parents[2]
WORKER = ROOT / "examples" / "event_loop.py"
PAGE = ROOT / "docs" / "how-to" / "event-loop.md"
PATIENCE = 60


@pytest.fixture(scope="module")
def queue_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    pytest.importorskip("redis", reason="the package redis is not installed")
    with redis_server(tmp_path_factory.mktemp("redis")) as url:
        yield url


@pytest.fixture
def queue(queue_url: str) -> Any:
    client = importlib.import_module("redis").Redis.from_url(queue_url, decode_responses=True)
    client.flushall()
    return client


@contextmanager
def worker(queue_url: str, database: str, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, WORKER, "--redis", queue_url, "--database", database, *words]
    with subprocess.Popen(command) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for(is_so: Callable[[], bool]) -> None:
    started = time.monotonic()
    while not is_so():
        assert time.monotonic() - started < PATIENCE, "it has not come to that"
        time.sleep(0.05)


def add(queue: Any, n: int, **fields: str) -> None:
    for place in range(n):
        user, item = f"u{place % 20}", f"i{place % 7 + place % 20 % 3}"
        queue.xadd("events", {"user": user, "item": item, "kind": "purchase", **fields})


def test_every_event_is_in_the_table_once_whoever_is_killed(
    queue: Any, queue_url: str, postgres: PostgresServer
) -> None:
    database = postgres.new_database()

    def n_rows() -> int:
        return int(postgres.execute("SELECT count(*) FROM events", database)[0][0])

    add(queue, 900)
    with worker(queue_url, database, "--name", "first") as first:
        wait_for(lambda: queue.exists("events") and bool(queue.xinfo_groups("events")))
        first.send_signal(signal.SIGKILL)  # in the middle of a batch, or between two
        first.wait()
    # taken by somebody who never stored it
    queue.xadd("events", {"user": "ann", "item": "tea", "kind": "purchase"})
    queue.xreadgroup("warehouse", "lost", {"events": ">"}, count=10_000)
    with worker(queue_url, database, "--lost-after-ms", "1") as second:
        wait_for(lambda: queue.xpending("events", "warehouse")["pending"] == 0)
        assert n_rows() == 901
        queue.xadd("events", {"user": "ann", "item": "jam", "kind": "purchase", "variant": "b"})
        wait_for(lambda: n_rows() == 902)
        second.terminate()
        assert second.wait(PATIENCE) == 0
    found = postgres.execute("SELECT user_id, item_id, variant FROM events ORDER BY id", database)
    assert found[-1] == ("ann", "jam", "b")


def test_an_event_that_no_table_can_hold_is_set_aside_and_holds_nobody_up(
    queue: Any, queue_url: str, postgres: PostgresServer
) -> None:
    database = postgres.new_database()
    queue.xadd("events", {"user": "bob", "kind": "purchase"})
    queue.xadd("events", {"user": "bo\0b", "item": "tea", "kind": "purchase"})
    queue.execute_command("XADD", "events", "*", "user", b"\xff", "item", "tea", "kind", "view")
    with worker(queue_url, database):
        wait_for(lambda: bool(queue.xlen("events") == 3 and queue.xinfo_groups("events")))
        wait_for(lambda: queue.xinfo_groups("events")[0]["lag"] == 0)
        wait_for(lambda: queue.xpending("events", "warehouse")["pending"] == 0)
    assert postgres.execute("SELECT user_id, item_id FROM events", database) == [("\ufffd", "tea")]
    refused = [fields["user"] for _, fields in queue.xrange("events:refused")]
    assert refused == ["bob", "bo\0b"]


def test_a_model_is_fitted_to_the_table(
    queue: Any, queue_url: str, postgres: PostgresServer, tmp_path: Path
) -> None:
    database = postgres.new_database()
    add(queue, 140, variant="a")
    with worker(queue_url, database):
        wait_for(lambda: bool(queue.exists("events") and queue.xinfo_groups("events")))
        wait_for(lambda: postgres.execute("SELECT count(*) FROM events", database) == [(140,)])
        queue.xadd("events", {"user": "zoe", "item": "i0", "kind": "purchase"})
        wait_for(lambda: postgres.execute("SELECT count(*) FROM events", database) == [(141,)])
    fit = ("--sql", "SELECT user_id, item_id, at AS timestamp, kind FROM events LIMIT 140")
    weights = ("--event-weights", "purchase=5,view=1,return=-5", "--half-life", "30d")
    done = run("fit", database, tmp_path, *fit, "--event-column", "kind", *weights, "-o", "model")
    assert "140 rows" in done.stderr
    assert json.loads(done.stdout)["preset"] == "item-knn"
    update = ("--sql", "SELECT user_id, item_id FROM events WHERE kind = 'purchase'")
    done = run("update model", database, tmp_path, *update)
    assert json.loads(done.stdout)["users"] == 1


def run(command: str, database: str, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    address = database.replace("postgresql:", "postgresql+psycopg:")
    preset = ("--preset", "item-knn") if command == "fit" else ()
    line = [sys.executable, "-m", "ratiorec", *command.split(), address, *words, *preset, "--json"]
    done = subprocess.run(line, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done


def test_the_query_of_the_page_counts_users_and_not_their_events(
    queue: Any, queue_url: str, postgres: PostgresServer
) -> None:
    (query,) = re.findall(r"```sql\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    database = postgres.new_database()
    seen = [("ann", "a"), ("ann", "a"), ("bob", "a"), ("cy", "b"), ("dee", "b"), ("eve", "b")]
    for user, variant in seen:
        queue.xadd("events", {"user": user, "item": "tea", "kind": "show", "variant": variant})
    for item in ("tea", "jam"):
        queue.xadd("events", {"user": "ann", "item": item, "kind": "purchase", "variant": "a"})
    with worker(queue_url, database):
        wait_for(lambda: bool(queue.exists("events") and queue.xinfo_groups("events")))
        wait_for(lambda: postgres.execute("SELECT count(*) FROM events", database) == [(8,)])
    a, b = postgres.execute(query, database)
    assert a == ("a", 2, 0.5, pytest.approx(1.96 * (0.5 * 0.5 / 2) ** 0.5))
    assert b == ("b", 3, 0.0, 0.0)
