"""The user-item graph as a normalised matrix in compressed rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ratiorec.data.interactions import Interactions


class Adjacency(NamedTuple):
    """A sparse matrix in compressed rows; entry e of a row is `scale[row]·scale[indices[e]]`.

    Values are products of one number per node, so whoever multiplies may scale nodes instead.
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    scale: NDArray[np.float32]

    @property
    def values(self) -> NDArray[np.float32]:
        """Every entry written out."""
        values = self.scale[self.indices]
        values *= np.repeat(self.scale, np.diff(self.indptr))
        return values


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

    pairs = scipy.sparse.csr_array(
        (np.empty(data.n_pairs, dtype=bool), data.indices, data.indptr),
        shape=(data.n_users, data.n_items),
    )
    users: NDArray[np.int32] = pairs.tocsc().indices.astype(np.int32, copy=False)
    return users
