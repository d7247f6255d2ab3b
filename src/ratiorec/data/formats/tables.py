"""Tables of pairs: Parquet and Arrow files, data frames, columns, sparse matrices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types
from numpy.typing import NDArray

from ratiorec.data.formats.files import Columns, Positions
from ratiorec.data.formats.identifiers import (
    Place,
    encode_ids,
    holds_text,
    objects_to_arrow,
    refuse_first,
    refuse_nulls,
    to_arrow,
    unwrapped,
)
from ratiorec.data.interactions import Interactions
from ratiorec.data.vocabulary import Vocabulary
from ratiorec.errors import DataError, NoPairsError

_ROWS_AT_ONCE = 1 << 20  # the text of so many rows is in memory, all others only as codes


def interactions_from_columns(
    columns: Mapping[str, pa.ChunkedArray],
    *,
    origin: str,
    place: Place | None = None,
    is_text: bool = False,
) -> Interactions:
    """Pairs of Arrow columns by role, of one length, checked and merged.

    `place` says where a row stands, by default as a row of the origin; `is_text` says that the
    columns are the text of a file.
    """
    if not len(columns["user"]):
        raise NoPairsError(
            "there are no rows",
            where=origin,
            found="0 rows",
            wanted="at least one row with a user and an item",
        )
    place = place or (lambda row: f"{origin}, row {row + 1} (the first is row 1)")
    (users, user_indices), (items, item_indices) = (
        encode_ids(columns[kind], kind=kind, place=place, is_text=is_text)
        for kind in ("user", "item")
    )
    weights, times = columns.get("weight"), columns.get("timestamp")
    return Interactions.from_indices(
        users,
        items,
        user_indices,
        item_indices,
        weights=None if weights is None else weights_of(weights, place=place),
        timestamps=None if times is None else times_of(times, place=place),
        order=np.arange(len(user_indices), dtype=np.int32) if times is None else None,
    )


def read_parquet(path: Path, columns: Columns) -> Interactions:
    """Pairs of a Parquet file."""
    return _read_file(path, columns, "Parquet", _parquet_columns)


def read_arrow(path: Path, columns: Columns) -> Interactions:
    """Pairs of an Arrow file or stream."""
    return _read_file(path, columns, "Arrow", _arrow_columns)


def _read_file(
    path: Path,
    columns: Columns,
    format_name: str,
    load: Callable[[Path, Columns], dict[str, pa.ChunkedArray]],
) -> Interactions:
    try:
        loaded = load(path, columns)
    except (pa.ArrowException, OSError, KeyError) as error:
        raise DataError(
            f"the file cannot be read as {format_name}",
            where=str(path),
            found=str(error).splitlines()[0][:200],
            wanted=f"a complete {format_name} file",
        ) from error
    return interactions_from_columns(loaded, origin=str(path))


def _parquet_columns(path: Path, columns: Columns) -> dict[str, pa.ChunkedArray]:
    """The columns in need, text as codes: never all the text at once."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        names = file.schema_arrow.names
        positions = columns.among(names, where=str(path))
        wanted = [names[position] for position in positions.values()]
        batches = file.iter_batches(batch_size=_ROWS_AT_ONCE, columns=wanted)
        return _collect(batches, file.schema_arrow, positions)


def _arrow_columns(path: Path, columns: Columns) -> dict[str, pa.ChunkedArray]:
    """The columns in need of an Arrow file or stream."""
    with pa.memory_map(str(path)) as source:
        is_file = source.read(6) == b"ARROW1"
        source.seek(0)
        reader = pa.ipc.open_file(source) if is_file else pa.ipc.open_stream(source)
        positions = columns.among(reader.schema.names, where=str(path))
        batches = map(reader.get_batch, range(reader.num_record_batches)) if is_file else reader
        return _collect(batches, reader.schema, positions)


