"""Identifiers: a column of ids as a vocabulary and one index a row.

Integers are numbered in ascending order, text in the order of first appearance: neither
depends on the number of threads, nor on how a file cuts its rows into pieces. UUIDs, however
stored, become text in their canonical form.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types
from numpy.typing import NDArray

from ratiorec.data.vocabulary import Vocabulary
from ratiorec.errors import DataError

Place = Callable[[int], str]
"""Says in words where a row stands, counted from 0."""

# How text files write «nothing here»; in Parquet, Arrow and frames a null is a null.
MISSING_TEXTS = ("", "NaN", "nan", "NULL", "null", "None", "<NA>")

_EXACT_FLOATS = 2**53  # beyond, two integers can share one float64
_UUID_TEXT = "^[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}$"


def encode_ids(
    column: pa.ChunkedArray, *, kind: str, place: Place, is_text: bool = False
) -> tuple[Vocabulary, NDArray[np.int64]]:
    """The vocabulary of a column and the index of every row.

    With `is_text` the column is the text of a file, where an integer is an integer only if it
    is written the way it would be printed: «007» keeps its zeros.
    """
    column = _storage(column)
    if types.is_integer(column.type) and not _is_beyond_int64(column):
        return _number_integers(_integers(column, kind, place), kind)
    if types.is_floating(column.type):
        return _number_integers(_whole_floats(column, kind, place), kind)
    codes, distinct = _distinct_values(column, kind, place)
    order, codes = _by_first_appearance(codes, len(distinct))
    distinct = distinct.take(order)
    _refuse_missing(codes, distinct, kind, place, is_text=is_text)
    texts, codes = _canonical(distinct, codes, kind, place)
    if is_text and (numbers := as_integers(texts)) is not None:
        ids, ranks = np.unique(numbers, return_inverse=True)
        return Vocabulary(ids, kind), ranks[codes]
    return Vocabulary(texts.to_numpy(zero_copy_only=False), kind), codes


def canonical_ids(ids: Iterable[Any], *, kind: str) -> NDArray[Any]:
    """Ids given by a caller, as a vocabulary stores them, in the order given."""
    column = to_arrow(ids, kind=kind)
    vocabulary, indices = encode_ids(column, kind=kind, place=lambda row: f"{kind} ids, {row + 1}.")
    return np.asarray(vocabulary.ids[indices])


def to_arrow(values: Iterable[Any], *, kind: str) -> pa.ChunkedArray:
    """Any column of Python, numpy or Arrow values as an Arrow column."""
    if isinstance(values, pa.ChunkedArray):
        return values
    if isinstance(values, pa.Array):
        return pa.chunked_array([values])
    if isinstance(values, np.ndarray) and values.dtype.kind in "iufUM":
        return pa.chunked_array([pa.array(values)])
    return objects_to_arrow(list(values), kind=kind)


def objects_to_arrow(values: list[Any], *, kind: str) -> pa.ChunkedArray:
    """Python objects as an Arrow column; two kinds of them in one column are refused."""
    plain = [str(value) if isinstance(value, uuid.UUID) else value for value in values]
    try:
        return pa.chunked_array([pa.array(plain, from_pandas=True)])
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, UnicodeEncodeError) as error:
        kinds = list(dict.fromkeys(type(value).__name__ for value in values))
        raise DataError(
            f"the {kind} column is not of one kind",
            where=f"{kind} column",
            found=f"values of type {', '.join(kinds[:5])}: {str(error).splitlines()[0]}",
            wanted="all text, all whole numbers or all UUIDs",
        ) from error


def unwrapped(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The storage of an extension type, and views of text as text; any other column as it is."""
    if isinstance(column.type, pa.BaseExtensionType):
        storage = column.type.storage_type
        column = pa.chunked_array([chunk.storage for chunk in column.chunks], type=storage)
    return column.cast(pa.large_string()) if types.is_string_view(column.type) else column


