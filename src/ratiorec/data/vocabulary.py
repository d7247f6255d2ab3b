"""Vocabulary: ids of the outside world, each with a dense index; pairs of indices, merged."""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ratiorec.data.texts import StoredTexts
from ratiorec.errors import DataError, UnknownIdError

OnUnknown = Literal["raise", "skip", "fallback"]

UUID_TEXT = re.compile(r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
WHOLE_NUMBER = re.compile(r"(0|-?[1-9][0-9]*)(\.0+)?")
"""An integer as it is printed, or as a column of floats prints it; not 007."""
_LONGEST_INT64 = len("-9223372036854775808")


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """The ids of one side, users or items; index i stands for `ids[i]`.

    `ids` is an int64 array or an object array of `str`, without repeats; ids at rest in a training
    set on disk look like one (`StoredTexts`).
    `names` are optional labels for people, aligned with `ids`.
    `kind` is "user" or "item" and is used in messages only.
    `by_id` are the indices in ascending order of the ids: with it a look-up is a binary search,
    where it else is one in a dictionary of all ids.
    """

    ids: NDArray[Any]
    kind: str
    names: NDArray[np.object_] | None = None
    by_id: NDArray[np.integer] | None = None

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
        from ratiorec.data.formats.identifiers import canonical_ids

        return cls(canonical_ids(ids, kind=kind), kind)

    def __post_init__(self) -> None:
        if self.by_id is None:  # who has sorted the ids has seen that none repeats
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
        elif self.by_id is not None and _are_integers(self.ids) and _are_integers(ids):
            wanted, found = ids, self._searched_integers(np.asarray(ids))
        else:
            wanted = ids if isinstance(ids, StoredTexts) else list(ids)
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

    def _searched_integers(self, wanted: NDArray[np.int64]) -> NDArray[np.int64]:
        assert self.by_id is not None
        ranks = np.searchsorted(self.ids, wanted, sorter=self.by_id)
        found = np.asarray(self.by_id[np.minimum(ranks, len(self) - 1)], np.int64)
        found[self.ids[found] != wanted] = -1
        return found

    def _place(self, native: Any) -> int:
        """The index of an id in the form in which ids are stored; -1 where it is unknown."""
        if self.by_id is None:
            return self._index.get(native, -1)
        if isinstance(native, str) == _are_integers(self.ids):
            return -1
        rank = bisect.bisect_left(self.by_id, native, key=self.ids.__getitem__)
        index = int(self.by_id[rank]) if rank < len(self) else -1
        return index if index >= 0 and self.ids[index] == native else -1

    def _find(self, identifier: Any) -> int:
        native = self.native(identifier)
        index = self._place(native)
        if index >= 0 or not isinstance(native, str):
            return index
        if UUID_TEXT.fullmatch(native):
            return self._place(native.lower())  # a UUID means the same in capitals
        if whole := WHOLE_NUMBER.fullmatch(native):  # 3 and 3.0 are one id, whichever is stored
            return self._place(whole[1] if whole[2] else f"{native}.0")
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
        return Vocabulary(self.ids, self.kind, np.asarray(names, dtype=object), self.by_id)


def _are_integers(ids: Any) -> bool:
    return bool(getattr(ids, "dtype", None) == np.int64)


def _as_integer(text: str) -> int | str:
    """The integer that is written so, or as 7.0; "007" and "1_000" stay text."""
    whole = WHOLE_NUMBER.fullmatch(text)
    return int(whole[1]) if whole and len(whole[1]) <= _LONGEST_INT64 else text


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


class MergedPairs(NamedTuple):
    """Unique pairs sorted by user, then item; the fields of `Interactions` beside its ids."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    weights: NDArray[np.float32] | None = None
    timestamps: NDArray[np.int64] | NDArray[np.float64] | None = None
    order: NDArray[np.int32] | None = None
    earliest: NDArray[np.int64] | NDArray[np.float64] | None = None


def merge_pairs(
    users: NDArray[np.int64],
    items: NDArray[np.int64],
    *,
    shape: tuple[int, int],
    weights: ArrayLike | None = None,
    timestamps: ArrayLike | None = None,
    order: ArrayLike | None = None,
) -> MergedPairs:
    """Sort the pairs and merge repeats: weights add up, the latest timestamp and place stay.

    Where there are repeats with timestamps, the earliest stay too. A weight of 0 is no pair.
    """
    n_users, n_items = shape
    _check_lengths(len(users), items=items, weights=weights, timestamps=timestamps, order=order)
    _check_range(users, n_users, "user")
    _check_range(items, n_items, "item")
    width = max(n_items, 1)
    key = users * width + items
    if weights is None and timestamps is None and order is None:
        key.sort()
        key = key[starts_of_runs(key)]
        return MergedPairs(row_ends(key // width, n_users), (key % width).astype(np.int32))
    rows = _sort(users, key, n_users * width)
    starts = starts_of_runs(key)
    times = None if timestamps is None else _as_times(timestamps)[rows]
    columns: list[Any] = [
        None if weights is None else _add_up(_as_weights(weights)[rows], key, starts),
        None if times is None else _latest(times, starts),
        None if order is None else _latest(np.asarray(order, np.int32)[rows], starts),
        None if times is None or len(starts) == len(key) else np.minimum.reduceat(times, starts),
    ]
    del rows, times  # their memory is needed below
    key = key if len(starts) == len(key) else key[starts]
    if columns[0] is not None and not (is_pair := columns[0] > 0).all():
        key = key[is_pair]
        columns = [None if column is None else column[is_pair] for column in columns]
    return MergedPairs(row_ends(key // width, n_users), (key % width).astype(np.int32), *columns)


def _sort(users: NDArray[np.int64], key: NDArray[np.int64], n_keys: int) -> NDArray[np.int64]:
    """Sort the keys in place, and give their rows; equal keys in the order of their rows.

    A stable `argsort` is quick where the rows are grouped by user; else one sort of key and row as
    a single number takes half its time, where 63 bits hold both.
    """
    n_bits = len(key).bit_length()
    if n_keys.bit_length() + n_bits > 63 or bool((users[1:] >= users[:-1]).all()):
        rows = np.argsort(key, kind="stable")
        key[:] = key[rows]
        return rows
    key <<= n_bits
    key |= np.arange(len(key))
    key.sort()
    rows = key & ((1 << n_bits) - 1)
    key >>= n_bits
    return rows


def _latest(moments: NDArray[Any], starts: NDArray[np.int64]) -> Any:
    return np.maximum.reduceat(moments, starts) if len(starts) < len(moments) else moments


def starts_of_runs(key: NDArray[np.int64]) -> NDArray[np.int64]:
    """The start of each run of equal sorted keys."""
    is_start = np.ones(len(key), dtype=bool)
    np.not_equal(key[1:], key[:-1], out=is_start[1:])
    return np.flatnonzero(is_start)


def row_ends(rows: NDArray[np.integer], n_rows: int) -> NDArray[np.int64]:
    """Where the entries of each row end, after a first 0, from the row of every entry."""
    indptr = np.zeros(n_rows + 1, dtype=np.int64)
    np.cumsum(np.bincount(rows, minlength=n_rows), out=indptr[1:])
    return indptr


_PAIRS_AT_ONCE = 1 << 24


def counts_of(indices: NDArray[np.integer], n: int) -> NDArray[np.int64]:
    """How often each index below n comes, without ever widening all of them to 64 bits."""
    counts = np.zeros(n, np.int64)
    for start in range(0, len(indices), _PAIRS_AT_ONCE):
        counts += np.bincount(indices[start : start + _PAIRS_AT_ONCE], minlength=n)
    return counts


def user_blocks(indptr: NDArray[np.int64], n_pairs: int) -> list[tuple[int, int]]:
    """Ranges of users who have about so many pairs together; one user is never cut.

    >>> user_blocks(np.array([0, 2, 3, 9, 9]), 3)
    [(0, 2), (2, 3), (3, 4)]
    """
    blocks, start, n_users = [], 0, len(indptr) - 1
    while start < n_users:
        end = int(np.searchsorted(indptr, indptr[start] + n_pairs, side="right")) - 1
        blocks.append((start, min(max(end, start + 1), n_users)))
        start = blocks[-1][1]
    return blocks


class UserRows(Protocol):
    """The items of each user: `Interactions`, or the merged pairs of some users."""

    @property
    def indptr(self) -> NDArray[np.int64]: ...
    @property
    def indices(self) -> NDArray[np.int32]: ...


def shared_pairs(a: UserRows, b: UserRows, n_items: int) -> tuple[int, tuple[int, int] | None]:
    """How many pairs are in both, and the first of them; block by block, to need little memory."""
    n_shared, first = 0, None
    for start, end in user_blocks(a.indptr, _PAIRS_AT_ONCE):
        keys, wanted = (_keys(one, start, end, n_items) for one in (a, b))
        places = np.searchsorted(keys, wanted)
        in_range = places < len(keys)
        shared = wanted[in_range][keys[places[in_range]] == wanted[in_range]]
        if first is None and len(shared):
            user, item = divmod(int(shared[0]), n_items)
            first = (start + user, item)
        n_shared += len(shared)
    return n_shared, first


def _keys(pairs: UserRows, start: int, end: int, n_items: int) -> NDArray[np.int64]:
    """One ascending number for each pair of the users from `start` to before `end`."""
    indptr = pairs.indptr[start : end + 1]
    users = np.repeat(np.arange(end - start), np.diff(indptr))
    return users * n_items + pairs.indices[indptr[0] : indptr[-1]]


def _add_up(
    weights: NDArray[np.float64], key: NDArray[np.int64], starts: NDArray[np.int64]
) -> NDArray[np.float32]:
    """The sum of each run, smallest weight first, so that the order of the rows is no matter."""
    if len(starts) < len(key):
        weights = np.add.reduceat(weights[np.lexsort((weights, key))], starts)
    largest = float(np.finfo(np.float32).max)
    if len(weights) and weights.max() > largest:
        raise DataError(
            "a weight is too large",
            where="weights, summed by pair",
            found=f"{weights.max():g}",
            wanted=f"at most {largest:g}",
        )
    least = np.where(weights > 0, np.finfo(np.float32).tiny, 0)  # small is more than nothing
    return np.maximum(weights, least).astype(np.float32)


def _as_weights(values: ArrayLike) -> NDArray[np.float64]:
    weights = np.asarray(values, dtype=np.float64)
    bad = ~(np.isfinite(weights) & (weights >= 0))
    if bad.any():
        row = int(np.argmax(bad))
        raise DataError(
            "a weight is negative or not a finite number",
            where=f"weights, row {row + 1}",
            found=str(weights[row]),
            wanted="a number from 0 upwards",
        )
    return weights


def _as_times(values: ArrayLike) -> NDArray[np.int64] | NDArray[np.float64]:
    """Whole numbers as int64, dates as microseconds, all else as float64."""
    times = np.asarray(values)
    missing = ~np.isfinite(times)
    if missing.any():
        row = int(np.argmax(missing))
        raise DataError(
            "a timestamp is missing",
            where=f"timestamps, row {row + 1}",
            found=str(times[row]),
            wanted="a number or a date",
        )
    if times.dtype.kind == "M":
        return times.astype("datetime64[us]").astype(np.int64)
    return times.astype(np.int64) if times.dtype.kind in "iub" else times.astype(np.float64)


def _check_lengths(n_rows: int, **columns: ArrayLike | None) -> None:
    for name, values in columns.items():
        if values is not None and len(np.asarray(values)) != n_rows:
            raise DataError(
                "the columns differ in length",
                where=name,
                found=f"{len(np.asarray(values))} rows",
                wanted=f"{n_rows}, one for each user index",
            )


def _check_range(indices: NDArray[np.int64], n: int, kind: str) -> None:
    if len(indices) and (indices.min() < 0 or indices.max() >= n):
        worst = int(indices.min() if indices.min() < 0 else indices.max())
        raise DataError(
            f"{kind} index out of range",
            where=f"{kind} indices",
            found=str(worst),
            wanted=f"0 to {n - 1}",
        )
