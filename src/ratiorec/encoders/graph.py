"""The symmetrically normalised user-item graph, and its product with a table of vectors."""

from __future__ import annotations

import importlib.util
import itertools
import warnings
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from ratiorec.data.interactions import Interactions
from ratiorec.kernels.blocks import for_each_block
from ratiorec.shapes import NodeFactors

if TYPE_CHECKING:
    from ratiorec.kernels.triton.propagation import FusedLayers


class Adjacency(NamedTuple):
    """A sparse matrix in compressed rows; entry e of a row is `scale[row]·scale[indices[e]]`.

    Values are products of one number per node, so whoever multiplies may scale nodes instead.
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    scale: NDArray[np.float32]

    @property
    def values(self) -> NDArray[np.float32]:
        """Every entry written out."""
        values = self.scale[self.indices]
        values *= np.repeat(self.scale, np.diff(self.indptr))
        return values


def normalised_adjacency(data: Interactions, *, self_loops: bool) -> Adjacency:
    """Â = D^-½ (A [+ I]) D^-½ over users and items, users first (theory: E1).

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
    indices[n_user_entries:][~is_loop[n_user_entries:]] = users_by_item(data)
    with np.errstate(divide="ignore"):
        scale = np.where(degrees > 0, 1 / np.sqrt(degrees), 0.0).astype(np.float32)
    return Adjacency(indptr, indices, scale)


def users_by_item(data: Interactions) -> NDArray[np.int32]:
    """The user of each pair, pairs ordered by item and then by user."""
    import scipy.sparse

    pairs = scipy.sparse.csr_array(
        (np.empty(data.n_pairs, dtype=bool), data.indices, data.indptr),
        shape=(data.n_users, data.n_items),
    )
    users: NDArray[np.int32] = pairs.tocsc().indices.astype(np.int32, copy=False)
    return users


# enough to be worth handing to another core, and few enough to share the work evenly
ENTRIES_PER_BLOCK = 2**15


class SparseRows(Protocol):
    """A sparse matrix that multiplies from the left."""

    def multiply(self, table: Tensor, *, total: Tensor | None = None) -> Tensor:
        """The product; it is also added to `total`, where there is one."""


def sparse_rows(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    values: NDArray[np.float32],
    *,
    n_columns: int,
    device: torch.device,
) -> SparseRows:
    """The matrix in the fastest form for the device."""
    if device.type == "cpu":
        return Bags(indptr, indices, values)
    return Matrix(indptr, indices, values, n_columns, device)


class Bags:
    """On a processor: a row is a weighted sum of vectors, which torch calls a bag.

    It takes half the time of torch's product with a sparse matrix or less, as
    `ratiorec bench propagation` shows, and exists for every processor. Rows are independent, so
    blocks of them run on several cores and the result does not depend on how many.
    """

    def __init__(
        self, indptr: NDArray[np.int64], indices: NDArray[np.int32], values: NDArray[np.float32]
    ) -> None:
        self.n_rows = len(indptr) - 1
        self._rows = even_blocks(indptr, ENTRIES_PER_BLOCK)
        self._parts = {}
        for rows in self._rows:
            pairs = slice(int(indptr[rows.start]), int(indptr[rows.stop]))
            bags = (indptr[rows] - pairs.start).astype(np.int32)
            parts = indices[pairs], bags, values[pairs]
            self._parts[rows.start] = tuple(torch.from_numpy(part) for part in parts)

    def multiply(self, table: Tensor, *, total: Tensor | None = None) -> Tensor:
        result = table.new_empty(self.n_rows, table.shape[1])

        def one_block(rows: slice) -> None:
            entries, bags, weights = self._parts[rows.start]
            result[rows] = functional.embedding_bag(
                entries, table, bags, mode="sum", per_sample_weights=weights.to(table.dtype)
            )
            if total is not None:
                total[rows] += result[rows]

        for_each_block(one_block, self._rows)
        return result


