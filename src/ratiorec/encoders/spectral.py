"""Leading singular vectors of the user-item graph: first embeddings, and what filters are made of.

On the CPU, also where a GPU trains: it takes less than a second, and no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ratiorec.data.interactions import Interactions
from ratiorec.encoders.settings import Spectral
from ratiorec.kernels.blocks import cut, deterministic_threads, even_blocks, for_each_block
from ratiorec.scorers import FloatMatrix

if TYPE_CHECKING:
    import scipy.sparse

ROWS_PER_BLOCK = 4096
_ENTRIES_PER_BLOCK = 2**15
# of the largest eigenvalue; what is smaller is rounding
_LEAST_SHARE = 1e-6

Matrix = NDArray[np.float64]


def spectral_table(
    settings: Spectral, data: Interactions, dimension: int, *, rng: np.random.Generator
) -> FloatMatrix:
    """The leading singular vectors of the normalised pairs, users first (theory: E8)."""
    width = min(dimension + settings.n_oversamples, data.n_users, data.n_items)
    with deterministic_threads():
        forth, back = normalised_pairs(data)
        items = orthonormal(signs(data.n_items, width, rng))
        for _ in range(settings.n_iterations):
            items = orthonormal(back.multiply(orthonormal(forth.multiply(items))))
        users, items = _leading(forth.multiply(items), items, min(dimension, width))
    degrees = data.item_degrees.astype(np.float32)
    items *= (degrees ** np.float32(settings.popularity_exponent))[:, None]
    halves = [_stretched(half, dimension, settings.rms_length, rng) for half in (users, items)]
    return np.concatenate(halves)


def signs(n_rows: int, n_columns: int, rng: np.random.Generator) -> FloatMatrix:
    """±1 by the toss of a coin: directions as good as normal ones, a bit for each."""
    n_bytes = -(-n_rows * n_columns // 8)
    bits = np.unpackbits(np.frombuffer(rng.bytes(n_bytes), np.uint8), count=n_rows * n_columns)
    return (2 * bits.astype(np.float32) - 1).reshape(n_rows, n_columns)


class RowBlocks:
    """A sparse matrix that multiplies a table, blocks of its rows side by side."""

    def __init__(self, matrix: scipy.sparse.csr_array) -> None:
        self._n_rows = matrix.shape[0]
        self._rows = even_blocks(matrix.indptr, _ENTRIES_PER_BLOCK)
        self._parts = {rows.start: matrix[rows] for rows in self._rows}

    def multiply(self, table: FloatMatrix) -> FloatMatrix:
        """The product."""
        result = np.empty((self._n_rows, table.shape[1]), table.dtype)

        def one_block(rows: slice) -> None:
            result[rows] = self._parts[rows.start] @ table

        for_each_block(one_block, self._rows)
        return result


def normalised_pairs(data: Interactions) -> tuple[RowBlocks, RowBlocks]:
    """D_U^-½ X D_I^-½, by users and by items: the two halves of Â without self loops."""
    import scipy.sparse

    by_user, by_item = (
        np.float32(1) / np.sqrt(np.maximum(degrees, 1)).astype(np.float32)
        for degrees in (data.user_degrees, data.item_degrees)
    )
    values = by_user[data.pair_users] * by_item[data.indices]
    shape = (data.n_users, data.n_items)
    pairs = scipy.sparse.csr_array((values, data.indices, data.indptr), shape=shape)
    return RowBlocks(pairs), RowBlocks(pairs.T.tocsr())


def orthonormal(table: FloatMatrix) -> FloatMatrix:
    """An orthonormal basis of the columns; missing directions become columns of zeros.

    By the Gram matrix, which costs a third of a factorisation and cuts into blocks of rows.
    """
    values, vectors = np.linalg.eigh(gram(table))
    return times(table, vectors * _inverse_root(values))


def _leading(image: FloatMatrix, basis: FloatMatrix, n: int) -> tuple[FloatMatrix, FloatMatrix]:
    """The first n left and right singular vectors of a matrix, given its product with a basis."""
    values, vectors = np.linalg.eigh(gram(image))
    to_left = vectors * _inverse_root(values)
    left, right = (part[:, : -n - 1 : -1] for part in (to_left, vectors))
    return times(image, left), times(basis, right)


def _inverse_root(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """1/√λ of ascending eigenvalues, and 0 where there is none."""
    present = values > _LEAST_SHARE * values[-1]
    roots: NDArray[np.float64] = present / np.sqrt(np.where(present, values, 1))
    return roots


def gram(table: FloatMatrix) -> Matrix:
    """TᵀT in double precision; blocks of rows, added in their order."""
    blocks = cut(len(table), ROWS_PER_BLOCK)
    parts = np.empty((len(blocks), table.shape[1], table.shape[1]))

    def one_block(block: slice) -> None:
        parts[block.start // ROWS_PER_BLOCK] = table[block].T @ table[block]

    for_each_block(one_block, blocks)
    total: Matrix = parts.sum(0)
    return total


def times(table: FloatMatrix, matrix: Matrix) -> FloatMatrix:
    """T M in blocks of rows."""
    right = np.ascontiguousarray(matrix, table.dtype)
    result = np.empty((len(table), right.shape[1]), table.dtype)

    def one_block(block: slice) -> None:
        np.matmul(table[block], right, out=result[block])

    for_each_block(one_block, cut(len(table), ROWS_PER_BLOCK))
    return result


def _stretched(
    half: FloatMatrix, dimension: int, length: float, rng: np.random.Generator
) -> FloatMatrix:
    """Rows of the root mean square length asked for; small data lack directions, drawn small."""
    half = half * np.float32(length / np.sqrt(np.square(half).sum(1).mean()))
    n_missing = dimension - half.shape[1]
    if n_missing == 0:
        return half
    drawn = rng.normal(0, 0.01 * length, (len(half), n_missing)).astype(np.float32)
    return np.concatenate([half, drawn], axis=1)
