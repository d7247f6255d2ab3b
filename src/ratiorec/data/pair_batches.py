"""Batches of positives, each with unlabelled items of the same user."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import ClassVar

import numpy as np
import torch

from ratiorec.data.interactions import Interactions
from ratiorec.data.samplers import Draw, Sampler, Uniform
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
    def shown_items(self) -> tuple[PairIndex, DrawnIndex]:
        """The positives, and the unlabelled items."""
        return self.items, self.unlabelled

    def to(self, device: torch.device) -> PairBatch:
        """The same batch on another device."""
        return PairBatch(
            *(getattr(self, f.name).to(device, non_blocking=True) for f in fields(self))
        )


@dataclass(frozen=True)
class PairBatches:
    """Pairs uniformly without replacement; an epoch shows every pair (theory: P3).

    The pairs are dealt over the fewest batches that hold at most `n_pairs` each. Pairs of users
    who have every item are left out: nothing unlabelled could stand against them.
    """

    n_pairs: int = 2048
    sampler: Sampler = field(default_factory=Uniform)

    def __post_init__(self) -> None:
        if self.n_pairs < 1:
            raise ConfigError(
                "a batch needs at least one pair",
                where="batches.n_pairs",
                found=str(self.n_pairs),
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
        return PairEpochs(
            torch.from_numpy(data.pair_users[lacks_some]).to(device),
            torch.from_numpy(data.indices[lacks_some]).to(device),
            self.sampler(data, device=device),
            self.n_pairs,
        )


@dataclass(frozen=True, eq=False)
class PairEpochs:
    """The pairs, on the device; calling it deals one epoch.

    All batches have the same size. Where the pairs do not come out even, the last batch is
    filled up with the first pairs of the epoch.
    """

    users: PairIndex
    items: PairIndex
    draw: Draw
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

    def __call__(self, rng: np.random.Generator) -> Iterator[PairBatch]:
        # one number from outside; the rest is random on the device, which is never waited for
        device, seed = self.users.device, int(rng.integers(2**63))
        on_device = torch.Generator(device).manual_seed(seed)
        order = torch.randperm(len(self.users), generator=on_device, device=device)
        size, n_shown = self.batch_size, self.n_steps * self.batch_size
        order = torch.cat([order, order[: n_shown - len(order)]])
        n_batches = max(DRAWN_AT_A_TIME // (size * self.draw.n_drawn), 1)
        for some in torch.split(order, n_batches * size):
            users, items = self.users[some].long(), self.items[some].long()
            together = users, items, self.draw(users, rng=on_device)
            yield from map(PairBatch, *(torch.split(tensor, size) for tensor in together))
