"""ENMF: a product of vectors whose dimensions are weighed."""

from __future__ import annotations

from torch import Tensor, nn

from ratiorec.batches.users import AnyBatch
from ratiorec.encoders.encoder import TableEncoder, dropout, rows_of
from ratiorec.shapes import Embeddings


class ENMFEncoder(TableEncoder):
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
