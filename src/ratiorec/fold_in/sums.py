"""Sums over the pairs of each row, each row by itself: no last digit depends on the others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

_ONE_CORE = 2**18  # OpenBLAS keeps a product of at most this many multiplications on one core


def group_sums(values: NDArray[Any], rows: NDArray[np.int64], n_rows: int) -> NDArray[Any]:
    """Σ of the values that belong to each row; `rows` is sorted, and a row without any has 0."""
    sums = np.zeros((n_rows, *values.shape[1:]), values.dtype)
    if len(rows):
        first = np.flatnonzero(np.diff(rows, prepend=-1))
        sums[rows[first]] = np.add.reduceat(values, first, axis=0)
    return sums


def weighted_gram(vectors: NDArray[Any], weights: NDArray[Any]) -> NDArray[Any]:
    """Σ_i w_i v_i v_iᵀ [d, d] in products that stay on one core: they are too small to share."""
    n, d = vectors.shape
    height = max(1, _ONE_CORE // d**2)
    whole = n - n % height
    scaled = vectors * weights[:, None]
    left = scaled[:whole].reshape(-1, height, d).transpose(0, 2, 1)
    gram: NDArray[Any] = (left @ vectors[:whole].reshape(-1, height, d)).sum(0)
    gram += scaled[whole:].T @ vectors[whole:]
    return gram


def solved(matrices: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """A⁻¹r for each row's own matrix [n, d, d] and right-hand side [n, d]."""
    solution: NDArray[np.float64] = np.linalg.solve(matrices, right[..., None]).astype(np.float64)
    return solution[..., 0]


def row_blocks(n_rows: int, n_at_once: int) -> Iterator[NDArray[np.int64]]:
    """All rows, a few at a time."""
    for start in range(0, n_rows, n_at_once):
        yield np.arange(start, min(start + n_at_once, n_rows))
