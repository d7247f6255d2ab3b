"""Users as histories: the pairs that a model scores by."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from copy import copy
from typing import TYPE_CHECKING, Self

import numpy as np

from ratiorec.scorers.checks import refuse_overflow
from ratiorec.scorers.protocol import Indices
from ratiorec.seen import Pairs, check_pairs, pairs_of

if TYPE_CHECKING:
    import scipy.sparse


class FromHistories(ABC):
    """A scorer to whom a user is a history, so that it can score anyone who has one."""

    histories: Pairs

    def __post_init__(self) -> None:
        self._check()

    @property
    @abstractmethod
    def n_items(self) -> int: ...

    @property
    def n_users(self) -> int:
        return len(self.histories.indptr) - 1

    def with_histories(self, histories: Pairs) -> Self:
        """The same model for other users; it shares all that has been made of its arrays.

        Raises:
            ModelError: The histories are no rows of items, or too long for finite scores.
        """
        other = copy(self)
        object.__setattr__(other, "histories", histories)
        other._check()
        return other

    @property
    @abstractmethod
    def _largest(self) -> Mapping[str, float]:
        """The largest absolute value in each array, once all are found to be in order."""

    @abstractmethod
    def _bounds(self, longest: int) -> Mapping[str, float]:
        """How large scores may become by each array, for histories up to that length."""

    def _check(self) -> None:
        """Refuse malformed arrays and histories, and any score that might not be finite."""
        _ = self._largest  # first of all, as the arrays say how many items there are
        check_pairs(self.histories, self.n_items, name="histories")
        longest = int(np.diff(self.histories.indptr).max(initial=0))
        for name, bound in self._bounds(longest).items():
            refuse_overflow(name, bound)


def history_rows(histories: Pairs, users: Indices, n_items: int) -> scipy.sparse.csr_array:
    """The histories of some users as rows of ones [n, n_items], each in the order it has."""
    import scipy.sparse

    rows, items = pairs_of(histories, users)
    ends = np.searchsorted(rows, np.arange(len(users) + 1))
    ones = np.ones(len(items), np.float32)
    return scipy.sparse.csr_array((ones, items, ends), shape=(len(users), n_items))
