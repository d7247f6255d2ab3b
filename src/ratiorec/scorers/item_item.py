"""Item-item scores: sums of what each item of a history says of every item."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ratiorec.scorers.scorer import (
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


_CACHED_SCORES = 2**18  # about so many sums stay in the cache nearest to a core
_GATHERED_WEIGHTS = 2**22  # about so many weights of neighbours are copied in one go


@dataclass(frozen=True, eq=False)
class ItemWeights(FromHistories):
    """The score is s(u,i) = Σ_{j ∈ I_u} B_ji, with a weight for every pair of items.

    `precisions` are those of the regressions that trained the first items, where they are known:
    no score needs them, but new items are made by them (theory: F7).
    """

    weights: FloatMatrix  # B [n_items, n_items]: row j is what item j says of every item
    histories: Pairs
    precisions: NDArray[np.float32] | None = None

    kind: ClassVar[str] = "item_weights"

    @property
    def n_items(self) -> int:
        return len(self.weights)

    def arrays(self) -> dict[str, NDArray[Any]]:
        known = {} if self.precisions is None else {"precisions": self.precisions}
        return {"weights": self.weights, **known}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], histories: Pairs) -> Self:
        return cls(arrays["weights"], histories, arrays.get("precisions"))

    def scores(self, users: Indices, *, out: FloatMatrix | None = None) -> FloatMatrix:
        """The sum of what the items of each user's history say."""
        if out is None:
            out = np.empty((len(users), self.n_items), np.float32)
        step = max(1, _CACHED_SCORES // max(1, self.n_items))
        for start in range(0, len(users), step):
            rows = slice(start, start + step)
            out[rows] = history_rows(self.histories, users[rows], self.n_items) @ self._rows
        return out

    def for_items(self, items: Indices) -> _SomeWeights:
        """The scores of these items alone."""
        return _SomeWeights(self, items)

    def similarity(self) -> ItemWeights:
        """Scores of items for an item: those of a user who has it and no other."""
        return self.with_histories(identity_pairs(self.n_items))

    @cached_property
    def _largest(self) -> Mapping[str, float]:
        axes: dict[str, tuple[str, ...]] = {"weights": ("n_items", "n_items")}
        if self.precisions is not None:
            axes["precisions"] = ("trained items",)
        return largest_values(self.arrays(), axes)

    def _bounds(self, longest: int) -> Mapping[str, float]:
        return {"weights": longest * self._largest["weights"]}

    @cached_property
    def _rows(self) -> FloatMatrix:
        return np.ascontiguousarray(self.weights)  # or every product would begin with a copy


@dataclass(frozen=True, eq=False)
class _SomeWeights:
    """What histories say of some items: no more weights are read than those."""

    of_all: ItemWeights
    items: Indices

    @property
    def n_users(self) -> int:
        return self.of_all.n_users

    @property
    def n_items(self) -> int:
        return len(self.items)

    def scores(self, users: Indices, *, out: FloatMatrix | None = None) -> FloatMatrix:
        """The sum of what the items of each user's history say, in their order."""
        if out is None:
            out = np.empty((len(users), self.n_items), np.float32)
        histories = history_rows(self.of_all.histories, users, self.of_all.n_items)
        for row, (start, end) in enumerate(pairwise(histories.indptr)):
            out[row] = 0
            for item in histories.indices[start:end]:
                out[row] += self.of_all.weights[item, self.items]
        return out


@dataclass(frozen=True, eq=False)
class Neighbours(FromHistories):
    """The score is s(u,i) = Σ_{j ∈ I_u} B_ji, where an item has weights for its neighbours only."""

    indptr: NDArray[np.int64]  # row j of B is at indptr[j] … indptr[j + 1] - 1
    indices: NDArray[np.int32]
    values: NDArray[np.float32]
    histories: Pairs

    kind: ClassVar[str] = "neighbours"

    @property
    def n_items(self) -> int:
        return len(self.indptr) - 1

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {"indptr": self.indptr, "indices": self.indices, "values": self.values}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], histories: Pairs) -> Self:
        return cls(arrays["indptr"], arrays["indices"], arrays["values"], histories)

    def scores(self, users: Indices, *, out: FloatMatrix | None = None) -> FloatMatrix:
        """The sum of what the items of each user's history say."""
        if out is None:
            out = np.empty((len(users), self.n_items), np.float32)
        lengths = self.histories.indptr[users + 1] - self.histories.indptr[users]
        step = max(1, _GATHERED_WEIGHTS // max(1, int(lengths.max(initial=0)) * self._widest))
        for start in range(0, len(users), step):
            rows = slice(start, start + step)
            self._add_up(users[rows], out[rows])
        return out

    def similarity(self) -> Neighbours:
        """Scores of items for an item: those of a user who has it and no other."""
        return self.with_histories(identity_pairs(self.n_items))

    def _add_up(self, users: Indices, out: FloatMatrix) -> None:
        """Fill `out` with the sums: a sparse row that names an item again adds to it."""
        import scipy.sparse

        histories = history_rows(self.histories, users, self.n_items)
        said = self._rows[histories.indices]
        ends = said.indptr[histories.indptr]
        sums = scipy.sparse.csr_array((said.data, said.indices, ends), shape=out.shape)
        if out.flags.c_contiguous:
            sums.toarray(out=out)
        else:
            out[...] = sums.toarray()

    @cached_property
    def _largest(self) -> Mapping[str, float]:
        n_items = max(0, self.indptr.size - 1)
        check_pairs(UserItems(self.indptr, self.indices), n_items, name="neighbours")
        axes = {"values": ("neighbours",)}
        return largest_values(self.arrays(), axes, neighbours=len(self.indices))

    def _bounds(self, longest: int) -> Mapping[str, float]:
        # nothing keeps a row from naming the same neighbour again and again
        return {"values": longest * self._widest * self._largest["values"]}

    @cached_property
    def _widest(self) -> int:
        return int(np.diff(self.indptr).max(initial=0))

    @cached_property
    def _rows(self) -> scipy.sparse.csr_array:
        import scipy.sparse

        rows = (self.values, self.indices, self.indptr)
        return scipy.sparse.csr_array(rows, shape=(self.n_items, self.n_items))
