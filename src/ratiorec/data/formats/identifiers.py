"""Identifiers: a column of ids as a vocabulary and one index a row.

Integers are numbered in ascending order, text in the order of first appearance: neither
depends on how a file cuts its rows into pieces. An id has one form whatever it was read from:
UUIDs are text in their canonical form, and 3.0, as pandas writes a 3 among gaps, is 3.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ratiorec.data.formats.reading import BadRows, Fault, Faults
from ratiorec.data.formats.values import Values, coded, values_of
from ratiorec.data.vocabulary import UUID_TEXT, WHOLE_NUMBER, Vocabulary
from ratiorec.errors import DataError

# How text files write «nothing here»; in Parquet, Arrow and frames a null is a null.
MISSING_TEXTS = frozenset(("", "NaN", "nan", "NULL", "null", "None", "<NA>"))

_EXACT_FLOATS = 2**53  # beyond, two integers can share one float64
_DECIMAL_ZEROS = re.compile(r"\.0+$")


def id_faults(column: Values, *, kind: str, is_text: bool = False) -> Faults:
    """The rows without a usable id.

    Raises:
        DataError: The column is of a type that cannot hold ids.
    """
    what, wanted = f"missing {_noun(kind)}", f"one {_noun(kind)} in every row"
    faults = column.nulls(what, wanted)
    if column.distinct is not None:
        bad = value_faults(column.distinct, kind=kind, is_text=is_text)
        is_bad = np.zeros(len(column.distinct), dtype=bool)
        is_bad[list(bad)] = True
        rows = np.flatnonzero(is_bad[column.rows]).tolist()
        return {**{row: bad[int(column.rows[row])] for row in rows}, **faults}
    _refuse_type(column.rows.dtype.kind in "iuf", kind, str(column.rows.dtype))
    if column.rows.dtype.kind == "f":
        numbers = column.rows
        is_odd = (np.abs(numbers) >= _EXACT_FLOATS) | (numbers != np.floor(numbers))
        odd = column.faults(is_odd, f"{_noun(kind)} is not a whole number", "a whole number")
        return {**odd, **column.faults(np.isnan(numbers), what, wanted), **faults}
    return faults


def value_faults(values: Sequence[Any], *, kind: str, is_text: bool) -> Faults:
    """The distinct values that are no ids, by their place."""
    types = set(map(type, values))
    _refuse_type(
        types <= {str, bytes}
        or (types == {Decimal} and all(v == v.to_integral_value() for v in values)),
        kind,
        ", ".join(sorted(of.__name__ for of in types)),
    )
    if types != {str}:
        return {n: fault for n, v in enumerate(values) if (fault := _bytes_fault(v, kind))}
    missing = MISSING_TEXTS if is_text else {""}
    wanted = f"one {_noun(kind)} in every row"
    faults = {
        place: Fault(f"missing {_noun(kind)}", repr(value), wanted)
        for place, value in enumerate(values)
        if value.strip() in missing
    }
    try:
        "\n".join(values).encode()
    except UnicodeEncodeError:
        faults |= {n: fault for n, v in enumerate(values) if (fault := surrogate_fault(v))}
    return faults


def _noun(kind: str) -> str:
    """A value of a column in words; kinds of event are read as ids are."""
    return kind if kind == "event" else f"{kind} id"


def _refuse_type(is_right: bool, kind: str, found: str) -> None:
    if not is_right:
        raise DataError(
            f"the {kind} column cannot hold {'events' if kind == 'event' else 'ids'}",
            where=f"{kind} column",
            found=f"values of type {found}",
            wanted="text, whole numbers or UUIDs",
        )


def _bytes_fault(value: Any, kind: str) -> Fault | None:
    try:
        if isinstance(value, bytes):
            value.decode()
    except UnicodeDecodeError:
        wanted = "text in UTF-8, or the 16 bytes of a UUID"
        return Fault(f"{_noun(kind)} is not UTF-8", repr(value[:40]), wanted)
    return None


def surrogate_fault(text: str) -> Fault | None:
    """The fault of text that was decoded with its wrong bytes kept as surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        wrong = text[error.start : error.end]
        try:
            found = repr(wrong.encode(errors="surrogateescape"))
        except UnicodeEncodeError:
            found = f"{wrong!r}: {error.reason}"
        wanted = "UTF-8; convert the file, for example with iconv"
        return Fault("the text is not UTF-8", found, wanted)
    return None


