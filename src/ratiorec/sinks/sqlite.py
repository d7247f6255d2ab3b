"""A table in an SQLite file."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ratiorec.errors import StorageError
from ratiorec.sinks.job import Block, Job, Notify
from ratiorec.sinks.sql import TableWriting, definition, list_rows, quoted

_ROWS_IN_A_STATEMENT = 60
_VALUES_IN_A_STATEMENT = 30_000  # SQLite takes 32,766
_WANTED: Mapping[str, str] = MappingProxyType(
    {
        "SQLITE_BUSY": "that no other program holds the file locked; then the same command again",
        "SQLITE_FULL": "room on the disk; then the same command again",
        "SQLITE_IOERR_WRITE": "room on the disk; then the same command again",
        "SQLITE_CANTOPEN": "a file in a folder that exists and may be written to",
        "SQLITE_READONLY": "a file, in a folder, that may be written to",
        "SQLITE_NOTADB": "an SQLite file, or a path where there is none yet",
    }
)


@dataclass(frozen=True)
class Sqlite:
    """A table of lists in an SQLite file, which is made where there is none.

    Another program may hold the file locked for `seconds_to_wait`.
    """

    path: Path
    table: str = "recommendations"
    seconds_to_wait: float = 5.0

    @property
    def where(self) -> str:
        return f"sqlite:///{self.path}"

    def describe(self) -> dict[str, str]:
        return {"database": self.where, "table": self.table}

    @contextlib.contextmanager
    def open(self, job: Job, *, resume: bool, notify: Notify) -> Iterator[TableWriting]:
        with _told(self.where):
            # transactions are begun by hand, and blocks are written by a thread of their own
            connection = sqlite3.connect(
                self.path,
                timeout=self.seconds_to_wait,
                isolation_level=None,
                check_same_thread=False,
            )
        with closing(connection):
            writing = TableWriting(_SqliteDatabase(connection, self.where), self.table, job)
            writing.prepare(resume=resume, notify=notify)
            yield writing


@dataclass(frozen=True)
class _SqliteDatabase:
    """What a table asks of SQLite."""

    connection: sqlite3.Connection
    where: str

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        with _told(self.where):
            # the lock is taken at once: two that both read first could not both go on to write
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self.connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):  # a full disk has already undone it
                    self.connection.execute("ROLLBACK")
                raise

    def keep_others_out(self) -> None:
        """Whoever has begun to write is alone."""

    def execute(self, statement: str, values: Sequence[Any] = ()) -> int:
        return self.connection.execute(statement, values).rowcount

    def row(self, statement: str, values: Sequence[Any] = ()) -> Sequence[Any] | None:
        found: Sequence[Any] | None = self.connection.execute(statement, values).fetchone()
        return found

    def columns(self, table: str) -> dict[str, str]:
        found = self.connection.execute('SELECT "name", "type" FROM pragma_table_info(?)', (table,))
        return {name: kind.lower() for name, kind in found}

    def require_rights(self, table: str) -> None:
        """Whoever has begun to write may write everything."""

    def create(self, table: str, columns: dict[str, str], key: str) -> None:
        # without a row id the rows lie in the order of the key, and there is no second tree; with
        # NOT NULL as well, the integrity check of SQLite 3.40 raises a false alarm
        self.connection.execute(
            f'CREATE TABLE "{table}" ({definition(columns)}, PRIMARY KEY ({key})) WITHOUT ROWID'
        )

    def replace(self, table: str, block: Block) -> None:
        self._run(f'DELETE FROM "{table}" WHERE "user_id" IN ({{}})', "?", block.user_ids.tolist())
        names, rows = list_rows(block.lists)
        self._run(
            f'INSERT INTO "{table}" ({_braced(quoted(names))}) VALUES {{}}',
            f"({', '.join('?' * len(names))})",
            list(chain.from_iterable(rows)),
        )

    def _run(self, statement: str, row: str, values: list[Any]) -> None:
        """Run a statement on all values, many rows at a time.

        A statement for each row would take twice the time: it lets go of the interpreter, and
        then waits for threads that rank.
        """
        width = row.count("?")
        n_rows = max(1, min(_ROWS_IN_A_STATEMENT, _VALUES_IN_A_STATEMENT // width))
        step = n_rows * width
        n_even = len(values) // step * step
        groups = (values[start : start + step] for start in range(0, n_even, step))
        self.connection.executemany(_of_rows(statement, row, n_rows), groups)
        if rest := values[n_even:]:
            self.connection.execute(_of_rows(statement, row, len(rest) // width), rest)


def _braced(names: str) -> str:
    return names.replace("{", "{{").replace("}", "}}")


def _of_rows(statement: str, row: str, n_rows: int) -> str:
    return statement.format(", ".join([row] * n_rows))


@contextlib.contextmanager
def _told(where: str) -> Iterator[None]:
    """An error of SQLite as one of ours."""
    try:
        yield
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", "")
        raise StorageError(
            "the rows could not be written to the database",
            where=where,
            found=str(error),
            wanted=_WANTED.get(name, "an SQLite file that can be read and written"),
        ) from error
