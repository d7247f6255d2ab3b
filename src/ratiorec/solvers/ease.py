"""Linear regression of every item on all the others, in closed form."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from ratiorec.blocks import cut, for_each_block
from ratiorec.data.interactions import Interactions
from ratiorec.errors import ConfigError
from ratiorec.scorers import FloatMatrix, ItemWeights
from ratiorec.seen import SeenItems
from ratiorec.solvers.budget import require_memory
from ratiorec.solvers.common_users import CommonUsers, working_bytes
from ratiorec.solvers.protocol import OneSweep
from ratiorec.solvers.ranges import require_above_zero

ROWS_PER_BLOCK = 1024
_DENSE_ENTRIES_AT_ONCE = 2**19
_SPARE_BLOCKS = 4  # right-hand sides, solutions and what the solver itself takes


@dataclass(frozen=True)
class EASE:
    """s(u,i) = Σ_{j ∈ I_u⁺} B_ji with B_ji = −P_ji / P_ii, B_ii = 0, P = (XᵀX + λI)⁻¹.

    X is the matrix of pairs and λ the `penalty`. Column i of B is the ridge regression of item i
    on all the others (theory: N3). In single precision: the penalty bounds the condition of what
    is inverted. The last digit depends on how many threads LAPACK takes, and on nothing else.
    """

    penalty: float = 200.0

    def __post_init__(self) -> None:
        require_above_zero(penalty=self.penalty)

    @property
    def n_sweeps(self) -> int:
        return 1

    def start(
        self,
        data: Interactions,
        *,
        rng: np.random.Generator,
        device: torch.device,
        memory_mb: float,
    ) -> OneSweep:
        """Two matrices over all pairs of items are counted: the model, and it again when saved.

        A graphics card holds two while it factorises, and the processor one.
        """
        del rng
        n_items = data.n_items
        matrices = 4 * n_items * (2 * n_items + _SPARE_BLOCKS * ROWS_PER_BLOCK)
        require_memory(
            matrices + working_bytes(data, longest_row=n_items),
            memory_mb=memory_mb,
            solver="ease",
            n_items=n_items,
            instead="item-knn, wmf or dregn-cf",
        )
        inverse = self._inverse_in_place if device.type == "cpu" else self._inverse_by_blocks

        def solve() -> ItemWeights:
            weights = inverse(data, device)
            precisions = np.diagonal(weights).copy()
            _regress(weights)
            return ItemWeights(weights, SeenItems.of(data), precisions)

        return OneSweep(solve)

    def _inverse_in_place(self, data: Interactions, device: torch.device) -> FloatMatrix:
        """P on the processor, where the Gram matrix was: no other matrix exists."""
        from scipy.linalg import lapack

        matrix = np.empty((data.n_items, data.n_items), np.float32)

        def fill(items: slice, rows: FloatMatrix) -> None:
            matrix[items] = rows

        _fill_gram(data, fill)
        matrix[np.diag_indices(data.n_items)] += np.float32(self.penalty)
        # its transpose is the layout that LAPACK works on without a copy; `clean` would count
        # places in 32 bits, which end at 46,340 items
        factor, failed = lapack.spotrf(matrix.T, lower=1, overwrite_a=1, clean=0)
        self._require(not failed)
        inverse, failed = lapack.spotri(factor, lower=1, overwrite_c=1)
        self._require(not failed)
        assert np.shares_memory(inverse, matrix)
        _mirror_upper(matrix)
        return matrix

    def _inverse_by_blocks(self, data: Interactions, device: torch.device) -> FloatMatrix:
        """P from a graphics card, which holds the factor and a block of rows at a time."""
        n_items = data.n_items
        gram = torch.empty((n_items, n_items), device=device)

        def fill(items: slice, rows: FloatMatrix) -> None:
            gram[items] = torch.from_numpy(rows).to(device)

        _fill_gram(data, fill)
        gram.diagonal().add_(self.penalty)
        factor, failed = torch.linalg.cholesky_ex(gram)
        del gram
        self._require(not bool(failed))
        inverse = np.empty((n_items, n_items), np.float32)
        for items in cut(n_items, ROWS_PER_BLOCK):
            units = torch.zeros((n_items, items.stop - items.start), device=device)
            units[items].fill_diagonal_(1)
            # P is symmetric, so what is solved for as columns are its rows
            inverse[items] = torch.cholesky_solve(units, factor).T.cpu().numpy()
        return inverse

    def _require(self, solved: bool) -> None:
        if not solved:
            raise ConfigError(
                "the penalty is too small for single precision",
                where="solver.penalty",
                found=str(self.penalty),
                wanted="a larger one",
            )


def _fill_gram(data: Interactions, fill: Callable[[slice, FloatMatrix], None]) -> None:
    """Hand over XᵀX, some rows at a time."""
    common = CommonUsers(data)

    def one_block(items: slice) -> None:
        fill(items, common.rows(items).toarray())

    n_rows = max(1, _DENSE_ENTRIES_AT_ONCE // max(1, data.n_items))
    for_each_block(one_block, cut(data.n_items, n_rows))


def _mirror_upper(matrix: FloatMatrix) -> None:
    """Make a matrix symmetric whose upper triangle alone is known."""
    blocks = cut(len(matrix), ROWS_PER_BLOCK)

    def one_block(rows: slice) -> None:
        corner = np.triu(matrix[rows, rows])
        matrix[rows, rows] = corner + np.triu(corner, 1).T
        for below in blocks:
            if below.start > rows.start:
                matrix[below, rows] = matrix[rows, below].T

    for_each_block(one_block, blocks)


def _regress(inverse: NDArray[np.float32]) -> None:
    """From P to B, in place."""
    scale = -1 / np.diagonal(inverse)

    def one_block(rows: slice) -> None:
        inverse[rows] *= scale

    for_each_block(one_block, cut(len(inverse), ROWS_PER_BLOCK))
    np.fill_diagonal(inverse, 0)
