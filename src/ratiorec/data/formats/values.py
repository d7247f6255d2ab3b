"""Values of one column, whatever they came in: numbers and dates, or codes of distinct values."""

from __future__ import annotations

import datetime as dt
import re
import uuid
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ratiorec.data.formats.reading import Fault, Faults
from ratiorec.errors import DataError

_NULLS = ("NoneType", "NAType", "NaTType")  # of Python and pandas
_A_NUMBER = "a number from 0 upwards"
_A_TIME = "a number or a date such as 2024-05-31 or 2024-05-31T12:00:00"
_NO_ZONE = b"0123456789-:. TZ"
_ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d([T ].*)?")


@dataclass(frozen=True)
class Values:
    """One column: a number or datetime64 a row, or with `distinct` a code into those a row."""

    rows: NDArray[Any]
    distinct: list[Any] | None = None
    is_null: NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def select(self, mask: NDArray[np.bool_]) -> Values:
        """The rows under the mask."""
        return Values(
            self.rows[mask], self.distinct, None if self.is_null is None else self.is_null[mask]
        )

    def shown(self, row: int) -> str:
        """The value of a row, for messages."""
        if self.is_null is not None and self.is_null[row]:
            return "null"
        value = self.rows[row].item()
        return repr(value if self.distinct is None else self.distinct[value])

    def faults(self, bad: NDArray[np.bool_], what: str, wanted: str) -> Faults:
        """The same fault in every row under the mask."""
        return {row: Fault(what, self.shown(row), wanted) for row in np.flatnonzero(bad).tolist()}

    def nulls(self, what: str, wanted: str) -> Faults:
        """The rows that hold nothing."""
        return {} if self.is_null is None else self.faults(self.is_null, what, wanted)


def coded(cells: Sequence[Any], is_null: NDArray[np.bool_] | None = None) -> Values:
    """Values that can be hashed, as codes in the order of their first appearance."""
    codes: defaultdict[Any, int] = defaultdict(count().__next__)
    rows = np.fromiter(map(codes.__getitem__, cells), np.int32, len(cells))
    return Values(rows, list(codes), is_null)


def values_of(column: Iterable[Any], *, role: str) -> Values:
    """Any column of Python, numpy, pandas or Arrow values."""
    if hasattr(column, "to_pylist"):
        column = column.to_pylist()
    kind = getattr(column, "dtype", None)
    if isinstance(kind, np.dtype) and kind.kind in "biufM":
        return Values(np.asarray(column))
    return _of_objects(
        [value.item() if isinstance(value, np.generic) else value for value in column], role
    )


def _of_objects(values: list[Any], role: str) -> Values:
    """Python objects of one kind; NaN beside other kinds is a gap, as in pandas."""
    kinds = {kind for kind in set(map(type, values)) if kind.__name__ not in _NULLS}
    if float in kinds and kinds - {float, int}:
        values = [
            None if isinstance(value, float) and value != value else value for value in values
        ]
        kinds = {type(value) for value in values if type(value).__name__ not in _NULLS}
    null = np.array([type(value).__name__ in _NULLS for value in values], dtype=bool)
    is_null = null if null.any() else None
    if is_null is not None:
        filler = next((v for v, gap in zip(values, null.tolist(), strict=True) if not gap), 0)
        values = [filler if gap else v for v, gap in zip(values, null.tolist(), strict=True)]
    if kinds <= {int, float}:
        return Values(_numbers(values), None, is_null) if _fits(values) else _texts(values, is_null)
    if kinds == {bool}:
        return Values(np.array(values), None, is_null)
    if kinds <= {dt.date, dt.datetime} or all(issubclass(kind, dt.date) for kind in kinds):
        return Values(np.array([_utc(value) for value in values], "M8[us]"), None, is_null)
    if kinds <= {str, uuid.UUID}:
        return _texts(values, is_null)
    if len(kinds) == 1 and kinds <= {bytes, Decimal}:
        return coded(values, is_null)
    names = ", ".join(sorted(kind.__name__ for kind in kinds))
    raise DataError(
        f"the {role} column is not of one kind"
        if len(kinds) > 1
        else f"the {role} column cannot " + ("hold ids" if role in ("user", "item") else "be read"),
        where=f"{role} column",
        found=f"values of type {names}",
        wanted="all text, all whole numbers or all UUIDs",
    )


def _numbers(values: list[Any]) -> NDArray[Any]:
    return np.array(values, np.float64 if any(isinstance(v, float) for v in values) else np.int64)


def _fits(values: list[Any]) -> bool:
    least, most = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    return all(isinstance(value, float) or least <= value <= most for value in values)


def _texts(values: list[Any], is_null: NDArray[np.bool_] | None) -> Values:
    return coded([value if isinstance(value, str) else str(value) for value in values], is_null)


