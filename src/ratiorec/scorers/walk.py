"""Walk scores: from a user's items to all who have them, and on to what those have."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from ratiorec.scorers.scorer import (
    Axes,
    FixedTiles,
    FloatMatrix,
    FromHistories,
    Indices,
    Pairs,
    UserItems,
    check_pairs,
    history_rows,
    identity_pairs,
    largest_values,
)

if TYPE_CHECKING:
    import scipy.sparse

_GATHERED_PAIRS = 3 * 2**16  # about so many pairs of the users reached are copied in one go
_DENSE_BYTES = 2**22  # about so much do the users reached take where all of them are counted
_DENSE_SPEED = 4  # so many pairs in their order take as long as one that is gathered
_USERS_TRIED = 64


@dataclass(frozen=True, eq=False)
class WalkScorer(FromHistories):
    """The score is a walk of two steps over the pairs of a graph, less the way back (theory: N5).

    s(u,i) = Σ_{j ∈ I_u, j ≠ i} |U_j|^−a Σ_{v ∈ U_j ∩ U_i} |I_v|^−b |U_i|^−c. The graph is the pairs
    of training: other histories are walked from on the same graph. No item-item matrix exists.
    Where pairs have weights, v counts by that of v and i (theory: W9).
    """

    exponents: NDArray[np.float32]  # a, b, c
    item_degrees: NDArray[np.float32]  # |U_i| in the graph
    histories: Pairs
    graph: Pairs | None = None  # the histories, unless it is given
    pair_weights: NDArray[np.float32] | None = None  # of the pairs of the graph

    kind: ClassVar[str] = "walk"

    def __post_init__(self) -> None:
        if self.graph is None:
            object.__setattr__(self, "graph", self.histories)
        super().__post_init__()

    @classmethod
    def over(
        cls,
        pairs: Pairs,
        exponents: NDArray[np.float32],
        n_items: int,
        pair_weights: NDArray[np.float32] | None = None,
    ) -> Self:
        """A walk over all these pairs."""
        degrees = np.bincount(pairs.indices, minlength=n_items).astype(np.float32)
        return cls(exponents, degrees, UserItems.of(pairs), pair_weights=pair_weights)

    def grown(self, pairs: Pairs, n_items: int) -> Self:
        """The same walk over more pairs, of which the new ones have the mean weight, 1."""
        weights = None
        if self.pair_weights is not None:
            assert self.graph is not None
            weights = np.ones(len(pairs.indices), np.float32)
            known = np.isin(_keys(pairs, n_items), _keys(self.graph, n_items), assume_unique=True)
            weights[known] = self.pair_weights
        return self.over(pairs, self.exponents, n_items, weights)

    @property
    def n_items(self) -> int:
        return len(self.item_degrees)

    def arrays(self) -> dict[str, NDArray[Any]]:
        arrays = {"exponents": self.exponents, "item_degrees": self.item_degrees}
        if self.pair_weights is not None:
            arrays["pair_weights"] = self.pair_weights
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], histories: Pairs) -> Self:
        weights = arrays.get("pair_weights")
        return cls(arrays["exponents"], arrays["item_degrees"], histories, pair_weights=weights)

    def scores(self, users: Indices, *, out: FloatMatrix | None = None) -> FloatMatrix:
        """What the walk brings from each user's history to every item."""
        if out is None:
            out = np.empty((len(users), self.n_items), np.float32)
        walk = self._walk
        for start in range(0, len(users), walk.n_at_once):
            rows = slice(start, start + walk.n_at_once)
            some = history_rows(self.histories, users[rows], self.n_items)
            (_count_all if walk.dense else _count_reached)(some, walk, out[rows])
            places = np.repeat(np.arange(some.shape[0]), np.diff(some.indptr))
            np.subtract.at(out[rows], (places, some.indices), walk.back[some.indices])
        return out

    def similarity(self) -> Self:
        """Scores of items for an item: those of a user who has it and no other."""
        return self.with_histories(identity_pairs(self.n_items))

    @cached_property
    def _largest(self) -> Mapping[str, float]:
        assert self.graph is not None
        axes: Axes = {"exponents": ("a, b, c",), "item_degrees": ("n_items",)}
        if self.pair_weights is not None:
            axes = {**axes, "pair_weights": ("pairs of the graph",)}
        lengths = {"a, b, c": 3, "pairs of the graph": len(self.graph.indices)}
        largest = largest_values(self.arrays(), axes, **lengths)
        check_pairs(self.graph, self.n_items, name="histories of the graph")
        return largest

    def _bounds(self, longest: int) -> Mapping[str, float]:
        assert self.graph is not None
        most = max(1.0, self._largest["item_degrees"])
        most_of_users = max(1.0, float(np.diff(self.graph.indptr).max(initial=1)))
        a, b, c = self.exponents.astype(np.float64)
        with np.errstate(over="ignore"):
            return {
                "exponents": longest
                * self._largest.get("pair_weights", 1.0)
                * most ** (1 + max(-a, 0) + max(-c, 0))
                * most_of_users ** max(-b, 0)
            }

    @cached_property
    def _walk(self) -> _Walk:
        assert self.graph is not None
        return _Walk.over(self)


