"""Weighted matrix factorisation by alternating least squares, solved in batches."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import NamedTuple, Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ratiorec.data.interactions import Interactions
from ratiorec.kernels.blocks import cut, for_each_block
from ratiorec.scorers import InnerProduct
from ratiorec.solvers.settings import WMF, RunContext
from ratiorec.solvers.solver import require_memory

# numbers gathered at once: few enough for the cache of a core, or enough to fill a GPU
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

    def solve(self, others: Tensor, *, confidence: float, l2: float) -> tuple[Tensor, PairSums]:
        """The best vector of every row, and the sums of p_uᵀq_i and of its square over pairs."""
        factor = torch.linalg.cholesky(gram(others) + l2 * _identity_like(others))
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


_TABLES_AT_ONCE = 4  # both sides, one of them whitened, and a copy of the one that is replaced
_BYTES_PER_PAIR = 32  # both directions of every pair, and the room to put them into order
_BUFFERS_PER_CORE = 6  # gathered vectors, products, their factors


class AlternatingLeastSquares:
    """p_u and q_i on their way to a minimum."""

    def __init__(
        self, settings: WMF, data: Interactions, *, rng: np.random.Generator, device: torch.device
    ) -> None:
        self._settings = settings
        self._n_pairs = data.n_pairs
        dimension = settings.dimension
        self._solve_users = LeastSquares(
            data.indptr, data.indices, n_others=data.n_items, dimension=dimension, device=device
        )
        self._solve_items = LeastSquares(
            *_by_item(data), n_others=data.n_users, dimension=dimension, device=device
        )
        # drawn by numpy, so that every device starts from the same numbers
        drawn = rng.standard_normal((data.n_items, dimension), dtype=np.float32)
        self.users = torch.zeros((data.n_users, dimension), device=device)
        self.items = torch.from_numpy(drawn / np.float32(dimension**0.5)).to(device)

    @classmethod
    def of(
        cls, data: Interactions, settings: WMF, **context: Unpack[RunContext]
    ) -> AlternatingLeastSquares:
        """The items are random at first; the users need no start."""
        device = context["device"]
        row_bytes = 4 * settings.dimension
        n_cores = os.cpu_count() or 1 if device.type == "cpu" else 1
        n_buffered = n_cores * _BUFFERS_PER_CORE * entries_at_once(settings.dimension, device)
        n_rows = _TABLES_AT_ONCE * (data.n_users + data.n_items) + n_buffered
        require_memory(
            row_bytes * n_rows + _BYTES_PER_PAIR * data.n_pairs,
            memory_mb=context["memory_mb"],
            solver="wmf",
            n_items=data.n_items,
            instead="a smaller solver.dimension",
        )
        return cls(settings, data, rng=context["rng"], device=device)

    @torch.no_grad()
    def sweep(self) -> float:
        """Users for the items as they are, then items for these users; the objective after it."""
        a, l2 = self._settings.confidence, self._settings.l2
        self.users, _ = self._solve_users.solve(self.items, confidence=a, l2=l2)
        self.items, pairs = self._solve_items.solve(self.users, confidence=a, l2=l2)
        # Σ over all pairs of (p_uᵀq_i)² is the inner product of PᵀP and QᵀQ
        users, items = gram(self.users), gram(self.items)
        unlabelled = float((users * items).sum())
        labelled = (1 + a) * (self._n_pairs - 2 * pairs.scores) + a * pairs.squares
        return unlabelled + labelled + l2 * float(users.trace() + items.trace())

    def scorer(self) -> InnerProduct:
        """The factors as they are; a sweep replaces them and never writes into them."""
        return InnerProduct(self.users.cpu().numpy(), self.items.cpu().numpy())

    def state(self) -> dict[str, Tensor]:
        """Both tables."""
        return {"users": self.users.cpu(), "items": self.items.cpu()}

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Continue from these tables."""
        self.users = tensors["users"].to(self.users.device)
        self.items = tensors["items"].to(self.items.device)


def _by_item(data: Interactions) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The pairs as a compressed sparse row matrix of items by users."""
    import scipy.sparse

    pairs = scipy.sparse.csr_array(
        (np.empty(data.n_pairs, bool), data.indices, data.indptr),
        shape=(data.n_users, data.n_items),
    )
    by_item = pairs.tocsc()
    return by_item.indptr.astype(np.int64), by_item.indices.astype(np.int32)
