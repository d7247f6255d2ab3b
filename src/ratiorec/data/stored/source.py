"""Sources larger than memory: Parquet files, text, addresses of fsspec, queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ratiorec.data.benchmarks import name_of
from ratiorec.data.formats.files import ARROW_SUFFIXES, TEXT_SUFFIXES, Columns, parts_of
from ratiorec.data.formats.reading import BadRows, Fault
from ratiorec.data.formats.sql import sqlalchemy_rows
from ratiorec.data.formats.tables import require_same_columns
from ratiorec.data.stored.columns import Column, column, kind_of, settled_form
from ratiorec.data.stored.database import Database, name, text
from ratiorec.errors import ConfigError, DataError, DataNotFoundError, require_extra

FILE, ROW = "ratiorec_file", "file_row_number"
_MOST_PLACES = 2**31
_ROWS_AT_ONCE = 100_000


@dataclass(frozen=True)
class Asked:
    """What is to be read, as the command was told: a path, an address, or the place of a query."""

    data: str
    columns: Columns
    query: str | None = None
    delimiter: str | None = None
    header: bool | None = None

    @property
    def origin(self) -> str:
        """The source in words."""
        return "the query" if self.query is not None else self.data

    @property
    def name(self) -> str:
        """The name of the data set."""
        if self.query is not None:
            return "query"
        return name_of(Path(self.data.partition("://")[2] or self.data))


@dataclass(frozen=True)
class Rows:
    """The rows of a source as a relation of DuckDB, with a column for each role."""

    relation: str
    columns: dict[str, Column]
    parts: tuple[str, ...]
    n_rows: int
    origin: str
    is_text: bool
    unused_event: str | None

    @property
    def has_places(self) -> bool:
        """Whether the order of the rows is kept: it counts as time where there are no times."""
        return "timestamp" not in self.columns and self.n_rows < _MOST_PLACES

    @property
    def bad(self) -> str:
        """The condition of a row that cannot be used."""
        return " OR ".join(column.bad for column in self.columns.values())


def rows_of(database: Database, asked: Asked, spill: Path) -> Rows:
    """The rows of a source; what is not Parquet is written as such into the folder first."""
    if asked.query is not None:
        staged = _staged_query(database, asked, spill)
        return _parquet_rows(database, [staged], asked, is_text=False)
    if "://" in asked.data:
        parts = _remote_parts(database, asked.data)
    else:
        parts = [str(part) for part in parts_of(asked.data)]
    suffix = Path(parts[0]).suffix.lower()
    if suffix == ".parquet":
        return _parquet_rows(database, parts, asked, is_text=False)
    if any(ending in TEXT_SUFFIXES for ending in Path(parts[0]).suffixes[-2:]):
        return _parquet_rows(database, [_staged_text(database, parts, asked, spill)], asked, True)
    is_arrow = suffix in ARROW_SUFFIXES
    raise DataError(
        "this format cannot be streamed",
        where=asked.data,
        found="Arrow files" if is_arrow else f"the suffix {suffix!r}",
        wanted="Parquet, text with a header (also in gzip or zstd), a query, or no --memory-mb",
    )


def _parquet_rows(database: Database, parts: Sequence[str], asked: Asked, is_text: bool) -> Rows:
    """The rows of Parquet files, which must have the same columns of the same kinds."""
    names: dict[str, Any] = {}
    types: dict[str, str] = {}
    first_rows, n_rows, unused = [], 0, None
    for part in parts:
        schema = database.run(f"DESCRIBE SELECT * FROM read_parquet({text(part)})")
        described = {str(row[0]): str(row[1]) for row in schema}
        positions = asked.columns.among(list(described), where=part)
        called = {role: list(described)[place] for role, place in positions.items()}
        unused = asked.columns.unused_event(list(described), positions)
        names = require_same_columns(names, called, part, Path(parts[0]))
        types = _same_types(types, {role: described[name] for role, name in names.items()}, part)
        first_rows.append(n_rows)
        n_rows += database.one(f"SELECT num_rows FROM parquet_file_metadata({text(part)})")[0]
    database.run("CREATE TABLE parts AS SELECT unnest(?) AS part, unnest(?) AS first",
                 [list(parts), first_rows])  # fmt: skip
    listed = ", ".join(map(text, parts))
    relation = (
        f"read_parquet([{listed}], union_by_name=true, filename={text(FILE)}, file_row_number=true)"
    )
    columns = {role: column(role, names[role], types[role], is_text=is_text) for role in names}
    columns = {role: settled_form(database, one, relation) for role, one in columns.items()}
    return Rows(relation, columns, tuple(parts), n_rows, asked.origin, is_text, unused)


def _same_types(types: dict[str, str], found: dict[str, str], part: str) -> dict[str, str]:
    """The types so far, wide enough for one part more, which must hold the same kinds of values."""
    for role, before in types.items():
        kinds = {kind_of(before), kind_of(found[role])}
        if len(kinds) > 1 and kinds != {"numbers", "whole numbers"}:
            raise DataError(
                f"the parts have {role} columns of different types",
                where=part,
                found=f"{found[role]}, after {before}",
                wanted="one type in all parts",
            )
    return {role: max(types.get(role, kind), kind, key=_width) for role, kind in found.items()}


def _width(duckdb_type: str) -> int:
    """Of two types of numbers the one that has the larger width holds both."""
    order = ("BIGINT", "UBIGINT", "HUGEINT", "UHUGEINT", "DECIMAL", "FLOAT", "DOUBLE")
    plain = duckdb_type.partition("(")[0]
    return order.index(plain) + 1 if plain in order else 0


# What is not Parquet yet


def _staged_text(database: Database, parts: Sequence[str], asked: Asked, spill: Path) -> str:
    """Text files as one Parquet file of texts, in their order."""
    if asked.header is False:
        raise ConfigError(
            "text without a header cannot be streamed",
            where="--no-header",
            found=asked.data,
            wanted="column names in the first line, Parquet, or no --memory-mb",
        )
    how = "all_varchar=true, header=true, union_by_name=true, nullstr=''"
    if asked.delimiter is not None:
        how += f", delim={text(asked.delimiter)}"
    listed = ", ".join(map(text, parts))
    return _copied(database, f"SELECT * FROM read_csv([{listed}], {how})", spill)


def _staged_query(database: Database, asked: Asked, spill: Path) -> str:
    """What a query gives, as a Parquet file."""
    assert asked.query is not None
    if "://" in asked.data:
        return _fetched(asked, spill)
    if asked.data == ":memory:":
        return _copied(database, asked.query, spill)
    if not Path(asked.data).is_file():
        raise DataNotFoundError(
            "no such database",
            where=asked.data,
            found="nothing at this path",
            wanted="a DuckDB file, :memory: for queries over files, or an address with ://",
        )
    database.run(f"ATTACH {text(asked.data)} AS given (READ_ONLY)")
    database.run("USE given")
    staged = _copied(database, asked.query, spill)
    database.run("USE work")
    database.run("DETACH given")
    return staged


def _copied(database: Database, query: str, spill: Path) -> str:
    staged = str(spill / "staged.parquet")
    database.run("SET preserve_insertion_order = true")
    database.run(f"COPY ({query.rstrip().rstrip(';')}) TO {text(staged)} (FORMAT parquet)")
    database.run("SET preserve_insertion_order = false")
    return staged


def _fetched(asked: Asked, spill: Path) -> str:
    """The rows that a server's cursor gives, batch by batch."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    assert asked.query is not None
    staged = spill / "staged.parquet"
    with sqlalchemy_rows(asked.query, asked.data) as (names, fetch):
        writer, schema = None, None
        while rows := fetch(_ROWS_AT_ONCE):
            try:
                columns = [_plain(values) for values in zip(*rows, strict=True)]
                arrays = [
                    pa.array(values, None if schema is None else schema.field(place).type)
                    for place, values in enumerate(columns)
                ]
            except (pa.ArrowException, OverflowError) as error:
                raise DataError(
                    "a column of the query is not of one type",
                    where="the query",
                    found=str(error).splitlines()[0][:200],
                    wanted="one type in every row; a CAST in the query gives it",
                ) from error
            table = pa.table(arrays, names=names)
            if writer is None:
                schema = table.schema
                writer = pq.ParquetWriter(staged, schema)
            writer.write_table(table)
        if writer is None:
            raise DataError(
                "there are no rows",
                where="the query",
                found="0 rows",
                wanted="at least one row with a user and an item",
            )
        writer.close()
    return str(staged)