class _Walk(NamedTuple):
    """Both steps, and how many users take them at once."""

    to_users: scipy.sparse.csr_array  # D_I^−a Xᵀ [n_items, n_users]
    to_items: scipy.sparse.csr_array  # D_U^−b X D_I^−c, transposed where all users are counted
    back: NDArray[np.float32]  # what an item gets of itself
    dense: bool
    n_at_once: int

    @classmethod
    def over(cls, walk: WalkScorer) -> _Walk:
        import scipy.sparse

        graph, a, b, c = walk.graph, *walk.exponents.astype(np.float64)
        assert graph is not None
        degrees = np.maximum(walk.item_degrees, 1).astype(np.float64)
        lengths, sources, targets = np.diff(graph.indptr), degrees**-a, degrees**-c
        of_users = np.repeat(np.maximum(lengths, 1) ** -b, lengths)
        if walk.pair_weights is not None:
            of_users = of_users * walk.pair_weights
        shape = (len(lengths), len(degrees))
        values = (of_users * targets[graph.indices]).astype(np.float32)
        to_items = scipy.sparse.csr_array((values, graph.indices, graph.indptr), shape=shape)
        start = sources[graph.indices].astype(np.float32)
        from_users = scipy.sparse.csr_array((start, graph.indices, graph.indptr), shape=shape)
        back = sources * targets * np.bincount(graph.indices, of_users, minlength=shape[1])
        to_users = from_users.T.tocsr()
        # pairs that a user's walk passes: the second step gathers them, or takes all there are
        tried = np.linspace(0, max(0, shape[0] - 1), min(shape[0], _USERS_TRIED)).astype(np.int64)
        reached = history_rows(graph, tried, shape[1]) @ to_users
        n_passed = lengths[reached.indices].sum() / max(1, len(tried))
        dense = _DENSE_SPEED * n_passed > len(graph.indices)
        at_once = _DENSE_BYTES / 4 / max(shape) if dense else _GATHERED_PAIRS / max(1, n_passed)
        second = to_items.T.tocsr() if dense else to_items
        return cls(to_users, second, back.astype(np.float32), bool(dense), max(1, int(at_once)))


def _keys(pairs: Pairs, n_items: int) -> NDArray[np.int64]:
    """A number for each pair, increasing."""
    users = np.repeat(np.arange(len(pairs.indptr) - 1), np.diff(pairs.indptr))
    keys: NDArray[np.int64] = users * n_items + pairs.indices
    return keys


def _count_reached(histories: scipy.sparse.csr_array, walk: _Walk, out: FloatMatrix) -> None:
    """Fill `out` by the pairs of the users reached: a sparse row that names an item again adds."""
    import scipy.sparse

    reached = histories @ walk.to_users
    pairs = walk.to_items[reached.indices]
    pairs.data *= np.repeat(reached.data, np.diff(pairs.indptr))
    ends = pairs.indptr[reached.indptr]
    sums = scipy.sparse.csr_array((pairs.data, pairs.indices, ends), shape=out.shape)
    if out.flags.c_contiguous:
        sums.toarray(out=out)
    else:
        out[...] = sums.toarray()


def _count_all(histories: scipy.sparse.csr_array, walk: _Walk, out: FloatMatrix) -> None:
    """Fill `out` by the pairs of all users, in their order: faster where most are reached."""
    reached = (histories @ walk.to_users).toarray()
    out[...] = (walk.to_items @ np.ascontiguousarray(reached.T)).T


