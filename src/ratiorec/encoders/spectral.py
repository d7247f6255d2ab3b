"""Spectral initial embeddings: the leading singular vectors of the user-item graph."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ratiorec.data.interactions import Interactions
from ratiorec.encoders.encoder import users_by_item
from ratiorec.encoders.settings import Spectral
from ratiorec.kernels.blocks import SparseRows, cut, for_each_block, sparse_rows
from ratiorec.shapes import NodeFactors

ROWS_PER_BLOCK = 4096
# of the largest eigenvalue; what is smaller is rounding
_LEAST_SHARE = 1e-6


@torch.no_grad()
def spectral_table(
    settings: Spectral,
    data: Interactions,
    dimension: int,
    *,
    rng: np.random.Generator,
    device: torch.device,
) -> NodeFactors:
    """The leading singular vectors of the normalised pairs, users first (theory: E8)."""
    width = min(dimension + settings.n_oversamples, data.n_users, data.n_items)
    forth, back = normalised_pairs(data, device)
    items = orthonormal(signs(data.n_items, width, rng).to(device, torch.float32))
    for _ in range(settings.n_iterations):
        items = orthonormal(back.multiply(orthonormal(forth.multiply(items))))
    users, items = leading(forth.multiply(items), items, min(dimension, width))
    degrees = torch.from_numpy(data.item_degrees).to(device, torch.float32)
    items = items * degrees.pow(settings.popularity_exponent).unsqueeze(-1)
    halves = [_stretched(half, dimension, settings.rms_length, rng) for half in (users, items)]
    return torch.cat(halves)


def signs(n_rows: int, n_columns: int, rng: np.random.Generator) -> Tensor:
    """±1 by the toss of a coin: directions as good as normal ones, a bit for each."""
    n_bytes = -(-n_rows * n_columns // 8)
    bits = np.unpackbits(np.frombuffer(rng.bytes(n_bytes), np.uint8), count=n_rows * n_columns)
    return torch.from_numpy(2 * bits.astype(np.int8) - 1).view(n_rows, n_columns)


def normalised_pairs(data: Interactions, device: torch.device) -> tuple[SparseRows, SparseRows]:
    """D_U^-½ X D_I^-½, by users and by items: the two halves of Â without self loops."""
    by_user, by_item = (
        np.float32(1) / np.sqrt(np.maximum(degrees, 1)).astype(np.float32)
        for degrees in (data.user_degrees, data.item_degrees)
    )
    values = by_user[data.pair_users] * by_item[data.indices]
    forth = sparse_rows(data.indptr, data.indices, values, n_columns=data.n_items, device=device)
    indptr = np.concatenate([[0], np.cumsum(data.item_degrees)])
    users = users_by_item(data)
    values = by_user[users] * np.repeat(by_item, data.item_degrees)
    return forth, sparse_rows(indptr, users, values, n_columns=data.n_users, device=device)


def orthonormal(table: Tensor) -> Tensor:
    """An orthonormal basis of the columns; missing directions become columns of zeros.

    By the Gram matrix, which costs a third of a factorisation and cuts into blocks of rows.
    """
    values, vectors = torch.linalg.eigh(gram(table))
    return times(table, (vectors * _inverse_root(values)).to(table.dtype))


def leading(image: Tensor, basis: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """The first n left and right singular vectors of a matrix, given its product with a basis."""
    values, vectors = torch.linalg.eigh(gram(image))
    to_left = vectors * _inverse_root(values)
    left, right = (part[:, -n:].flip(-1).to(image.dtype) for part in (to_left, vectors))
    return times(image, left), times(basis, right)


def _inverse_root(values: Tensor) -> Tensor:
    """1/√λ of ascending eigenvalues, and 0 where there is none."""
    present = values > _LEAST_SHARE * values[-1]
    return torch.where(present, values, 1).rsqrt() * present


def gram(table: Tensor) -> Tensor:
    """TᵀT in double precision; blocks of rows, added in their order."""
    blocks = cut(len(table), ROWS_PER_BLOCK)
    parts = table.new_empty(len(blocks), table.shape[1], table.shape[1], dtype=torch.float64)

    def one_block(block: slice) -> None:
        rows = table[block]
        parts[block.start // ROWS_PER_BLOCK] = rows.T @ rows

    for_each_block(one_block, blocks)
    return parts.sum(0)


def times(table: Tensor, matrix: Tensor) -> Tensor:
    """T M in blocks of rows."""
    result = table.new_empty(len(table), matrix.shape[1])

    def one_block(block: slice) -> None:
        torch.mm(table[block], matrix, out=result[block])

    for_each_block(one_block, cut(len(table), ROWS_PER_BLOCK))
    return result


def _stretched(half: Tensor, dimension: int, length: float, rng: np.random.Generator) -> Tensor:
    """Rows of the root mean square length asked for; small data lack directions, drawn small."""
    half = half * (length / half.square().sum(-1).mean().sqrt())
    n_missing = dimension - half.shape[1]
    if n_missing == 0:
        return half
    drawn = rng.normal(0, 0.01 * length, (len(half), n_missing)).astype(np.float32)
    return torch.cat([half, torch.from_numpy(drawn).to(half.device)], -1)
