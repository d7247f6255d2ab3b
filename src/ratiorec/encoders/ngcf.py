"""Neural graph collaborative filtering: every layer mixes, multiplies and bends its neighbours."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from ratiorec.data.batches import AnyBatch
from ratiorec.data.interactions import Interactions
from ratiorec.encoders.dropout import dropout, require_dropout
from ratiorec.encoders.encoder import TableEncoder, require_shape, rows_of
from ratiorec.encoders.graph import Graph
from ratiorec.encoders.initial import FirstVectors, Xavier, first_vectors
from ratiorec.errors import ConfigError
from ratiorec.scores import Embeddings
from ratiorec.shapes import NodeFactors

# a row shorter than this is not stretched to length 1: its derivative would be boundless
SHORTEST_ROW = 1e-6


class NeuralGraphEncoder(TableEncoder):
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


@dataclass(frozen=True)
class NGCF:
    """Propagation with learned matrices; `dropout` is the share of a layer dropped in training.

    `initial` draws the first vectors; the matrices are Xavier's with a gain of 1.
    """

    dimension: int = 64
    n_layers: int = 3
    dropout: float = 0.3
    initial: FirstVectors = field(default_factory=lambda: Xavier(1.0))
    slope: float = 0.2

    def __post_init__(self) -> None:
        require_shape(self.dimension, self.n_layers)
        require_dropout(self.dropout)
        if not 0 <= self.slope <= 1:
            raise ConfigError(
                "an encoder setting is out of range",
                where="encoder.slope",
                found=str(self.slope),
                wanted="0 to 1",
            )

    def __call__(
        self, data: Interactions, *, rng: np.random.Generator, device: torch.device
    ) -> NeuralGraphEncoder:
        n, d = self.n_layers, self.dimension
        table = first_vectors(data, d, self.initial, rng=rng, device=device)
        weights = np.empty((n, 2, d, d), np.float32)
        for place in np.ndindex(n, 2):
            weights[place] = Xavier(1.0)(d, d, rng=rng)
        return NeuralGraphEncoder(
            table,
            torch.from_numpy(weights).to(device),
            torch.zeros(n, 2, d, device=device),
            Graph(data, self_loops=True, device=device),
            n_users=data.n_users,
            dropout=self.dropout,
            slope=self.slope,
        )
