"""DuckDB under a memory budget: what it is told, and what becomes of its errors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ratiorec.errors import DataError, MemoryBudgetError, StorageError, require_extra
from ratiorec.machine import usable_cores

_ROWS_AT_ONCE = 1 << 18
_NO_ROOM = re.compile(r"no space left|disk quota|max_temp_directory_size|could not write", re.I)


@dataclass(frozen=True)
class WorkDatabase:
    """A database in a folder of its own, where it also spills what its memory does not hold."""

    connection: Any
    origin: str
    memory_mb: float

    def run(self, query: str, parameters: list[Any] | None = None) -> list[tuple[Any, ...]]:
        """All rows of a small answer."""
        with _told_as_ours(self.origin, self.memory_mb):
            found: list[tuple[Any, ...]] = self.connection.execute(query, parameters).fetchall()
        return found

    def one(self, query: str) -> tuple[Any, ...]:
        """The only row of an answer."""
        (row,) = self.run(query)
        return row

    def batches(self, query: str, n_rows: int = _ROWS_AT_ONCE) -> Iterator[Any]:
        """A large answer as Arrow's record batches."""
        with _told_as_ours(self.origin, self.memory_mb):
            relation = self.connection.sql(query)
            reader = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
            yield from reader(n_rows)


@contextmanager
def _told_as_ours(origin: str, memory_mb: float) -> Iterator[None]:
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        said = (str(error).splitlines() or [type(error).__name__])[0][:300]
        if _NO_ROOM.search(str(error)):
            raise StorageError(
                "no room for what does not fit into memory",
                where="the folder of -o, in which the work is done",
                found=said,
                wanted="a folder on a disk with about three times the size of the data free",
            ) from error
        if isinstance(error, duckdb.OutOfMemoryException):
            raise too_small(memory_mb, found=said) from error
        raise DataError(
            "the data cannot be read",
            where=origin,
            found=said,
            wanted="complete files, or a query that can be run",
        ) from error


def too_small(memory_mb: float, *, found: str, wanted: str = "a larger --memory-mb") -> Any:
    """The error of a budget in which the work cannot be done."""
    return MemoryBudgetError(
        "the memory budget is too small",
        where=f"--memory-mb {memory_mb:g}",
        found=found,
        wanted=wanted,
    )


@contextmanager
def opened(
    folder: Path, *, origin: str, memory_mb: float, limit_mb: float
) -> Iterator[WorkDatabase]:
    """A new database that takes at most `limit_mb` of the budget."""
    duckdb = require_extra("duckdb", "sql", where=origin)
    require_extra("pyarrow", "arrow", where=origin)
    config = {
        "memory_limit": f"{limit_mb:.0f}MiB",
        "temp_directory": str(folder / "spilled"),
        "preserve_insertion_order": False,
        "threads": min(2, usable_cores()),
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
    }
    with (
        _told_as_ours(origin, memory_mb),
        duckdb.connect(str(folder / "work.duckdb"), config=config) as connection,
    ):
        connection.execute("SET TimeZone = 'UTC'")  # of dates that name none, on every machine
        yield WorkDatabase(connection, origin, memory_mb)


def text(value: str) -> str:
    """A text in SQL."""
    return "'" + value.replace("'", "''") + "'"


def name(column: str) -> str:
    """The name of a column in SQL."""
    return '"' + column.replace('"', '""') + '"'
