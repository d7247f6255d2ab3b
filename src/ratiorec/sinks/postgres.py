"""A table in a PostgreSQL database."""

from __future__ import annotations

import contextlib
import csv
import io
import math
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from ratiorec.errors import StorageError, require_extra
from ratiorec.sinks.job import Block, Job, Notify
from ratiorec.sinks.sql import PROGRESS, TableWriting, definition, list_rows, quoted

if TYPE_CHECKING:
    from psycopg import Connection


_PATIENCE = {"connect_timeout": "10", "tcp_user_timeout": "60000"}
"""Seconds to connect and milliseconds without an answer, unless the URL says otherwise."""

_BACK = "the database back; then the same command again"
_REACHABLE = "a server that answers there, a database that exists, a user that it accepts"
_WANTED = {
    "08": _BACK,
    "42501": "a role that may create the table, or delete and insert its rows",
    "53100": "room on the server's disk; then the same command again",
    "57": _BACK,
}


@dataclass(frozen=True)
class Postgres:
    """A table of lists in a PostgreSQL database, reached by `url`; `where` is what is shown."""

    url: str = field(repr=False)
    where: str
    table: str = "recommendations"
    secrets: tuple[str, ...] = field(default=(), repr=False)

    def describe(self) -> dict[str, str]:
        return {"database": self.where, "table": self.table}

    @contextlib.contextmanager
    def open(self, job: Job, *, resume: bool, notify: Notify) -> Iterator[TableWriting]:
        with closing(self.connect()) as connection:
            writing = TableWriting(_PostgresDatabase(self, connection), self.table, job)
            writing.prepare(resume=resume, notify=notify)
            yield writing

    def connect(self, *, where: str = "-o postgresql://…") -> Connection[Any]:
        """A connection to the database; `where` is named if the driver is not installed."""
        psycopg = require_extra("psycopg", "postgres", where=where)
        with self.told(_REACHABLE):
            given = psycopg.conninfo.conninfo_to_dict(self.url)
            # statements are not prepared, so that a pool between us and the server does no harm
            connection: Connection[Any] = psycopg.connect(
                self.url,
                autocommit=True,
                prepare_threshold=None,
                **{name: value for name, value in _PATIENCE.items() if name not in given},
            )
        return connection

    @contextlib.contextmanager
    def told(self, wanted: str) -> Iterator[None]:
        """An error of the database as one of ours, without a password; `wanted` if it has no code.

        A server that does not answer, or no longer, gives no code.
        """
        import psycopg

        try:
            yield
        except psycopg.Error as error:
            raise StorageError(
                "the rows could not be written to the database",
                where=self.where,
                found=self._without_secrets(" ".join(str(error).split())),
                wanted=_wanted(error.sqlstate) if error.sqlstate else wanted,
            ) from error

    def _without_secrets(self, text: str) -> str:
        for secret in self.secrets:
            text = text.replace(secret, "***").replace(unquote(secret), "***")
        return text


@dataclass(frozen=True)
class _PostgresDatabase:
    """What a table asks of PostgreSQL."""

    sink: Postgres
    connection: Connection[Any]

    @property
    def where(self) -> str:
        return self.sink.where

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        with self.sink.told(_BACK), self.connection.transaction():
            yield

    def keep_others_out(self) -> None:
        self.row("SELECT pg_advisory_xact_lock(hashtext(?))", (PROGRESS,))

    def execute(self, statement: str, values: Sequence[Any] = ()) -> int:
        return int(self._cursor(statement, values).rowcount)

    def row(self, statement: str, values: Sequence[Any] = ()) -> Sequence[Any] | None:
        found: Sequence[Any] | None = self._cursor(statement, values).fetchone()
        return found

    def columns(self, table: str) -> dict[str, str]:
        found = self._cursor(
            "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute "
            "WHERE attrelid = to_regclass(?) AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
            (f'"{table}"',),
        )
        return dict(found.fetchall())

    def require_rights(self, table: str) -> None:
        """Refuse before ranking what would be refused with the first block."""
        rights = ("SELECT", "INSERT", "UPDATE", "DELETE")
        for right in rights:
            found = self.row("SELECT has_table_privilege(?, ?)", (f'"{table}"', right))
            if found != (True,):
                raise StorageError(
                    "the role may not write to the table",
                    where=f"{self.where}, table {table}",
                    found=f"no right to {right}",
                    wanted="the rights to " + ", ".join(rights),
                )

    def create(self, table: str, columns: dict[str, str], key: str) -> None:
        lines = definition(columns, "NOT NULL")
        self.execute(f'CREATE TABLE "{table}" ({lines}, PRIMARY KEY ({key}))')

    def replace(self, table: str, block: Block) -> None:
        self.execute(f'DELETE FROM "{table}" WHERE "user_id" = ANY(?)', (block.user_ids.tolist(),))
        # text is always in quotes, and no number of a list is none
        names, rows = list_rows(block.lists, missing=math.nan)
        statement = f"COPY \"{table}\" ({quoted(names)}) FROM STDIN (FORMAT csv, NULL 'nan')"
        with self.connection.cursor() as cursor, cursor.copy(statement.encode()) as copy:
            copy.write(_csv(rows))

    def _cursor(self, statement: str, values: Sequence[Any]) -> Any:
        if not values:  # names in it may hold any character
            return self.connection.execute(statement.encode())
        return self.connection.execute(statement.replace("?", "%s").encode(), values)


def _csv(rows: Iterator[Any]) -> str:
    """The rows as the text that COPY reads; every id that is text is in quotes, or "" is NULL."""
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    writer.writerows(rows)
    return text.getvalue()


def _wanted(code: str) -> str:
    """What would help, by the code of the error or its class."""
    return _WANTED.get(code) or _WANTED.get(code[:2], "a database that takes the rows")
