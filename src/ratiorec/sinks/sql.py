"""Lists in a table of a database: its columns, its progress, and one transaction a block."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ratiorec.errors import ConfigError, StorageError
from ratiorec.scorers.table import Recommendations, as_cell, flat_names
from ratiorec.sinks.job import Block, Job, Notify, Tally

PROGRESS = "ratiorec_progress"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
_LONGEST_NAME = 63  # PostgreSQL would cut what is longer
_PROGRESS_COLUMNS = {
    "table_name": "text",
    "request": "text",
    "n_users": "bigint",
    "n_done": "bigint",
    "n_rows": "bigint",
    "n_without": "bigint",
}


class Database(Protocol):
    """What differs between databases; `?` stands for a value in every statement."""

    @property
    def where(self) -> str:
        """Its name for people, without a password."""
        ...

    def transaction(self) -> AbstractContextManager[None]:
        """What is done inside is done as a whole or not at all."""
        ...

    def keep_others_out(self) -> None:
        """Until the transaction ends, nobody else who asks for this makes ready to write."""
        ...

    def execute(self, statement: str, values: Sequence[Any] = ()) -> int:
        """Run one statement; the number of rows it touched."""
        ...

    def row(self, statement: str, values: Sequence[Any] = ()) -> Sequence[Any] | None:
        """The first row a query gives."""
        ...

    def columns(self, table: str) -> dict[str, str]:
        """Names and types of the columns of a table, in order; none where there is no table."""
        ...

    def require_rights(self, table: str) -> None:
        """Refuse a table whose rows may not be deleted and inserted."""
        ...

    def create(self, table: str, columns: dict[str, str], key: str) -> None:
        """Make a table."""
        ...

    def replace(self, table: str, block: Block) -> None:
        """Put the lists of a block in place of all rows of its users."""
        ...


def check_table_name(name: str) -> str:
    """A name that needs no escaping, and is not the one we need ourselves."""
    if not _NAME.fullmatch(name) or name.lower() == PROGRESS:
        raise ConfigError(
            "this cannot be the name of a table of lists",
            where="--table",
            found=repr(name),
            wanted="up to 63 letters, digits and underscores, the first no digit, "
            f"and not {PROGRESS}",
        )
    return name


@dataclass
class TableWriting:
    """One job, written into one table."""

    database: Database
    table: str
    job: Job
    done: Tally = field(default_factory=Tally)

    def prepare(self, *, resume: bool, notify: Notify) -> None:
        """Make the tables or check them, and find out where to begin."""
        with self.database.transaction():
            self.database.keep_others_out()  # two would both find no table, and both make it
            key = '"user_id", "rank"'
            self._make_or_check(self.table, list_columns(self.job), key)
            self._make_or_check(PROGRESS, _PROGRESS_COLUMNS, '"table_name"')
            found = self.database.row(
                f'SELECT "request", "n_users", "n_done", "n_rows", "n_without" FROM "{PROGRESS}" '
                'WHERE "table_name" = ?',
                (self.table,),
            )
            unfinished = found is not None and found[2] < found[1]
            if found and unfinished and resume and found[0] == self.job.identity:
                self.done = Tally(*found[2:])
                return
            if found and unfinished and found[0] != self.job.identity:
                notify("an unfinished run of another model or request is given up")
            self._start_anew()

    def write(self, block: Block) -> None:
        """One transaction: the progress, then the lists of exactly these users."""
        done = self.done.plus(Tally.of(block.lists))
        with self.database.transaction():
            n_moved = self.database.execute(
                f'UPDATE "{PROGRESS}" SET "n_done" = ?, "n_rows" = ?, "n_without" = ? '
                'WHERE "table_name" = ? AND "request" = ? AND "n_done" = ?',
                (
                    *(done.n_users, done.n_rows, done.n_without),
                    *(self.table, self.job.identity, block.n_before),
                ),
            )
            if n_moved != 1:
                raise StorageError(
                    "another command writes lists to the same table",
                    where=f"{self.database.where}, table {self.table}",
                    found="a progress that is not ours",
                    wanted="one command for a table at a time",
                )
            self.database.replace(self.table, block)
        self.done = done

    def finish(self) -> None:
        """Every block is already in place."""

    def _make_or_check(self, table: str, wanted: dict[str, str], key: str) -> None:
        found = self.database.columns(table)
        if not found:
            self.database.create(table, wanted, key)
            return
        if found != wanted:
            raise StorageError(
                "the table has other columns and is left as it is",
                where=f"{self.database.where}, table {table}",
                found=_listed(found),
                wanted=f"{_listed(wanted)}; or another --table",
            )
        self.database.require_rights(table)

    def _start_anew(self) -> None:
        row = (self.table, self.job.identity, len(self.job.user_ids), 0, 0, 0)
        self.database.execute(f'DELETE FROM "{PROGRESS}" WHERE "table_name" = ?', (self.table,))
        self.database.execute(f'INSERT INTO "{PROGRESS}" VALUES (?, ?, ?, ?, ?, ?)', row)


LIST_COLUMNS = ("user_id", "item_id", "score", "rank", "kind")


def list_rows(lists: Recommendations, missing: Any = None) -> tuple[list[str], Iterator[Any]]:
    """The columns and the rows of a table of lists: tags as one text, what is missing as this."""
    columns = {n: v for n, v in lists.columns().items() if n != f"{lists.answer}_name"}
    rows = zip(*(_as_sql(values, missing) for values in columns.values()), strict=True)
    return list(columns), rows


def _as_sql(values: NDArray[Any], missing: Any) -> list[Any]:
    if values.dtype == np.float64:
        return [missing if number != number else number for number in values.tolist()]
    if values.dtype != object:
        found: list[Any] = values.tolist()
        return found
    return [missing if text is None else text for text in map(as_cell, values.tolist())]


def list_columns(job: Job) -> dict[str, str]:
    """The columns of a table of lists, by name."""
    types = (_id_type(job.user_ids.dtype), _id_type(job.model.items.ids.dtype))
    own = dict(zip(LIST_COLUMNS, (*types, "real", "integer", "text"), strict=True))
    kinds = job.attributes.kinds
    told = ["double precision" if kind == "number" else "text" for kind in kinds.values()]
    more = dict(zip(flat_names(kinds), told, strict=True))
    for name in more:
        if len(name.encode()) > _LONGEST_NAME:
            raise ConfigError(
                "the name of an attribute is too long for a database",
                where="--attributes",
                found=repr(name),
                wanted=f"at most {_LONGEST_NAME} bytes",
            )
    return own | more


def quoted(names: Sequence[str]) -> str:
    """Names of columns as a statement lists them."""
    return ", ".join('"' + name.replace('"', '""') + '"' for name in names)


def definition(columns: dict[str, str], constraint: str = "") -> str:
    """The columns as CREATE TABLE lists them, each with the same constraint but for attributes."""
    own = (*LIST_COLUMNS, *_PROGRESS_COLUMNS)
    lines = (
        f"{quoted([name])} {kind.upper()} {constraint if name in own else ''}".strip()
        for name, kind in columns.items()
    )
    return ", ".join(lines)


def _id_type(ids: np.dtype[Any]) -> str:
    return "bigint" if ids == np.int64 else "text"


def _listed(columns: dict[str, str]) -> str:
    return ", ".join(f"{name} {kind}".strip() for name, kind in columns.items())
