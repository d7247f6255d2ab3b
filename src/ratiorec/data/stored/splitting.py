"""Splits of a training set on disk, range by range of its users.

Which pairs are held out at random, or of several at one time, is told by a number that is drawn
from the seed and the two ids of each pair: the same pairs are held out in whatever order they came,
on however many threads they were read, and what was held out of yesterday's data mostly is held out
of today's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ratiorec.data.interactions import Interactions
from ratiorec.data.split import LeaveLast, RatioSplit, Split, SplitAt, TimeSplit, cut_between
from ratiorec.data.stored.folder import PartWriter, StoredPart, len_of, piece_of
from ratiorec.data.vocabulary import Vocabulary, user_blocks
from ratiorec.errors import DataError

_BYTES_OF_A_PAIR = 120
_MOST_PAIRS = 16_000_000
_VALUES_AT_ONCE = 1 << 22
_IDS_AT_ONCE = 1 << 18
_DIGITS = 16
_BITS_OF_A_DRAW = 40
_MOST_USERS = 1 << (64 - _BITS_OF_A_DRAW)


@dataclass(frozen=True)
class AskedSplit:
    """What is held out: at random, the last pairs of each user, or all after a moment."""

    by: str = "ratio"
    fraction: float = 0.1
    n: int = 1
    at: str | None = None
    last_days: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        RatioSplit(self.fraction)
        LeaveLast(self.n)


@dataclass
class Counts:
    """What a split has done, as `Split` says it."""

    train: int = 0
    held_out: int = 0
    n_users_kept_whole: int = 0
    n_users_unseen: int = 0
    n_repeats: int = 0

    def add(self, split: Split) -> None:
        """Count the split of some users more."""
        self.train += split.train.n_pairs
        self.held_out += split.held_out.n_pairs
        for name in ("n_users_kept_whole", "n_users_unseen", "n_repeats"):
            setattr(self, name, getattr(self, name) + getattr(split, name))


def split_stored(whole: StoredPart, target: Path, asked: AskedSplit, *, memory_mb: float) -> Counts:
    """Write the two parts of stored pairs into a folder.

    Raises:
        DataError: The pairs have no timestamps, or one part would be empty.
    """
    indptr = whole.array("indptr")
    n_items = len_of(whole.folder / "items.by_id.npy")
    splitter = _splitter(whole, asked, n_items)
    items = Vocabulary.dense(n_items, kind="item")
    n_at_once = min(_MOST_PAIRS, int(memory_mb * 2**20 / _BYTES_OF_A_PAIR))
    # a part of no use to a time split has pairs anyway: the cut lies between two moments
    writers = {part: PartWriter(target, part) for part in ("train", "test")}
    counts = Counts()
    for start, end in _blocks(indptr, max(n_at_once, 1)):
        users = Vocabulary.dense(end - start, kind="user")
        data = Interactions(users, items, *whole.rows(indptr[start : end + 1]))
        split = splitter(data, start) if data.n_pairs else Split(data, data, 0)
        counts.add(split)
        writers["train"].append(split.train)
        writers["test"].append(split.held_out)
    for writer in writers.values():
        writer.close()
    return counts


def _blocks(indptr: NDArray[np.int64], n_pairs: int) -> Iterator[tuple[int, int]]:
    """Ranges of users with about so many pairs, and never more users than a sort can tell apart."""
    for start, end in user_blocks(indptr, n_pairs):
        for first in range(start, end, _MOST_USERS):
            yield first, min(first + _MOST_USERS, end)


def _splitter(
    whole: StoredPart, asked: AskedSplit, n_items: int
) -> Callable[[Interactions, int], Split]:
    """The split of the pairs of a range of users, which begins at the user given."""
    folder = whole.folder
    if asked.by == "time":
        cut = _cut(whole, asked)
        return lambda data, start: cut.parts(data)
    last, ratio = LeaveLast(asked.n), RatioSplit(asked.fraction)
    if asked.by == "last" and not whole.has("timestamps"):
        return lambda data, start: last(data)
    keys = np.concatenate([*_keys(folder, "item", 0, n_items, asked.seed)])

    def split(data: Interactions, start: int) -> Split:
        draws = _draws(folder, data, start, keys, asked.seed)
        return (
            last.by_ties(data, draws)
            if asked.by == "last"
            else ratio.by_order(data, _order(data, draws))
        )

    return split


# At random


def _draws(
    folder: Path, data: Interactions, start: int, item_keys: NDArray[np.uint64], seed: int
) -> NDArray[np.uint64]:
    """A number for each pair that looks like chance."""
    keys = np.concatenate([*_keys(folder, "user", start, start + data.n_users, seed)])
    drawn = item_keys[data.indices]
    drawn += keys[data.pair_users]
    return _mixed(drawn)


def _order(data: Interactions, draws: NDArray[np.uint64]) -> NDArray[np.int64]:
    """The pairs user by user, the lowest draw first: one sort where 64 bits tell all of them apart.

    Two draws of a user that are equal in their first 40 bits are rare; then all bits are compared.
    """
    key = data.pair_users.astype(np.uint64) << np.uint64(_BITS_OF_A_DRAW)
    key |= draws >> np.uint64(64 - _BITS_OF_A_DRAW)
    order = np.argsort(key)
    key = key[order]
    return np.lexsort((draws, data.pair_users)) if (key[1:] == key[:-1]).any() else order


def _keys(folder: Path, kind: str, start: int, end: int, seed: int) -> Iterator[NDArray[np.uint64]]:
    """A number for each id from `start` to before `end`, told from the id alone."""
    salt = np.uint64((seed * 2 + (kind == "item")) % 2**64)
    for first in range(start, end, _IDS_AT_ONCE):
        last = min(first + _IDS_AT_ONCE, end)
        numbers = folder / f"{kind}s.ids.npy"
        if numbers.is_file():
            found = piece_of(numbers, first, last).view(np.uint64)
        else:
            ends = piece_of(folder / f"{kind}s.offsets.npy", first, last + 1)
            text = piece_of(folder / f"{kind}s.text.npy", int(ends[0]), int(ends[-1]))
            found = hashed(text, ends - ends[0])
        yield _mixed(_mixed(found) + _mixed(np.full(1, salt, np.uint64)))


def hashed(text: NDArray[np.uint8], offsets: NDArray[np.int64]) -> NDArray[np.uint64]:
    """FNV-1a of 64 bits of each text, a letter of all texts at a time.

    >>> [f"{value:x}" for value in hashed(np.frombuffer(b"ab", np.uint8), np.array([0, 1, 2]))]
    ['af63dc4c8601ec8c', 'af63df4c8601f1a5']
    """
    lengths = np.diff(offsets)
    order = np.argsort(-lengths, kind="stable")
    starts, ascending = offsets[:-1][order], lengths[order][::-1]
    found = np.full(len(lengths), 0xCBF29CE484222325, np.uint64)
    for place in range(int(lengths.max(initial=0))):
        n = len(lengths) - int(np.searchsorted(ascending, place, side="right"))
        found[:n] = (found[:n] ^ text[starts[:n] + place]) * np.uint64(0x100000001B3)
    unsorted = np.empty_like(found)
    unsorted[order] = found
    return unsorted


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of SplitMix64: every bit depends on every other."""
    mixed = values + np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed ^= mixed >> np.uint64(shift)
        mixed *= np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    return mixed


