"""Pairs of a SQL query, by DuckDB or by any database that SQLAlchemy has an address for."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ratiorec.data.formats.files import Columns
from ratiorec.data.formats.merging import Weighting
from ratiorec.data.formats.reading import BadRows, OnBadRows, Repeats
from ratiorec.data.formats.tables import interactions_from_columns
from ratiorec.data.formats.values import values_of
from ratiorec.data.interactions import Interactions
from ratiorec.errors import DataError, DataNotFoundError, MissingExtraError, require_extra

_ROWS_AT_ONCE = 100_000


def read_sql(
    query: str,
    url: str,
    *,
    columns: Columns = Columns(),  # noqa: B008 - frozen
    event_weights: Mapping[Any, float] | None = None,
    half_life: str | float | None = None,
    repeats: Repeats | None = None,
    on_bad_rows: OnBadRows = "stop",
    bad_rows_file: str | os.PathLike[str] | None = None,
) -> Interactions:
    """Read the pairs that a query gives.

    Args:
        query: The query; its columns are found as those of a file are.
        url: A DuckDB file, `:memory:` for queries over files (`SELECT * FROM 'logs/*.parquet'`),
            or an address such as `postgresql+psycopg://shop@host/shop` or `sqlite:///shop.db`.
        columns: Which column is what.
        event_weights: The weight of each kind of event, as `read` takes it; so are the next two.
        half_life: The age at which a row weighs half as much as the latest.
        repeats: How the rows of one pair count.
        on_bad_rows: Whether rows that cannot be used stop the reading or are left out.
        bad_rows_file: Where to write the rows that are left out.

    Raises:
        DataError: The query cannot be run, or a row of it cannot be used.
        MissingExtraError: The library of the database is not installed.
    """
    weighting = Weighting(event_weights, half_life, repeats)
    weighting.require_event_column(columns.event, spelt="columns=Columns(event='NAME')")
    bad = BadRows(on_bad_rows, None if bad_rows_file is None else Path(bad_rows_file))
    opened = sqlalchemy_rows if "://" in url else _duckdb_rows
    with opened(query, url) as (names, fetch):
        positions = columns.among(names, where="the query")
        gathered: dict[str, list[Any]] = {role: [] for role in positions}
        while rows := fetch(_ROWS_AT_ONCE):
            for role, position in positions.items():
                gathered[role] += [
                    sys.intern(value) if type(value := row[position]) is str else value
                    for row in rows  # equal texts share their memory
                ]
    return interactions_from_columns(
        {role: values_of(values, role=role) for role, values in gathered.items()},
        origin="the query",
        names={role: names[position] for role, position in positions.items()},
        bad=bad,
        weighting=weighting,
        unused_event=columns.unused_event(names, positions),
    )


_Result = tuple[list[str], Callable[[int], Sequence[Sequence[Any]]]]
"""The names of the columns, and what fetches so many rows at a time."""


@contextlib.contextmanager
def _duckdb_rows(query: str, path: str) -> Iterator[_Result]:
    duckdb = require_extra("duckdb", "sql", where="read_sql")
    if path != ":memory:" and not Path(path).is_file():
        raise DataNotFoundError(
            "no such database",
            where=path,
            found="nothing at this path",
            wanted="a DuckDB file, :memory: for queries over files, or an address with ://",
        )
    try:
        with duckdb.connect(path, read_only=path != ":memory:") as connection:
            result = connection.execute(query)
            yield [column[0] for column in result.description], result.fetchmany
    except duckdb.Error as error:
        raise _refused(error, path) from error


@contextlib.contextmanager
def sqlalchemy_rows(query: str, url: str) -> Iterator[_Result]:
    """The columns of a query, and its rows as the server's cursor gives them."""
    sqlalchemy = require_extra("sqlalchemy", "sql", where="read_sql")
    try:
        address = sqlalchemy.make_url(url)
        shown = address.render_as_string(hide_password=True)
        engine = sqlalchemy.create_engine(address, execution_options={"stream_results": True})
        with engine.connect() as connection:
            result = connection.execute(sqlalchemy.text(query))
            yield list(result.keys()), result.fetchmany
    except sqlalchemy.exc.SQLAlchemyError as error:
        where = url.partition("://")[0] + "://…"  # no more of it: it may hold a password
        raise _refused(getattr(error, "orig", None) or error, where) from error
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            "the driver of the database is not installed",
            where=shown,
            found=str(error),
            wanted="the driver, for example pip install 'ratiorec[postgres]' and an address that "
            "begins with postgresql+psycopg://",
        ) from error
    else:
        engine.dispose()


def _refused(error: Exception, where: str) -> DataError:
    return DataError(
        "the query cannot be run",
        where=where,
        found=(str(error).splitlines() or [type(error).__name__])[0][:200],
        wanted="a query that gives a column of users and one of items",
    )
