"""Items only: LightGCN without free vectors of users."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from ratiorec.batches.users import AnyBatch
from ratiorec.data.interactions import Interactions
from ratiorec.encoders.encoder import Encoder, Graph, directions, half_squared_norms, rows_of
from ratiorec.encoders.settings import ItemsOnly
from ratiorec.scorers import ItemFactors, StoredScorer
from ratiorec.scorers.scorer import Pairs
from ratiorec.shapes import Embeddings, NodeFactors, Scalar


class ItemsOnlyEncoder(Encoder):
    """The directions of LightGCN's vectors where every user's layer 0 is zero (theory: E9)."""

    def __init__(self, items: Tensor, graph: Graph, n_users: int, n_layers: int) -> None:
        super().__init__()
        self.items = nn.Parameter(items)
        self.graph = graph
        self.n_users = n_users
        self.n_layers = n_layers

    @classmethod
    def of(
        cls,
        data: Interactions,
        settings: ItemsOnly,
        *,
        rng: np.random.Generator,
        device: torch.device,
    ) -> ItemsOnlyEncoder:
        """The encoder before its first step."""
        items = torch.from_numpy(settings.init(data.n_items, settings.dimension, rng=rng))
        graph = Graph(data, self_loops=False, device=device)
        return cls(items.to(device), graph, data.n_users, settings.n_layers)

    @property
    def table(self) -> NodeFactors:
        """Layer 0: zeros for users, free vectors for items."""
        return functional.pad(self.items, (0, 0, self.n_users, 0))

    def forward(self, batch: AnyBatch) -> Embeddings:
        users, items = self._layers(self.n_layers)
        return Embeddings(directions(rows_of(users, batch.users)), directions(items))

    def penalty(self, batch: AnyBatch) -> Scalar:
        return half_squared_norms(self.table, self.n_users, batch)

    @torch.no_grad()
    def scorer(self, histories: Pairs) -> StoredScorer:
        # a user's layers up to L come from the items' layers before L; the length of the sum is
        # another for each user, and changes no ranking
        inputs = self._layers(self.n_layers - 1).items.cpu()
        degrees = np.bincount(histories.indices, minlength=len(inputs))
        lengths = torch.from_numpy(degrees).clamp_min(1).sqrt().to(inputs.dtype).unsqueeze(-1)
        outputs = directions(self._layers(self.n_layers).items).cpu()
        return ItemFactors((inputs / lengths).numpy(), outputs.numpy(), histories)

    def _layers(self, n_layers: int) -> Embeddings:
        mean = self.graph.mean_of_layers(self.table, n_layers)
        users, items = torch.split_with_sizes(mean, [self.n_users, len(self.items)])
        return Embeddings(users, items)
