"""Autoencoder scores: a history goes in, and a score for every item comes out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from typing import Any, ClassVar, NamedTuple, Self

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

_AXES: Axes = {
    "item_in": ("n_items", "hidden"),
    "bias_in": ("hidden",),
    "to_latent": ("hidden", "latent"),
    "bias_latent": ("latent",),
    "from_latent": ("latent", "hidden"),
    "bias_hidden": ("hidden",),
    "item_out": ("n_items", "hidden"),
    "bias_out": ("n_items",),
}


@dataclass(frozen=True, eq=False)
class Autoencoder(FromHistories):
    """The score is that of an autoencoder with one hidden layer on either side of a latent one.

    x = I_u / ‖I_u‖, h = tanh(x·item_in + bias_in), z = h·to_latent + bias_latent,
    o = tanh(z·from_latent + bias_hidden), s(u,i) = o·item_out_i + bias_out_i.
    """

    item_in: FloatMatrix
    bias_in: NDArray[np.float32]
    to_latent: FloatMatrix
    bias_latent: NDArray[np.float32]
    from_latent: FloatMatrix
    bias_hidden: NDArray[np.float32]
    item_out: FloatMatrix
    bias_out: NDArray[np.float32]
    histories: Pairs

    kind: ClassVar[str] = "autoencoder"

    @property
    def n_items(self) -> int:
        return len(self.item_out)

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {name: getattr(self, name) for name in _AXES}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], histories: Pairs) -> Self:
        return cls(**{name: arrays[name] for name in _AXES}, histories=histories)

    def scores(self, users: Indices, *, out: FloatMatrix | None = None) -> FloatMatrix:
        """The output for each user's history."""
        return self._layers.items.products(self.user_vectors(users), out=out)

    @property
    def item_vectors(self) -> FloatMatrix:
        """The output weights of each item, and its bias as one more dimension."""
        return np.column_stack([self.item_out, self.bias_out])

    def user_vectors(self, users: Indices) -> FloatMatrix:
        """The last hidden layer, o, of each user, and 1 in the dimension of the bias."""
        return np.pad(self._last_layer(users), ((0, 0), (0, 1)), constant_values=1)

    def for_items(self, items: Indices) -> ItemProducts:
        """The scores of these items alone."""
        return ItemProducts(self.n_users, self.user_vectors, self._layers.items.take(items))

    def similarity(self) -> InnerProduct:
        """The cosine of the output weights of two items."""
        return by_cosine(self.item_out)

    def _last_layer(self, users: Indices) -> FloatMatrix:
        """o of each user [n, hidden]."""
        histories = history_rows(self.histories, users, self.n_items)
        lengths = np.sqrt(np.diff(histories.indptr)).astype(np.float32)
        histories.data /= np.repeat(lengths, np.diff(histories.indptr))
        hidden = np.tanh(histories @ self._layers.item_in + self.bias_in)
        latent = self._layers.to_latent.products(hidden) + self.bias_latent
        vectors: FloatMatrix = np.tanh(self._layers.from_latent.products(latent) + self.bias_hidden)
        return vectors

    @cached_property
    def _layers(self) -> _Layers:
        return _Layers(
            np.ascontiguousarray(self.item_in),
            FixedTiles.of(self.to_latent.T),
            FixedTiles.of(self.from_latent.T),
            FixedTiles.of(self.item_vectors),
        )

    @cached_property
    def _largest(self) -> Mapping[str, float]:
        largest = largest_values(self.arrays(), _AXES)
        if 0 in self.to_latent.shape:
            raise ModelError(
                "a layer of the model is empty",
                where="to_latent",
                found=f"float32 {list(self.to_latent.shape)}",
                wanted="float32 [hidden, latent], both 1 or more",
            )
        return largest

    def _bounds(self, longest: int) -> Mapping[str, float]:
        n_hidden, n_latent = self.to_latent.shape
        largest = self._largest
        latent = n_hidden * largest["to_latent"] + largest["bias_latent"]
        return {
            "item_in": sqrt(longest) * largest["item_in"] + largest["bias_in"],
            "to_latent": latent,
            "from_latent": n_latent * latent * largest["from_latent"] + largest["bias_hidden"],
            "item_out": n_hidden * largest["item_out"] + largest["bias_out"],
        }


class _Layers(NamedTuple):
    """The weights, laid out for products whose rows do not depend on one another."""

    item_in: FloatMatrix
    to_latent: FixedTiles
    from_latent: FixedTiles
    items: FixedTiles
