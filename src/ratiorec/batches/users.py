"""Batches of users with all their positives, and the candidates these make."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ratiorec.data.interactions import Interactions, inclusion_probability
from ratiorec.shapes import ItemIndex, PerItem, PerPositive, PerUser, PositiveIndex, UserIndex


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
    batch_size: int

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
    def _known_inclusions(self) -> dict[int, NDArray[np.float64]]:
        return {}

    def inclusion(self, n_drawn: int) -> NDArray[np.float64]:
        """s(i) of every item; an even deal has two batch sizes at most, so few are kept."""
        known = self._known_inclusions
        if n_drawn not in known:
            known[n_drawn] = inclusion_probability(
                self.data.item_degrees, n_users=len(self.eligible), n_drawn=n_drawn
            )
        return known[n_drawn]

    def __call__(self, rng: np.random.Generator) -> Iterator[Batch]:
        for users in np.array_split(rng.permutation(self.eligible), self.n_steps):
            yield self.batch(users)

    def complete(self, dealt: Batch) -> Batch:
        """The same: it was dealt complete."""
        return dealt

    def batch(self, users: NDArray[np.int64]) -> Batch:
        """All positives of these users."""
        data = self.data
        degrees = data.user_degrees[users]
        rows = np.repeat(np.arange(len(users)), degrees)
        offsets = np.arange(len(rows)) - np.repeat(np.cumsum(degrees) - degrees, degrees)
        places = data.indptr[users][rows] + offsets
        items, weights = data.indices[places], data.relative_weights
        n_items = len(data.item_degrees)
        place = np.zeros(n_items, dtype=np.int64)
        place[items] = 1
        candidates = np.flatnonzero(place)
        place[candidates] = np.arange(len(candidates))
        return Batch(
            users=torch.from_numpy(users),
            candidates=torch.from_numpy(candidates),
            rows=torch.from_numpy(rows),
            columns=torch.from_numpy(place[items]),
            prior=torch.from_numpy(degrees / n_items).float(),
            popularity=torch.from_numpy(data.item_degrees[candidates]).float(),
            inclusion=torch.from_numpy(self.inclusion(len(users))[candidates]).float(),
            pair_weights=None if weights is None else torch.from_numpy(weights[places]),
        )
