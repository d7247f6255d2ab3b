"""Encoders: what training sees of a model (vectors, an L2 penalty, in the end a scorer)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ratiorec.batches.users import AnyBatch, ItemGroup
from ratiorec.data.interactions import Interactions
from ratiorec.encoders.settings import Spectral, TableInit
from ratiorec.scorers import InnerProduct, StoredScorer
from ratiorec.scorers.scorer import Pairs
from ratiorec.shapes import Embeddings, NodeFactors, Scalar


def dropout(values: Tensor, share: float, *, noise: torch.Generator | None) -> Tensor:
    """m ⊙ v / (1 − p), m zero with probability p = `share` and else one (theory: E7)."""
    if share == 0:
        return values
    # in single precision whatever `values` are, so that every precision drops the same
    uniform = torch.rand(values.shape, generator=noise, device=values.device, dtype=torch.float32)
    kept = (uniform >= share).to(values.dtype)
    return values * kept.div_(1 - share)


class Encoder(nn.Module, ABC):
    """A model in training.

    `noise` is the source of whatever is random in `forward` (dropout, sampled codes); training
    sets it at every step, so that a resumed run sees the same noise.
    """

    def __init__(self) -> None:
        super().__init__()
        self.noise: torch.Generator | None = None

    @abstractmethod
    def forward(self, batch: AnyBatch) -> Embeddings:
        """The vectors of the batch's users, row by row, and of all items, in training."""

    @abstractmethod
    def penalty(self, batch: AnyBatch) -> Scalar:
        """What λ multiplies; called after `forward` of the same batch."""

    @abstractmethod
    def scorer(self, histories: Pairs) -> StoredScorer:
        """The model as it stands, for ranking; `histories` are the pairs it was trained on."""


class TableEncoder(Encoder):
    """A free vector for every user and item, users first; subclasses say what becomes of them."""

    def __init__(self, table: Tensor, n_users: int) -> None:
        super().__init__()
        self.table = nn.Parameter(table)
        self.n_users = n_users

    @property
    def base(self) -> Embeddings:
        """The free vectors before any propagation; the penalty is on these."""
        return Embeddings(self.table[: self.n_users], self.table[self.n_users :])

    def embeddings(self) -> Embeddings:
        """The vectors that are scored, of all users and items."""
        return self.base

    def forward(self, batch: AnyBatch) -> Embeddings:
        users, items = self.embeddings()
        return Embeddings(rows_of(users, batch.users), items)

    def penalty(self, batch: AnyBatch) -> Scalar:
        return half_squared_norms(self.table, self.n_users, batch)

    @torch.no_grad()
    def scorer(self, histories: Pairs) -> StoredScorer:
        del histories  # all that is known of a user is in the vector
        # copies: the vectors of a factorisation are views of what training goes on to change
        users, items = (table.cpu().clone().numpy() for table in self.embeddings())
        return InnerProduct(users, items)


def half_squared_norms(table: NodeFactors, n_users: int, batch: AnyBatch) -> Scalar:
    """½ mean over batch users of ‖e_u⁰‖² + ½ mean over shown items of ‖e_i⁰‖² (theory: R6)."""
    groups = [ItemGroup(batch.users)]
    groups += [ItemGroup(n_users + items.flatten(), some) for items, some in batch.item_groups]
    nodes = torch.cat([places for places, _ in groups])
    shares = torch.cat([_share_of_each(group, table) for group in groups])
    weights = table.new_zeros(len(table)).index_add(0, nodes, shares)
    value: Tensor = _WeightedSquares.apply(table, weights / 2)  # type: ignore[no-untyped-call]
    return value


def _share_of_each(group: ItemGroup, table: Tensor) -> Tensor:
    """What each listed node counts in the mean of its group."""
    if group.mask is None:
        return table.new_full((len(group.items),), 1 / len(group.items))
    counts = group.mask.to(table.dtype)
    return counts / counts.sum()


class _WeightedSquares(torch.autograd.Function):
    """Σ w_n ‖x_n‖², whose derivative 2 w_n x_n takes one pass and nothing kept of the first."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, weights: Tensor) -> Tensor:
        ctx.save_for_backward(table, weights)
        lengths = torch.linalg.vector_norm(table, dim=-1)
        return torch.dot(weights, lengths.square())

    @staticmethod
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor, None]:
        table, weights = ctx.saved_tensors
        return table * (2 * outer * weights).unsqueeze(-1), None


def rows_of(table: Tensor, places: Tensor) -> Tensor:
    """`table[places]`, whose derivative on a GPU is a sum in place and not a sort."""
    return table.index_select(0, places)


def initial_table(
    data: Interactions,
    dimension: int,
    init: TableInit,
    *,
    rng: np.random.Generator,
    device: torch.device,
) -> NodeFactors:
    """A table of users and items; what is drawn is drawn for each by its own number of rows."""
    if isinstance(init, Spectral):
        from ratiorec.encoders.spectral import spectral_table

        return spectral_table(init, data, dimension, rng=rng, device=device)
    tables = [init(n, dimension, rng=rng) for n in (data.n_users, data.n_items)]
    return torch.from_numpy(np.concatenate(tables)).to(device)
