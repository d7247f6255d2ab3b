"""LightGCN: embeddings are averages of neighbourhoods, near and far."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from ratiorec.data.interactions import Interactions
from ratiorec.encoders.encoder import TableEncoder, require_shape
from ratiorec.encoders.graph import Graph
from ratiorec.encoders.initial import FirstVectors, Xavier, first_vectors
from ratiorec.scores import Embeddings


class GraphEncoder(TableEncoder):
    """The mean of layers 0 … L, E^(k+1) = Â E^(k) (theory: E3)."""

    def __init__(self, table: Tensor, graph: Graph, n_users: int, n_layers: int) -> None:
        super().__init__(table, n_users)
        self.graph = graph
        self.n_layers = n_layers

    def embeddings(self) -> Embeddings:
        mean = self.graph.mean_of_layers(self.table, self.n_layers)
        # slices would have two gradients of the whole table, a split has one
        users, items = torch.split_with_sizes(mean, [self.n_users, len(mean) - self.n_users])
        return Embeddings(users, items)


@dataclass(frozen=True)
class LightGCN:
    """Propagation without weights or non-linearities over the user-item graph."""

    dimension: int = 64
    n_layers: int = 3
    self_loops: bool = True
    initial: FirstVectors = field(default_factory=Xavier)

    def __post_init__(self) -> None:
        require_shape(self.dimension, self.n_layers)

    def __call__(
        self, data: Interactions, *, rng: np.random.Generator, device: torch.device
    ) -> GraphEncoder:
        table = first_vectors(data, self.dimension, self.initial, rng=rng, device=device)
        graph = Graph(data, self_loops=self.self_loops, device=device)
        return GraphEncoder(table, graph, data.n_users, self.n_layers)