def _plain(values: Sequence[Any]) -> list[Any]:
    """Values of Python as Arrow takes them: a UUID is its text."""
    return [str(value) if type(value).__name__ == "UUID" else value for value in values]


def _remote_parts(database: Database, address: str) -> list[str]:
    """The files at an address of fsspec, which DuckDB reads through it."""
    fsspec = require_extra("fsspec", "sql", where=address.partition("://")[0] + "://…")
    protocol = address.partition("://")[0]
    try:
        files, path = fsspec.core.url_to_fs(address)
        if any(letter in path for letter in "*?["):
            found = sorted(files.glob(path))
        else:
            found = sorted(files.find(path)) if files.isdir(path) else [path]
        known = [one for one in found if Path(one).name[0] not in "._"]
        if len(known) < 2 and not files.exists((known or [path])[0]):
            known = []
    except (OSError, ValueError, ImportError) as error:
        raise _unreachable(address, str(error)) from error
    suffixes = sorted({Path(one).suffix.lower() for one in known})
    if len(suffixes) != 1:
        raise _unreachable(address, f"files that end in {', '.join(suffixes)}" if known else "none")
    if protocol in ("file", "local"):
        return known
    database.connection.register_filesystem(files)
    return [f"{protocol}://{one}" for one in known]


def _unreachable(address: str, found: str) -> DataError:
    return DataError(
        "no files of one format at the address",
        where=address,
        found=found.splitlines()[0][:200] if found else "nothing",
        wanted="Parquet or text files, and the package of their protocol (s3fs, gcsfs, adlfs)",
    )


