"""LightGCN: embeddings are averages of neighbourhoods, near and far."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from ratiorec.data.interactions import Interactions
from ratiorec.encoders.encoder import TableEncoder, first_vectors, require_shape
from ratiorec.encoders.graph import Graph
from ratiorec.encoders.initial import Initial, Xavier
from ratiorec.scores import Embeddings


class GraphEncoder(TableEncoder):
    """The mean of layers 0 … L, E^(k+1) = Â E^(k) (theory: E3)."""

    def __init__(self, table: Tensor, graph: Graph, n_users: int, n_layers: int) -> None:
        super().__init__(table, n_users)
        self.graph = graph
        self.n_layers = n_layers

    def embeddings(self) -> Embeddings:
        layer: Tensor = self.table
        total: Tensor = self.table
        for _ in range(self.n_layers):
            layer = self.graph @ layer
            total = total + layer
        mean = total / (self.n_layers + 1)
        return Embeddings(mean[: self.n_users], mean[self.n_users :])


@dataclass(frozen=True)
class LightGCN:
    """Propagation without weights or non-linearities over the user-item graph."""

    dimension: int = 64
    n_layers: int = 3
    self_loops: bool = True
    initial: Initial = field(default_factory=Xavier)

    def __post_init__(self) -> None:
        require_shape(self.dimension, self.n_layers)

    def __call__(
        self, data: Interactions, *, rng: np.random.Generator, device: torch.device
    ) -> GraphEncoder:
        table = first_vectors(data, self.dimension, self.initial, rng=rng)
        graph = Graph(data, self_loops=self.self_loops, device=device)
        return GraphEncoder(table.to(device), graph, data.n_users, self.n_layers)
