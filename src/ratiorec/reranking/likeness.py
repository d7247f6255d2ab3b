"""Likeness of items: cosines of their vectors, or of their users where there are no vectors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ratiorec.scorers import FloatMatrix, Indices
from ratiorec.scorers.scorer import Pairs

if TYPE_CHECKING:
    import scipy.sparse

Cosines = NDArray[np.float64]
_DIGITS = 9  # the last bits of a matrix product must not choose between equals


class Likeness(Protocol):
    """Compares items with one another."""

    @property
    def width(self) -> int:
        """Numbers that are held for an item while lists are made."""
        ...

    def among(self, items: Indices) -> LikenessAmong:
        """Makes the candidates [n, m] of some users ready; -1 is no item."""
        ...


class LikenessAmong(Protocol):
    """The candidates of some users, ready to be compared."""

    def to(self, rows: Indices, columns: Indices) -> Cosines:
        """The cosine of each candidate in these rows with the one in this column [rows, m]."""
        ...


@dataclass(frozen=True, eq=False)
class ByVectors:
    """The cosine of the vectors that a model has for two items; 0 for a vector of 0."""

    vectors: FloatMatrix

    @property
    def width(self) -> int:
        return int(self.vectors.shape[1])

    def among(self, items: Indices) -> _Directions:
        vectors = self.vectors[items].astype(np.float64)
        vectors[items < 0] = 0
        lengths = np.linalg.norm(vectors, axis=2, keepdims=True)
        return _Directions(vectors / np.where(lengths > 0, lengths, 1))


@dataclass(frozen=True, eq=False)
class _Directions:
    directions: Cosines

    def to(self, rows: Indices, columns: Indices) -> Cosines:
        chosen = self.directions[rows, columns][:, :, None]
        some = self.directions if len(rows) == len(self.directions) else self.directions[rows]
        return np.asarray((some @ chosen)[:, :, 0].round(_DIGITS))


@dataclass(frozen=True, eq=False)
class ByUsers:
    """The cosine of two items as sets of the users who have them (theory: M9)."""

    histories: Pairs
    n_items: int

    @property
    def width(self) -> int:
        return 16  # about so many users in the head of a catalogue for each candidate at once

    @cached_property
    def users(self) -> scipy.sparse.csr_array:
        """The users of each item at length 1 [n_items + 1, n_users]; the last row is empty."""
        import scipy.sparse

        indptr, indices = self.histories.indptr, self.histories.indices
        degrees = np.bincount(indices, minlength=self.n_items + 1)
        lengths = np.sqrt(np.maximum(degrees, 1))
        shape = (len(indptr) - 1, self.n_items + 1)
        rows = scipy.sparse.csr_array((1 / lengths[indices], indices, indptr), shape=shape)
        return rows.T.tocsr()

    def among(self, items: Indices) -> _Audiences:
        return _Audiences([self.users[row] for row in np.where(items < 0, self.n_items, items)])


@dataclass(frozen=True, eq=False)
class _Audiences:
    users: list[Any]

    def to(self, rows: Indices, columns: Indices) -> Cosines:
        found = []
        for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
            users = self.users[row]
            chosen = users[[column]].toarray()[0]
            found.append((users @ chosen).round(_DIGITS))
        return np.array(found)