def _collect(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, positions: Positions
) -> dict[str, pa.ChunkedArray]:
    """The column of each role, batch by batch."""
    chunks: dict[str, list[pa.Array]] = {role: [] for role in positions}
    for batch in batches:
        for role, position in positions.items():
            chunks[role].append(_as_codes(batch.column(schema.names[position])))
    return {
        role: pa.chunked_array(chunks[role], _as_codes(pa.array([], schema.types[position])).type)
        for role, position in positions.items()
    }


def _as_codes(chunk: pa.Array) -> pa.Array:
    return chunk.dictionary_encode() if holds_text(chunk.type) else chunk


def interactions_from_frame(frame: Any, columns: Columns) -> Interactions:
    """Pairs of a pandas or polars frame, an Arrow table or a record batch."""
    eager = _eager(frame)
    positions = columns.among([str(name) for name in eager.columns], where="data frame")
    series = {role: _series(eager, position, role) for role, position in positions.items()}
    return interactions_from_columns(series, origin="data frame")


def interactions_from_pairs(
    user_ids: Iterable[Any],
    item_ids: Iterable[Any],
    *,
    weights: Iterable[Any] | None,
    timestamps: Iterable[Any] | None,
) -> Interactions:
    """Pairs of two columns of ids, with or without weights and times."""
    given = {"user": user_ids, "item": item_ids, "weight": weights, "timestamp": timestamps}
    columns = {
        role: to_arrow(values, kind=role) for role, values in given.items() if values is not None
    }
    n_rows = len(columns["user"])
    for role, values in columns.items():
        if len(values) != n_rows:
            raise DataError(
                "the columns differ in length",
                where=f"{role} column",
                found=f"{len(values)} rows",
                wanted=f"{n_rows}, as many as there are user ids",
            )
    return interactions_from_columns(columns, origin="pairs")


def interactions_from_sparse(
    matrix: Any, *, user_ids: Iterable[Any] | None, item_ids: Iterable[Any] | None
) -> Interactions:
    """Pairs of a scipy sparse matrix, users by items."""
    import scipy.sparse

    if not scipy.sparse.issparse(matrix) or matrix.ndim != 2 or matrix.dtype.kind not in "biuf":
        raise DataError(
            "this is not a sparse matrix of numbers",
            where="matrix",
            found=type(matrix).__name__,
            wanted="a scipy sparse matrix, users by items",
        )
    entries = scipy.sparse.csr_array(matrix, dtype=np.float64, copy=True).tocoo()  # adds repeats up
    values = entries.data
    refuse_first(
        ~(np.isfinite(values) & (values >= 0)),
        values,
        "a value is negative or not a finite number",
        "a number from 0 upwards",
        lambda entry: f"matrix, row {entries.row[entry]}, column {entries.col[entry]}",
    )
    stored = values > 0
    return Interactions.from_indices(
        _side(matrix.shape[0], user_ids, "user"),
        _side(matrix.shape[1], item_ids, "item"),
        entries.row[stored],
        entries.col[stored],
        weights=None if (values[stored] == 1).all() else values[stored],
    )


def _side(n: int, ids: Iterable[Any] | None, kind: str) -> Vocabulary:
    if ids is None:
        return Vocabulary.dense(n, kind=kind)
    vocabulary = Vocabulary.from_ids(ids, kind=kind)
    if len(vocabulary) != n:
        raise DataError(
            f"{kind} ids do not fit the matrix",
            where=f"{kind} ids",
            found=f"{len(vocabulary)} ids",
            wanted=f"{n}, one for each {kind} of the matrix",
        )
    return vocabulary


def _eager(frame: Any) -> Any:
    """The frame behind one interface, whoever made it."""
    import narwhals as nw

    if isinstance(frame, pa.RecordBatch):
        frame = pa.Table.from_batches([frame])
    try:
        return nw.from_native(frame, eager_only=True)
    except (TypeError, nw.exceptions.NarwhalsError) as error:
        raise DataError(
            "this is not a data frame that can be read",
            where="data frame",
            found=f"{type(frame).__name__}: {str(error).splitlines()[0]}",
            wanted="a pandas or polars frame (collected), an Arrow table or a record batch, "
            "each column name once",
        ) from error