def _utc(moment: dt.date) -> dt.date:
    if isinstance(moment, dt.datetime) and moment.tzinfo is not None:
        return moment.astimezone(dt.UTC).replace(tzinfo=None)
    return moment


def weights_of(column: Values) -> tuple[NDArray[np.float64], Faults]:
    """A column of weights, finite and from 0 upwards, and the rows in which they are not."""
    faults = column.nulls("a weight is missing", "a weight in every row")
    if column.distinct is None:
        weights = column.rows.astype(np.float64)
        unread = np.zeros(len(weights), dtype=bool)
    else:
        parsed = [_number(value) for value in column.distinct]
        weights = np.array([np.nan if n is None else n for n in parsed], np.float64)[column.rows]
        unread = np.array([number is None for number in parsed], dtype=bool)[column.rows]
    for bad, what in (
        (unread, "a weight cannot be read"),
        (weights < 0, "a weight is negative"),
        (~np.isfinite(weights), "a weight is not a finite number"),
    ):
        if bad.any():
            faults = {**column.faults(bad, what, _A_NUMBER), **faults}
    return weights, faults


def _number(value: Any) -> float | None:
    """The number that a text or a Decimal spells."""
    try:
        return None if isinstance(value, str) and "_" in value else float(value)
    except (TypeError, ValueError):
        return None


@dataclass(frozen=True)
class Times:
    """A time a row: numbers as they are, dates as microseconds since 1970."""

    rows: NDArray[np.int64] | NDArray[np.float64]
    is_date: bool


def times_of(column: Values, *, is_date: bool | None = None) -> tuple[Times, Faults]:
    """A column of times, and the rows in which they cannot be read.

    A column holds numbers or dates; `is_date` says which, else what most distinct values are.
    """
    faults = column.nulls("a timestamp is missing", "a timestamp in every row")
    if column.distinct is None:
        if column.rows.dtype.kind == "M":
            times = Times(column.rows.astype("M8[us]").astype(np.int64), True)
            missing = np.isnat(column.rows)
        else:
            is_float = column.rows.dtype.kind == "f"
            numbers: Any = column.rows.astype(np.float64 if is_float else np.int64)
            times, missing = Times(numbers, False), ~np.isfinite(numbers)
        return times, {
            **column.faults(missing, "a timestamp is missing", "a timestamp in every row"),
            **faults,
        }
    texts = [str(value).strip() for value in column.distinct]
    cells = [text.encode(errors="replace") for text in texts]  # wrong bytes are surrogates in it
    if (quick := quick_times(cells, is_date=is_date)) is not None:
        return Times(quick.rows[column.rows], quick.is_date), faults
    numbers, dates = [_finite(text) for text in texts], [_microseconds(text) for text in texts]
    if is_date is None:
        is_date = dates.count(None) <= numbers.count(None)
    read: Sequence[float | None] = dates if is_date else numbers
    bad = np.array([moment is None for moment in read], dtype=bool)[column.rows]
    if bad.any():
        faults = {**column.faults(bad, "a timestamp cannot be read", _A_TIME), **faults}
    moments = np.array([0 if moment is None else moment for moment in read])
    return Times(moments[column.rows], is_date), faults


def quick_times(cells: list[bytes], *, is_date: bool | None) -> Times | None:
    """The times of text that is all whole numbers, or all dates as numpy reads them, else None.

    Numpy knows no time zones; a Z or UTC is taken off here.
    """
    joined = b"".join(cells)
    try:
        if joined.isdigit() and not is_date:
            return Times(np.array(list(map(int, cells)), np.int64), False)
        if b" UTC" in joined:
            cells = [cell.removesuffix(b" UTC") for cell in cells]
            joined = b"".join(cells)
        is_plain = joined.count(b"-") == 2 * len(cells) and not joined.translate(None, _NO_ZONE)
        if is_date is False or not is_plain or min(map(len, cells), default=0) < 10:
            return None
        stamps = np.strings.rstrip(np.array(cells, dtype="S"), b"Z ")
        # by way of objects: a cast of many bytes crashes the process where one is no date
        moments = stamps.astype(object).astype("M8[us]")
    except (ValueError, OverflowError):
        return None
    return None if np.isnat(moments).any() else Times(moments.astype(np.int64), True)


def _finite(text: str) -> int | float | None:
    try:
        whole = int(text)
    except ValueError:
        number = _number(text)
        return number if number is not None and np.isfinite(number) else None
    return whole if "_" not in text and -(2**63) <= whole < 2**63 else None


def _microseconds(text: str) -> int | None:
    """The microseconds since 1970 of an ISO date, in UTC where it names no zone."""
    if not _ISO_DATE.fullmatch(text):
        return None
    try:
        moment = dt.datetime.fromisoformat(text.removesuffix(" UTC"))
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
    return (moment - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1)
