"""Linear regression of every item on all the others, in closed form."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ratiorec.data.interactions import Interactions
from ratiorec.errors import ConfigError
from ratiorec.kernels.blocks import cut, for_each_block
from ratiorec.machine import Device
from ratiorec.scorers import FloatMatrix, ItemWeights
from ratiorec.scorers.scorer import UserItems
from ratiorec.solvers.neighbours import CommonRows, CountedUsers, working_bytes
from ratiorec.solvers.settings import EASE, Regression
from ratiorec.solvers.solver import OneSweep, require_memory

ROWS_PER_BLOCK = 1024
_PIVOTS_AT_ONCE = 512  # as large a panel as keeps products fast and all cores at work
_DENSE_ENTRIES_AT_ONCE = 2**19
_SPARE_BLOCKS = 4  # right-hand sides, solutions and what the solver itself takes


def start_ease(
    data: Interactions,
    settings: EASE,
    *,
    device: Device,
    memory_mb: float,
    common_users: CountedUsers,
) -> OneSweep:
    """EASE before it is solved.

    Two matrices over all pairs of items are counted: the model, and it again when saved. A GPU
    holds two while it factorises, and the CPU one.
    """
    n_items = data.n_items
    matrices = 4 * n_items * (2 * n_items + _SPARE_BLOCKS * ROWS_PER_BLOCK)
    require_memory(
        matrices + working_bytes(data, longest_row=n_items),
        memory_mb=memory_mb,
        solver="ease",
        n_items=n_items,
        instead="local-ease, item-knn or dregn-cf",
    )
    inverse = _inverse_in_place if device.type == "cpu" else _inverse_by_blocks

    def solve() -> ItemWeights:
        common = common_users(data, settings.activity_exponent)
        weights = inverse(data, settings, device, common)
        precisions = np.diagonal(weights).copy()
        popularity = settings.popularity(data.item_degrees)
        if data.relative_weights is None:
            _regress(weights, popularity)
        else:
            targets = common_users(data, settings.activity_exponent, weighted=True)
            weights = _regress_on_weighted(targets, weights, popularity, device)
        return ItemWeights(weights, UserItems.of(data), precisions)

    return OneSweep(solve)


def _inverse_in_place(
    data: Interactions, settings: EASE, device: Device, common: CommonRows
) -> FloatMatrix:
    """P on the CPU, where the Gram matrix was: no other matrix exists."""
    del device
    matrix = np.empty((data.n_items, data.n_items), np.float32)

    def fill(items: slice, rows: FloatMatrix) -> None:
        matrix[items] = rows

    _fill_gram(common, data.n_items, fill)
    matrix[np.diag_indices(data.n_items)] += settings.ridges(data.item_degrees)
    require_solved(_sweep(matrix), settings)
    _mirror_lower(matrix)
    return matrix


def _sweep(matrix: FloatMatrix) -> bool:
    """Make the lower triangle that of −A⁻¹, by Gauss and Jordan; False where A is not positive.

    LAPACK does as much work, but its bits depend on how many threads it has, and a matrix of 40,000
    items makes it crash.
    """
    blocks = cut(len(matrix), _PIVOTS_AT_ONCE)
    return all(_eliminate(matrix, pivots, blocks) for pivots in blocks)


def _eliminate(matrix: FloatMatrix, pivots: slice, blocks: Sequence[slice]) -> bool:
    """One step: with K the pivots, all other A_ij lose A_iK A_KK⁻¹ A_Kj."""
    try:
        factor = np.linalg.inv(np.linalg.cholesky(matrix[pivots, pivots]))
    except np.linalg.LinAlgError:
        return False
    inverse = factor.T @ factor
    before, after = matrix[pivots, : pivots.start].T, matrix[pivots.stop :, pivots]
    panel = np.concatenate([before, np.zeros_like(inverse), after])

    def one_block(rows: slice) -> None:
        scaled = panel[rows] @ inverse
        for columns in cut(rows.stop, 4 * _PIVOTS_AT_ONCE):
            matrix[rows, columns] -= scaled @ panel[columns].T
        if rows.start > pivots.start:
            matrix[rows, pivots] = scaled
        else:
            matrix[pivots, rows] = scaled.T

    # the longest rows first, so that no core has to wait for one that has begun them late
    for_each_block(one_block, [rows for rows in reversed(blocks) if rows != pivots])
    matrix[pivots, pivots] = -inverse
    return True


def _inverse_by_blocks(
    data: Interactions, settings: EASE, device: Device, common: CommonRows
) -> FloatMatrix:
    """P from a GPU, which holds the factor and a block of rows at a time."""
    import torch

    n_items, place = data.n_items, torch.device(str(device))
    gram = torch.empty((n_items, n_items), device=place)

    def fill(items: slice, rows: FloatMatrix) -> None:
        gram[items] = torch.from_numpy(rows).to(place)

    _fill_gram(common, data.n_items, fill)
    gram.diagonal().add_(torch.from_numpy(settings.ridges(data.item_degrees)).to(place))
    factor, failed = torch.linalg.cholesky_ex(gram)
    del gram
    require_solved(not bool(failed), settings)
    inverse = np.empty((n_items, n_items), np.float32)
    for items in cut(n_items, ROWS_PER_BLOCK):
        units = torch.zeros((n_items, items.stop - items.start), device=place)
        units[items].fill_diagonal_(1)
        # P is symmetric, so what is solved for as columns are its rows
        inverse[items] = torch.cholesky_solve(units, factor).T.cpu().numpy()
    return inverse


def require_solved(solved: bool, settings: Regression) -> None:
    """Refuse a ridge with which a matrix is not positive in single precision."""
    if not solved:
        raise ConfigError(
            "l2 is too small for single precision",
            where="solver.l2",
            found=str(settings.l2),
            wanted="a larger one",
        )


def _fill_gram(
    common: CommonRows, n_items: int, fill: Callable[[slice, FloatMatrix], None]
) -> None:
    """Hand over Xᵀ D_U^−β X, some rows at a time."""

    def one_block(items: slice) -> None:
        fill(items, common.rows(items).toarray())

    n_rows = max(1, _DENSE_ENTRIES_AT_ONCE // max(1, n_items))
    for_each_block(one_block, cut(n_items, n_rows))


def _mirror_lower(matrix: FloatMatrix) -> None:
    """From the lower triangle of −P to the whole of P."""
    blocks = cut(len(matrix), ROWS_PER_BLOCK)

    def one_block(rows: slice) -> None:
        matrix[rows, : rows.stop] *= -1
        corner = np.tril(matrix[rows, rows])
        matrix[rows, rows] = corner + np.tril(corner, -1).T
        for before in blocks:
            if before.start < rows.start:
                matrix[before, rows] = matrix[rows, before].T

    for_each_block(one_block, blocks)


def _regress_on_weighted(
    targets: CommonRows,
    inverse: FloatMatrix,
    popularity: NDArray[np.float32],
    device: Device,
) -> FloatMatrix:
    """D_I^a B D_I^−a where the targets are weighted: B = P Xᵀ(C∘X) − P diag(μ) (theory: W9)."""
    precisions = np.diagonal(inverse)
    product = inverse.__matmul__ if device.type == "cpu" else _product_on_gpu(inverse, device)
    weights = np.empty_like(inverse)

    def one_block(items: slice) -> None:
        block = product(targets.rows(items).toarray().T.astype(np.float32))
        places = np.arange(items.start, items.stop)
        multipliers = block[places, places - items.start] / precisions[items]
        block -= inverse[:, items] * multipliers
        weights[:, items] = block * popularity[:, None] / popularity[items]

    for_each_block(one_block, cut(len(inverse), ROWS_PER_BLOCK))
    np.fill_diagonal(weights, 0)
    return weights


def _product_on_gpu(matrix: FloatMatrix, device: Device) -> Callable[[FloatMatrix], FloatMatrix]:
    import torch

    there = torch.from_numpy(matrix).to(str(device))
    return lambda block: (there @ torch.from_numpy(block).to(there.device)).cpu().numpy()


def _regress(inverse: FloatMatrix, popularity: NDArray[np.float32]) -> None:
    """From P to D_I^a B D_I^−a, in place."""
    scale = -1 / (np.diagonal(inverse) * popularity)
    corrected = bool((popularity != 1).any())

    def one_block(rows: slice) -> None:
        inverse[rows] *= scale
        if corrected:
            inverse[rows] *= popularity[rows, None]

    for_each_block(one_block, cut(len(inverse), ROWS_PER_BLOCK))
    np.fill_diagonal(inverse, 0)
