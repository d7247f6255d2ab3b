"""Weighted matrix factorisation by alternating least squares, solved in batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Unpack

import numpy as np
from numpy.typing import NDArray

from ratiorec.data.interactions import Interactions
from ratiorec.kernels.blocks import cut, deterministic_threads, for_each_block
from ratiorec.machine import usable_cores
from ratiorec.scorers import FloatMatrix, InnerProduct
from ratiorec.solvers.settings import WMF, RunContext
from ratiorec.solvers.solver import State, require_memory

_GATHERED = 2**19  # numbers at once: few enough for the cache of a core
_ROWS_PER_BLOCK = 8192

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]


class PairSums(NamedTuple):
    """Σ c s and Σ (c − 1)s² over all pairs, s their score and c the confidence; in float64."""

    scores: float
    squares: float


@dataclass(frozen=True, eq=False)
class _Block:
    """Rows of about the same degree, and the others each is paired with, padded to a rectangle.

    Padding has weight 0.
    """

    rows: NDArray[np.int64]
    others: NDArray[np.int32]
    weights: Floats


class LeastSquares:
    """min over p_u of Σ_i c_ui (x_ui − p_uᵀq_i)² + λ‖p_u‖², for every row u of one side.

    With M = QᵀQ + λI = C Cᵀ shared by all rows, Z = Q C⁻ᵀ, a_i = c_ui − 1 for each pair of u (the
    confidence times the weight of the pair), and Z_u the rows √a_i z_i, the minimum is
    p_u = C⁻ᵀp̃_u, where with r_i = (1 + a_i)/√a_i

        p̃_u = (I + Z_uᵀZ_u)⁻¹ Z_uᵀr = Z_uᵀ(I + Z_uZ_uᵀ)⁻¹ r.

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
        weights: Floats | None = None,
    ) -> None:
        if weights is None:
            weights = np.ones(len(indices), np.float32)
        self._n_rows = len(indptr) - 1
        self._width = entries_at_once(dimension)
        self._blocks = _padded_blocks(indptr, indices, weights, pad=n_others, n_entries=self._width)

    def solve(
        self, others: FloatMatrix, *, confidence: float, l2: float
    ) -> tuple[FloatMatrix, PairSums]:
        """The best vector of every row, and the sums of p_uᵀq_i and of its square over pairs."""
        dimension = others.shape[1]
        factor = np.linalg.cholesky(gram(others) + l2 * np.eye(dimension))
        to_white = np.linalg.inv(factor).T.astype(np.float32)
        # one row of zeros more, which padding points to
        whitened = np.zeros((len(others) + 1, dimension), np.float32)
        _multiply_rows(others, to_white, out=whitened)
        table = np.zeros((self._n_rows, dimension), np.float32)
        sums = np.zeros((len(self._blocks), 2))

        def one_block(position: slice) -> None:
            block = self._blocks[position.start]
            solution, sums[position.start] = self._solve_block(block, whitened, confidence)
            table[block.rows] = solution

        for_each_block(one_block, cut(len(self._blocks), 1))
        _multiply_rows(table, to_white.T, out=table)
        return table, PairSums(*sums.sum(0).tolist())

    def _solve_block(
        self, block: _Block, whitened: FloatMatrix, confidence: float
    ) -> tuple[Floats, Doubles]:
        if block.others.shape[1] > whitened.shape[1]:
            return self._solve_by_dimensions(block, whitened, confidence)
        near, right = _scaled(block, slice(None), whitened, confidence)
        answers = _solve_shifted(near @ near.mT, right)
        solution = (near.mT @ answers)[..., 0]
        # Z_u p̃_u = √a_i s_i without another product, since Z_uZ_uᵀ y = r − y
        passed = right - answers
        return solution, _sums(right * passed, np.square(passed))

    def _solve_by_dimensions(
        self, block: _Block, whitened: FloatMatrix, confidence: float
    ) -> tuple[Floats, Doubles]:
        n_rows, n_pairs = block.others.shape
        products = np.zeros((n_rows, whitened.shape[1], whitened.shape[1]), np.float32)
        totals = np.zeros((n_rows, whitened.shape[1], 1), np.float32)
        for columns in cut(n_pairs, self._width):
            near, right = _scaled(block, columns, whitened, confidence)
            products += near.mT @ near
            totals += near.mT @ right
        solution = _solve_shifted(products, totals)
        # Σ a_i s_i² = p̃_uᵀ(Z_uᵀZ_u)p̃_u, and Z_uᵀZ_u p̃_u = Z_uᵀr − p̃_u
        return solution[..., 0], _sums(solution * totals, solution * (totals - solution))


