"""A training part and, where there is one, a test part over the same users and items."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ratiorec.data.interactions import Interactions
from ratiorec.errors import DataError


@dataclass(frozen=True)
class Dataset:
    """Named data; `train` and `test` share their vocabularies and no pair."""

    name: str
    train: Interactions
    test: Interactions | None = None

    def __post_init__(self) -> None:
        if self.test is None:
            return
        if self.test.users is not self.train.users or self.test.items is not self.train.items:
            raise DataError(
                "train and test do not share their users and items",
                where=f"data set {self.name}",
                found="two vocabularies",
                wanted="test.aligned_to(train.users, train.items)",
            )
        shared = np.intersect1d(_keys(self.train), _keys(self.test), assume_unique=True)
        if len(shared):
            user, item = divmod(int(shared[0]), self.train.n_items)
            raise DataError(
                "test pairs are in the training part",
                where=f"data set {self.name}",
                found=f"{len(shared):,} such pairs, the first of user "
                f"{self.train.users.ids[user]} and item {self.train.items.ids[item]}",
                wanted="no pair in both parts",
            )


def _keys(data: Interactions) -> NDArray[np.int64]:
    return data.pair_users.astype(np.int64) * data.n_items + data.indices