# Rows that cannot be used


def settle_bad_rows(database: Database, rows: Rows, bad: BadRows) -> int:
    """Count the bad rows, tell the first five, and refuse them unless they are to be skipped."""
    (bad.n,) = database.one(f"SELECT count(*) FROM {rows.relation} WHERE {rows.bad}")
    if bad.n:
        for part, row, values, *flags in _first_bad(database, rows):
            column = list(rows.columns.values())[flags.index(True)]
            where = f"{rows.origin if _is_staged(part) else part}, row {row + 1}"
            shown = ["null" if value is None else repr(value) for value in values]
            fault = Fault(column.what, shown[flags.index(True)], column.wanted)
            bad.shown.append((f"{where} (the first is row 1)", ", ".join(shown), fault))
    bad.settle(rows.origin, rows.n_rows)
    return bad.n


def _is_staged(part: str) -> bool:
    return Path(part).name == "staged.parquet"


def _first_bad(database: Database, rows: Rows) -> list[tuple[Any, ...]]:
    columns = rows.columns.values()
    shown = ", ".join(f"CAST({name(column.name)} AS VARCHAR)" for column in columns)
    numbered = [f"{column.bad} AS f{place}" for place, column in enumerate(columns)]
    told = ", ".join(f"f{place}" for place in range(len(numbered)))
    return database.run(
        f"SELECT the_file, the_row, shown, {told} FROM (SELECT {FILE} AS the_file, {ROW} AS "
        f"the_row, [{shown}] AS shown, {', '.join(numbered)} FROM {rows.relation} WHERE {rows.bad})"
        " JOIN parts ON part = the_file ORDER BY first + the_row LIMIT 5"
    )
