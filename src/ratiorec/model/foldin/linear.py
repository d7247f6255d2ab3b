"""Linear fold-in: ridge regression, or a step learnt from known users."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ratiorec.scorers import FloatMatrix
from ratiorec.scorers.scorer import Pairs, pairs_of

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


_ROWS_AT_ONCE = 256
_LEAST_CURVATURE = 1e-7  # of the mean one: fewer items than dimensions leave some without any


@dataclass(frozen=True, eq=False)
class WeightedRidge:
    """min over e of Σ_{i ∈ I_u} (b s² − 2g s) + c Σ_{i ∈ I} s² + λ‖e‖², s = eᵀe_i (theory: F2).

    c, b and g are `everywhere`, `labelled` and `gain`. `dropout` is the share of the vector's
    entries that training dropped. I is without the last `n_cold` items.
    """

    items: FloatMatrix
    everywhere: float
    labelled: float
    gain: float
    penalty: float
    dropout: float = 0.0
    n_cold: int = 0

    def __call__(self, histories: Pairs) -> FloatMatrix:
        """One vector for each history [n, d]; that of an empty one is 0."""
        n_rows = len(histories.indptr) - 1
        vectors = np.zeros((n_rows, self.items.shape[1]), np.float32)
        for rows in row_blocks(n_rows, _ROWS_AT_ONCE):
            vectors[rows] = self._solve(histories, rows)
        return vectors

    def with_items(
        self, items: FloatMatrix, degrees: NDArray[np.int64], *, n_cold: int = 0
    ) -> WeightedRidge:
        """The same problem where there are more items."""
        del degrees
        return replace(self, items=items, n_cold=n_cold)

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
        table = self.items[: len(self.items) - self.n_cold].astype(np.float64)
        gram: NDArray[np.float64] = self.everywhere * (table.T @ table)
        return gram


_STEP_ROWS_AT_ONCE = 1024
_LEAST_SHARE = 1e-3  # of the mean curvature: fewer users than dimensions leave some open


@dataclass(frozen=True, eq=False)
class LearnedStep:
    """e = Mᵀx, x = Σ_{i ∈ I_u} e_i / √(|I_u| |U_i|): a step of propagation, and M (theory: F1).

    M is the ridge regression of the trained users' vectors, which may be longer than the items', on
    their x. `lengths` are √|U_i|.
    """

    items: FloatMatrix
    lengths: NDArray[np.float32]
    map: NDArray[np.float64]  # M [d of items, d of users]

    @classmethod
    def learnt(cls, users: FloatMatrix, items: FloatMatrix, pairs: Pairs) -> LearnedStep:
        """M from all users who have a pair; where nobody has one, the step alone."""
        degrees = np.bincount(pairs.indices, minlength=len(items))
        lengths = np.sqrt(np.maximum(degrees, 1)).astype(np.float32)
        untaught = cls(items, lengths, np.eye(items.shape[1], users.shape[1]))
        have_pairs = np.flatnonzero(np.diff(pairs.indptr))
        curvature = np.zeros((items.shape[1],) * 2)
        right = np.zeros(untaught.map.shape)
        for places in row_blocks(len(have_pairs), _STEP_ROWS_AT_ONCE):
            rows = have_pairs[places]
            steps = untaught.steps(pairs, rows).astype(np.float64)
            curvature += steps.T @ steps
            right += steps.T @ users[rows]
        ridge = _LEAST_SHARE * np.trace(curvature) / len(curvature)
        if ridge == 0:
            return untaught
        curvature[np.diag_indices(len(curvature))] += ridge
        return cls(items, lengths, np.linalg.solve(curvature, right).astype(np.float64))

    def __call__(self, histories: Pairs) -> FloatMatrix:
        """One vector for each history [n, d]; that of an empty one is 0."""
        n_rows = len(histories.indptr) - 1
        vectors = np.zeros((n_rows, self.map.shape[1]), np.float32)
        for rows in row_blocks(n_rows, _STEP_ROWS_AT_ONCE):
            vectors[rows] = self.at(histories, rows)
        return vectors

    def with_items(
        self, items: FloatMatrix, degrees: NDArray[np.int64], *, n_cold: int = 0
    ) -> LearnedStep:
        """The same map where there are more items; `degrees` are |U_i| of all."""
        del n_cold  # nothing here is a sum over all items
        n_known = len(self.lengths)
        lengths = np.sqrt(np.maximum(degrees[n_known:], 1)).astype(np.float32)
        return replace(self, items=items, lengths=np.concatenate([self.lengths, lengths]))

    def at(self, histories: Pairs, rows: NDArray[np.int64]) -> FloatMatrix:
        """The vectors of some of the histories [n, d]."""
        # each row has a product of its own, or its last digit would depend on the others
        vectors: NDArray[np.float64] = self.steps(histories, rows)[:, None] @ self.map
        return vectors[:, 0].astype(np.float32)

    def steps(self, histories: Pairs, rows: NDArray[np.int64]) -> FloatMatrix:
        """x of some histories [n, d]."""
        places, items = pairs_of(histories, rows)
        near = self.items[items]
        near /= self.lengths[items, None]
        n_pairs = histories.indptr[rows + 1] - histories.indptr[rows]
        sums: FloatMatrix = group_sums(near, places, len(rows))
        sums /= np.sqrt(np.maximum(n_pairs, 1)).astype(np.float32)[:, None]
        return sums


@dataclass(frozen=True, eq=False)
class CentredMean:
    """e = 1/|I_u| Σ_{i ∈ I_u} e_i − 1/|I| Σ_{i ∈ I} e_i: the user's first gradient (theory: F9).

    I is without the last `n_cold` items.
    """

    items: FloatMatrix
    n_cold: int = 0

    def __call__(self, histories: Pairs) -> FloatMatrix:
        """One vector for each history [n, d]; that of an empty one is 0."""
        n_pairs = np.diff(histories.indptr)
        vectors = np.zeros((len(n_pairs), self.items.shape[1]), np.float32)
        for rows in row_blocks(len(n_pairs), _STEP_ROWS_AT_ONCE):
            places, items = pairs_of(histories, rows)
            sums = group_sums(self.items[items], places, len(rows))
            vectors[rows] = sums / np.maximum(n_pairs[rows], 1)[:, None] - self._mean
        vectors[n_pairs == 0] = 0
        return vectors

    def with_items(
        self, items: FloatMatrix, degrees: NDArray[np.int64], *, n_cold: int = 0
    ) -> CentredMean:
        """The same where there are more items."""
        del degrees
        return replace(self, items=items, n_cold=n_cold)

    @cached_property
    def _mean(self) -> NDArray[np.float64]:
        known = self.items[: len(self.items) - self.n_cold]
        mean: NDArray[np.float64] = known.mean(0, dtype=np.float64)
        return mean


@dataclass(frozen=True, eq=False)
class AsScored:
    """Vectors of another rule as an encoder scores them (theory: S4, S5).

    They have length 1, or one number more for the popularity term κ, or both: of a user that
    number is 1, of an item κ·log(1 + |U_i⁺|).
    """

    rule: LearnedStep | CentredMean
    normalize: bool
    popularity_term: float  # κ
    of_items: bool = False

    @classmethod
    def learnt(
        cls,
        users: FloatMatrix,
        items: FloatMatrix,
        pairs: Pairs,
        *,
        normalize: bool,
        popularity_term: float,
    ) -> AsScored:
        """The rule between the numbers that were trained."""
        n = items.shape[1] - bool(popularity_term)
        if normalize:
            return cls(CentredMean(items[:, :n]), normalize, popularity_term)
        step = LearnedStep.learnt(users[:, :n], items[:, :n], pairs)
        return cls(step, normalize, popularity_term)

    def learnt_for_items(self, items: FloatMatrix, users: FloatMatrix, pairs: Pairs) -> AsScored:
        """The same with users and items exchanged; `pairs` are the users of each item."""
        term = self.popularity_term
        made = self.learnt(items, users, pairs, normalize=self.normalize, popularity_term=term)
        return replace(made, of_items=True)

    def __call__(self, histories: Pairs) -> FloatMatrix:
        """One vector for each history [n, d]; that of an empty one ranks by popularity."""
        vectors = self.rule(histories)
        if self.normalize:
            lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
            vectors = (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32)
        if not self.popularity_term:
            return vectors
        last = np.ones((len(vectors), 1), np.float32)
        if self.of_items:
            last[:, 0] = self.popularity_term * np.log1p(np.diff(histories.indptr))
        return np.hstack([vectors, last])

    def with_items(
        self, items: FloatMatrix, degrees: NDArray[np.int64], *, n_cold: int = 0
    ) -> AsScored:
        """The same where there are more items; `degrees` are |U_i| of all."""
        trained = items[:, : self.rule.items.shape[1]]
        return replace(self, rule=self.rule.with_items(trained, degrees, n_cold=n_cold))
