"""Two ways to hold user-item pairs: listed one by one, or every user with the same candidates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from ratiorec.data.batches import Batch
from ratiorec.scores import Embeddings, pair_scores


class Pairs(Protocol):
    """What a weight may look at."""

    @property
    def ratio(self) -> Tensor:
        """r̂ of every pair, without gradient."""

    @property
    def popularity(self) -> Tensor:
        """|U_i⁺| of every pair's item, in a shape that broadcasts to `ratio`."""

    def scores(self, embeddings: Embeddings) -> Tensor:
        """The scores that another model gives the same pairs."""


@dataclass(frozen=True)
class ListedPairs:
    """The positives of a batch."""

    batch: Batch
    ratio: Tensor

    @property
    def popularity(self) -> Tensor:
        return self.batch.popularity[self.batch.columns]

    def scores(self, embeddings: Embeddings) -> Tensor:
        users = embeddings.users[self.batch.users]
        items = embeddings.items[self.batch.candidates]
        return pair_scores(users, items, self.batch.rows, self.batch.columns)


@dataclass(frozen=True)
class CrossedPairs:
    """Some of the batch's users, each with the same candidates."""

    batch: Batch
    users: slice
    candidates: slice
    ratio: Tensor

    @property
    def popularity(self) -> Tensor:
        return self.batch.popularity[self.candidates]

    def scores(self, embeddings: Embeddings) -> Tensor:
        users = embeddings.users[self.batch.users[self.users]]
        return users @ embeddings.items[self.batch.candidates[self.candidates]].T
