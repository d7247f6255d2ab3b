"""Batches of users whose tensors always have the same sizes, made on the device.

A GPU replays a recorded step in a fraction of the time that it takes to start its hundreds of
operations one by one, but only where no size changes and nothing waits for the host. So all items
stand in the list of candidates, those that did not come up with inclusion 0, and the list of
positives has spare places behind the last one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from ratiorec.batches.users import Batch, UserEpochs
from ratiorec.shapes import UserIndex

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
        return int(self.dealt.of_one_size(np.random.default_rng(0)).shape[1])

    def __call__(self, rng: np.random.Generator) -> Iterator[DealtUsers]:
        rows = self.dealt.of_one_size(rng)
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
        at = (first + places).clamp_max(len(self._indices) - 1)
        columns, weights = self._indices[at], self._pair_weights
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
            pair_weights=None if weights is None else weights[at],
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
    def _pair_weights(self) -> Tensor | None:
        weights = self.dealt.data.relative_weights
        return None if weights is None else torch.from_numpy(weights).to(self.device)

    @cached_property
    def _user_degrees(self) -> Tensor:
        return torch.from_numpy(self.dealt.data.user_degrees).to(self.device)

    @cached_property
    def _popularity(self) -> Tensor:
        return torch.from_numpy(self.dealt.data.item_degrees).to(self.device, torch.float32)

    @cached_property
    def _inclusion(self) -> Tensor:
        inclusion = self.dealt.inclusions(self.batch_size)
        return torch.from_numpy(inclusion).to(self.device, torch.float32)


def _rounded_up(n_places: float) -> int:
    return int(-(-n_places // PLACES_AT_A_TIME)) * PLACES_AT_A_TIME
