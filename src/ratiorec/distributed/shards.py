"""Shards: a rank's users with their pairs, their batches, and its rows of the model in training.

Users never travel. In a layer of the graph a rank needs the vectors of all items, which it gathers,
and makes a part of the sum of every item, which it scatters (theory: D1).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ratiorec.batches.dealing import Inclusions, Positives, UserDeal
from ratiorec.batches.users import AnyBatch, Batch, listed
from ratiorec.data.interactions import Interactions
from ratiorec.distributed.ranks import Ranks
from ratiorec.encoders.encoder import Encoder, directions, popularity_column, users_by_item
from ratiorec.encoders.settings import Factorisation, LightGCN, Spectral
from ratiorec.errors import ConfigError
from ratiorec.kernels.blocks import SparseRows, sparse_rows
from ratiorec.scorers import InnerProduct, StoredScorer
from ratiorec.scorers.scorer import Pairs, UserItems
from ratiorec.settings import Settings, UserBatches
from ratiorec.shapes import Embeddings, Scalar
from ratiorec.training.loop import GradientTraining

ROWS_AT_ONCE = 2**16  # of a table that is being drawn, by all ranks in the same order


class Population(NamedTuple):
    """What a rank knows of everybody's pairs beside its own users'."""

    own: Interactions
    users: slice  # the places of its users among all
    eligible: NDArray[np.int64]  # all users with a pair
    item_degrees: NDArray[np.int64]  # over all users
    n_users: int

    @classmethod
    def of(cls, own: Interactions, ranks: Ranks) -> Population:
        """Counted together."""
        counts = ranks.everywhere(own.n_users)
        first = sum(counts[: ranks.rank])
        has_pairs = ranks.joined(own.user_degrees > 0)
        degrees = ranks.total(torch.from_numpy(own.item_degrees)).numpy()
        users = slice(first, first + own.n_users)
        return cls(own, users, np.flatnonzero(has_pairs), degrees, sum(counts))


@dataclass(frozen=True, eq=False)
class SharedEpochs:
    """Batches of users of which each rank lists its own; all deal alike, by the same generator."""

    population: Population
    ranks: Ranks
    batch_size: int  # of all ranks together, at most
    deal: UserDeal

    same_shape: ClassVar[bool] = False

    @property
    def n_steps(self) -> int:
        """Batches in an epoch."""
        return -(-len(self.population.eligible) // self.batch_size)

    @cached_property
    def _inclusions(self) -> Inclusions:
        return Inclusions(self.population.item_degrees, len(self.population.eligible))

    def __call__(self, rng: np.random.Generator) -> Iterator[Batch]:
        for users in self.deal(self.population.eligible, self.n_steps, self.batch_size, rng):
            yield self.batch(users)

    def complete(self, dealt: Batch) -> Batch:
        """The same: it was dealt complete."""
        return dealt

    def batch(self, users: NDArray[np.int64]) -> Batch:
        """The own users of a batch, and the items that any user of it has for candidates."""
        there = self.population.users
        own = users[(users >= there.start) & (users < there.stop)] - there.start
        positives = Positives.of(self.population.own, own)
        came_up = self.ranks.most(positives.marked(len(self.population.item_degrees)))
        return listed(
            own,
            positives,
            came_up,
            self.population.item_degrees,
            self._inclusions(len(users)),
            n_sharing=len(users),
            total=self.ranks.total,
        )


class GraphShard:
    """The rows and columns of Â that belong to a rank's users (theory: E1, E3)."""

    def __init__(self, population: Population, ranks: Ranks, *, self_loops: bool) -> None:
        own, loop = population.own, int(self_loops)
        self._ranks, self._n_items = ranks, own.n_items
        of_users, of_items = (
            _inverse_roots(degrees + loop)
            for degrees in (own.user_degrees, population.item_degrees)
        )
        self._to_users = _rows(own.indptr, own.indices, of_users, of_items, ranks.device)
        by_item = np.concatenate([[0], np.cumsum(own.item_degrees)])
        self._to_items = _rows(by_item, users_by_item(own), of_items, of_users, ranks.device)
        ends = of_users, of_items[ranks.rows(own.n_items)]
        self._loops = [
            torch.from_numpy(loop * scale**2).to(ranks.device).unsqueeze(-1) for scale in ends
        ]

    @torch.no_grad()
    def mean_of_layers(self, users: Tensor, items: Tensor, n_layers: int) -> Embeddings:
        """(X + ÂX + … + Â^L X)/(L + 1), this rank's rows of it."""
        totals = users.clone(), items.clone()
        for _ in range(n_layers):
            to_users = self._to_users.multiply(self._ranks.gathered(items, self._n_items))
            to_items = self._ranks.scattered(self._to_items.multiply(users))
            users = to_users.addcmul_(self._loops[0].to(users.dtype), users)
            items = to_items.addcmul_(self._loops[1].to(items.dtype), items)
            totals[0].add_(users)
            totals[1].add_(items)
        return Embeddings(*(total.div_(n_layers + 1) for total in totals))


