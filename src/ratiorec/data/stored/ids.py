"""Ids of a stream: numbered in ascending order, new ones behind those that a folder has already."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ratiorec.data.stored.database import Database
from ratiorec.data.stored.folder import ArrayWriter, len_of, piece_of
from ratiorec.data.stored.source import Rows
from ratiorec.data.vocabulary import UUID_TEXT, WHOLE_NUMBER
from ratiorec.errors import DataError

_AT_ONCE = 1 << 20
_FORMS = {  # of all texts of a column, as `identifiers.canonical` has them
    "as it is": "raw",
    "integer": "CAST(raw AS BIGINT)",
    "whole": r"regexp_replace(raw, '\.0+$', '')",
    "uuid": "lower(raw)",
}


@dataclass(frozen=True)
class Side:
    """The users, or the items: their number, and a table of their raw ids, places and rows."""

    kind: str
    n: int
    n_rows: NDArray[np.int64]
    """The new rows of each."""

    @property
    def table(self) -> str:
        """The table with the columns raw, place and n."""
        return f"{self.kind}s"


def numbered(database: Database, rows: Rows, kind: str, good: str, old: Path | None) -> Side:
    """The ids of one role, each with its place; of `old` all places stay as they are."""
    column = rows.columns[kind]
    database.run(
        f"CREATE TABLE raw_{kind}s AS SELECT {column.value} AS raw, count(*) AS n "
        f"FROM {rows.relation} WHERE {good} GROUP BY 1"
    )
    is_text = column.kind == "text"
    form = _form(database, kind, rows) if is_text else "as it is"
    n_old = 0
    if old is not None:
        n_old = len_of(old / f"{kind}s.by_id.npy")
        form = _form_beside(old, kind, form, is_text=is_text, is_csv=rows.is_text)
        _take_in(database, old, kind)
    identifier = _FORMS[form]
    known = f"LEFT JOIN old_{kind}s ON id = {identifier}" if old is not None else ""
    place = "old_place" if old is not None else "NULL"
    database.run(
        f"CREATE TABLE {kind}s AS SELECT raw, n, {identifier} AS id, CAST(coalesce({place}, "
        f"{n_old - 1} + dense_rank() OVER (PARTITION BY {place} IS NULL ORDER BY {identifier})) "
        f"AS INTEGER) AS place FROM raw_{kind}s {known}"
    )
    database.run(f"DROP TABLE raw_{kind}s")
    n = max(n_old, database.one(f"SELECT coalesce(max(place) + 1, 0) FROM {kind}s")[0])
    return Side(kind, n, _rows_of_each(database, kind, n))


def _rows_of_each(database: Database, kind: str, n: int) -> NDArray[np.int64]:
    counts = np.zeros(n, np.int64)
    for batch in database.batches(f"SELECT place, CAST(sum(n) AS BIGINT) FROM {kind}s GROUP BY 1"):
        counts[batch.column(0).to_numpy()] = batch.column(1).to_numpy()
    return counts


def _form(database: Database, kind: str, rows: Rows) -> str:
    """The form of all texts of a column.

    Raises:
        DataError: One id is there in two forms, beside ids that are no numbers.
    """
    is_whole = f"regexp_full_match(raw, '{WHOLE_NUMBER.pattern}')"
    all_printed, all_whole, all_uuids, any_float = database.one(
        "SELECT bool_and(CAST(TRY_CAST(raw AS BIGINT) AS VARCHAR) IS NOT DISTINCT FROM raw), "
        f"bool_and({is_whole}), bool_and(regexp_full_match(raw, '{UUID_TEXT.pattern}')), "
        f"bool_or({is_whole} AND raw LIKE '%.0') FROM raw_{kind}s"
    )
    if all_uuids:
        return "uuid"
    if rows.is_text and all_printed:
        return "integer"
    if not any_float:
        return "as it is"
    if all_whole:
        return "whole"
    twice = database.run(
        f"SELECT a.raw, b.raw FROM raw_{kind}s a JOIN raw_{kind}s b "
        rf"ON b.raw = regexp_replace(a.raw, '\.0+$', '') WHERE a.raw LIKE '%.0' LIMIT 1"
    )
    for long, short in twice:
        raise DataError(
            f"one {kind} id is written in two forms",
            where=f"{kind} column",
            found=f"{short!r} and {long!r}, beside ids that are no whole numbers",
            wanted=f"one form for each {kind}, say {short!r} in every row",
        )
    return "as it is"


def _form_beside(old: Path, kind: str, form: str, *, is_text: bool, is_csv: bool) -> str:
    """The form of new ids beside those that a folder has."""
    are_numbers = (old / f"{kind}s.ids.npy").is_file()
    if are_numbers == (not is_text or form == "integer"):
        return form
    if not are_numbers and is_csv:
        return "as it is"  # numbers of a text file beside others that are none
    raise DataError(
        f"the {kind} ids are of another type than those of the training set",
        where=f"{kind} column",
        found="text" if are_numbers else "whole numbers",
        wanted=f"{'whole numbers' if are_numbers else 'text'}, as in {old}; or both prepared "
        "at once",
    )


def _take_in(database: Database, old: Path, kind: str) -> None:
    """The ids of a folder as a table."""
    database.run(
        f"CREATE TABLE old_{kind}s (id "
        f"{'BIGINT' if (old / f'{kind}s.ids.npy').is_file() else 'VARCHAR'}, old_place INTEGER)"
    )
    n = len_of(old / f"{kind}s.by_id.npy")
    for start in range(0, n, _AT_ONCE):
        ids = _arrow_ids(old, kind, start, min(start + _AT_ONCE, n))
        database.connection.register("arriving", ids)
        database.run(f"INSERT INTO old_{kind}s SELECT * FROM arriving")
        database.connection.unregister("arriving")


def _arrow_ids(old: Path, kind: str, start: int, end: int) -> Any:
    import pyarrow as pa

    places = pa.array(np.arange(start, end, dtype=np.int32))
    if (numbers := old / f"{kind}s.ids.npy").is_file():
        return pa.table({"id": pa.array(piece_of(numbers, start, end)), "old_place": places})
    ends = piece_of(old / f"{kind}s.offsets.npy", start, end + 1)
    text = piece_of(old / f"{kind}s.text.npy", int(ends[0]), int(ends[-1]))
    buffers = (pa.py_buffer(ends - ends[0]), pa.py_buffer(text))
    ids = pa.LargeStringArray.from_buffers(end - start, *buffers)
    return pa.table({"id": ids, "old_place": places})


# Writing


def write_ids(database: Database, side: Side, folder: Path, old: Path | None) -> None:
    """The ids in the order of their places, and their places in the order of the ids."""
    kind = side.kind
    n_old = 0 if old is None else len_of(old / f"{kind}s.by_id.npy")
    new = f"(SELECT DISTINCT id, place FROM {kind}s WHERE place >= {n_old})"
    is_number = database.one(f"SELECT typeof(id) FROM {kind}s LIMIT 1")[0] == "BIGINT"
    names = ("ids",) if is_number else ("text", "offsets")
    writers = [
        ArrayWriter(folder / f"{kind}s.{name}.npy", dtype)
        for name, dtype in zip(names, ("<i8",) if is_number else ("u1", "<i8"), strict=True)
    ]
    if old is not None:
        for name, writer in zip(names, writers, strict=True):
            _copy(old / f"{kind}s.{name}.npy", writer)
    elif not is_number:
        writers[1].append(np.zeros(1, np.int64))
    for batch in database.batches(f"SELECT id FROM {new} ORDER BY place"):
        _append_ids(batch.column(0), writers)
    everybody = f"SELECT id, place FROM {new}"
    if old is not None:
        everybody += f" UNION ALL SELECT id, old_place FROM old_{kind}s"
    by_id = ArrayWriter(folder / f"{kind}s.by_id.npy", "<i4")
    for batch in database.batches(f"SELECT place FROM ({everybody}) ORDER BY id"):
        by_id.append(batch.column(0).to_numpy())
    for writer in (*writers, by_id):
        writer.close()


def _copy(path: Path, writer: ArrayWriter) -> None:
    for start in range(0, length := len_of(path), _AT_ONCE):
        writer.append(piece_of(path, start, min(start + _AT_ONCE, length)))


def _append_ids(ids: Any, writers: list[ArrayWriter]) -> None:
    import pyarrow as pa

    if len(writers) == 1:
        writers[0].append(ids.to_numpy())
        return
    text, offsets = writers
    ids = ids.cast(pa.large_string())
    _, ends, letters = ids.buffers()
    places = np.frombuffer(ends, np.int64)[ids.offset : ids.offset + len(ids) + 1]
    before = text.length
    if letters is not None:
        text.append(np.frombuffer(letters, np.uint8)[places[0] : places[-1]])
    offsets.append(places[1:] - places[0] + before)
