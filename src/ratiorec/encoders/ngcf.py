"""Neural graph collaborative filtering: every layer mixes, multiplies and bends its neighbours."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from ratiorec.batches.users import AnyBatch
from ratiorec.data.interactions import Interactions
from ratiorec.encoders.encoder import Graph, TableEncoder, dropout, initial_table, rows_of
from ratiorec.encoders.settings import NGCF, Xavier
from ratiorec.shapes import Embeddings, NodeFactors

# a row shorter than this is not stretched to length 1: its derivative would be boundless
SHORTEST_ROW = 1e-6


class NGCFEncoder(TableEncoder):
    """E^(0) beside the directions of layers 1 … L (theory: E4).

    Layer k has its two matrices in `weights[k]` and its two biases in `biases[k]`: the first
    for the mean over a node and its neighbours, the second for its product with the node.
    """

    def __init__(
        self,
        table: Tensor,
        weights: Tensor,
        biases: Tensor,
        graph: Graph,
        *,
        n_users: int,
        dropout: float,
        slope: float,
    ) -> None:
        super().__init__(table, n_users)
        self.weights = nn.Parameter(weights)
        self.biases = nn.Parameter(biases)
        self.graph = graph
        self.dropout = dropout
        self.slope = slope

    @classmethod
    def of(
        cls, data: Interactions, settings: NGCF, *, rng: np.random.Generator, device: torch.device
    ) -> NGCFEncoder:
        """The encoder before its first step."""
        n, d = settings.n_layers, settings.dimension
        table = initial_table(data, d, settings.init, rng=rng, device=device)
        weights = np.empty((n, 2, d, d), np.float32)
        for place in np.ndindex(n, 2):
            weights[place] = Xavier(1.0)(d, d, rng=rng)
        return cls(
            table,
            torch.from_numpy(weights).to(device),
            torch.zeros(n, 2, d, device=device),
            Graph(data, self_loops=True, device=device),
            n_users=data.n_users,
            dropout=settings.dropout,
            slope=settings.slope,
        )

    def embeddings(self) -> Embeddings:
        return self._propagated(dropped=0.0)

    def forward(self, batch: AnyBatch) -> Embeddings:
        users, items = self._propagated(dropped=self.dropout if self.training else 0.0)
        return Embeddings(rows_of(users, batch.users), items)

    def _propagated(self, *, dropped: float) -> Embeddings:
        layer: Tensor = self.table
        directions: list[Tensor] = [self.table]
        for weights, biases in zip(self.weights, self.biases, strict=True):
            layer = dropout(self._next(layer, weights, biases), dropped, noise=self.noise)
            directions.append(functional.normalize(layer, dim=-1, eps=SHORTEST_ROW))
        vectors = torch.cat(directions, -1)
        sizes = [self.n_users, len(vectors) - self.n_users]
        users, items = torch.split_with_sizes(vectors, sizes)
        return Embeddings(users, items)

    def _next(self, layer: NodeFactors, weights: Tensor, biases: Tensor) -> NodeFactors:
        """LeakyReLU(M W₁ + b₁) + LeakyReLU((M ⊙ E) W₂ + b₂), M the means (theory: E4)."""
        around = self.graph.means(layer)
        mixed = torch.addmm(biases[0], around, weights[0])
        multiplied = torch.addmm(biases[1], around * layer, weights[1])
        bent = [functional.leaky_relu(part, self.slope) for part in (mixed, multiplied)]
        return bent[0] + bent[1]
