"""Encoders: what training sees of a model, and LightGCN over the user-item graph."""

from __future__ import annotations

import importlib.util
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ratiorec.batches.users import AnyBatch, ItemGroup
from ratiorec.data.interactions import Interactions
from ratiorec.encoders.settings import Factorisation, LightGCN, Spectral, TableInit
from ratiorec.kernels.blocks import Adjacency, SparseRows, mean_of_powers, sparse_rows
from ratiorec.scorers import InnerProduct, StoredScorer
from ratiorec.scorers.scorer import Pairs
from ratiorec.shapes import Embeddings, NodeFactors, Scalar

if TYPE_CHECKING:
    from ratiorec.kernels.triton.propagation import FusedLayers


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
    """A free vector for every user and item, users first; subclasses say what becomes of them.

    With `normalize` what is scored has length 1, so that a score is a cosine (theory: S4); the
    popularity term is added to it for ranking alone (theory: S5).
    """

    normalize = False
    popularity_term = 0.0

    def __init__(self, table: Tensor, n_users: int) -> None:
        super().__init__()
        self.table = nn.Parameter(table)
        self.n_users = n_users

    def score_as(self, settings: LightGCN | Factorisation) -> None:
        """Take over how the settings say that vectors are scored."""
        self.normalize, self.popularity_term = settings.normalize, settings.popularity_term

    @property
    def base(self) -> Embeddings:
        """The free vectors before any propagation; the penalty is on these."""
        return Embeddings(self.table[: self.n_users], self.table[self.n_users :])

    def propagated(self) -> Embeddings:
        """What becomes of the free vectors, before any is brought to length 1."""
        return self.base

    def embeddings(self) -> Embeddings:
        """The vectors that are scored, of all users and items."""
        return self._as_scored(self.propagated())

    def forward(self, batch: AnyBatch) -> Embeddings:
        users, items = self.propagated()
        return self._as_scored(Embeddings(rows_of(users, batch.users), items))

    def _as_scored(self, vectors: Embeddings) -> Embeddings:
        return Embeddings(*map(directions, vectors)) if self.normalize else vectors

    def penalty(self, batch: AnyBatch) -> Scalar:
        return half_squared_norms(self.table, self.n_users, batch)

    @torch.no_grad()
    def scorer(self, histories: Pairs) -> StoredScorer:
        # copies: the vectors of a factorisation are views of what training goes on to change
        users, items = (table.cpu().clone().numpy() for table in self.embeddings())
        if self.popularity_term:
            degrees = np.bincount(histories.indices, minlength=len(items))
            term = popularity_column(degrees, self.popularity_term)
            ones = np.ones((len(users), 1), np.float32)
            users, items = np.hstack([users, ones]), np.hstack([items, term])
        return InnerProduct(users, items)


def directions(vectors: Tensor) -> Tensor:
    """x/‖x‖ of every row; a row of zeros stays one (theory: S4)."""
    lengths = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    return vectors / torch.where(lengths > 0, lengths, 1)


def popularity_column(degrees: NDArray[np.int64], term: float) -> NDArray[np.float32]:
    """κ·log(1 + |U_i⁺|) of every item, as one more dimension of its vector (theory: S5)."""
    return (term * np.log1p(degrees)).astype(np.float32)[:, None]


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

        return torch.from_numpy(spectral_table(init, data, dimension, rng=rng)).to(device)
    tables = [init(n, dimension, rng=rng) for n in (data.n_users, data.n_items)]
    return torch.from_numpy(np.concatenate(tables)).to(device)


def normalised_adjacency(data: Interactions, *, self_loops: bool) -> Adjacency:
    """Â = D^-½ (A [+ I]) D^-½ over users and items, users first (theory: E1).

    Both directions of every pair, filled in row order without ever holding a list of
    coordinates. With self loops a node counts itself among its neighbours.
    """
    n_users, n_items = data.n_users, data.n_items
    loop = int(self_loops)
    degrees = np.concatenate([data.user_degrees, data.item_degrees]) + loop
    indptr = np.zeros(n_users + n_items + 1, dtype=np.int64)
    np.cumsum(degrees, out=indptr[1:])
    indices = np.empty(int(indptr[-1]), dtype=np.int32)
    nodes = np.arange(n_users + n_items, dtype=np.int32)
    is_loop = np.zeros(len(indices), dtype=bool)
    if self_loops:
        # a user's own column lies before all items, an item's own column after all users
        is_loop[indptr[:n_users]] = True
        is_loop[indptr[n_users + 1 :] - 1] = True
        indices[is_loop] = nodes
    n_user_entries = int(indptr[n_users])
    indices[:n_user_entries][~is_loop[:n_user_entries]] = data.indices + np.int32(n_users)
    indices[n_user_entries:][~is_loop[n_user_entries:]] = users_by_item(data)
    with np.errstate(divide="ignore"):
        scale = np.where(degrees > 0, 1 / np.sqrt(degrees), 0.0).astype(np.float32)
    return Adjacency(indptr, indices, scale)


