"""Repeated pairs made one, as compressed sparse rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ratiorec.errors import DataError


class MergedPairs(NamedTuple):
    """Unique pairs sorted by user, then item; the fields of `Interactions` beside its ids."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    weights: NDArray[np.float32] | None = None
    timestamps: NDArray[np.int64] | NDArray[np.float64] | None = None


def merge_pairs(
    users: NDArray[np.int64],
    items: NDArray[np.int64],
    *,
    shape: tuple[int, int],
    weights: ArrayLike | None = None,
    timestamps: ArrayLike | None = None,
) -> MergedPairs:
    """Sort the pairs and merge repeats: weights add up, the latest timestamp stays."""
    n_users, n_items = shape
    _check_lengths(len(users), items=items, weights=weights, timestamps=timestamps)
    _check_range(users, n_users, "user")
    _check_range(items, n_items, "item")
    width = max(n_items, 1)
    key = users * width + items
    if weights is None and timestamps is None:  # sorting takes half the time without an order
        key.sort()
        key = key[_starts_of_runs(key)]
        return MergedPairs(_row_ends(key // width, n_users), (key % width).astype(np.int32))
    order = np.argsort(key, kind="stable")
    key = key[order]
    starts = _starts_of_runs(key)
    unique = key[starts]
    return MergedPairs(
        _row_ends(unique // width, n_users),
        (unique % width).astype(np.int32),
        None if weights is None else _add_up(_as_weights(weights)[order], key, starts),
        None if timestamps is None else _latest(_as_times(timestamps)[order], starts),
    )


def _latest(
    times: NDArray[np.int64] | NDArray[np.float64], starts: NDArray[np.int64]
) -> NDArray[np.int64] | NDArray[np.float64]:
    return np.maximum.reduceat(times, starts) if len(starts) else times


def _starts_of_runs(key: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where each run of equal sorted keys begins."""
    is_start = np.ones(len(key), dtype=bool)
    np.not_equal(key[1:], key[:-1], out=is_start[1:])
    return np.flatnonzero(is_start)


def _row_ends(rows: NDArray[np.int64], n_rows: int) -> NDArray[np.int64]:
    indptr = np.zeros(n_rows + 1, dtype=np.int64)
    np.cumsum(np.bincount(rows, minlength=n_rows), out=indptr[1:])
    return indptr


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
    return weights.astype(np.float32)


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
