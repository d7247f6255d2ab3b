"""Batches of positives, each with unlabelled items of the same user."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import ClassVar, Protocol

import numpy as np
import torch
from torch import Tensor

from ratiorec.data.batches import Shown
from ratiorec.data.interactions import Interactions
from ratiorec.data.samplers import Draw, Sampler, Uniform, below
from ratiorec.errors import ConfigError, DataError
from ratiorec.shapes import DrawnIndex, PairIndex

# items drawn in one go, which bounds the memory; another number would draw others from one seed
DRAWN_AT_A_TIME = 2**20


@dataclass(frozen=True)
class PairBatch:
    """Pairs (u, i) of positives, each with items that u lacks (theory: P3)."""

    users: PairIndex
    items: PairIndex
    unlabelled: DrawnIndex

    @property
    def shown_items(self) -> tuple[Shown, ...]:
        """The positives, and the unlabelled items."""
        return Shown(self.items), Shown(self.unlabelled)

    def to(self, device: torch.device) -> PairBatch:
        """The same batch on another device."""
        return PairBatch(
            *(getattr(self, f.name).to(device, non_blocking=True) for f in fields(self))
        )


class Deal(Protocol):
    """Which pairs an epoch shows, in which order."""

    def __call__(self, n_shown: int, *, rng: torch.Generator) -> PairIndex:
        """The places of so many pairs, at least as many as there are."""


class Dealing(Protocol):
    """How an epoch is dealt; called with the user of every pair, sorted, it becomes a deal."""

    def __call__(self, users: PairIndex) -> Deal: ...


@dataclass(frozen=True)
class EveryPair:
    """Every pair once, in random order; then the first ones again (theory: P3)."""

    def __call__(self, users: PairIndex) -> Deal:
        def deal(n_shown: int, *, rng: torch.Generator) -> Tensor:
            order = torch.randperm(len(users), generator=rng, device=users.device)
            return torch.cat([order, order[: n_shown - len(order)]])

        return deal


@dataclass(frozen=True)
class EqualUsers:
    """A user uniformly, then one of the user's pairs uniformly, with replacement (theory: P7)."""

    def __call__(self, users: PairIndex) -> Deal:
        _, n_pairs = torch.unique_consecutive(users, return_counts=True)
        starts = n_pairs.cumsum(0) - n_pairs

        def deal(n_shown: int, *, rng: torch.Generator) -> Tensor:
            drawn = below(n_pairs.new_full((n_shown,), len(n_pairs)), 1, rng=rng).squeeze(1)
            places: Tensor = starts[drawn] + below(n_pairs[drawn], 1, rng=rng).squeeze(1)
            return places

        return deal


@dataclass(frozen=True)
class PairBatches:
    """Pairs, each with unlabelled items; an epoch shows as many as there are (theory: P3).

    They are spread over the fewest batches that hold at most `n_pairs` each, but over
    `least_steps` at least, so that few pairs do not become one batch. Pairs of users who have
    every item are left out: nothing unlabelled could stand against them.
    """

    n_pairs: int = 2048
    sampler: Sampler = field(default_factory=Uniform)
    dealing: Dealing = field(default_factory=EveryPair)
    least_steps: int = 1

    def __post_init__(self) -> None:
        for name in ("n_pairs", "least_steps"):
            if getattr(self, name) < 1:
                raise ConfigError(
                    "a batch needs a pair, and an epoch a batch",
                    where=f"batches.{name}",
                    found=str(getattr(self, name)),
                    wanted="1 or more",
                )

    def __call__(self, data: Interactions, *, device: torch.device) -> PairEpochs:
        lacks_some = (data.user_degrees < data.n_items)[data.pair_users]
        if not lacks_some.any():
            raise DataError(
                "no pair has an unlabelled item to stand against it",
                where="training data",
                found=f"{data.n_pairs:,} pairs, all of users who have every item",
                wanted="a user with an item and without another",
            )
        users = torch.from_numpy(data.pair_users[lacks_some]).to(device)
        return PairEpochs(
            users,
            torch.from_numpy(data.indices[lacks_some]).to(device),
            self.sampler(data, device=device),
            self.dealing(users),
            min(self.n_pairs, -(-len(users) // self.least_steps)),
        )


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

    same_shape: ClassVar[bool] = True

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
            together = users, items, self.draw(users, rng=on_device)
            yield from map(PairBatch, *(torch.split(tensor, size) for tensor in together))
