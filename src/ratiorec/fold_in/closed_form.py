"""The best vector of a user where the loss is squared: one small system of equations."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ratiorec.fold_in.sums import group_sums, row_blocks, solved, weighted_gram
from ratiorec.scorers import FloatMatrix
from ratiorec.seen import Pairs, pairs_of

_ROWS_AT_ONCE = 256
_LEAST_CURVATURE = 1e-7  # of the mean one: fewer items than dimensions leave some without any


@dataclass(frozen=True, eq=False)
class WeightedRidge:
    """min over e of Σ_{i ∈ I_u} (b s² − 2g s) + c Σ_{i ∈ I} s² + λ‖e‖², s = eᵀe_i (theory: F2).

    c, b and g are `everywhere`, `labelled` and `gain`. `dropout` is the share of the vector's
    entries that training dropped.
    """

    items: FloatMatrix
    everywhere: float
    labelled: float
    gain: float
    penalty: float
    dropout: float = 0.0

    def __call__(self, histories: Pairs) -> FloatMatrix:
        """One vector for each history [n, d]; that of an empty one is 0."""
        n_rows = len(histories.indptr) - 1
        vectors = np.zeros((n_rows, self.items.shape[1]), np.float32)
        for rows in row_blocks(n_rows, _ROWS_AT_ONCE):
            vectors[rows] = self._solve(histories, rows)
        return vectors

    def with_items(self, items: FloatMatrix, degrees: NDArray[np.int64]) -> WeightedRidge:
        """The same problem where there are more items."""
        del degrees
        return replace(self, items=items)

    def _solve(self, histories: Pairs, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        places, items = pairs_of(histories, rows)
        near = self.items[items].astype(np.float64)
        weights = np.full(len(near), self.labelled, np.float64)
        ends = np.searchsorted(places, np.arange(len(rows) + 1))
        curvature = np.empty((len(rows), near.shape[1], near.shape[1]))
        for row, (start, end) in enumerate(itertools.pairwise(ends)):
            curvature[row] = weighted_gram(near[start:end], weights[start:end])
        curvature += self._everywhere
        diagonal = np.einsum("nii->ni", curvature)
        floor = _LEAST_CURVATURE * diagonal.mean(1, keepdims=True) + np.finfo(np.float32).tiny
        diagonal += self.dropout / (1 - self.dropout) * diagonal + self.penalty + floor
        right = self.gain * group_sums(near, places, len(rows))
        return solved(curvature, right)

    @cached_property
    def _everywhere(self) -> NDArray[np.float64]:
        table = self.items.astype(np.float64)
        gram: NDArray[np.float64] = self.everywhere * (table.T @ table)
        return gram
