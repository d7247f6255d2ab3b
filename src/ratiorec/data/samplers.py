"""Which unlabelled items stand against a positive.

A sampler is settings; called with the data it becomes a `Draw`, whose tensors live on the device.
A draw is exact: it counts among the items that the user lacks, so nothing is drawn in vain, every
shape is known beforehand, and the device is never waited for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ratiorec.data.interactions import Interactions
from ratiorec.errors import ConfigError
from ratiorec.shapes import DrawnIndex, PairIndex

# a remainder of 2⁶² divided by n favours small numbers by a share of n/2⁶² at most
N_RANDOM = 2**62
# what the weights of all items add up to, unless users are so many that u·W would overflow
TOTAL_WEIGHT = 2**40


class Draw(Protocol):
    """Unlabelled items for users of one set of pairs."""

    @property
    def n_drawn(self) -> int:
        """Items for each user given."""

    def __call__(self, users: PairIndex, *, rng: torch.Generator) -> DrawnIndex:
        """Items that these users lack; every user must lack at least one."""


class Sampler(Protocol):
    """How unlabelled items are drawn."""

    def __call__(self, data: Interactions, *, device: torch.device) -> Draw:
        """The same for one set of pairs."""


@dataclass(frozen=True)
class Uniform:
    """Each item that the user lacks is equally likely (theory: P4)."""

    def __call__(self, data: Interactions, *, device: torch.device) -> Draw:
        return UniformDraw.of(data, n_drawn=1, device=device)


@dataclass(frozen=True)
class Popularity:
    """p(i|u) ∝ |U_i⁺|^α over the items that the user lacks (theory: P5).

    The weights are rounded to whole numbers, see `whole_weights`; apart from that nothing is
    approximated.
    """

    exponent: float = 0.75

    def __post_init__(self) -> None:
        if not 0 <= self.exponent < math.inf:
            raise ConfigError(
                "the exponent of the popularity is out of range",
                where="batches.sampler.exponent",
                found=str(self.exponent),
                wanted="a finite number from 0",
            )

    def __call__(self, data: Interactions, *, device: torch.device) -> Draw:
        return WeightedDraw.of(data, whole_weights(data, self.exponent), device=device)


@dataclass(frozen=True)
class Dynamic:
    """Several uniform draws, of which the risk takes the one that scores highest (theory: P6)."""

    n_candidates: int = 8

    def __post_init__(self) -> None:
        if self.n_candidates < 1:
            raise ConfigError(
                "there must be an item to choose",
                where="batches.sampler.n_candidates",
                found=str(self.n_candidates),
                wanted="1 or more",
            )

    def __call__(self, data: Interactions, *, device: torch.device) -> Draw:
        return UniformDraw.of(data, n_drawn=self.n_candidates, device=device)


@dataclass(frozen=True, eq=False)
class UniformDraw:
    """The items that a user lacks, counted from 0 in the order of their indices (theory: P4)."""

    n_items: int
    n_drawn: int
    starts: Tensor  # of each user's positives among all pairs
    n_missing: Tensor  # of each user
    keys: Tensor  # u·|I| + p_j − j of each pair, increasing

    @classmethod
    def of(cls, data: Interactions, *, n_drawn: int, device: torch.device) -> UniformDraw:
        """The draw for one set of pairs."""
        starts, users = data.indptr[:-1], data.pair_users.astype(np.int64)
        places = np.arange(data.n_pairs) - starts[users]
        return cls(
            data.n_items,
            n_drawn,
            starts=_on(device, starts),
            n_missing=_on(device, data.n_items - data.user_degrees),
            keys=_on(device, users * data.n_items + data.indices - places),
        )

    def __call__(self, users: PairIndex, *, rng: torch.Generator) -> DrawnIndex:
        return self.missing(users, below(self.n_missing[users], self.n_drawn, rng=rng))

    def missing(self, users: PairIndex, ranks: DrawnIndex) -> DrawnIndex:
        """The r-th item that a user lacks: r + #{j : p_j − j ≤ r}."""
        users = users.unsqueeze(1)
        ends = torch.searchsorted(self.keys, users * self.n_items + ranks, right=True)
        return ranks + ends - self.starts[users]


@dataclass(frozen=True, eq=False)
class WeightedDraw:
    """The items that a user lacks, each as long as its weight, end to end (theory: P5)."""

    total: int  # W
    starts: Tensor  # of each user's positives among all pairs
    lengths: Tensor  # what the items add up to that a user lacks
    bounds: Tensor  # where each item ends if none is left out
    passed: Tensor  # what the user's positives add up to, as far as each pair and with it
    keys: Tensor  # u·W + what the user lacks before each pair, increasing

    n_drawn = 1

    @classmethod
    def of(
        cls, data: Interactions, weights: NDArray[np.int64], *, device: torch.device
    ) -> WeightedDraw:
        """The draw for one set of pairs and the weight of every item, 1 or more."""
        starts, users = data.indptr[:-1], data.pair_users.astype(np.int64)
        bounds = np.cumsum(weights)
        # over all users this may overflow; differences within one are right nevertheless
        sums = np.concatenate([[0], np.cumsum(weights[data.indices])])
        passed = sums[1:] - sums[starts[users]]
        return cls(
            int(bounds[-1]),
            starts=_on(device, starts),
            lengths=_on(device, bounds[-1] - (sums[data.indptr[1:]] - sums[starts])),
            bounds=_on(device, bounds),
            passed=_on(device, passed),
            keys=_on(device, users * bounds[-1] + bounds[data.indices] - passed),
        )

    def __call__(self, users: PairIndex, *, rng: torch.Generator) -> DrawnIndex:
        return self.items_at(users, below(self.lengths[users], self.n_drawn, rng=rng))

    def items_at(self, users: PairIndex, places: DrawnIndex) -> DrawnIndex:
        """The items at these places once the positives of the user are left out."""
        users = users.unsqueeze(1)
        ends = torch.searchsorted(self.keys, users * self.total + places, right=True)
        has_passed = ends > self.starts[users]
        return torch.searchsorted(
            self.bounds, places + torch.where(has_passed, self.passed[ends - 1], 0), right=True
        )


def whole_weights(data: Interactions, exponent: float) -> NDArray[np.int64]:
    """|U_i⁺|^α of every item as 1 + ⌊its share of 2⁴⁰⌋; at most 2⁶²/|U| in all.

    The 1 keeps somebody who has every item with a user from having nothing left; elsewhere it
    makes an item without users as good as impossible.
    """
    popularity = data.item_degrees / data.item_degrees.max()
    shares = popularity**exponent / (popularity**exponent).sum()
    total = min(TOTAL_WEIGHT, N_RANDOM // data.n_users)
    weights: NDArray[np.int64] = 1 + np.floor(shares * (total - data.n_items)).astype(np.int64)
    return weights


def below(bounds: Tensor, n_drawn: int, *, rng: torch.Generator) -> Tensor:
    """`n_drawn` whole numbers from 0 to each bound, itself excluded."""
    drawn = torch.randint(N_RANDOM, (len(bounds), n_drawn), generator=rng, device=bounds.device)
    return drawn % bounds.unsqueeze(1)


def _on(device: torch.device, values: NDArray[np.int64]) -> Tensor:
    return torch.tensor(values, dtype=torch.int64, device=device)