class Matrix:
    """On a graphics card: the whole matrix in compressed form."""

    def __init__(
        self,
        indptr: NDArray[np.int64],
        indices: NDArray[np.int32],
        values: NDArray[np.float32],
        n_columns: int,
        device: torch.device,
    ) -> None:
        with warnings.catch_warnings():
            # torch calls the whole format a beta; of it only this product is used, and tested
            warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
            # said by some releases even where the checks are asked for, as below
            warnings.filterwarnings("ignore", message="Sparse invariant checks are implicitly")
            self._matrix = torch.sparse_csr_tensor(
                torch.from_numpy(indptr.astype(np.int32)),
                torch.from_numpy(indices),
                torch.from_numpy(values),
                size=(len(indptr) - 1, n_columns),
                device=device,
                check_invariants=True,  # a wrong index would be a crash later, not an error
            )

    def multiply(self, table: Tensor, *, total: Tensor | None = None) -> Tensor:
        product = self._matrix.to(table.dtype) @ table
        if total is not None:
            total += product
        return product


def even_blocks(indptr: NDArray[np.int64], n_entries: int) -> list[slice]:
    """Consecutive rows with about so many entries together; a longer row stands alone."""
    starts = np.searchsorted(indptr, np.arange(0, int(indptr[-1]) + 1, n_entries), side="right") - 1
    bounds = np.unique(np.concatenate([[0], starts, [len(indptr) - 1]])).tolist()
    return [slice(a, b) for a, b in itertools.pairwise(bounds)]


class Graph:
    """Â = D^-½ (A [+ I]) D^-½ over users and items, users first (theory: E1)."""

    def __init__(self, data: Interactions, *, self_loops: bool, device: torch.device) -> None:
        self._adjacency = normalised_adjacency(data, self_loops=self_loops)
        self._device = device
        self.n_nodes = len(self._adjacency.scale)
        self._fused = _fused_layers(self._adjacency, device)
        if self._fused is None:
            _ = self._rows  # part of building the graph, and not of the first step

    @cached_property
    def _rows(self) -> SparseRows:
        """Made when first asked for where the fused layers may do without."""
        indptr, indices, _ = self._adjacency
        values = self._adjacency.values
        return sparse_rows(indptr, indices, values, n_columns=self.n_nodes, device=self._device)

    def __matmul__(self, table: NodeFactors) -> NodeFactors:
        product: Tensor = _Symmetric.apply(table, self._rows.multiply)  # type: ignore[no-untyped-call]
        return product

    def means(self, table: NodeFactors) -> NodeFactors:
        """D⁻¹(A [+ I]) X: the mean over a node's neighbours (theory: E4)."""
        return (self @ (table * self._roots)) / self._roots

    @cached_property
    def _roots(self) -> Tensor:
        """The roots of the degrees; a node without neighbours has no mean, only zeros."""
        scale = torch.from_numpy(self._adjacency.scale).to(self._device).unsqueeze(-1)
        return torch.where(scale > 0, 1 / scale, 1)

    def mean_of_layers(self, table: NodeFactors, n_layers: int) -> NodeFactors:
        """(X + ÂX + … + Â^L X)/(L + 1) (theory: E3)."""

        def mean(layer: Tensor) -> Tensor:
            if self._fused is not None and layer.dtype == torch.float32:
                return self._fused.mean(layer, n_layers)
            total = layer.clone()
            for _ in range(n_layers):
                layer = self._rows.multiply(layer, total=total)
            return total.div_(n_layers + 1)

        value: Tensor = _Symmetric.apply(table, mean)  # type: ignore[no-untyped-call]
        return value


def _fused_layers(adjacency: Adjacency, device: torch.device) -> FusedLayers | None:
    """The kernels for a graphics card, where they can be had."""
    if device.type != "cuda" or importlib.util.find_spec("triton") is None:
        return None
    from ratiorec.kernels.triton.propagation import FusedLayers

    return FusedLayers(adjacency, device)


class _Symmetric(torch.autograd.Function):
    """A linear map that is its own transpose, as Â is and every polynomial in it.

    So the backward pass is the same map, and nothing has to be kept for it.
    """

    @staticmethod
    def forward(ctx: Any, table: Tensor, linear: Callable[[Tensor], Tensor]) -> Tensor:
        ctx.linear = linear
        return linear(table)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return ctx.linear(gradient.contiguous()), None
