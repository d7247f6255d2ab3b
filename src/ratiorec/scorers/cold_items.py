"""Cold items: scored as mixes of known ones, whatever kind of model is behind them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ratiorec.scorers.autoencoder import Autoencoder
from ratiorec.scorers.blend import names_in
from ratiorec.scorers.factors import InnerProduct
from ratiorec.scorers.item_factors import ItemFactors
from ratiorec.scorers.item_item import ItemWeights
from ratiorec.scorers.popularity import PopularityScorer
from ratiorec.scorers.scorer import (
    FixedTiles,
    FloatMatrix,
    Indices,
    Narrowable,
    Pairs,
    Scorer,
    StoredScorer,
    UserItems,
    check_pairs,
    largest_values,
    pairs_of,
    require_fit,
)

if TYPE_CHECKING:
    import scipy.sparse

ITEM_AXES: Mapping[str, Mapping[str, tuple[int, ...]]] = {
    InnerProduct.kind: {"items": (0,)},
    ItemFactors.kind: {"inputs": (0,), "outputs": (0,)},
    Autoencoder.kind: {"item_in": (0,), "item_out": (0,), "bias_out": (0,)},
    PopularityScorer.kind: {"counts": (0,)},
}
"""The axes of arrays along which items stand, in kinds whose scores are linear in these arrays.

