"""The pairs: who has interacted with what."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ratiorec.data.vocabulary import Vocabulary
from ratiorec.errors import DataError

if TYPE_CHECKING:
    import scipy.sparse


@dataclass(frozen=True, eq=False)
class Interactions:
    """Unique (user, item) pairs as a compressed sparse row matrix.

    The items of user u are `indices[indptr[u]:indptr[u + 1]]`, sorted. `weights` and
    `timestamps`, where given, stand beside `indices`. A user may have no pair.
    """

    users: Vocabulary
    items: Vocabulary
    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    weights: NDArray[np.float32] | None = None
    timestamps: NDArray[np.int64] | NDArray[np.float64] | None = None

    @classmethod
    def from_indices(
        cls,
        users: Vocabulary,
        items: Vocabulary,
        user_indices: ArrayLike,
        item_indices: ArrayLike,
        *,
        weights: ArrayLike | None = None,
        timestamps: ArrayLike | None = None,
    ) -> Interactions:
        """Merge repeated pairs (weights add up, the latest timestamp stays) and sort."""
        rows = np.asarray(user_indices, dtype=np.int64)
        columns = np.asarray(item_indices, dtype=np.int64)
        _check_range(rows, len(users), "user")
        _check_range(columns, len(items), "item")
        key = rows * max(len(items), 1) + columns
        order = np.argsort(key, kind="stable")
        key = key[order]
        starts = np.flatnonzero(np.r_[True, key[1:] != key[:-1]]) if len(key) else np.arange(0)
        first = order[starts]
        indptr = np.zeros(len(users) + 1, dtype=np.int64)
        np.cumsum(np.bincount(rows[first], minlength=len(users)), out=indptr[1:])
        return cls(
            users,
            items,
            indptr,
            columns[first].astype(np.int32),
            None if weights is None else _merge(np.add, weights, order, starts, np.float32),
            None if timestamps is None else _merge(np.maximum, timestamps, order, starts, None),
        )

    @property
    def n_users(self) -> int:
        return len(self.users)

    @property
    def n_items(self) -> int:
        return len(self.items)

    @property
    def n_pairs(self) -> int:
        return len(self.indices)

    @property
    def density(self) -> float:
        """The share of all possible pairs that are there."""
        return self.n_pairs / max(self.n_users * self.n_items, 1)

    @cached_property
    def user_degrees(self) -> NDArray[np.int64]:
        """|I_u⁺|, the number of items of each user."""
        return np.diff(self.indptr)

    @cached_property
    def item_degrees(self) -> NDArray[np.int64]:
        """|U_i⁺|, the number of users of each item."""
        return np.bincount(self.indices, minlength=self.n_items).astype(np.int64)

    @cached_property
    def pair_users(self) -> NDArray[np.int32]:
        """The user of each pair, beside `indices`."""
        return np.repeat(np.arange(self.n_users, dtype=np.int32), self.user_degrees)

    def positives(self, user: int) -> NDArray[np.int32]:
        """I_u⁺, the items of one user."""
        return self.indices[self.indptr[user] : self.indptr[user + 1]]

    def select(self, mask: NDArray[np.bool_]) -> Interactions:
        """The pairs under the mask, over the same users and items."""
        indptr = np.zeros(self.n_users + 1, dtype=np.int64)
        np.cumsum(np.bincount(self.pair_users[mask], minlength=self.n_users), out=indptr[1:])
        return replace(
            self,
            indptr=indptr,
            indices=self.indices[mask],
            weights=None if self.weights is None else self.weights[mask],
            timestamps=None if self.timestamps is None else self.timestamps[mask],
        )

    def csr(self) -> scipy.sparse.csr_array:
        """The pairs as a scipy matrix, users by items, with weights or ones."""
        import scipy.sparse

        values = np.ones(self.n_pairs, np.float32) if self.weights is None else self.weights
        return scipy.sparse.csr_array(
            (values, self.indices, self.indptr), shape=(self.n_users, self.n_items)
        )

    @cached_property
    def sha256(self) -> str:
        """A fingerprint of the pairs, whatever order they came in."""
        digest = hashlib.sha256(f"{self.n_users} {self.n_items}\n".encode())
        digest.update(self.indptr.astype("<i8").tobytes())
        digest.update(self.indices.astype("<i4").tobytes())
        return digest.hexdigest()


def _merge(
    ufunc: np.ufunc, values: Any, order: NDArray[np.int64], starts: NDArray[np.int64], dtype: Any
) -> NDArray[Any]:
    values = np.asarray(values)[order]
    merged = ufunc.reduceat(values, starts) if len(starts) else values
    return merged if dtype is None else merged.astype(dtype)


def _check_range(indices: NDArray[np.int64], n: int, kind: str) -> None:
    if len(indices) and (indices.min() < 0 or indices.max() >= n):
        worst = int(indices.min() if indices.min() < 0 else indices.max())
        raise DataError(
            f"{kind} index out of range",
            where=f"{kind} indices",
            found=str(worst),
            wanted=f"0 to {n - 1}",
        )
