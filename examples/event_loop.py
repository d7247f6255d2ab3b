"""Events of a shop: from a Redis stream into PostgreSQL, each exactly once in the table.

The pages of the shop say what happened with one `XADD`:

    XADD events * user ada item tea kind purchase variant b model 9f2c1f0b6f5d4c3a

This program copies them into a table, from which `ratiorec fit` reads and by which variants are
judged (docs/how-to/event-loop.md). Run as many of it as you like:

    pip install redis 'psycopg[binary]'
    python event_loop.py --redis redis://localhost --database postgresql://localhost/shop

A row is committed before its event is acknowledged, so an event may come twice, never not at all;
the id that Redis gave it is the key of the table, so the second time changes nothing. What a lost
worker has taken, another one claims.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
from collections.abc import Callable
from typing import Any

import psycopg
import redis

STREAM, GROUP = "events", "warehouse"
REFUSED = "events:refused"
TABLE = """
CREATE TABLE IF NOT EXISTS events (
    id text PRIMARY KEY,
    at timestamptz NOT NULL,
    user_id text NOT NULL,
    item_id text NOT NULL,
    kind text NOT NULL,
    variant text,
    model text
);
CREATE INDEX IF NOT EXISTS events_at ON events (at);
"""
INSERT = """
INSERT INTO events VALUES (
    %(id)s, to_timestamp(%(at)s), %(user)s, %(item)s, %(kind)s, %(variant)s, %(model)s
) ON CONFLICT (id) DO NOTHING
"""
REQUIRED, OPTIONAL = ("user", "item", "kind"), ("variant", "model")
AT_ONCE = 500
Event = tuple[str, dict[str, str]]


def main() -> None:
    """Copy until SIGTERM or SIGINT."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--redis", required=True)
    options.add_argument("--database", required=True)
    options.add_argument("--name", default=f"{socket.gethostname()}-{os.getpid()}")
    options.add_argument("--lost-after-ms", type=int, default=60_000)
    asked = options.parse_args()
    is_asked_to_stop = []
    for sign in (signal.SIGTERM, signal.SIGINT):
        signal.signal(sign, lambda *_: is_asked_to_stop.append(True))
    queue = redis.Redis.from_url(
        asked.redis, protocol=2, decode_responses=True, encoding_errors="replace"
    )
    with psycopg.connect(asked.database) as database:
        copy(
            queue,
            database,
            name=asked.name,
            lost_after_ms=asked.lost_after_ms,
            is_over=lambda: bool(is_asked_to_stop),
        )


def copy(
    queue: Any,
    database: psycopg.Connection[Any],
    *,
    name: str,
    lost_after_ms: int,
    is_over: Callable[[], bool],
) -> None:
    """Batches of events into the table, first those that a lost worker has left."""
    make_places(queue, database)
    while not is_over():
        claimed = queue.xautoclaim(STREAM, GROUP, name, lost_after_ms, count=AT_ONCE)[1]
        taken = claimed or new_events(queue, name)
        if taken:
            store(queue, database, taken)
            queue.xack(STREAM, GROUP, *(event_id for event_id, _ in taken))


def make_places(queue: Any, database: psycopg.Connection[Any]) -> None:
    """The table and the group of workers, where they are not there yet."""
    with database.transaction():
        database.execute("SELECT pg_advisory_xact_lock(hashtext('events'))")
        database.execute(TABLE)
    try:
        queue.xgroup_create(STREAM, GROUP, id="0", mkstream=True)
    except redis.ResponseError as error:
        if "BUSYGROUP" not in str(error):
            raise


def new_events(queue: Any, name: str) -> list[Event]:
    """Events that nobody has taken; waits for up to a second."""
    streams = queue.xreadgroup(GROUP, name, {STREAM: ">"}, count=AT_ONCE, block=1000)
    return [event for _, events in streams or () for event in events]


def store(queue: Any, database: psycopg.Connection[Any], events: list[Event]) -> None:
    """One transaction; what the table cannot hold goes into a stream of its own."""
    with database.transaction(), database.cursor() as cursor:
        cursor.executemany(INSERT, [row_of(event) for event in events if is_whole(event[1])])
    for event_id, fields in events:
        if not is_whole(fields):
            queue.xadd(REFUSED, {**fields, "id": event_id}, maxlen=10_000)


def is_whole(fields: dict[str, str]) -> bool:
    """Whether nothing is missing, and nothing is there that PostgreSQL has no text for."""
    is_there = all(fields.get(name) for name in REQUIRED)
    return is_there and not any("\0" in text for text in fields.values())


def row_of(event: Event) -> dict[str, Any]:
    """The row of an event; its time is that at which Redis took it."""
    event_id, fields = event
    known = {name: fields.get(name) for name in (*REQUIRED, *OPTIONAL)}
    return {"id": event_id, "at": int(event_id.partition("-")[0]) / 1000, **known}


if __name__ == "__main__":
    main()
