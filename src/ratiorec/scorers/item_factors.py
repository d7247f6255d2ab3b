"""Item factors: a user is the sum of what the items of a history put in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ratiorec.errors import ModelError
from ratiorec.scorers.factors import InnerProduct, by_cosine
from ratiorec.scorers.scorer import (
    Axes,
    FixedTiles,
    FloatMatrix,
    FromHistories,
    Indices,
    ItemProducts,
    Pairs,
    history_rows,
    largest_values,
)

_AXES: Axes = {"inputs": ("n_items", "dimension"), "outputs": ("n_items", "dimension")}


@dataclass(frozen=True, eq=False)
class ItemFactors(FromHistories):
    """The score is s(u,i) = (Σ_{j ∈ I_u} a_j)ᵀ b_i, an item-item matrix of rank d (theory: S3)."""

    inputs: FloatMatrix  # a [n_items, d]: what an item adds to the users who have it
    outputs: FloatMatrix  # b [n_items, d]
    histories: Pairs

    kind: ClassVar[str] = "item_factors"

    @property
    def n_items(self) -> int:
        return len(self.outputs)

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {"inputs": self.inputs, "outputs": self.outputs}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], histories: Pairs) -> Self:
        return cls(arrays["inputs"], arrays["outputs"], histories)

    def scores(self, users: Indices, *, out: FloatMatrix | None = None) -> FloatMatrix:
        """The inner products of each user's vector with every item's."""
        return self._tiled.products(self.user_vectors(users), out=out)

    @property
    def item_vectors(self) -> FloatMatrix:
        return self.outputs

    def user_vectors(self, users: Indices) -> FloatMatrix:
        """The inputs of each user's history, added up in its order."""
        vectors: FloatMatrix = history_rows(self.histories, users, self.n_items) @ self._inputs
        return vectors

    def for_items(self, items: Indices) -> ItemProducts:
        """The scores of these items alone."""
        return ItemProducts(self.n_users, self.user_vectors, self._tiled.take(items))

    def similarity(self) -> InnerProduct:
        """The cosine of the outputs of two items."""
        return by_cosine(self.outputs)

    @cached_property
    def _inputs(self) -> FloatMatrix:
        return np.ascontiguousarray(self.inputs)

    @cached_property
    def _tiled(self) -> FixedTiles:
        return FixedTiles.of(self.outputs)

    @cached_property
    def _largest(self) -> Mapping[str, float]:
        largest = largest_values(self.arrays(), _AXES)
        if self.outputs.shape[1] == 0:
            raise ModelError(
                "factors must have a dimension",
                where="outputs",
                found=f"float32 {list(self.outputs.shape)}",
                wanted="float32 [n_items, dimension] with a dimension of 1 or more",
            )
        return largest

    def _bounds(self, longest: int) -> Mapping[str, float]:
        inputs = longest * self._largest["inputs"]
        dimension = self.outputs.shape[1]
        return {"inputs": inputs, "outputs": dimension * inputs * self._largest["outputs"]}