# By time


def _cut(whole: StoredPart, asked: AskedSplit) -> SplitAt:
    column = "earliest" if whole.has("earliest") else "timestamps"
    if not whole.has(column):
        raise DataError(
            "a split by time needs pairs with timestamps",
            where="--by time",
            found="no timestamps",
            wanted="pairs with a timestamp column",
        )
    extremes = np.array([(v.min(), v.max()) for v in whole.pieces(column, _VALUES_AT_ONCE)])
    first, last = extremes[:, 0].min(), extremes[:, 1].max()
    n_pairs = len_of(whole.folder / f"{whole.name}.{column}.npy")
    if asked.at is None and asked.last_days is None:
        pieces = whole.pieces(column, _VALUES_AT_ONCE)
        n_before = sum(int((values < last).sum()) for values in pieces)
        rank = TimeSplit(asked.fraction).rank_of_cut(n_pairs, n_before)
        cut = SplitAt(nth_smallest(lambda: whole.pieces(column, _VALUES_AT_ONCE), rank))
    else:
        latest = max(v.max() for v in whole.pieces("timestamps", _VALUES_AT_ONCE))
        between = np.array([first, last])
        cut = cut_between(between, latest, at=asked.at, last_days=asked.last_days)
    cut.require_both_parts(first.item(), last.item(), n_pairs)
    return cut


def nth_smallest(pieces: Callable[[], Iterator[NDArray[Any]]], n: int) -> float:
    """The value that has n others before it, digit by digit: never are all values in memory.

    >>> nth_smallest(lambda: iter([np.array([5, -7]), np.array([6])]), 1)
    5
    """
    prefix = np.uint64(0)
    for shift in range(64 - _DIGITS, -1, -_DIGITS):
        counts = np.zeros(2**_DIGITS, np.int64)
        for values in pieces():
            keys = _ordered(values)
            if shift + _DIGITS < 64:
                keys = keys[keys >> np.uint64(shift + _DIGITS) == prefix]
            digits = (keys >> np.uint64(shift)) & np.uint64(2**_DIGITS - 1)
            counts += np.bincount(digits.astype(np.int64), minlength=len(counts))
        ends = np.cumsum(counts)
        digit = int(np.searchsorted(ends, n, side="right"))
        n -= int(ends[digit] - counts[digit])
        prefix = (prefix << np.uint64(_DIGITS)) | np.uint64(digit)
    for values in pieces():
        if len(found := values[_ordered(values) == prefix]):
            return found[0].item()  # type: ignore[no-any-return]
    raise AssertionError("there are no values")


def _ordered(values: NDArray[Any]) -> NDArray[np.uint64]:
    """Numbers without a sign in the order of the values."""
    bits, sign = values.view(np.uint64), np.uint64(1 << 63)
    if values.dtype.kind != "f":
        return bits ^ sign
    return np.where(bits & sign, ~bits, bits | sign)
