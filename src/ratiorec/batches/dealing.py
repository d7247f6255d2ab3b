"""Dealing: who is in which batch of users, how likely an item comes up there, and what it lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ratiorec.data.interactions import Interactions


class UserDeal(Protocol):
    """Who is in which batch of an epoch."""

    def __call__(
        self, users: NDArray[np.int64], n_steps: int, most: int, rng: np.random.Generator
    ) -> Sequence[NDArray[np.int64]]:
        """The users of `n_steps` batches of at most `most` users."""

    def of_one_size(
        self, users: NDArray[np.int64], n_steps: int, most: int, rng: np.random.Generator
    ) -> NDArray[np.int64]:
        """The same with equally many users in every batch [n_steps, n]."""


class EvenDeal:
    """Every user once, in batches whose sizes differ by one at most."""

    def __call__(
        self, users: NDArray[np.int64], n_steps: int, most: int, rng: np.random.Generator
    ) -> list[NDArray[np.int64]]:
        return np.array_split(rng.permutation(users), n_steps)

    def of_one_size(
        self, users: NDArray[np.int64], n_steps: int, most: int, rng: np.random.Generator
    ) -> NDArray[np.int64]:
        """The last batch is filled up from the first."""
        dealt = rng.permutation(users)
        n_missing = -len(users) % n_steps
        return np.concatenate([dealt, dealt[:n_missing]]).reshape(n_steps, -1)


class IndependentDeal:
    """Batches of full size, each drawn anew without replacement (theory: P2).

    This is the paper's Algorithm 1 to the letter: a user may come twice in an epoch, or not at all.
    """

    def __call__(
        self, users: NDArray[np.int64], n_steps: int, most: int, rng: np.random.Generator
    ) -> list[NDArray[np.int64]]:
        size = min(most, len(users))
        return [rng.choice(users, size, replace=False) for _ in range(n_steps)]

    def of_one_size(
        self, users: NDArray[np.int64], n_steps: int, most: int, rng: np.random.Generator
    ) -> NDArray[np.int64]:
        """The same: all are of full size."""
        return np.stack(self(users, n_steps, most, rng))


def inclusion_probability(
    item_degrees: NDArray[np.int64], *, n_users: int, n_drawn: int
) -> NDArray[np.float64]:
    """s(i) = 1 − C(n_i⁻, |U_B|) / C(|U|, |U_B|), n_i⁻ the users without item i (theory: P1).

    An item that some drawn user must have is certain: n_i⁻ < |U_B| gives 1.

    >>> inclusion_probability(np.array([0, 1, 3]), n_users=4, n_drawn=2).round(6).tolist()
    [0.0, 0.5, 1.0]
    """
    from scipy.special import gammaln

    others = (n_users - np.asarray(item_degrees)).astype(np.float64)
    certain = others < n_drawn
    others = np.where(certain, n_drawn, others)
    log_missed = (
        gammaln(others + 1)
        - gammaln(others - n_drawn + 1)
        - gammaln(n_users + 1)
        + gammaln(n_users - n_drawn + 1)
    )
    return np.where(certain, 1.0, np.clip(-np.expm1(log_missed), 0.0, 1.0))


@dataclass
class Inclusions:
    """s(i) of every item; an even deal has two batch sizes at most, so few are kept."""

    item_degrees: NDArray[np.int64]
    n_users: int
    _known: dict[int, NDArray[np.float64]] = field(default_factory=dict)

    def __call__(self, n_drawn: int) -> NDArray[np.float64]:
        """Where so many users are drawn."""
        if n_drawn not in self._known:
            self._known[n_drawn] = inclusion_probability(
                self.item_degrees, n_users=self.n_users, n_drawn=n_drawn
            )
        return self._known[n_drawn]


class Positives(NamedTuple):
    """The pairs of some users, listed one after another."""

    degrees: NDArray[np.int64]  # of each user
    rows: NDArray[np.int64]
    items: NDArray[np.int32]
    weights: NDArray[np.float32] | None

    @classmethod
    def of(cls, data: Interactions, users: NDArray[np.int64]) -> Positives:
        """All that `data` has of these users."""
        degrees = data.user_degrees[users]
        rows = np.repeat(np.arange(len(users)), degrees)
        offsets = np.arange(len(rows)) - np.repeat(np.cumsum(degrees) - degrees, degrees)
        places = data.indptr[users][rows] + offsets
        weights = data.relative_weights
        return cls(
            degrees, rows, data.indices[places], None if weights is None else weights[places]
        )

    def marked(self, n_items: int) -> NDArray[np.uint8]:
        """1 for every item that is among them."""
        came_up = np.zeros(n_items, np.uint8)
        came_up[self.items] = 1
        return came_up
