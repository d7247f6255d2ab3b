"""Many small least-squares problems that differ in a few rows, solved in batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ratiorec.blocks import cut, for_each_block

# numbers gathered at once: few enough for the cache of a core, or enough to fill a graphics card
_GATHERED_ON_CPU = 2**19
_GATHERED_ON_CUDA = 2**24
_ROWS_PER_BLOCK = 8192


class PairSums(NamedTuple):
    """Sums over all pairs, in double precision."""

    scores: float
    squares: float


@dataclass(frozen=True, eq=False)
class _Block:
    """Rows of about the same degree, and the others each is paired with, padded to a rectangle."""

    rows: Tensor
    others: Tensor


class LeastSquares:
    """min over p_u of Σ_i c_ui (x_ui − p_uᵀq_i)² + λ‖p_u‖², for every row u of one side.

    With M = QᵀQ + λI = C Cᵀ shared by all rows, Z = Q C⁻ᵀ, and Z_u the rows of Z that u is
    paired with, the minimum is p_u = C⁻ᵀp̃_u, where for the confidence a

        p̃_u = (1 + a)(I + a Z_uᵀZ_u)⁻¹ Z_uᵀ1 = (1 + a) Z_uᵀ(I + a Z_uZ_uᵀ)⁻¹ 1.

    The first form has a matrix of the dimension, the second one of the number of pairs: each row
    takes the smaller. Nothing here is worse conditioned than M.
    """

    def __init__(
        self,
        indptr: NDArray[np.int64],
        indices: NDArray[np.int32],
        *,
        n_others: int,
        dimension: int,
        device: torch.device,
    ) -> None:
        self._n_rows = len(indptr) - 1
        self._width = entries_at_once(dimension, device)
        self._blocks = _padded_blocks(
            indptr, indices, pad=n_others, n_entries=self._width, device=device
        )

    def solve(
        self, others: Tensor, *, confidence: float, penalty: float
    ) -> tuple[Tensor, PairSums]:
        """The best vector of every row, and the sums of p_uᵀq_i and of its square over pairs."""
        factor = torch.linalg.cholesky(gram(others) + penalty * _identity_like(others))
        factor = factor.to(others.dtype)
        # one row of zeros more, which padding points to
        whitened = others.new_zeros((len(others) + 1, others.shape[1]))
        _solve_right(factor.T, others, upper=True, out=whitened)
        table = others.new_zeros((self._n_rows, others.shape[1]))
        sums = torch.zeros((len(self._blocks), 2), dtype=torch.float64, device=others.device)

        def one_block(position: slice) -> None:
            block = self._blocks[position.start]
            solution, sums[position.start] = self._solve_block(block, whitened, confidence)
            table[block.rows] = solution

        for_each_block(one_block, cut(len(self._blocks), 1))
        _solve_right(factor, table, upper=False, out=table)
        return table, PairSums(*sums.sum(0).tolist())

    def _solve_block(
        self, block: _Block, whitened: Tensor, confidence: float
    ) -> tuple[Tensor, Tensor]:
        n_rows, n_pairs = block.others.shape
        if n_pairs > whitened.shape[1]:
            return self._solve_by_dimensions(block, whitened, confidence)
        near = whitened.index_select(0, block.others.reshape(-1)).view(n_rows, n_pairs, -1)
        ones = near.new_ones((n_rows, n_pairs, 1))
        answers = _solve_shifted(torch.bmm(near, near.mT), ones, confidence)
        solution = (1 + confidence) * torch.bmm(near.mT, answers).squeeze(-1)
        # Z_u p̃_u without another product, since a Z_uZ_uᵀ y = 1 − y
        scores = (1 + confidence) / confidence * (1 - answers)
        return solution, _sums(scores, scores.square())

    def _solve_by_dimensions(
        self, block: _Block, whitened: Tensor, confidence: float
    ) -> tuple[Tensor, Tensor]:
        n_rows, n_pairs = block.others.shape
        products = whitened.new_zeros((n_rows, whitened.shape[1], whitened.shape[1]))
        totals = whitened.new_zeros((n_rows, whitened.shape[1], 1))
        for columns in cut(n_pairs, self._width):
            others = block.others[:, columns]
            near = whitened.index_select(0, others.reshape(-1)).view(*others.shape, -1)
            products.baddbmm_(near.mT, near)
            totals += near.sum(1).unsqueeze(-1)
        solution = _solve_shifted(products, (1 + confidence) * totals, confidence)
        # Σ (z_iᵀp̃_u)² = p̃_uᵀ(Z_uᵀZ_u)p̃_u, and a Z_uᵀZ_u p̃_u = (1 + a) Z_uᵀ1 − p̃_u
        squares = solution * ((1 + confidence) * totals - solution) / confidence
        return solution.squeeze(-1), _sums(solution * totals, squares)


def entries_at_once(dimension: int, device: torch.device) -> int:
    """How many vectors a block gathers."""
    gathered = _GATHERED_ON_CPU if device.type == "cpu" else _GATHERED_ON_CUDA
    return max(1, gathered // dimension)


def gram(table: Tensor) -> Tensor:
    """TᵀT in double precision, a few rows at a time."""
    total = torch.zeros((table.shape[1],) * 2, dtype=torch.float64, device=table.device)
    for rows in cut(len(table), _ROWS_PER_BLOCK):
        part = table[rows].double()
        total.addmm_(part.T, part)
    return total


def _identity_like(table: Tensor) -> Tensor:
    return torch.eye(table.shape[1], dtype=torch.float64, device=table.device)


def _solve_right(factor: Tensor, table: Tensor, *, upper: bool, out: Tensor) -> None:
    """Fill `out` with T A⁻¹ for a triangular A, a few rows at a time; `out` may be the table."""

    def one_block(rows: slice) -> None:
        out[rows] = torch.linalg.solve_triangular(factor, table[rows], upper=upper, left=False)

    for_each_block(one_block, cut(len(table), _ROWS_PER_BLOCK))


def _solve_shifted(matrices: Tensor, right: Tensor, confidence: float) -> Tensor:
    """(I + a K)⁻¹ r for a batch of K, which is overwritten."""
    matrices.mul_(confidence).diagonal(dim1=-2, dim2=-1).add_(1)
    factor, _ = torch.linalg.cholesky_ex(matrices)
    return torch.cholesky_solve(right, factor)


def _sums(scores: Tensor, squares: Tensor) -> Tensor:
    return torch.stack([scores.sum(dtype=torch.float64), squares.sum(dtype=torch.float64)])


def _padded_blocks(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    *,
    pad: int,
    n_entries: int,
    device: torch.device,
) -> list[_Block]:
    """All rows that have pairs, the longest first, in rectangles of at most `n_entries`.

    A row that is longer has a block of its own.
    """
    degrees = np.diff(indptr)
    order = np.argsort(-degrees, kind="stable")
    order = order[degrees[order] > 0]
    blocks = []
    start = 0
    while start < len(order):
        n_pairs = int(degrees[order[start]])
        rows = order[start : start + max(1, n_entries // n_pairs)]
        places = np.arange(n_pairs)
        known = places < degrees[rows, None]
        others = np.full(known.shape, pad, np.int32)
        others[known] = indices[(indptr[rows, None] + places)[known]]
        blocks.append(
            _Block(torch.from_numpy(rows).to(device), torch.from_numpy(others).to(device))
        )
        start += len(rows)
    return blocks