_FILTER_AXES: Axes = {
    "eigenvectors": ("n_items", "n"),
    "eigenvalues": ("n",),
    "gains": ("n",),
    "linear_gain": ("one",),
}
_SCRATCH_SCORES = 2**19


@dataclass(frozen=True, eq=False)
class GraphFilterScorer(FromHistories):
    """The score is a walk times c, and what the leading eigenvectors V gain on it (theory: N6).

    s(u,·) = c·walk + x_u D_I^−β V diag(g) Vᵀ D_I^β; the exponents of the walk are ½ + β, 1, ½ − β.
    """

    walk: WalkScorer
    eigenvectors: FloatMatrix  # V [n_items, n]
    eigenvalues: NDArray[np.float32]  # no score needs them, but new items are made by them
    gains: NDArray[np.float32]  # g [n]
    linear_gain: NDArray[np.float32]  # c [1]
    histories: Pairs = field(init=False)

    kind: ClassVar[str] = "graph_filter"

    def __post_init__(self) -> None:
        object.__setattr__(self, "histories", self.walk.histories)
        super().__post_init__()

    @property
    def n_items(self) -> int:
        return self.walk.n_items

    def arrays(self) -> dict[str, NDArray[Any]]:
        return self.walk.arrays() | {name: getattr(self, name) for name in _FILTER_AXES}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], histories: Pairs) -> Self:
        walk = WalkScorer.from_arrays(arrays, histories)
        return cls(walk, **{name: arrays[name] for name in _FILTER_AXES})

    def with_histories(self, histories: Pairs) -> Self:
        """The same filter for other users, as of any scorer by histories."""
        other = copy(self)
        object.__setattr__(other, "walk", self.walk.with_histories(histories))
        other.__post_init__()
        return other

    def scores(self, users: Indices, *, out: FloatMatrix | None = None) -> FloatMatrix:
        """What the filter lets through of each user's history."""
        out = self.walk.scores(users, out=out)
        out *= self.linear_gain
        step = max(8, _SCRATCH_SCORES // max(1, self.n_items) // 8 * 8)
        for start in range(0, len(users), step):
            rows = slice(start, start + step)
            some = history_rows(self.histories, users[rows], self.n_items)
            some.data = self._sources[some.indices]
            out[rows] += self._targets.products((some @ self._vectors) * self.gains)
        return out

    def similarity(self) -> Self:
        """Scores of items for an item: those of a user who has it and no other."""
        return self.with_histories(identity_pairs(self.n_items))

    @property
    def low_rank_factors(self) -> tuple[FloatMatrix, FloatMatrix]:
        """A and B, whose product A Bᵀ is all of the filter but the walk."""
        inputs = self.eigenvectors * self._sources[:, None]
        return inputs * self.gains, self.eigenvectors * _scaled(self.walk, 1)[:, None]

    @cached_property
    def _sources(self) -> NDArray[np.float32]:
        return _scaled(self.walk, -1)

    @cached_property
    def _vectors(self) -> FloatMatrix:
        return np.ascontiguousarray(self.eigenvectors)

    @cached_property
    def _targets(self) -> FixedTiles:
        return FixedTiles.of(self.eigenvectors * _scaled(self.walk, 1)[:, None])

    @cached_property
    def _largest(self) -> Mapping[str, float]:
        lengths = {"one": 1, "n_items": self.n_items}
        return largest_values(self.arrays(), _FILTER_AXES, **lengths)

    def _bounds(self, longest: int) -> Mapping[str, float]:
        walked = self.walk._bounds(longest)["exponents"] * self._largest["linear_gain"]
        scales = float(_scaled(self.walk, -1).max(initial=0)) * float(
            _scaled(self.walk, 1).max(initial=0)
        )
        vector = longest * self._largest["eigenvectors"] * self._largest["gains"]
        passed = vector * self._largest["eigenvectors"] * len(self.gains) * scales
        return {"linear_gain": walked, "eigenvectors": passed}


def _scaled(walk: WalkScorer, sign: int) -> NDArray[np.float32]:
    """D_I^±β, where β is half the difference of the first and the last exponent."""
    exponents = walk.exponents.astype(np.float64)
    beta = (exponents[0] - exponents[2]) / 2
    degrees = np.maximum(walk.item_degrees, 1).astype(np.float64)
    scaled: NDArray[np.float32] = (degrees ** (sign * beta)).astype(np.float32)
    return scaled