def encode_ids(
    column: Values, *, kind: str, is_text: bool = False
) -> tuple[Vocabulary, NDArray[np.int64]]:
    """The vocabulary of a column without faults, and the index of every row.

    With `is_text` the column is the text of a file, where an integer is an integer only if it
    is written the way it would be printed: «007» keeps its zeros.

    Raises:
        DataError: The column holds an id in two forms, and ids that are no numbers.
    """
    if column.distinct is None:
        return _number_integers(column.rows, kind)
    order, codes = _by_first_appearance(column.rows, len(column.distinct))
    texts = canonical([_text(column.distinct[code]) for code in order.tolist()], kind=kind)
    merged = coded(texts)  # equal texts share a code
    assert merged.distinct is not None
    codes = merged.rows.astype(np.int64)[codes]
    is_number = is_text or (bool(column.distinct) and isinstance(column.distinct[0], Decimal))
    if is_number and (numbers := as_integers(merged.distinct)) is not None:
        ids, ranks = np.unique(numbers, return_inverse=True)
        return Vocabulary(ids, kind), ranks[codes]
    return Vocabulary(np.array(merged.distinct, dtype=object), kind), codes


def canonical_ids(ids: Iterable[Any], *, kind: str) -> NDArray[Any]:
    """Ids given by a caller, as a vocabulary stores them, in the order given."""
    column, bad = values_of(ids, role=kind), BadRows()
    faults = id_faults(column, kind=kind)
    bad.add(faults, place=lambda row: f"{kind} ids, {row + 1}.", content=lambda _: "")
    bad.settle(f"{kind} ids", len(column))
    vocabulary, indices = encode_ids(column, kind=kind)
    return np.asarray(vocabulary.ids[indices])


def canonical(texts: list[str], *, kind: str) -> list[str]:
    """Texts in their one form: UUIDs in small letters, whole numbers without «.0».

    >>> canonical(["3.0", "12"], kind="user"), canonical(["3.0", "3.5"], kind="user")
    (['3', '12'], ['3.0', '3.5'])
    """
    if not texts:
        return texts
    if len(texts[0]) == 36 and all(map(UUID_TEXT.fullmatch, texts)):
        return [text.lower() for text in texts]
    floats = [text for text in texts if text.endswith(".0") and WHOLE_NUMBER.fullmatch(text)]
    if not floats:
        return texts
    if all(map(WHOLE_NUMBER.fullmatch, texts)):
        return [_DECIMAL_ZEROS.sub("", text) for text in texts]
    others = set(texts)
    for text in floats:
        if (plain := _DECIMAL_ZEROS.sub("", text)) in others:
            odd = next(other for other in texts if not WHOLE_NUMBER.fullmatch(other))
            raise DataError(
                f"one {kind} id is written in two forms",
                where=f"{kind} column",
                found=f"{plain!r} and {text!r}, beside {odd!r}, which is no whole number",
                wanted=f"one form for each {kind}, say {plain!r} in every row",
            )
    return texts


def as_integers(texts: Sequence[str]) -> NDArray[np.int64] | None:
    """The texts as integers where each is printed exactly as it is written, else None."""
    try:
        numbers = list(map(int, texts))
        return np.array(numbers, np.int64) if list(map(str, numbers)) == list(texts) else None
    except (ValueError, OverflowError):
        return None


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode()
    return value if isinstance(value, str) else str(int(value))


def uuid_text(value: bytes) -> str:
    """The text of the 16 bytes of a UUID."""
    return str(uuid.UUID(bytes=value))


def _number_integers(values: NDArray[Any], kind: str) -> tuple[Vocabulary, NDArray[np.int64]]:
    if values.dtype == np.uint64 and len(values) and values.max() > np.iinfo(np.int64).max:
        return encode_ids(coded(list(map(str, values.tolist()))), kind=kind)
    ids, indices = np.unique(values.astype(np.int64), return_inverse=True)
    return Vocabulary(ids, kind), indices


def _by_first_appearance(
    codes: NDArray[np.integer], n_codes: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The codes in use, in the order in which they first appear, and each row's place in it."""
    first = np.full(n_codes, len(codes), dtype=np.int64)
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)  # the earliest is written last
    used = np.flatnonzero(first < len(codes))
    order = used[np.argsort(first[used])]
    rank = np.zeros(n_codes, dtype=np.int64)
    rank[order] = np.arange(len(order))
    return order, rank[codes]