def entries_at_once(dimension: int) -> int:
    """How many vectors a block gathers."""
    return max(1, _GATHERED // dimension)


def gram(table: FloatMatrix) -> Doubles:
    """TᵀT in double precision, a few rows at a time."""
    total = np.zeros((table.shape[1],) * 2)
    for rows in cut(len(table), _ROWS_PER_BLOCK):
        part = table[rows].astype(np.float64)
        total += part.T @ part
    return total


def _multiply_rows(table: FloatMatrix, matrix: FloatMatrix, *, out: FloatMatrix) -> None:
    """Fill `out` with T M, a few rows at a time; `out` may be the table."""

    def one_block(rows: slice) -> None:
        out[rows] = table[rows] @ matrix

    for_each_block(one_block, cut(len(table), _ROWS_PER_BLOCK))


def _scaled(
    block: _Block, columns: slice, whitened: FloatMatrix, confidence: float
) -> tuple[Floats, Floats]:
    """Some rows of Z_u, and r; 0 where there is padding."""
    extra = np.float32(confidence) * block.weights[:, columns, None]
    roots = np.sqrt(extra)
    right = np.divide(1 + extra, roots, out=np.zeros_like(roots), where=roots > 0)
    return whitened[block.others[:, columns]] * roots, right


def _solve_shifted(matrices: Floats, right: Floats) -> Floats:
    """(I + K)⁻¹ r for a batch of K, which is overwritten."""
    np.einsum("nii->ni", matrices)[...] += 1
    solved: Floats = np.linalg.solve(matrices, right)
    return solved


def _sums(scores: NDArray[Any], squares: NDArray[Any]) -> Doubles:
    return np.array([scores.sum(dtype=np.float64), squares.sum(dtype=np.float64)])


def _padded_blocks(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    weights: Floats,
    *,
    pad: int,
    n_entries: int,
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
        at = (indptr[rows, None] + places)[known]
        others[known] = indices[at]
        padded = np.zeros(known.shape, np.float32)
        padded[known] = weights[at]
        blocks.append(_Block(rows, others, padded))
        start += len(rows)
    return blocks


_TABLES_AT_ONCE = 4  # both sides, one of them whitened, and a copy of the one that is replaced
_BYTES_PER_PAIR = 48  # both directions of every pair, and the room to put them into order
_BUFFERS_PER_CORE = 6  # gathered vectors, products, their factors


class AlternatingLeastSquares:
    """p_u and q_i on their way to a minimum."""

    def __init__(self, settings: WMF, data: Interactions, *, rng: np.random.Generator) -> None:
        self._settings = settings
        weights = data.relative_weights
        if weights is None:
            weights = np.ones(data.n_pairs, np.float32)
        extra = settings.confidence * float(weights.sum(dtype=np.float64))
        self._total_confidence = data.n_pairs + extra
        dimension = settings.dimension
        self._solve_users = LeastSquares(
            data.indptr,
            data.indices,
            n_others=data.n_items,
            dimension=dimension,
            weights=weights,
        )
        indptr, indices, item_weights = _by_item(data, weights)
        self._solve_items = LeastSquares(
            indptr, indices, n_others=data.n_users, dimension=dimension, weights=item_weights
        )
        drawn = rng.standard_normal((data.n_items, dimension), dtype=np.float32)
        self.users = np.zeros((data.n_users, dimension), np.float32)
        self.items = drawn / np.float32(dimension**0.5)

    @classmethod
    def of(
        cls, data: Interactions, settings: WMF, **context: Unpack[RunContext]
    ) -> AlternatingLeastSquares:
        """The items are random at first; the users need no start."""
        row_bytes = 4 * settings.dimension
        n_buffered = usable_cores() * _BUFFERS_PER_CORE * entries_at_once(settings.dimension)
        n_rows = _TABLES_AT_ONCE * (data.n_users + data.n_items) + n_buffered
        require_memory(
            row_bytes * n_rows + _BYTES_PER_PAIR * data.n_pairs,
            memory_mb=context["memory_mb"],
            solver="wmf",
            n_items=data.n_items,
            instead="a smaller solver.dimension",
        )
        return cls(settings, data, rng=context["rng"])

    def sweep(self) -> float:
        """Users for the items as they are, then items for these users; the objective after it."""
        a, l2 = self._settings.confidence, self._settings.l2
        with deterministic_threads():  # on the CPU also where a GPU trains
            self.users, _ = self._solve_users.solve(self.items, confidence=a, l2=l2)
            self.items, pairs = self._solve_items.solve(self.users, confidence=a, l2=l2)
        # Σ over all pairs of (p_uᵀq_i)² is the inner product of PᵀP and QᵀQ
        users, items = gram(self.users), gram(self.items)
        unlabelled = float((users * items).sum())
        labelled = self._total_confidence - 2 * pairs.scores + pairs.squares
        return unlabelled + labelled + l2 * float(users.trace() + items.trace())

    def scorer(self) -> InnerProduct:
        """The factors as they are; a sweep replaces them and never writes into them."""
        return InnerProduct(self.users, self.items)

    def state(self) -> State:
        """Both tables."""
        return {"users": self.users, "items": self.items}

    def restore(self, state: State) -> None:
        """Continue from these tables."""
        self.users, self.items = state["users"], state["items"]


def _by_item(
    data: Interactions, weights: Floats
) -> tuple[NDArray[np.int64], NDArray[np.int32], Floats]:
    """The pairs and their weights as a compressed sparse row matrix of items by users."""
    import scipy.sparse

    pairs = scipy.sparse.csr_array(
        (weights, data.indices, data.indptr),
        shape=(data.n_users, data.n_items),
    )
    by_item = pairs.tocsc()
    return by_item.indptr.astype(np.int64), by_item.indices.astype(np.int32), by_item.data
