"""LightGCN: embeddings are averages of neighbourhoods, near and far."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ratiorec.data.interactions import Interactions
from ratiorec.encoders.encoder import TableEncoder
from ratiorec.encoders.graph import Graph
from ratiorec.encoders.init import initial_table
from ratiorec.encoders.settings import LightGCN
from ratiorec.shapes import Embeddings


class LightGCNEncoder(TableEncoder):
    """The mean of layers 0 … L, E^(k+1) = Â E^(k) (theory: E3)."""

    def __init__(self, table: Tensor, graph: Graph, n_users: int, n_layers: int) -> None:
        super().__init__(table, n_users)
        self.graph = graph
        self.n_layers = n_layers

    @classmethod
    def of(
        cls,
        data: Interactions,
        settings: LightGCN,
        *,
        rng: np.random.Generator,
        device: torch.device,
    ) -> LightGCNEncoder:
        """The encoder before its first step."""
        table = initial_table(data, settings.dimension, settings.init, rng=rng, device=device)
        graph = Graph(data, self_loops=settings.self_loops, device=device)
        return cls(table, graph, data.n_users, settings.n_layers)

    def embeddings(self) -> Embeddings:
        mean = self.graph.mean_of_layers(self.table, self.n_layers)
        # slices would have two gradients of the whole table, a split has one
        users, items = torch.split_with_sizes(mean, [self.n_users, len(mean) - self.n_users])
        return Embeddings(users, items)
