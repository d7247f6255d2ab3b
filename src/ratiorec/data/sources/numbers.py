"""Columns of weights and of times."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ratiorec.data.sources.identifiers import Place
from ratiorec.errors import DataError

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
