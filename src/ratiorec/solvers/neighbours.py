"""Counting models: popularity, and walks between items by the users that they share."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ratiorec.data.interactions import Interactions
from ratiorec.kernels.blocks import for_each_block
from ratiorec.scorers import Indices, Neighbours, PopularityScorer, WalkScorer
from ratiorec.scorers.scorer import UserItems
from ratiorec.solvers.settings import ItemKNN, Walk
from ratiorec.solvers.solver import OneSweep, require_memory

if TYPE_CHECKING:
    import scipy.sparse


def count_users(data: Interactions) -> OneSweep:
    """The popularity of every item; it takes no more memory than the pairs do."""

    def solve() -> PopularityScorer:
        counts = np.bincount(data.indices, data.relative_weights, minlength=data.n_items)
        return PopularityScorer(counts.astype(np.float32), data.n_users)

    return OneSweep(solve)


_ENTRIES_AT_ONCE = 2**18
_BYTES_PER_PAIR = 40  # the pairs once by item and once by user, each with an index and a weight
_BYTES_PER_ITEM = 64  # degrees, ends of rows and blocks
_BYTES_PER_ENTRY = 64  # an entry of the product with its place, and room to sort it


class CommonRows(Protocol):
    """What the common users of items weigh, row by row."""

    def rows(self, items: slice) -> scipy.sparse.csr_array:
        """The rows of some items [n, n_items], the columns of each row in no order."""


class CountedUsers(Protocol):
    """What counts common users: one process alone, or several of which each has some users."""

    def __call__(
        self, data: Interactions, activity_exponent: float = 0.0, *, weighted: bool = False
    ) -> CommonRows: ...


class CommonUsers:
    """Rows of (C∘X)ᵀ diag(w) X, X the matrix of pairs: what the common users of two items weigh.

    w_u = |I_u|^−exponent. If `weighted`, C are the weights of the pairs with the item whose row it
    is, where pairs have any (theory: W9); else they are 1.
    """

    def __init__(
        self, data: Interactions, activity_exponent: float = 0.0, *, weighted: bool = False
    ) -> None:
        import scipy.sparse

        user_weights = activity_weights(data, activity_exponent)
        pair_weights = data.relative_weights if weighted else None
        shape = (data.n_users, data.n_items)
        ones = np.ones(data.n_pairs, np.float32)
        values = ones if pair_weights is None else pair_weights
        pairs = scipy.sparse.csr_array((values, data.indices, data.indptr), shape=shape)
        self._users_of_items = pairs.T.tocsr()
        if pair_weights is not None:
            pairs = scipy.sparse.csr_array((ones, data.indices, data.indptr), shape=shape)
        if user_weights is not None:
            weights = user_weights[data.pair_users]
            pairs = scipy.sparse.csr_array((weights, data.indices, data.indptr), shape=shape)
        self._items_of_users = pairs

    def rows(self, items: slice) -> scipy.sparse.csr_array:
        """The rows of some items [n, n_items], the columns of each row in no order."""
        return self._users_of_items[items] @ self._items_of_users


def most_neighbours(data: Interactions) -> NDArray[np.int64]:
    """How many entries the row of each item can have: Σ_{u ∈ U_i⁺} |I_u⁺|, at most |I|."""
    weights = data.user_degrees[data.pair_users].astype(np.float64)
    reached = np.bincount(data.indices, weights, minlength=data.n_items)
    return np.minimum(reached, data.n_items).astype(np.int64)


def item_blocks(n_entries: NDArray[np.int64]) -> list[slice]:
    """Consecutive items whose rows together have few entries; one item at least."""
    ends = np.cumsum(n_entries)
    blocks = []
    start = n_before = 0
    while start < len(ends):
        stop = int(np.searchsorted(ends, n_before + _ENTRIES_AT_ONCE, side="right"))
        blocks.append(slice(start, max(stop, start + 1)))
        start = blocks[-1].stop
        n_before = int(ends[start - 1])
    return blocks


def working_bytes(data: Interactions, *, longest_row: int) -> int:
    """The most that the pairs and the blocks that all cores work on take at once."""
    n_at_once = (os.cpu_count() or 1) * max(_ENTRIES_AT_ONCE, longest_row)
    return (
        _BYTES_PER_PAIR * data.n_pairs
        + _BYTES_PER_ITEM * data.n_items
        + _BYTES_PER_ENTRY * n_at_once
    )


_BYTES_PER_NEIGHBOUR = 40  # what is kept, once by item and once by neighbour

Weigh = Callable[[NDArray[np.float64], Indices, NDArray[np.int32]], NDArray[np.float64]]
"""Similarities from what the common users of items and their neighbours weigh."""


class Nearest(NamedTuple):
    """The nearest items of consecutive ones, best first."""

    n_neighbours: NDArray[np.int64]  # of each item
    neighbours: NDArray[np.int32]
    similarities: NDArray[np.float32]

    def as_scorer(self, data: Interactions) -> Neighbours:
        """The model of all items that scores each by those of its neighbours that a user has."""
        import scipy.sparse

        indptr = np.concatenate([[0], np.cumsum(self.n_neighbours)])
        of_items = scipy.sparse.csr_array(
            (self.similarities, self.neighbours, indptr), shape=(data.n_items, data.n_items)
        )
        # a history is looked up by what it holds: by neighbour
        rows = of_items.T.tocsr()
        indices = rows.indices.astype(np.int32)
        return Neighbours(rows.indptr.astype(np.int64), indices, rows.data, UserItems.of(data))


def start_item_knn(
    data: Interactions, settings: ItemKNN, *, memory_mb: float, common_users: CountedUsers
) -> OneSweep:
    """item-kNN before its neighbours are found."""
    degrees = data.item_degrees

    def weigh(common: NDArray[np.float64], of: Indices, to: NDArray[np.int32]) -> Any:
        return common / (np.sqrt(degrees[of] * degrees[to]) + settings.shrinkage)

    return _start(
        data, settings, weigh, common_users, instead="wmf or dregn-cf", memory_mb=memory_mb
    )


def start_walk(
    data: Interactions, settings: Walk, *, memory_mb: float, common_users: CountedUsers
) -> OneSweep:
    """A walk over all pairs, or one between nearest items before these are found."""
    a, b, c = settings.exponents
    if settings.n_neighbours:
        weigh = walk_weights(data, a, c)
        return _start(
            data, settings, weigh, common_users, instead="0 for all of them", memory_mb=memory_mb
        )
    require_memory(
        _BYTES_PER_PAIR * data.n_pairs + _BYTES_PER_ITEM * data.n_items,
        memory_mb=memory_mb,
        solver=settings.name,
        n_items=data.n_items,
        instead="popularity",
    )
    exponents = np.array([a, b, c], np.float32)
    weights = data.relative_weights
    return OneSweep(lambda: WalkScorer.over(data, exponents, data.n_items, weights))


def walk_weights(data: Interactions, source_exponent: float, target_exponent: float) -> Weigh:
    """Of the walk from a neighbour to an item, |U_j|^−a and |U_i|^−c."""
    degrees = np.maximum(data.item_degrees, 1).astype(np.float64)
    sources, targets = degrees**-source_exponent, degrees**-target_exponent
    return lambda common, of, to: common * sources[to] * targets[of]


def _start(
    data: Interactions,
    settings: ItemKNN | Walk,
    weigh: Weigh,
    common_users: CountedUsers,
    *,
    instead: str,
    memory_mb: float,
) -> OneSweep:
    n = settings.n_neighbours
    require_memory(
        neighbour_bytes(data, n),
        memory_mb=memory_mb,
        solver=settings.name,
        n_items=data.n_items,
        instead=f"fewer solver.n_neighbours, {instead}",
    )

    def solve() -> Neighbours:
        common = common_users(data, settings.user_exponent, weighted=True)
        return find_nearest(data, common, weigh, n).as_scorer(data)

    return OneSweep(solve)


def activity_weights(data: Interactions, exponent: float) -> NDArray[np.float64] | None:
    """|I_u|^−exponent of every user; None where all count alike."""
    return np.maximum(data.user_degrees, 1) ** -float(exponent) if exponent else None


def neighbour_bytes(data: Interactions, n: int) -> int:
    """The most that it takes to find and keep n neighbours of every item."""
    n_entries = most_neighbours(data)
    working = working_bytes(data, longest_row=int(n_entries.max(initial=0)))
    return working + _BYTES_PER_NEIGHBOUR * int(np.minimum(n_entries, n).sum())


def find_nearest(data: Interactions, common: CommonRows, weigh: Weigh, n: int) -> Nearest:
    """The n nearest of all items that share a user with each item."""
    found: dict[int, Nearest] = {}
    blocks = item_blocks(most_neighbours(data))

    def one_block(items: slice) -> None:
        found[items.start] = _nearest(common, items, weigh, n)

    for_each_block(one_block, blocks)
    parts = [found.pop(items.start) for items in blocks]
    return Nearest(*map(np.concatenate, zip(*parts, strict=True)))


def _nearest(common: CommonRows, items: slice, weigh: Weigh, n: int) -> Nearest:
    """The n most similar of all items that share a user with one of these."""
    products = common.rows(items)
    indptr = products.indptr.astype(np.int64)
    neighbours = products.indices.astype(np.int32)
    places = np.repeat(np.arange(items.stop - items.start), np.diff(indptr))
    similarities = weigh(products.data, places + items.start, neighbours).astype(np.float32)
    similarities[neighbours == places + items.start] = 0
    order = _first_of_each(places, similarities, neighbours, indptr, n)
    order = order[similarities[order] > 0]
    n_neighbours = np.bincount(places[order], minlength=items.stop - items.start)
    return Nearest(n_neighbours, neighbours[order], similarities[order])


def _first_of_each(
    rows: NDArray[np.int64],
    values: NDArray[np.float32],
    columns: NDArray[np.int32],
    indptr: NDArray[np.int64],
    n: int,
) -> NDArray[np.int64]:
    """Where the n largest values of each row are, largest first, then smallest column first.

    Values are 0 or more, so their bits have their order. One sort of plain numbers finds the
    n-th largest of every row; only what reaches it is put into order.
    """
    bits = values.view(np.uint32)
    keys = rows.astype(np.uint64) << np.uint64(32) | (~bits).astype(np.uint64)
    last = np.minimum(indptr[:-1] + n, indptr[1:]) - 1
    bounds = np.sort(keys)[last] if len(keys) else keys
    few = np.flatnonzero(keys <= bounds[rows])
    few = few[np.lexsort((columns[few], keys[few]))]
    ranks = np.arange(len(few)) - np.searchsorted(rows[few], rows[few])
    kept: NDArray[np.int64] = few[ranks < n]
    return kept
