"""Efficient neural matrix factorisation: a product of vectors whose dimensions are weighed."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn

from ratiorec.data.batches import AnyBatch
from ratiorec.data.interactions import Interactions
from ratiorec.encoders.dropout import dropout, require_dropout
from ratiorec.encoders.encoder import TableEncoder, require_shape, rows_of
from ratiorec.encoders.initial import FirstVectors, Xavier, first_vectors
from ratiorec.scores import Embeddings


class WeighedFactors(TableEncoder):
    """s(u,i) = hᵀ(p_u ⊙ q_i): a user is h ⊙ p_u and an item q_i (theory: E5)."""

    def __init__(self, table: Tensor, n_users: int, *, dropout: float) -> None:
        super().__init__(table, n_users)
        self.dimension_weights = nn.Parameter(table.new_ones(table.shape[1]))
        self.dropout = dropout

    def embeddings(self) -> Embeddings:
        users, items = self.base
        return Embeddings(self.dimension_weights * users, items)

    def forward(self, batch: AnyBatch) -> Embeddings:
        dropped = self.dropout if self.training else 0.0
        users = dropout(rows_of(self.base.users, batch.users), dropped, noise=self.noise)
        return Embeddings(self.dimension_weights * users, self.base.items)


@dataclass(frozen=True)
class ENMF:
    """Factorisation with a learned weight for each dimension; p_u loses `dropout` in training."""

    dimension: int = 64
    dropout: float = 0.3
    initial: FirstVectors = field(default_factory=lambda: Xavier(1.0))

    def __post_init__(self) -> None:
        require_shape(self.dimension)
        require_dropout(self.dropout)

    def __call__(
        self, data: Interactions, *, rng: np.random.Generator, device: torch.device
    ) -> WeighedFactors:
        table = first_vectors(data, self.dimension, self.initial, rng=rng, device=device)
        return WeighedFactors(table, data.n_users, dropout=self.dropout)
