"""Tables in memory: data frames, columns of ids, weights and times, sparse matrices."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ratiorec.data.formats.columns import Columns
from ratiorec.data.formats.identifiers import Place, encode_ids, objects_to_arrow, to_arrow
from ratiorec.data.interactions import Interactions
from ratiorec.data.vocabulary import Vocabulary
from ratiorec.errors import DataError, NoPairsError

if TYPE_CHECKING:
    import pyarrow as pa


def weights_of(column: pa.ChunkedArray, *, place: Place) -> NDArray[np.float64]:
    """A column of weights: finite, from 0 upwards."""
    import pyarrow as pa

    column = _plain(column)
    _refuse_nulls(column, "weight", place)
    numbers = _cast(column, pa.float64())
    if numbers is None:
        raise _unreadable(column, [pa.float64()], "weight", "a number from 0 upwards", place)
    weights = np.asarray(numbers.to_numpy())
    bad = ~(np.isfinite(weights) & (weights >= 0))
    if bad.any():
        row = int(np.argmax(bad))
        what = "a weight is negative" if weights[row] < 0 else "a weight is not a finite number"
        raise DataError(
            what, where=place(row), found=str(weights[row]), wanted="a number from 0 upwards"
        )
    return weights


def times_of(column: pa.ChunkedArray, *, place: Place) -> NDArray[np.int64] | NDArray[np.float64]:
    """A column of times: whole numbers and floats as they are, dates as microseconds."""
    import pyarrow as pa
    import pyarrow.types as types

    column = _plain(column)
    _refuse_nulls(column, "timestamp", place)
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
            return _refuse_nan(times, place)
    wanted = "a number or a date such as 2024-05-31 or 2024-05-31T12:00:00"
    raise _unreadable(column, attempts, "timestamp", wanted, place)


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Dictionaries decoded, text without the blanks around it."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as types

    if isinstance(column.type, pa.BaseExtensionType):
        storage = column.type.storage_type
        column = pa.chunked_array([chunk.storage for chunk in column.chunks], type=storage)
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if types.is_string_view(column.type):
        column = column.cast(pa.large_string())
    if types.is_string(column.type) or types.is_large_string(column.type):
        return pc.utf8_trim_whitespace(column)
    return column


def _cast(column: Any, kind: pa.DataType) -> Any:
    """The column as another type, or None where a value does not fit."""
    import pyarrow as pa
    import pyarrow.types as types

    try:
        if types.is_integer(column.type) and types.is_floating(kind):
            return column.cast(kind, safe=False)  # a weight of 2^60 may lose its last digits
        return column.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def _microseconds(column: Any) -> NDArray[np.int64]:
    import pyarrow as pa
    import pyarrow.types as types

    unit = pa.timestamp("us", tz=column.type.tz if types.is_timestamp(column.type) else None)
    return np.asarray(column.cast(unit, safe=False).cast(pa.int64()).to_numpy())


def _refuse_nulls(column: pa.ChunkedArray, role: str, place: Place) -> None:
    if column.null_count:
        row = int(np.argmax(column.is_null().to_numpy()))
        raise DataError(
            f"a {role} is missing", where=place(row), found="null", wanted=f"a {role} in every row"
        )


def _refuse_nan(
    times: NDArray[np.int64] | NDArray[np.float64], place: Place
) -> NDArray[np.int64] | NDArray[np.float64]:
    bad = ~np.isfinite(times)
    if bad.any():
        row = int(np.argmax(bad))
        raise DataError(
            "a timestamp is missing",
            where=place(row),
            found=str(times[row]),
            wanted="a timestamp in every row",
        )
    return times


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


@dataclass(frozen=True)
class PairTable:
    """Arrow columns of one length; `is_text` says that they are the text of a file."""

    user: pa.ChunkedArray
    item: pa.ChunkedArray
    weight: pa.ChunkedArray | None
    timestamp: pa.ChunkedArray | None
    origin: str
    place: Place
    is_text: bool = False

    def interactions(self) -> Interactions:
        """The pairs of the table, checked and merged."""
        if not len(self.user):
            raise NoPairsError(
                "there are no rows",
                where=self.origin,
                found="0 rows",
                wanted="at least one row with a user and an item",
            )
        users, user_indices = encode_ids(
            self.user, kind="user", place=self.place, is_text=self.is_text
        )
        items, item_indices = encode_ids(
            self.item, kind="item", place=self.place, is_text=self.is_text
        )
        weights = None if self.weight is None else weights_of(self.weight, place=self.place)
        times = None if self.timestamp is None else times_of(self.timestamp, place=self.place)
        return Interactions.from_indices(
            users, items, user_indices, item_indices, weights=weights, timestamps=times
        )


def interactions_from_frame(frame: Any, columns: Columns) -> Interactions:
    """Pairs of a pandas or polars frame, an Arrow table or a record batch."""
    eager = _eager(frame)
    positions = columns.among([str(name) for name in eager.columns], where="data frame")

    def column(position: int | None, role: str) -> pa.ChunkedArray | None:
        return None if position is None else _series(eager, position, role)

    return PairTable(
        user=column(positions.user, "user"),
        item=column(positions.item, "item"),
        weight=column(positions.weight, "weight"),
        timestamp=column(positions.timestamp, "timestamp"),
        origin="data frame",
        place=lambda row: f"data frame, row {row + 1} (the first is row 1)",
    ).interactions()


def interactions_from_pairs(
    user_ids: Iterable[Any],
    item_ids: Iterable[Any],
    *,
    weights: Iterable[Any] | None,
    timestamps: Iterable[Any] | None,
) -> Interactions:
    """Pairs of two columns of ids, with or without weights and times."""
    columns = {
        role: to_arrow(values, kind=role)
        for role, values in (
            ("user", user_ids),
            ("item", item_ids),
            ("weight", weights),
            ("timestamp", timestamps),
        )
        if values is not None
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
    return PairTable(
        user=columns["user"],
        item=columns["item"],
        weight=columns.get("weight"),
        timestamp=columns.get("timestamp"),
        origin="pairs",
        place=lambda row: f"pairs, row {row + 1} (the first is row 1)",
    ).interactions()


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
    bad = ~(np.isfinite(values) & (values >= 0))
    if bad.any():
        first = int(np.argmax(bad))
        raise DataError(
            "a value is negative or not a finite number",
            where=f"matrix, row {entries.row[first]}, column {entries.col[first]}",
            found=str(values[first]),
            wanted="a number from 0 upwards",
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
    import pyarrow as pa

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
