"""Factors: scores that are inner products of vectors."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ratiorec.errors import ModelError
from ratiorec.scorers.scorer import (
    FixedTiles,
    FloatMatrix,
    Indices,
    ItemProducts,
    Pairs,
    largest_value,
    refuse_overflow,
)


@dataclass(frozen=True, eq=False)
class InnerProduct:
    """The score is the inner product of a user's and an item's factors (theory: S1)."""

    users: FloatMatrix
    items: FloatMatrix

    kind: ClassVar[str] = "inner_product"

    def __post_init__(self) -> None:
        self._check()

    def _check(self) -> None:
        """Refuse malformed factors, and any score that might not be finite."""
        for name, factors in self.arrays().items():
            if factors.ndim != 2 or factors.dtype != np.float32 or factors.shape[1] == 0:
                raise ModelError(
                    "factors must be a matrix of float32",
                    where=f"{name} factors",
                    found=f"{factors.dtype} {list(factors.shape)}",
                    wanted="float32 [n, dimension] with a dimension of 1 or more",
                )
        if self.users.shape[1] != self.items.shape[1]:
            raise ModelError(
                "user and item factors do not fit each other",
                where="factors",
                found=f"{self.users.shape[1]} and {self.items.shape[1]} dimensions",
                wanted="the same dimension",
            )
        users, items = largest_value(self.users), self._largest_of_items
        bounds = {"users": users, "items": items, "factors": users * items * self.users.shape[1]}
        for name, bound in bounds.items():
            refuse_overflow(name, bound)

    @property
    def n_users(self) -> int:
        return len(self.users)

    @property
    def n_items(self) -> int:
        return len(self.items)

    @property
    def item_vectors(self) -> FloatMatrix:
        return self.items

    def user_vectors(self, users: Indices) -> FloatMatrix:
        return self.users[users]

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {"users": self.users, "items": self.items}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], histories: Pairs) -> Self:
        return cls(arrays["users"], arrays["items"])

    def scores(self, users: Indices, *, out: FloatMatrix | None = None) -> FloatMatrix:
        """The inner products of each user's factors with every item's."""
        return self._tiled.products(self.users[users], out=out)

    def for_items(self, items: Indices) -> ItemProducts:
        """The scores of these items alone."""
        return ItemProducts(self.n_users, self.user_vectors, self._tiled.take(items))

    def with_users(self, users: FloatMatrix) -> InnerProduct:
        """The same items for other users; what has been made of the items is shared.

        Raises:
            ModelError: The factors do not fit those of the items, or give scores without end.
        """
        other = copy(self)
        object.__setattr__(other, "users", users)
        other._check()
        return other

    def similarity(self) -> InnerProduct:
        """The cosine of the factors of two items."""
        return by_cosine(self.items)

    @cached_property
    def _largest_of_items(self) -> float:
        return largest_value(self.items)

    @cached_property
    def _tiled(self) -> FixedTiles:
        return FixedTiles.of(self.items)


def by_cosine(factors: FloatMatrix) -> InnerProduct:
    """Scores rows of `factors` against one another by the cosine of their angle; 0 for a zero row.

    >>> by_cosine(np.array([[3, 4], [6, 8]], np.float32)).scores(np.array([0]))
    array([[1., 1.]], dtype=float32)
    """
    lengths = np.linalg.norm(factors.astype(np.float64), axis=1, keepdims=True)
    directions = (factors / np.where(lengths > 0, lengths, 1)).astype(np.float32)
    return InnerProduct(directions, directions)
