"""Buckets: rows of a stream in no order, put down by ranges of users and merged range by range."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ratiorec.data.formats.merging import Weighting, settled
from ratiorec.data.interactions import user_blocks
from ratiorec.data.stored.database import too_small
from ratiorec.data.stored.folder import StoredPart
from ratiorec.data.vocabulary import MergedPairs, merge_pairs

_MOST_ROWS = 16_000_000  # more at once are no quicker
_MOST_FILES = 500
_BYTES_OF_A_ROW = 100  # while it is merged, and for each number beside its user and item
_BYTES_OF_A_NUMBER = 40


@dataclass(frozen=True)
class Ranges:
    """Ranges of users whose rows are merged at once."""

    blocks: list[tuple[int, int]]
    n_rows: int
    """The rows of the largest."""


def ranges_of(n_rows: NDArray[np.int64], n_beside: int, *, memory_mb: float, of: float) -> Ranges:
    """Ranges that can be merged in so much memory, which is what is left of a budget.

    Raises:
        MemoryBudgetError: The rows of one user alone need more.
    """
    bytes_of_a_row = _BYTES_OF_A_ROW + _BYTES_OF_A_NUMBER * n_beside
    most = min(_MOST_ROWS, int(memory_mb * 2**20 / bytes_of_a_row))
    ends = np.concatenate([[0], np.cumsum(n_rows)])
    blocks = user_blocks(ends, max(most, 1))
    largest = max((int(ends[end] - ends[start]) for start, end in blocks), default=0)
    if largest > most or len(blocks) > _MOST_FILES:
        needed = of + (largest - most) * bytes_of_a_row / 2**20
        needed = max(needed, of * len(blocks) / _MOST_FILES)
        raise too_small(
            of,
            found=f"{int(ends[-1]):,} rows, {int(n_rows.max()):,} of them of one user",
            wanted=f"about {needed:,.0f} or more",
        )
    return Ranges(blocks, largest)


class Buckets:
    """Files of rows, one for each range of users, on disk until they are merged."""

    def __init__(self, folder: Path, ranges: Ranges, n_users: int, fields: list[Any]) -> None:
        self.ranges, self.dtype = ranges, np.dtype(fields)
        self._paths = [folder / f"bucket-{place}" for place in range(len(ranges.blocks))]
        lengths = [end - start for start, end in ranges.blocks]
        self._bucket_of = np.repeat(np.arange(len(lengths), dtype=np.uint16), lengths)
        self._files = ExitStack()
        self._open = [self._files.enter_context(path.open("xb")) for path in self._paths]
        self.n_bytes = 0

    def add(self, columns: list[NDArray[Any]]) -> None:
        """Put down rows; the first column is their users, the others are as the fields say."""
        bucket = self._bucket_of[columns[0]]
        order = np.argsort(bucket, kind="stable")
        rows = np.empty(len(order), self.dtype)
        for field, values in zip(self.dtype.names or (), columns, strict=True):
            rows[field] = values[order]
        ends = np.cumsum(np.bincount(bucket, minlength=len(self._open)))
        for file, start, end in zip(self._open, [0, *ends[:-1]], ends, strict=True):
            if end > start:
                file.write(rows[start:end].data)
        self.n_bytes += rows.nbytes

    def taken(self) -> Iterator[tuple[int, int, NDArray[Any]]]:
        """Each range of users with its rows, whose file is gone then."""
        self._files.close()
        for (start, end), path in zip(self.ranges.blocks, self._paths, strict=True):
            rows = np.fromfile(path, self.dtype)
            path.unlink()
            yield start, end, rows


def merged(
    rows: NDArray[Any],
    n_users: int,
    n_items: int,
    weighting: Weighting,
    old: MergedPairs | None = None,
) -> tuple[MergedPairs, int]:
    """The pairs of the rows of a range of users, which begins at 0, and the pairs taken back.

    Pairs that there are already come in as rows.
    """
    names = rows.dtype.names or ()
    users, items = rows["user"].astype(np.int64), rows["item"].astype(np.int64)
    beside: dict[str, NDArray[Any]] = {name: rows[name] for name in names[2:]}
    if old is not None:
        users, items, beside = _with_old(users, items, beside, old)
    weights, n_removed = beside.get("weights"), 0
    takes_largest = weighting.repeats == "max"
    if weights is not None and len(weights) and (takes_largest or weights.min() < 0):
        key = users * n_items + items
        kept, beside["weights"], n_removed = settled(key, weights, takes_largest=takes_largest)
        users, items = users[kept], items[kept]
        beside = {name: values[kept] for name, values in beside.items()}
    pairs = merge_pairs(users, items, shape=(n_users, n_items), **beside)
    if old is not None and old.timestamps is not None:
        pairs = _with_old_earliest(pairs, old, n_items)
    return (pairs._replace(weights=None) if weighting.repeats == "once" else pairs), n_removed


def _users_of(pairs: MergedPairs) -> NDArray[np.int64]:
    return np.repeat(np.arange(len(pairs.indptr) - 1), np.diff(pairs.indptr))


def _with_old(
    users: NDArray[np.int64],
    items: NDArray[np.int64],
    beside: dict[str, NDArray[Any]],
    old: MergedPairs,
) -> tuple[NDArray[np.int64], NDArray[np.int64], dict[str, NDArray[Any]]]:
    before = {name: getattr(old, name) for name in beside}
    if before.get("weights", 0) is None:  # they counted once
        before["weights"] = np.ones(len(old.indices))
    return (
        np.concatenate([_users_of(old), users]),
        np.concatenate([old.indices.astype(np.int64), items]),
        {name: np.concatenate([before[name], values]) for name, values in beside.items()},
    )


def _with_old_earliest(pairs: MergedPairs, old: MergedPairs, n_items: int) -> MergedPairs:
    """The pairs with the first moments that were known before, all of which are still there."""
    first = pairs.timestamps if pairs.earliest is None else pairs.earliest
    known = old.timestamps if old.earliest is None else old.earliest
    assert first is not None
    assert known is not None
    key = _users_of(pairs) * n_items + pairs.indices
    places = np.searchsorted(key, _users_of(old) * n_items + old.indices)
    earliest = first.copy()
    earliest[places] = np.minimum(first[places], known)
    is_new = pairs.earliest is not None or old.earliest is not None
    return pairs._replace(earliest=earliest if is_new else None)


def old_pairs(part: StoredPart, indptr: NDArray[np.int64], start: int, end: int) -> MergedPairs:
    """The pairs of a range of users in a folder that knows only the first of them, or none."""
    n_known = len(indptr) - 1
    known = indptr[min(start, n_known) : min(end, n_known) + 1]
    pairs = part.rows(known)
    ends = np.full(end - start + 1, pairs.indptr[-1])
    ends[: len(known)] = pairs.indptr
    return pairs._replace(indptr=ends)
