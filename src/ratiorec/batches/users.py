"""Batches of users with all their positives, and the candidates these make."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ratiorec.batches.dealing import EvenDeal, Inclusions, Positives, UserDeal
from ratiorec.data.interactions import Interactions
from ratiorec.shapes import (
    ItemIndex,
    PerItem,
    PerPositive,
    PerUser,
    PositiveIndex,
    Scalar,
    UserIndex,
)


class ItemGroup(NamedTuple):
    """Items listed in a batch, and which of them take part; without a word all of them do."""

    items: Tensor
    mask: Tensor | None = None


class AnyBatch(Protocol):
    """What training asks of a batch, whatever else its risk reads in it."""

    @property
    def users(self) -> UserIndex:
        """The users, one for each row of user vectors."""

    @property
    def item_groups(self) -> tuple[ItemGroup, ...]:
        """The items that take part, in groups that the penalty averages apart."""

    def to(self, device: torch.device) -> AnyBatch:
        """The same batch on another device."""


class Epochs(Protocol):
    """The batches of one set of pairs; calling it deals one epoch."""

    same_shape: ClassVar[bool]
    """Whether all batches have tensors of the same sizes."""

    @property
    def n_steps(self) -> int:
        """Batches in an epoch."""

    def __call__(self, rng: np.random.Generator) -> Iterator[Any]:
        """One epoch of dealt batches; everything random in it comes from `rng`."""

    def complete(self, dealt: Any) -> AnyBatch:
        """The batch as risks read it; where it takes work, the work is part of the step."""


@dataclass(frozen=True)
class Batch:
    """U_B, I_B and the positives between them (theory: P2).

    Positive p is the pair of user `users[rows[p]]` and item `candidates[columns[p]]`;
    `rows` is sorted. A place whose row is beyond the last user is spare and counts for nothing,
    as does a candidate with inclusion 0.

    Processes that train together share a batch: each lists its own of the `n_sharing` users, all
    list the same candidates, and `total` adds up what each has. A loss is then a sum of parts.
    """

    users: UserIndex
    candidates: ItemIndex
    rows: PositiveIndex
    columns: PositiveIndex
    prior: PerUser  # π_u = |I_u⁺| / |I|
    popularity: PerItem  # |U_i⁺| of each candidate
    inclusion: PerItem  # s(i) of each candidate
    pair_weights: PerPositive | None = None  # c_ui of each positive; None where all are 1
    lists_all_items: bool = False  # in their order, as candidates
    n_sharing: int | None = None  # |U_B| where others list users of it too
    total: Callable[[Tensor], Tensor] = lambda part: part

    def mean(self, values: PerUser, plus: Scalar | float = 0.0) -> Scalar:
        """What the users listed here add to the mean over the batch; `plus` is a mean of theirs."""
        n_users = self.n_sharing or len(self.users)
        return values.sum() / n_users + plus * (len(self.users) / n_users)

    @property
    def item_groups(self) -> tuple[ItemGroup, ...]:
        """The candidates that came up."""
        return (ItemGroup(self.candidates, self.inclusion > 0),)

    def weighted(self, values: PerPositive) -> PerPositive:
        """A value of each positive times the weight of the pair (theory: W9)."""
        return values if self.pair_weights is None else values * self.pair_weights

    def of_candidates(self, items: Tensor) -> Tensor:
        """The rows of the candidates in a table of all items."""
        return items if self.lists_all_items else items.index_select(0, self.candidates)

    def to(self, device: torch.device) -> Batch:
        """The same batch on another device."""
        tensors = {
            f.name: v for f in fields(self) if isinstance(v := getattr(self, f.name), Tensor)
        }
        moved: dict[str, Any] = {n: v.to(device, non_blocking=True) for n, v in tensors.items()}
        return replace(self, **moved)


@dataclass(frozen=True, eq=False)
class UserEpochs:
    """The batches of one set of pairs; calling it deals one epoch."""

    data: Interactions
    batch_size: int  # at most
    deal: UserDeal = field(default_factory=EvenDeal)

    same_shape: ClassVar[bool] = False

    @cached_property
    def eligible(self) -> NDArray[np.int64]:
        """The users with at least one positive."""
        return np.flatnonzero(self.data.user_degrees)

    @property
    def n_steps(self) -> int:
        """Batches in an epoch."""
        return -(-len(self.eligible) // self.batch_size)

    @cached_property
    def inclusions(self) -> Inclusions:
        """How likely each item is to come up."""
        return Inclusions(self.data.item_degrees, len(self.eligible))

    def __call__(self, rng: np.random.Generator) -> Iterator[Batch]:
        for users in self.deal(self.eligible, self.n_steps, self.batch_size, rng):
            yield self.batch(users)

    def of_one_size(self, rng: np.random.Generator) -> NDArray[np.int64]:
        """The users of each batch of an epoch, equally many in each."""
        return self.deal.of_one_size(self.eligible, self.n_steps, self.batch_size, rng)

    def complete(self, dealt: Batch) -> Batch:
        """The same: it was dealt complete."""
        return dealt

    def batch(self, users: NDArray[np.int64]) -> Batch:
        """All positives of these users, and the items that any of them has for candidates."""
        data, positives = self.data, Positives.of(self.data, users)
        came_up, inclusion = positives.marked(data.n_items), self.inclusions(len(users))
        return listed(users, positives, came_up, data.item_degrees, inclusion)


def listed(
    users: NDArray[np.int64],
    positives: Positives,
    came_up: NDArray[np.uint8],
    item_degrees: NDArray[np.int64],
    inclusion: NDArray[np.float64],
    **shared: Any,
) -> Batch:
    """The batch of these users with the candidates that came up; `shared` are fields of it."""
    n_items = len(item_degrees)
    candidates = np.flatnonzero(came_up)
    place = np.empty(n_items, np.int64)
    place[candidates] = np.arange(len(candidates))
    return Batch(
        users=torch.from_numpy(users),
        candidates=torch.from_numpy(candidates),
        rows=torch.from_numpy(positives.rows),
        columns=torch.from_numpy(place[positives.items]),
        prior=torch.from_numpy(positives.degrees / n_items).float(),
        popularity=torch.from_numpy(item_degrees[candidates]).float(),
        inclusion=torch.from_numpy(inclusion[candidates]).float(),
        pair_weights=None if positives.weights is None else torch.from_numpy(positives.weights),
        **shared,
    )