def _inverse_roots(degrees: NDArray[np.int64]) -> NDArray[np.float32]:
    with np.errstate(divide="ignore"):
        return np.where(degrees > 0, 1 / np.sqrt(degrees), 0.0).astype(np.float32)


def _rows(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    of_rows: NDArray[np.float32],
    of_columns: NDArray[np.float32],
    device: torch.device,
) -> SparseRows:
    values = of_columns[indices]
    values *= np.repeat(of_rows, np.diff(indptr))
    return sparse_rows(indptr, indices, values, n_columns=len(of_columns), device=device)


class _MeanOfLayers(torch.autograd.Function):
    """A linear map that is its own transpose, so the backward pass is the same map."""

    @staticmethod
    def forward(
        ctx: Any, users: Tensor, items: Tensor, graph: GraphShard, n_layers: int
    ) -> tuple[Tensor, Tensor]:
        ctx.graph, ctx.n_layers = graph, n_layers
        return graph.mean_of_layers(users, items, n_layers)

    @staticmethod
    def backward(ctx: Any, of_users: Tensor, of_items: Tensor) -> tuple[Tensor, Tensor, None, None]:
        users, items = ctx.graph.mean_of_layers(
            of_users.contiguous(), of_items.contiguous(), ctx.n_layers
        )
        return users, items, None, None


class _AllItems(torch.autograd.Function):
    """Everybody's rows of the items; a row's gradient is the sum of what all ranks make of it."""

    @staticmethod
    def forward(ctx: Any, own: Tensor, n_items: int, ranks: Ranks) -> Tensor:
        ctx.ranks = ranks
        return ranks.gathered(own, n_items)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return ctx.ranks.scattered(gradient), None, None


class ShardedEncoder(Encoder):
    """LightGCN or a factorisation, of which this rank has the rows of its users and of some items.

    `forward` gives the vectors of its users and of all items.
    """

    def __init__(
        self,
        tables: Embeddings,
        settings: LightGCN | Factorisation,
        population: Population,
        ranks: Ranks,
    ) -> None:
        super().__init__()
        self.users, self.items = map(nn.Parameter, tables)
        self._settings, self._ranks = settings, ranks
        self._degrees = population.item_degrees
        self._n_items = population.own.n_items
        self._n_layers = settings.n_layers if isinstance(settings, LightGCN) else 0
        loops = isinstance(settings, LightGCN) and settings.self_loops
        self._graph = GraphShard(population, ranks, self_loops=loops) if self._n_layers else None

    def embeddings(self) -> Embeddings:
        """The vectors that are scored, of this rank's users and of all items."""
        users, items = self._propagated()
        if self._settings.normalize:
            users, items = directions(users), directions(items)
        every: Tensor = _AllItems.apply(items, self._n_items, self._ranks)  # type: ignore[no-untyped-call]
        return Embeddings(users, every)

    def _propagated(self) -> tuple[Tensor, Tensor]:
        if self._graph is None:
            return self.users, self.items
        found: tuple[Tensor, Tensor] = _MeanOfLayers.apply(  # type: ignore[no-untyped-call]
            self.users, self.items, self._graph, self._n_layers
        )
        return found

    def forward(self, batch: AnyBatch) -> Embeddings:
        users, items = self.embeddings()
        return Embeddings(users.index_select(0, batch.users), items)

    def penalty(self, batch: AnyBatch) -> Scalar:
        """What this rank's rows add to ½ mean ‖e_u⁰‖² + ½ mean ‖e_i⁰‖² (theory: R6)."""
        assert isinstance(batch, Batch)
        candidates = batch.candidates[batch.inclusion > 0]
        rows = self._ranks.rows(self._n_items)
        own = candidates[(candidates >= rows.start) & (candidates < rows.stop)] - rows.start
        users = self.users.index_select(0, batch.users).square().sum(-1)
        items = self.items.index_select(0, own).square().sum()
        return (batch.mean(users) + items / len(candidates)) / 2

    @torch.no_grad()
    def scorer(self, histories: Pairs) -> StoredScorer:
        """The model of this rank's users."""
        users, items = (table.cpu().clone().numpy() for table in self.embeddings())
        if term := self._settings.popularity_term:
            column = popularity_column(self._degrees, term)
            users = np.hstack([users, np.ones((len(users), 1), np.float32)])
            items = np.hstack([items, column])
        return InnerProduct(users, items)


