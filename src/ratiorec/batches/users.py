"""Batches of users with all their positives, and the candidates these make.

A GPU replays a recorded step in a fraction of the time that it takes to start its hundreds of
operations one by one, but only where no size changes and nothing waits for the host. So there
`StaticEpochs` lists all items as candidates, those that did not come up with inclusion 0, and
keeps spare places behind the last positive.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ratiorec.batches.settings import inclusion_probability
from ratiorec.data.interactions import Interactions
from ratiorec.shapes import ItemIndex, PerItem, PerUser, PositiveIndex, UserIndex


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
    lists_all_items: bool = False  # in their order, as candidates

    @property
    def item_groups(self) -> tuple[ItemGroup, ...]:
        """The candidates that came up."""
        return (ItemGroup(self.candidates, self.inclusion > 0),)

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
        items = data.indices[data.indptr[users][rows] + offsets]
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
        )


# sums over a batch's users stay within so many standard deviations, or the places are added to
DEVIATIONS_OF_ROOM = 5
PLACES_AT_A_TIME = 1024


@dataclass(frozen=True)
class DealtUsers:
    """The users of a batch, and how many places it has for positives."""

    users: UserIndex
    n_places: int

    def to(self, device: torch.device) -> DealtUsers:
        """The same on another device."""
        return DealtUsers(self.users.to(device, non_blocking=True), self.n_places)


@dataclass(frozen=True, eq=False)
class StaticEpochs:
    """The batches of `dealt`, all of one size: the last one is filled up from the first.

    Who is in which batch is decided on the host, as for any device; what the batch holds is put
    together by `complete`, on the device and without waiting.
    """

    dealt: UserEpochs
    device: torch.device

    same_shape: ClassVar[bool] = True

    @property
    def n_steps(self) -> int:
        """Batches in an epoch."""
        return self.dealt.n_steps

    @cached_property
    def batch_size(self) -> int:
        """Users in each batch."""
        return -(-len(self.dealt.eligible) // self.n_steps)

    def __call__(self, rng: np.random.Generator) -> Iterator[DealtUsers]:
        users = rng.permutation(self.dealt.eligible)
        users = np.concatenate([users, users[: self.n_steps * self.batch_size - len(users)]])
        rows = users.reshape(self.n_steps, self.batch_size)
        n_positives = self.dealt.data.user_degrees[rows].sum(1)
        on_device = torch.from_numpy(rows).to(self.device, non_blocking=True)
        for batch, needed in zip(on_device, n_positives.tolist(), strict=True):
            yield DealtUsers(batch, max(self._usual_places, _rounded_up(needed)))

    def complete(self, dealt: DealtUsers) -> Batch:
        """All positives of these users; a spare place has the row after the last."""
        users = dealt.users
        degrees = self._user_degrees[users]
        ends = degrees.cumsum(0)
        places = torch.arange(dealt.n_places, device=self.device)
        rows = torch.searchsorted(ends, places, right=True)
        owners = rows.clamp_max(len(users) - 1)
        first = (self._indptr[users] - ends + degrees)[owners]
        columns = self._indices[(first + places).clamp_max(len(self._indices) - 1)]
        n_items = len(self._candidates)
        came_up = self._inclusion.new_zeros(n_items + 1)
        # a number put in by an index would come from the host, which a recording cannot hold
        came_up.index_fill_(0, torch.where(rows < len(users), columns, n_items), 1)
        return Batch(
            users=users,
            candidates=self._candidates,
            rows=rows,
            columns=columns,
            prior=degrees / n_items,
            popularity=self._popularity,
            inclusion=self._inclusion * came_up[:-1],
            lists_all_items=True,
        )

    @cached_property
    def _usual_places(self) -> int:
        degrees = self.dealt.data.user_degrees[self.dealt.eligible]
        size = self.batch_size
        spread = degrees.std() * np.sqrt(size * (1 - size / len(degrees)))
        return _rounded_up(float(size * degrees.mean() + DEVIATIONS_OF_ROOM * spread))

    @cached_property
    def _candidates(self) -> Tensor:
        return torch.arange(self.dealt.data.n_items, device=self.device)

    @cached_property
    def _indptr(self) -> Tensor:
        return torch.from_numpy(self.dealt.data.indptr).to(self.device)

    @cached_property
    def _indices(self) -> Tensor:
        return torch.from_numpy(self.dealt.data.indices.astype(np.int64)).to(self.device)

    @cached_property
    def _user_degrees(self) -> Tensor:
        return torch.from_numpy(self.dealt.data.user_degrees).to(self.device)

    @cached_property
    def _popularity(self) -> Tensor:
        return torch.from_numpy(self.dealt.data.item_degrees).to(self.device, torch.float32)

    @cached_property
    def _inclusion(self) -> Tensor:
        inclusion = self.dealt.inclusion(self.batch_size)
        return torch.from_numpy(inclusion).to(self.device, torch.float32)


def _rounded_up(n_places: float) -> int:
    return int(-(-n_places // PLACES_AT_A_TIME)) * PLACES_AT_A_TIME
