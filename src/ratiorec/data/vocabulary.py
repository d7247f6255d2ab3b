"""Vocabulary: ids of the outside world and their dense indices, and how ids are read."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types
from numpy.typing import NDArray

from ratiorec.errors import DataError, UnknownIdError

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


OnUnknown = Literal["raise", "skip", "fallback"]

_UUID = re.compile(r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """The ids of one side, users or items; index i stands for `ids[i]`.

    `ids` is an int64 array or an object array of `str`, without repeats.
    `names` are optional labels for people, aligned with `ids`.
    `kind` is "user" or "item" and is used in messages only.
    """

    ids: NDArray[Any]
    kind: str
    names: NDArray[np.object_] | None = None

    @classmethod
    def dense(cls, n: int, *, kind: str) -> Vocabulary:
        """The ids 0 … n-1, each its own index."""
        return cls(np.arange(n, dtype=np.int64), kind)

    @classmethod
    def from_ids(cls, ids: Iterable[Any], *, kind: str) -> Vocabulary:
        """Any ids (text, integers, UUIDs) in the order given; a missing or repeated one is refused.

        >>> Vocabulary.from_ids(["b", "a"], kind="item").indices(["a"])
        array([1])
        """

        return cls(canonical_ids(ids, kind=kind), kind)

    def __post_init__(self) -> None:
        object.__setattr__(self, "ids", _stored(self.ids, self.kind))
        if self.names is not None and len(self.names) != len(self.ids):
            raise DataError(
                f"names do not fit the {self.kind}s",
                where=f"names of {self.kind}s",
                found=f"{len(self.names)} names",
                wanted=f"{len(self.ids)}, one for each id",
            )

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def is_dense(self) -> bool:
        """Whether every id is its own index, so that no look-up table is needed."""
        return bool(self.ids.dtype == np.int64 and np.array_equal(self.ids, np.arange(len(self))))

    @cached_property
    def _index(self) -> dict[Any, int]:
        return {identifier: index for index, identifier in enumerate(self.ids.tolist())}

    def name(self, index: int) -> str:
        """The label for people: the name where there is one, else the id."""
        return str(self.ids[index] if self.names is None else self.names[index])

    def indices(self, ids: Iterable[Any], *, on_unknown: OnUnknown = "raise") -> NDArray[np.int64]:
        """The index of each id; -1 for an unknown one unless `on_unknown` is "raise"."""
        if self.is_dense and isinstance(ids, np.ndarray) and ids.dtype == np.int64:
            wanted: Any = ids
            found = np.where((ids >= 0) & (ids < len(self)), ids, -1)
        else:
            wanted = list(ids)
            found = np.fromiter(map(self._find, wanted), np.int64, len(wanted))
        if on_unknown == "raise" and (found < 0).any():
            unknown = [wanted[place] for place in np.flatnonzero(found < 0)[:3]]
            raise UnknownIdError(
                f"{int((found < 0).sum())} unknown {self.kind} id(s)",
                where=f"{self.kind} ids",
                found=", ".join(repr(self.native(identifier)) for identifier in unknown),
                wanted=f'one of the {len(self):,} known {self.kind}s, or on_unknown="skip"',
            )
        return found

    def _find(self, identifier: Any) -> int:
        native = self.native(identifier)
        index = self._index.get(native, -1)
        if index < 0 and isinstance(native, str) and _UUID.fullmatch(native):
            return self._index.get(native.lower(), -1)  # a UUID means the same in capitals
        return index

    def native(self, identifier: Any) -> Any:
        """The id as this vocabulary stores it: a command line writes 7 as "7"."""
        if isinstance(identifier, np.generic):
            identifier = identifier.item()
        if isinstance(identifier, float) and identifier.is_integer():
            identifier = int(identifier)  # pandas turns integers with gaps into floats
        if self.ids.dtype == np.int64:
            return _as_integer(identifier) if isinstance(identifier, str) else identifier
        return identifier if isinstance(identifier, str) else str(identifier)

    def same_as(self, other: Vocabulary) -> bool:
        """Whether every index stands for the same id in both."""
        a, b = self.ids, other.ids
        return a is b or (a.dtype == b.dtype and np.array_equal(a, b))

    def with_names(self, names: Sequence[str]) -> Vocabulary:
        """The same ids, labelled."""
        return Vocabulary(self.ids, self.kind, np.asarray(names, dtype=object))


def _as_integer(text: str) -> int | str:
    """The integer that is written exactly so; "007" and "1_000" stay text."""
    try:
        number = int(text)
    except ValueError:
        return text
    return number if str(number) == text else text


def _stored(ids: Any, kind: str) -> NDArray[Any]:
    """The ids as int64 or as objects, once it is sure that none repeats."""
    ids = np.asarray(ids)
    if ids.dtype == np.uint64 and len(ids) and ids.max() > np.iinfo(np.int64).max:
        ids = ids.astype(str)  # hashes of 64 bits do not fit int64
    stored: NDArray[Any] = ids.astype(np.int64 if ids.dtype.kind in "iu" else object, copy=False)
    if stored.dtype == np.int64:
        repeated = len(stored) > 1 and bool((np.diff(np.sort(stored)) == 0).any())
    else:
        repeated = len(set(stored.tolist())) < len(stored)
    if repeated:
        raise DataError(
            f"{kind} id is there twice",
            where=f"{kind} ids",
            found=repr(_first_repeat(stored)),
            wanted="each id once",
        )
    return stored


def _first_repeat(ids: NDArray[Any]) -> Any:
    seen: set[Any] = set()
    for identifier in ids.tolist():
        if identifier in seen:
            return identifier
        seen.add(identifier)
    raise AssertionError("no id is repeated")
