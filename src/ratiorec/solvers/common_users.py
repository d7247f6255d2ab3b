"""Which users two items have in common: sparse products, a block of items at a time."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ratiorec.data.interactions import Interactions

if TYPE_CHECKING:
    import scipy.sparse

_ENTRIES_AT_ONCE = 2**18
_BYTES_PER_PAIR = 40  # the pairs once by item and once by user, each with an index and a weight
_BYTES_PER_ITEM = 64  # degrees, ends of rows and blocks
_BYTES_PER_ENTRY = 64  # an entry of the product with its place, and room to sort it


class CommonUsers:
    """Rows of Xᵀ diag(w) X, X the matrix of pairs: what the common users of two items weigh."""

    def __init__(self, data: Interactions, user_weights: NDArray[np.float64] | None = None) -> None:
        import scipy.sparse

        shape = (data.n_users, data.n_items)
        ones = np.ones(data.n_pairs, np.float32)
        pairs = scipy.sparse.csr_array((ones, data.indices, data.indptr), shape=shape)
        self._users_of_items = pairs.T.tocsr()
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
