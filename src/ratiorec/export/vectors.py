"""A model as vectors of users and items whose inner products are its scores."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ratiorec.artifact import Artifact
from ratiorec.errors import ConfigError, DataError
from ratiorec.scorers import Factored, FloatMatrix, Indices, Scorer

_VALUES_AT_A_TIME = 2**22

_INSTEAD = "its lists: ratiorec recommend MODEL --all -o lists.parquet, or ratiorec serve MODEL"


@dataclass(frozen=True, eq=False)
class Vectors:
    """Users and items of a model; the score of a pair is the inner product of its vectors."""

    model: Artifact
    factored: Factored

    @classmethod
    def of(cls, model: Artifact) -> Vectors:
        """The vectors of a model.

        Raises:
            ConfigError: The scores of this kind of model are no inner products of short vectors.
            DataError: The model has no user or no item.
        """
        if not isinstance(model.scorer, Factored):
            raise ConfigError(
                "this kind of model has no vectors to export",
                where="export",
                found=f"a model of kind {model.scorer.kind}",
                wanted=f"a model of kind inner_product or autoencoder; of this one, {_INSTEAD}",
            )
        if not (len(model.users) and len(model.items)):
            raise DataError(
                "there is nothing to export",
                where="export",
                found=f"{len(model.users):,} users and {len(model.items):,} items",
                wanted="at least one of each",
            )
        return cls(model, model.scorer)

    @property
    def scorer(self) -> Scorer:
        return self.model.scorer

    @property
    def user_ids(self) -> NDArray[Any]:
        return self.model.users.ids

    @property
    def item_ids(self) -> NDArray[Any]:
        return self.model.items.ids

    @cached_property
    def items(self) -> FloatMatrix:
        """One vector for each item [n_items, d]."""
        return np.ascontiguousarray(self.factored.item_vectors)

    def users(self, users: Indices) -> FloatMatrix:
        """One vector for each of these users [n, d]."""
        return np.ascontiguousarray(self.factored.user_vectors(users))

    @property
    def n_users(self) -> int:
        return len(self.user_ids)

    @property
    def n_items(self) -> int:
        return len(self.item_ids)

    @property
    def dimension(self) -> int:
        return int(self.items.shape[1])

    def user_blocks(self) -> Iterator[tuple[slice, FloatMatrix]]:
        """All users in consecutive blocks: an autoencoder computes its users, which takes room."""
        step = max(1, _VALUES_AT_A_TIME // self.dimension)
        for start in range(0, self.n_users, step):
            rows = slice(start, min(start + step, self.n_users))
            yield rows, self.users(np.arange(rows.start, rows.stop))
