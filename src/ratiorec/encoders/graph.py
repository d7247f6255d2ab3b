"""The symmetrically normalised user-item graph, and what it makes of a table of vectors."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ratiorec.data.interactions import Interactions
from ratiorec.encoders.adjacency import Adjacency, normalised_adjacency
from ratiorec.encoders.sparse_rows import sparse_rows
from ratiorec.shapes import NodeFactors

if TYPE_CHECKING:
    from ratiorec.encoders.fused_layers import FusedLayers


class Graph:
    """Â = D^-½ (A [+ I]) D^-½ over users and items, users first (theory: E1)."""

    def __init__(self, data: Interactions, *, self_loops: bool, device: torch.device) -> None:
        adjacency = normalised_adjacency(data, self_loops=self_loops)
        self.n_nodes = len(adjacency.scale)
        self._fused = _fused_layers(adjacency, device)
        self._rows = sparse_rows(
            adjacency.indptr,
            adjacency.indices,
            adjacency.values,
            n_columns=self.n_nodes,
            device=device,
        )

    def __matmul__(self, table: NodeFactors) -> NodeFactors:
        product: Tensor = _Symmetric.apply(table, self._rows.multiply)  # type: ignore[no-untyped-call]
        return product

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