def _storage(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column unwrapped, and decoded where it is a dictionary of anything but text."""
    column = unwrapped(column)
    if types.is_dictionary(column.type) and not holds_text(column.type.value_type):
        return _storage(column.cast(column.type.value_type))
    if types.is_decimal(column.type) and column.type.scale == 0:
        try:
            return column.cast(pa.int64())
        except pa.ArrowInvalid:
            return column.cast(pa.string())
    return column


def holds_text(kind: pa.DataType) -> bool:
    """Whether columns of this type are text."""
    return bool(types.is_string(kind) or types.is_large_string(kind))


def _is_beyond_int64(column: pa.ChunkedArray) -> bool:
    if not types.is_uint64(column.type):
        return False
    return (pc.max(column).as_py() or 0) > np.iinfo(np.int64).max


def _integers(column: pa.ChunkedArray, kind: str, place: Place) -> NDArray[np.int64]:
    _refuse_null_ids(column, kind, place)
    return np.asarray(column.cast(pa.int64()).to_numpy())


def _whole_floats(column: pa.ChunkedArray, kind: str, place: Place) -> NDArray[np.int64]:
    """Integers that passed through a float column, as pandas makes them where rows have gaps."""
    _refuse_null_ids(column, kind, place)
    values = column.cast(pa.float64()).to_numpy()
    refuse_first(
        np.isnan(values), values, f"missing {kind} id", f"one {kind} id in every row", place
    )
    bad = (np.abs(values) >= _EXACT_FLOATS) | (values != np.floor(values))
    refuse_first(bad, values, f"{kind} id is not a whole number", "a whole number", place)
    return np.asarray(values, dtype=np.int64)


def _number_integers(values: NDArray[np.int64], kind: str) -> tuple[Vocabulary, NDArray[np.int64]]:
    ids, indices = np.unique(values, return_inverse=True)
    return Vocabulary(ids, kind), indices


def _distinct_values(
    column: pa.ChunkedArray, kind: str, place: Place
) -> tuple[NDArray[np.int64], pa.Array]:
    """One code a row and the values the codes stand for."""
    if types.is_null(column.type):
        _refuse_null_ids(column, kind, place)
        return np.zeros(0, np.int64), pa.array([], pa.string())
    if types.is_dictionary(column.type):
        column = column.unify_dictionaries()
    elif holds_text(column.type) or _is_bytes(column.type) or types.is_uint64(column.type):
        column = column.dictionary_encode()
    else:
        raise DataError(
            f"the {kind} column cannot hold ids",
            where=f"{kind} column",
            found=f"values of type {column.type}",
            wanted="text, whole numbers or UUIDs",
        )
    _refuse_null_ids(column, kind, place)
    if not column.num_chunks:
        return np.zeros(0, np.int64), pa.array([], column.type.value_type)
    codes = np.concatenate([chunk.indices.to_numpy() for chunk in column.chunks])
    return codes, column.chunk(0).dictionary


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(
        types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_binary_view(kind)
        or types.is_fixed_size_binary(kind)
    )


def _canonical(
    distinct: pa.Array, codes: NDArray[np.int64], kind: str, place: Place
) -> tuple[pa.Array, NDArray[np.int64]]:
    """The distinct values as text, UUIDs in canonical form; equal texts share a code."""
    if types.is_fixed_size_binary(distinct.type) and distinct.type.byte_width == 16:
        digits = [value.hex() for value in distinct.to_pylist()]
        texts = pa.array([f"{d[:8]}-{d[8:12]}-{d[12:16]}-{d[16:20]}-{d[20:]}" for d in digits])
    elif _is_bytes(distinct.type):
        texts = _decoded(distinct, codes, kind, place)
    else:
        texts = distinct.cast(pa.large_string())
    if len(texts) and pc.all(pc.match_substring_regex(texts, _UUID_TEXT)).as_py():
        texts = pc.utf8_lower(texts)
    merged = texts.dictionary_encode()
    return merged.dictionary, merged.indices.to_numpy()[codes]


def _decoded(distinct: pa.Array, codes: NDArray[np.int64], kind: str, place: Place) -> pa.Array:
    try:
        return distinct.cast(pa.large_binary()).cast(pa.large_string())
    except pa.ArrowInvalid:
        values = distinct.to_pylist()
    bad = next(code for code, value in enumerate(values) if not _is_utf8(value))
    raise DataError(
        f"{kind} id is not UTF-8",
        where=place(int(np.argmax(codes == bad))),
        found=repr(values[bad][:40]),
        wanted="text in UTF-8, or the 16 bytes of a UUID",
    )


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def as_integers(texts: pa.Array) -> NDArray[np.int64] | None:
    """The texts as integers where each is printed exactly as it is written, else None."""
    try:
        numbers = texts.cast(pa.int64())
    except pa.ArrowInvalid:
        return None
    return numbers.to_numpy() if numbers.cast(texts.type).equals(texts) else None


def _by_first_appearance(
    codes: NDArray[np.int64], n_codes: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The codes in use, in the order in which they first appear, and each row's place in it."""
    first = np.full(n_codes, len(codes), dtype=np.int64)
    np.minimum.at(first, codes, np.arange(len(codes)))
    used = np.flatnonzero(first < len(codes))
    order = used[np.argsort(first[used])]
    rank = np.zeros(n_codes, dtype=np.int64)
    rank[order] = np.arange(len(order))
    return order, rank[codes]


def _refuse_missing(
    codes: NDArray[np.int64], distinct: pa.Array, kind: str, place: Place, *, is_text: bool
) -> None:
    """Refuse empty ids and, in text files, the usual spellings of a missing one."""
    missing = pc.is_null(distinct)
    if holds_text(distinct.type):
        trimmed = pc.utf8_trim_whitespace(distinct)
        spellings = pa.array(MISSING_TEXTS if is_text else ("",), type=distinct.type)
        missing = pc.or_(missing, pc.is_in(trimmed, value_set=spellings))
    bad = missing.to_numpy(zero_copy_only=False)
    if bad.any():
        values = np.array(distinct.to_pylist(), dtype=object)
        refuse_first(
            bad[codes], values[codes], f"missing {kind} id", f"one {kind} id in every row", place
        )


def _refuse_null_ids(column: pa.ChunkedArray, kind: str, place: Place) -> None:
    refuse_nulls(column, f"missing {kind} id", f"one {kind} id in every row", place)


def refuse_nulls(column: pa.ChunkedArray, what: str, wanted: str, place: Place) -> None:
    """Refuse a column by its first null."""
    if column.null_count:
        row = int(np.argmax(column.is_null().to_numpy()))
        raise DataError(what, where=place(row), found="null", wanted=wanted)


def refuse_first(bad: Any, values: Any, what: str, wanted: str, place: Place) -> None:
    """Refuse values by the first bad one."""
    if bad.any():
        row = int(np.argmax(bad))
        found = values[row].item() if isinstance(values[row], np.generic) else values[row]
        raise DataError(what, where=place(row), found=repr(found), wanted=wanted)