def users_by_item(data: Interactions) -> NDArray[np.int32]:
    """The user of each pair, pairs ordered by item and then by user."""
    import scipy.sparse

    is_short = data.n_pairs <= np.iinfo(np.int32).max
    indptr = data.indptr.astype(np.int32) if is_short else data.indptr  # or scipy widens indices
    pairs = scipy.sparse.csr_array(
        (np.empty(data.n_pairs, dtype=bool), data.indices, indptr),
        shape=(data.n_users, data.n_items),
    )
    users: NDArray[np.int32] = pairs.tocsc().indices.astype(np.int32, copy=False)
    return users


class Graph:
    """Â = D^-½ (A [+ I]) D^-½ over users and items, users first (theory: E1)."""

    def __init__(self, data: Interactions, *, self_loops: bool, device: torch.device) -> None:
        self._adjacency = normalised_adjacency(data, self_loops=self_loops)
        self._device = device
        self.n_nodes = len(self._adjacency.scale)
        self._fused = _fused_layers(self._adjacency, device)
        if self._fused is None:
            _ = self._rows  # part of building the graph, and not of the first step

    @cached_property
    def _rows(self) -> SparseRows:
        """Made when first asked for where the fused layers may do without."""
        indptr, indices, _ = self._adjacency
        values = self._adjacency.values
        return sparse_rows(indptr, indices, values, n_columns=self.n_nodes, device=self._device)

    def __matmul__(self, table: NodeFactors) -> NodeFactors:
        product: Tensor = _Symmetric.apply(table, self._rows.multiply)  # type: ignore[no-untyped-call]
        return product

    def means(self, table: NodeFactors) -> NodeFactors:
        """D⁻¹(A [+ I]) X: the mean over a node's neighbours (theory: E4)."""
        return (self @ (table * self._roots)) / self._roots

    @cached_property
    def _roots(self) -> Tensor:
        """The roots of the degrees; a node without neighbours has no mean, only zeros."""
        scale = torch.from_numpy(self._adjacency.scale).to(self._device).unsqueeze(-1)
        return torch.where(scale > 0, 1 / scale, 1)

    def mean_of_layers(self, table: NodeFactors, n_layers: int) -> NodeFactors:
        """(X + ÂX + … + Â^L X)/(L + 1) (theory: E3)."""

        def mean(layer: Tensor) -> Tensor:
            if self._fused is not None and layer.dtype == torch.float32:
                return self._fused.mean(layer, n_layers)
            return mean_of_powers(self._rows, layer, n_layers)

        value: Tensor = _Symmetric.apply(table, mean)  # type: ignore[no-untyped-call]
        return value


def _fused_layers(adjacency: Adjacency, device: torch.device) -> FusedLayers | None:
    """The kernels for a GPU, where they can be had."""
    if device.type != "cuda" or importlib.util.find_spec("triton") is None:
        return None
    from ratiorec.kernels.triton.propagation import FusedLayers

    return FusedLayers(adjacency, device)


class _Symmetric(torch.autograd.Function):
    """A linear map that is its own transpose, as Â is and every polynomial in it.

    So the backward pass is the same map, and nothing has to be kept for it.
    """

    @staticmethod
    def forward(ctx: Any, table: Tensor, linear: Callable[[Tensor], Tensor]) -> Tensor:
        ctx.linear = linear
        return linear(table)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return ctx.linear(gradient.contiguous()), None


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
        encoder = cls(table, graph, data.n_users, settings.n_layers)
        encoder.score_as(settings)
        return encoder

    def propagated(self) -> Embeddings:
        mean = self.graph.mean_of_layers(self.table, self.n_layers)
        # slices would have two gradients of the whole table, a split has one
        users, items = torch.split_with_sizes(mean, [self.n_users, len(mean) - self.n_users])
        return Embeddings(users, items)
