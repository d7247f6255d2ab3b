"""What training made of a history, learnt from the users it knows."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ratiorec.fold_in.sums import group_sums, row_blocks
from ratiorec.scorers import FloatMatrix
from ratiorec.seen import Pairs, pairs_of

_ROWS_AT_ONCE = 1024
_LEAST_SHARE = 1e-3  # of the mean curvature: fewer users than dimensions leave some open


@dataclass(frozen=True, eq=False)
class LearnedStep:
    """e = Mᵀx, x = Σ_{i ∈ I_u} e_i / √(|I_u| |U_i|): a step of propagation, and M (theory: F1).

    M is the ridge regression of the trained users' vectors on their x. `lengths` are √|U_i|.
    """

    items: FloatMatrix
    lengths: NDArray[np.float32]
    map: NDArray[np.float64]  # M [d, d]

    @classmethod
    def learnt(cls, users: FloatMatrix, items: FloatMatrix, pairs: Pairs) -> LearnedStep:
        """M from all users who have a pair; where nobody has one, the step alone."""
        degrees = np.bincount(pairs.indices, minlength=len(items))
        lengths = np.sqrt(np.maximum(degrees, 1)).astype(np.float32)
        untaught = cls(items, lengths, np.eye(items.shape[1]))
        have_pairs = np.flatnonzero(np.diff(pairs.indptr))
        curvature, right = np.zeros((2, *untaught.map.shape))
        for places in row_blocks(len(have_pairs), _ROWS_AT_ONCE):
            rows = have_pairs[places]
            steps = untaught.steps(pairs, rows).astype(np.float64)
            curvature += steps.T @ steps
            right += steps.T @ users[rows]
        ridge = _LEAST_SHARE * np.trace(curvature) / len(curvature)
        if ridge == 0:
            return untaught
        curvature[np.diag_indices(len(curvature))] += ridge
        return cls(items, lengths, np.linalg.solve(curvature, right))

    def __call__(self, histories: Pairs) -> FloatMatrix:
        """One vector for each history [n, d]; that of an empty one is 0."""
        n_rows = len(histories.indptr) - 1
        vectors = np.zeros((n_rows, self.items.shape[1]), np.float32)
        for rows in row_blocks(n_rows, _ROWS_AT_ONCE):
            vectors[rows] = self.at(histories, rows)
        return vectors

    def with_items(self, items: FloatMatrix, degrees: NDArray[np.int64]) -> LearnedStep:
        """The same map where there are more items; `degrees` are |U_i| of all."""
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
