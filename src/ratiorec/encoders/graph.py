"""The symmetrically normalised user-item graph, and what it makes of a table of vectors."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ratiorec.data.interactions import Interactions
from ratiorec.encoders.adjacency import Adjacency, normalised_adjacency
from ratiorec.encoders.sparse_rows import SparseRows, sparse_rows
from ratiorec.shapes import NodeFactors

if TYPE_CHECKING:
    from ratiorec.encoders.fused_layers import FusedLayers


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
    from ratiorec.encoders.fused_layers import FusedLayers

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
