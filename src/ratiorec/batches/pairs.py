"""Batches of pairs: positives, each with negatives sampled from the user's unlabelled items.

Negative sampling is exact: a sampler counts among the items that the user lacks, so nothing is
drawn in vain, every shape is known beforehand, and the device is never waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ratiorec.batches.users import ItemGroup
from ratiorec.data.interactions import Interactions
from ratiorec.errors import DataError
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
    n_drawn: int
    starts: Tensor  # of each user's positives among all pairs
    lengths: Tensor  # what the items add up to that a user lacks
    bounds: Tensor  # where each item ends if none is left out
    passed: Tensor  # what the user's positives add up to, as far as each pair and with it
    keys: Tensor  # u·W + what the user lacks before each pair, increasing

    @classmethod
    def of(
        cls,
        data: Interactions,
        weights: NDArray[np.int64],
        *,
        n_drawn: int = 1,
        device: torch.device,
    ) -> WeightedDraw:
        """The draw for one set of pairs and the weight of every item, 1 or more."""
        starts, users = data.indptr[:-1], data.pair_users.astype(np.int64)
        bounds = np.cumsum(weights)
        # over all users this may overflow; differences within one are right nevertheless
        sums = np.concatenate([[0], np.cumsum(weights[data.indices])])
        passed = sums[1:] - sums[starts[users]]
        return cls(
            int(bounds[-1]),
            n_drawn,
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


# items drawn in one go, which bounds the memory; another number would draw others from one seed
DRAWN_AT_A_TIME = 2**20


@dataclass(frozen=True)
class PairBatch:
    """Pairs (u, i) of positives, each with items that u lacks (theory: P3)."""

    users: PairIndex
    items: PairIndex
    negatives: DrawnIndex
    weights: Tensor | None = None  # c_ui of each pair; None where all are 1 (theory: W9)

    @property
    def item_groups(self) -> tuple[ItemGroup, ...]:
        """The positives, and the negatives."""
        return ItemGroup(self.items), ItemGroup(self.negatives)

    def to(self, device: torch.device) -> PairBatch:
        """The same batch on another device."""
        given = {f.name: getattr(self, f.name) for f in fields(self)}
        moved: dict[str, Any] = {
            name: value if value is None else value.to(device, non_blocking=True)
            for name, value in given.items()
        }
        return PairBatch(**moved)


class Deal(Protocol):
    """The pairs that an epoch shows, in their order."""

    def __call__(self, n_shown: int, *, rng: torch.Generator) -> PairIndex:
        """The places of so many pairs, at least as many as there are."""


def shuffled(users: PairIndex) -> Deal:
    """Every pair once, in random order; then the first ones again (theory: P3)."""

    def deal(n_shown: int, *, rng: torch.Generator) -> Tensor:
        order = torch.randperm(len(users), generator=rng, device=users.device)
        return torch.cat([order, order[: n_shown - len(order)]])

    return deal


def user_balanced(users: PairIndex) -> Deal:
    """A user uniformly, then one of the user's pairs uniformly, with replacement (theory: P7)."""
    _, n_pairs = torch.unique_consecutive(users, return_counts=True)
    starts = n_pairs.cumsum(0) - n_pairs

    def deal(n_shown: int, *, rng: torch.Generator) -> Tensor:
        drawn = below(n_pairs.new_full((n_shown,), len(n_pairs)), 1, rng=rng).squeeze(1)
        places: Tensor = starts[drawn] + below(n_pairs[drawn], 1, rng=rng).squeeze(1)
        return places

    return deal


PAIR_ORDERS = MappingProxyType({"shuffled": shuffled, "user-balanced": user_balanced})


@dataclass(frozen=True, eq=False)
class PairEpochs:
    """The pairs, on the device; calling it deals one epoch.

    All batches have the same size: where the pairs do not come out even, a few more are shown.
    """

    users: PairIndex
    items: PairIndex
    draw: Draw
    deal: Deal
    largest_batch: int
    weights: Tensor | None = None

    same_shape: ClassVar[bool] = True

    @classmethod
    def of(
        cls,
        data: Interactions,
        draw: Draw,
        order: Callable[[PairIndex], Deal],
        *,
        n_pairs: int,
        min_steps: int,
        device: torch.device,
    ) -> PairEpochs:
        """The batches of one set of pairs."""
        lacks_some = (data.user_degrees < data.n_items)[data.pair_users]
        if not lacks_some.any():
            raise DataError(
                "no pair has an unlabelled item to stand against it",
                where="training data",
                found=f"{data.n_pairs:,} pairs, all of users who have every item",
                wanted="a user with an item and without another",
            )
        users = torch.from_numpy(data.pair_users[lacks_some]).to(device)
        weights = data.relative_weights
        return cls(
            users,
            torch.from_numpy(data.indices[lacks_some]).to(device),
            draw,
            order(users),
            min(n_pairs, -(-len(users) // min_steps)),
            None if weights is None else torch.from_numpy(weights[lacks_some]).to(device),
        )

    @property
    def n_steps(self) -> int:
        """Batches in an epoch."""
        return -(-len(self.users) // self.largest_batch)

    @property
    def batch_size(self) -> int:
        """Pairs in each batch."""
        return -(-len(self.users) // self.n_steps)

    def complete(self, dealt: PairBatch) -> PairBatch:
        """The same: it was dealt complete."""
        return dealt

    def __call__(self, rng: np.random.Generator) -> Iterator[PairBatch]:
        # one number from outside; the rest is random on the device, which is never waited for
        device, seed = self.users.device, int(rng.integers(2**63))
        on_device = torch.Generator(device).manual_seed(seed)
        size = self.batch_size
        order = self.deal(self.n_steps * size, rng=on_device)
        n_batches = max(DRAWN_AT_A_TIME // (size * self.draw.n_drawn), 1)
        for some in torch.split(order, n_batches * size):
            users, items = self.users[some].long(), self.items[some].long()
            together = [users, items, self.draw(users, rng=on_device)]
            if self.weights is not None:
                together.append(self.weights[some])
            yield from map(PairBatch, *(torch.split(tensor, size) for tensor in together))
