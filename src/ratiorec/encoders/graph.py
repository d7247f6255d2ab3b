"""The symmetrically normalised user-item graph and its product with a table of vectors."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from ratiorec.blocks import for_each_block
from ratiorec.data.interactions import Interactions
from ratiorec.shapes import NodeFactors

# enough to be worth handing to another core, and few enough to share the work evenly
ENTRIES_PER_BLOCK = 2**15


class Graph:
    """Â = D^-½ (A [+ I]) D^-½ over users and items, users first (theory: E1).

    Held as blocks of rows in compressed form with 32-bit indices: rows are independent, so
    the product runs on several cores and its result does not depend on how many. A graphics
    card takes the whole matrix as one block.
    """

    def __init__(self, data: Interactions, *, self_loops: bool, device: torch.device) -> None:
        indptr, indices, values = normalised_adjacency(data, self_loops=self_loops)
        self.n_nodes = len(indptr) - 1
        self._products = dict[int, Callable[[Tensor], Tensor]]()
        self._rows: list[slice] = []
        n_entries = ENTRIES_PER_BLOCK if device.type == "cpu" else max(len(indices), 1)
        for rows in _even_blocks(indptr, n_entries):
            self._rows.append(rows)
            pairs = slice(int(indptr[rows.start]), int(indptr[rows.stop]))
            product = _bags if device.type == "cpu" else _sparse_matrix
            self._products[rows.start] = product(
                indptr[rows.start : rows.stop + 1] - indptr[rows.start],
                indices[pairs],
                values[pairs],
                self.n_nodes,
                device,
            )

    def __matmul__(self, table: NodeFactors) -> NodeFactors:
        product: Tensor = _SymmetricProduct.apply(table, self._multiply)  # type: ignore[no-untyped-call]
        return product

    def _multiply(self, table: Tensor) -> Tensor:
        if len(self._rows) == 1:
            return self._products[0](table)
        result = torch.empty_like(table)

        def one_block(rows: slice) -> None:
            result[rows] = self._products[rows.start](table)

        for_each_block(one_block, self._rows)
        return result


class _SymmetricProduct(torch.autograd.Function):
    """Â X; since Âᵀ = Â, the backward pass is the same product."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, multiply: Callable[[Tensor], Tensor]) -> Tensor:
        ctx.multiply = multiply
        return multiply(table)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return ctx.multiply(gradient.contiguous()), None


def _even_blocks(indptr: NDArray[np.int64], n_entries: int) -> list[slice]:
    """Consecutive rows with about so many entries together; a longer row stands alone."""
    starts = np.searchsorted(indptr, np.arange(0, int(indptr[-1]) + 1, n_entries), side="right") - 1
    bounds = np.unique(np.concatenate([[0], starts, [len(indptr) - 1]])).tolist()
    return [slice(a, b) for a, b in itertools.pairwise(bounds)]


def _bags(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    values: NDArray[np.float32],
    n_nodes: int,
    device: torch.device,
) -> Callable[[Tensor], Tensor]:
    """On a processor: a row is a weighted sum of vectors, which torch calls a bag.

    It takes a third of the time of torch's product with a sparse matrix, as
    benchmarks/propagation.py shows, and exists for every processor.
    """
    del n_nodes, device
    bags, entries = torch.from_numpy(indptr[:-1].astype(np.int32)), torch.from_numpy(indices)
    weights = torch.from_numpy(values)

    def product(table: Tensor) -> Tensor:
        return functional.embedding_bag(
            entries, table, bags, mode="sum", per_sample_weights=weights.to(table.dtype)
        )

    return product


def _sparse_matrix(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    values: NDArray[np.float32],
    n_nodes: int,
    device: torch.device,
) -> Callable[[Tensor], Tensor]:
    """On a graphics card: the matrix in compressed form."""
    with warnings.catch_warnings():
        # torch calls the whole format a beta; of it only this product is used, and tested
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        # said by some releases even where the checks are asked for, as below
        warnings.filterwarnings("ignore", message="Sparse invariant checks are implicitly disabled")
        matrix = torch.sparse_csr_tensor(
            torch.from_numpy(indptr.astype(np.int32)),
            torch.from_numpy(indices),
            torch.from_numpy(values),
            size=(len(indptr) - 1, n_nodes),
            device=device,
            check_invariants=True,  # a wrong index would be a crash later, not an error
        )
    return lambda table: matrix.to(table.dtype) @ table


def normalised_adjacency(
    data: Interactions, *, self_loops: bool
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
    """Â in compressed sparse row form: indptr, indices, values (theory: E1).

    Both directions of every pair, filled in row order without ever holding a list of
    coordinates. With self loops a node counts itself among its neighbours.
    """
    n_users, n_items = data.n_users, data.n_items
    loop = int(self_loops)
    degrees = np.concatenate([data.user_degrees, data.item_degrees]) + loop
    indptr = np.zeros(n_users + n_items + 1, dtype=np.int64)
    np.cumsum(degrees, out=indptr[1:])
    indices = np.empty(int(indptr[-1]), dtype=np.int32)
    nodes = np.arange(n_users + n_items, dtype=np.int32)
    is_loop = np.zeros(len(indices), dtype=bool)
    if self_loops:
        # a user's own column lies before all items, an item's own column after all users
        is_loop[indptr[:n_users]] = True
        is_loop[indptr[n_users + 1 :] - 1] = True
        indices[is_loop] = nodes
    n_user_entries = int(indptr[n_users])
    indices[:n_user_entries][~is_loop[:n_user_entries]] = data.indices + np.int32(n_users)
    indices[n_user_entries:][~is_loop[n_user_entries:]] = _users_by_item(data)
    with np.errstate(divide="ignore"):
        scale = np.where(degrees > 0, 1 / np.sqrt(degrees), 0.0).astype(np.float32)
    values = scale[indices]
    values *= np.repeat(scale, degrees)
    return indptr, indices, values


def _users_by_item(data: Interactions) -> NDArray[np.int32]:
    """The user of each pair, pairs ordered by item and then by user."""
    import scipy.sparse

    pairs = scipy.sparse.csr_array(
        (np.empty(data.n_pairs, dtype=bool), data.indices, data.indptr),
        shape=(data.n_users, data.n_items),
    )
    users: NDArray[np.int32] = pairs.tocsc().indices.astype(np.int32, copy=False)
    return users