def _series(frame: Any, position: int, role: str) -> pa.ChunkedArray:
    import narwhals as nw

    series = frame.get_column(frame.columns[position])
    if series.dtype == nw.Object:  # only Python can look into these
        return objects_to_arrow(series.to_list(), kind=role)
    return to_arrow(series.to_arrow(), kind=role)


def weights_of(column: pa.ChunkedArray, *, place: Place) -> NDArray[np.float64]:
    """A column of weights: finite, from 0 upwards."""
    column = _plain(column)
    refuse_nulls(column, "a weight is missing", "a weight in every row", place)
    numbers = _cast(column, pa.float64())
    if numbers is None:
        raise _unreadable(column, [pa.float64()], "weight", "a number from 0 upwards", place)
    weights = np.asarray(numbers.to_numpy())
    bad = ~(np.isfinite(weights) & (weights >= 0))
    first = weights[np.argmax(bad)] if bad.any() else 0.0
    what = "a weight is negative" if first < 0 else "a weight is not a finite number"
    refuse_first(bad, weights, what, "a number from 0 upwards", place)
    return weights


def times_of(column: pa.ChunkedArray, *, place: Place) -> NDArray[np.int64] | NDArray[np.float64]:
    """A column of times: whole numbers and floats as they are, dates as microseconds."""
    column = _plain(column)
    refuse_nulls(column, "a timestamp is missing", "a timestamp in every row", place)
    clock: tuple[Any, ...] = (pa.timestamp("us"), pa.timestamp("us", tz="UTC"))
    if types.is_date(column.type) or types.is_timestamp(column.type):
        return _microseconds(column)
    if types.is_decimal(column.type) or types.is_floating(column.type):
        attempts: tuple[Any, ...] = (pa.float64(),)
    else:
        attempts = (pa.int64(), pa.float64(), *clock)
    for attempt in attempts:
        moments = _cast(column, attempt)
        if moments is not None:
            times = _microseconds(moments) if attempt in clock else np.asarray(moments.to_numpy())
            missing = "a timestamp is missing"
            refuse_first(~np.isfinite(times), times, missing, "a timestamp in every row", place)
            return times
    wanted = "a number or a date such as 2024-05-31 or 2024-05-31T12:00:00"
    raise _unreadable(column, attempts, "timestamp", wanted, place)


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Dictionaries decoded, text without the blanks around it."""
    column = unwrapped(column)
    if types.is_dictionary(column.type):
        column = unwrapped(column.cast(column.type.value_type))
    return pc.utf8_trim_whitespace(column) if holds_text(column.type) else column


def _cast(column: Any, kind: pa.DataType) -> Any:
    """The column as another type, or None where a value does not fit."""
    try:
        if types.is_integer(column.type) and types.is_floating(kind):
            return column.cast(kind, safe=False)  # a weight of 2^60 may lose its last digits
        return column.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def _microseconds(column: Any) -> NDArray[np.int64]:
    unit = pa.timestamp("us", tz=column.type.tz if types.is_timestamp(column.type) else None)
    return np.asarray(column.cast(unit, safe=False).cast(pa.int64()).to_numpy())


def _unreadable(
    column: pa.ChunkedArray, kinds: Iterable[pa.DataType], role: str, wanted: str, place: Place
) -> DataError:
    """The error for the first value that breaks the kind which most rows before it keep."""
    row = max(_first_misfit(column, kind) for kind in kinds)
    found = repr(column[row].as_py())
    return DataError(f"a {role} cannot be read", where=place(row), found=found, wanted=wanted)


def _first_misfit(column: pa.ChunkedArray, kind: pa.DataType) -> int:
    """The first row that cannot be cast, by halving."""
    start, stop = 0, len(column)
    while stop - start > 1:
        middle = (start + stop) // 2
        if _cast(column.slice(start, middle - start), kind) is None:
            stop = middle
        else:
            start = middle
    return start