Weights of item pairs are not among them: with cold items they would grow by the square.
"""
_AXES_IN_FOLDERS = {**ITEM_AXES, ItemWeights.kind: {"weights": (0, 1)}}  # as models were saved once
_NEIGHBOURS = 20
_CACHED_SCORES = 2**18
_MIX_AXES = {"features.values": ("values",), "gains": ("cold items", "features")}


@dataclass(frozen=True, eq=False)
class Mix:
    """Whatever is linear in the known ones, of the new ones: A·known, A = G Fᵀ (theory: K2)."""

    features: scipy.sparse.csr_array  # F [n_known, p]
    gains: FloatMatrix  # G [n_new, p]

    @property
    def n_known(self) -> int:
        return int(self.features.shape[0])

    @property
    def n_new(self) -> int:
        return len(self.gains)

    def of(self, known: NDArray[Any]) -> NDArray[np.float64]:
        """What the new ones have where the known ones have these rows [n_known, …]."""
        sums = self.features.T @ known.astype(np.float64)
        mixed: NDArray[np.float64] = self.gains @ sums
        return mixed

    def joined(self, known: NDArray[Any], *, axis: int = 0) -> NDArray[Any]:
        """The known ones followed by the new ones, along an axis."""
        rows = np.moveaxis(known, axis, 0)
        both = np.concatenate([rows, self.of(rows).astype(known.dtype)])
        return np.ascontiguousarray(np.moveaxis(both, 0, axis))

    def heaviest(self, new: int, n: int) -> tuple[Indices, FloatMatrix]:
        """The `n` known ones that weigh most in a new one, and their weights."""
        weights = self.features @ self.gains[new]
        items = np.argsort(-weights, kind="stable")[:n]
        return items, weights[items]


@dataclass(frozen=True, eq=False)
class ColdItems:
    """A model of some items, and behind these others whose scores are mixes: s_c = Σ_j a_cj s_j."""

    known: StoredScorer
    mix: Mix

    kind: ClassVar[str] = "cold_items"

    def __post_init__(self) -> None:
        require_fit("items of a mix", self.mix.n_known, self.known.n_items, "those of the model")

    @property
    def n_users(self) -> int:
        return self.known.n_users

    @property
    def n_items(self) -> int:
        return self.mix.n_known + self.mix.n_new

    @property
    def item_vectors(self) -> FloatMatrix | None:
        """The vectors of the known items and mixes of them; None where there are none."""
        vectors: FloatMatrix | None = getattr(self.known, "item_vectors", None)
        return None if vectors is None else self.mix.joined(vectors)

    def arrays(self) -> dict[str, NDArray[Any]]:
        features = self.mix.features
        return {
            "kind": np.frombuffer(self.known.kind.encode(), np.uint8),
            "features.indptr": features.indptr.astype(np.int64),
            "features.indices": features.indices.astype(np.int32),
            "features.values": features.data,
            "gains": self.mix.gains,
            **{f"known.{name}": array for name, array in self.known.arrays().items()},
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], histories: Pairs) -> Self:
        import scipy.sparse

        from ratiorec.scorers import SCORERS

        (kind,) = names_in(arrays["kind"], SCORERS)
        parts = {n.removeprefix("known."): a for n, a in arrays.items() if n.startswith("known.")}
        try:
            known = SCORERS[kind].from_arrays(parts, histories)
        except KeyError as missing:
            raise KeyError(f"known.{missing.args[0]}") from None
        rows = UserItems(arrays["features.indptr"], arrays["features.indices"])
        largest_values(arrays, _MIX_AXES, values=rows.indices.size)
        gains = arrays["gains"]
        check_pairs(rows, gains.shape[1], name="features", n_users=known.n_items)
        features = (arrays["features.values"], rows.indices, rows.indptr)
        shape = (known.n_items, gains.shape[1])
        return cls(known, Mix(scipy.sparse.csr_array(features, shape=shape), gains))

    def scores(self, users: Indices, *, out: FloatMatrix | None = None) -> FloatMatrix:
        """The model's own scores, and the mixes of them."""
        if out is None:
            out = np.empty((len(users), self.n_items), np.float32)
        self.known.scores(users, out=out[:, : self.mix.n_known])
        self._mix_in(out)
        return out

    def _mix_in(self, out: FloatMatrix) -> None:
        """Fill the columns of the cold items by those of the others, a few rows at a time."""
        n_known = self.mix.n_known
        step = max(8, _CACHED_SCORES // max(1, self.n_items) // 8 * 8)
        for start in range(0, len(out), step):
            rows = out[start : start + step]
            sums = (self._columns @ np.ascontiguousarray(rows[:, :n_known].T)).T
            # products of fixed tiles: the last digit of a user does not depend on the others
            self._tiled.products(np.ascontiguousarray(sums), out=rows[:, n_known:])

    def for_items(self, items: Indices) -> Scorer | None:
        """The scores of known items alone; a cold one is a mix of all, so that nothing is won."""
        if not isinstance(self.known, Narrowable) or (items >= self.mix.n_known).any():
            return None
        return self.known.for_items(items)

    def similarity(self) -> SimilarColdItems:
        """Scores of items for an item; those for a cold one are mixed as it is."""
        similar: Any = self.known.similarity()
        return SimilarColdItems(replace(self, known=similar))

    def of_known_items(self, histories: Pairs) -> UserItems:
        """Histories in which the known item nearest to a cold one stands for it."""
        everyone = np.arange(len(histories.indptr) - 1)
        rows, items = pairs_of(histories, everyone)
        items = items.astype(np.int64)
        for place in np.flatnonzero(items >= self.mix.n_known):
            items[place] = self.mix.heaviest(int(items[place]) - self.mix.n_known, 1)[0][0]
        rows, items = np.divmod(np.unique(rows * self.n_items + items), max(1, self.n_items))
        ends = np.searchsorted(rows, np.arange(len(everyone) + 1))
        return UserItems(ends, items.astype(np.int32))

    @cached_property
    def _tiled(self) -> FixedTiles:
        return FixedTiles.of(self.mix.gains)

    @cached_property
    def _columns(self) -> scipy.sparse.csr_array:
        return self.mix.features.T.tocsr()


@dataclass(frozen=True, eq=False)
class SimilarColdItems:
    """Scores items against items: a cold one as a mix of the known ones that it is most like."""

    scorer: ColdItems

    @property
    def n_users(self) -> int:
        return self.scorer.n_items

    @property
    def n_items(self) -> int:
        return self.scorer.n_items

    def scores(self, users: Indices, *, out: FloatMatrix | None = None) -> FloatMatrix:
        """The scores of all items for each of these."""
        if out is None:
            out = np.empty((len(users), self.n_items), np.float32)
        mix, known = self.scorer.mix, self.scorer.known
        columns = out[:, : mix.n_known]
        is_known = users < mix.n_known
        known.scores(np.where(is_known, users, 0), out=columns)
        for place in np.flatnonzero(~is_known):
            near, weights = mix.heaviest(int(users[place]) - mix.n_known, _NEIGHBOURS)
            columns[place] = (known.scores(near) * weights[:, None]).sum(axis=0)
        self.scorer._mix_in(out)
        return out


def with_cold_items(scorer: StoredScorer, mix: Mix, histories: Pairs) -> StoredScorer:
    """The model with more items, which are mixes of those it has (theory: K2).

    Arrays in which the scores are linear get the mixes of their rows, so that vectors stay
    vectors. The scores of all other kinds are mixed once they are known.
    """
    if (axes := ITEM_AXES.get(scorer.kind)) is None:
        return ColdItems(scorer, mix)
    arrays = scorer.arrays()
    for name, of_items in axes.items():
        for axis in of_items:
            arrays[name] = mix.joined(arrays[name], axis=axis)
    return type(scorer).from_arrays(arrays, histories)


def without_cold_items(scorer: StoredScorer, n_known: int, histories: Pairs) -> StoredScorer:
    """The model that `with_cold_items` was given."""
    if isinstance(scorer, ColdItems):
        return scorer.known
    arrays = scorer.arrays()
    for name, of_items in _AXES_IN_FOLDERS[scorer.kind].items():
        for axis in of_items:
            arrays[name] = np.ascontiguousarray(arrays[name].take(np.arange(n_known), axis))
    return type(scorer).from_arrays(arrays, histories)