def initial_tables(
    settings: LightGCN | Factorisation,
    population: Population,
    ranks: Ranks,
    *,
    rng: np.random.Generator,
) -> Embeddings:
    """This rank's rows of the tables that a single process would draw from `rng`."""
    wanted = (
        (population.n_users, population.users),
        (population.own.n_items, ranks.rows(population.own.n_items)),
    )
    assert not isinstance(settings.init, Spectral)
    tables = []
    for n_rows, rows in wanted:
        table = np.empty((rows.stop - rows.start, settings.dimension), np.float32)
        for start in range(0, n_rows, ROWS_AT_ONCE):  # in order: each draw follows on the last
            stop = min(start + ROWS_AT_ONCE, n_rows)
            n_next = stop - start
            drawn = settings.init(n_rows, settings.dimension, rng=rng, n_next=n_next)
            a, b = max(start, rows.start), min(stop, rows.stop)
            if a < b:
                table[a - rows.start : b - rows.start] = drawn[a - start : b - start]
        tables.append(torch.from_numpy(table).to(ranks.device))
    return Embeddings(*tables)


def require_shardable(settings: Settings) -> LightGCN | Factorisation:
    """The encoder of settings that several processes can train together.

    Raises:
        ConfigError: It names the part that needs everything in one place.
    """
    encoder, loss = settings.encoder, settings.risk
    where, found = "encoder", encoder.name
    if isinstance(encoder, LightGCN | Factorisation):
        if isinstance(encoder.init, Spectral):
            where, found = "encoder.init", encoder.init.name
        elif not loss.adds_up_over_users or not isinstance(settings.batches, UserBatches):
            where, found = "risk", loss.name
        else:
            return encoder
    raise ConfigError(
        "a part of the model cannot be shared by several processes",
        where=where,
        found=found,
        wanted="lightgcn or factorisation, an init that is drawn, and a loss on batches of users, "
        "as presets dregn-cf, dre-mf and softmax have; or one process",
    )


def start_shared(
    data: Interactions, settings: Settings, ranks: Ranks, *, rng: np.random.Generator
) -> GradientTraining:
    """A run at its beginning, `data` the pairs of this rank's users."""
    encoder, batches = require_shardable(settings), settings.batches
    assert isinstance(batches, UserBatches)
    population = Population.of(data, ranks)
    size = batches.batch_size(len(population.eligible))
    tables = initial_tables(encoder, population, ranks, rng=rng)
    return GradientTraining(
        ShardedEncoder(tables, encoder, population, ranks),
        settings.risk,
        SharedEpochs(population, ranks, size, batches.dealing()),
        settings.training,
        histories=UserItems.of(data),
        rng=rng,
        device=ranks.device,
        total=ranks.total,
    )
