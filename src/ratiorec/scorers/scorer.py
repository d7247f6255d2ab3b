"""Scorers: what ranking and a model folder ask of a model, and the user-item rows they share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ratiorec.errors import ModelError

if TYPE_CHECKING:
    import scipy.sparse


class Pairs(Protocol):
    """Items of each user, as a compressed sparse row matrix."""

    @property
    def indptr(self) -> NDArray[np.int64]: ...

    @property
    def indices(self) -> NDArray[np.int32]: ...


@dataclass(frozen=True, eq=False)
class UserItems:
    """The items of user u are `indices[indptr[u]:indptr[u + 1]]`."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]

    @classmethod
    def of(cls, pairs: Pairs) -> UserItems:
        """Only the pairs of an `Interactions`, without ids, weights and times."""
        return cls(pairs.indptr, pairs.indices)

    @property
    def n_users(self) -> int:
        return len(self.indptr) - 1


def pairs_of(pairs: Pairs, users: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """All pairs of the given users: the place in `users`, and the item."""
    starts = pairs.indptr[users]
    counts = pairs.indptr[users + 1] - starts
    rows = np.repeat(np.arange(len(users)), counts)
    before = np.cumsum(counts) - counts
    places = np.arange(len(rows)) - np.repeat(before - starts, counts)
    return rows, pairs.indices[places]


def some_of(pairs: Pairs, users: NDArray[np.int64]) -> UserItems:
    """The pairs of the given users alone, in this order."""
    rows, items = pairs_of(pairs, users)
    return UserItems(np.searchsorted(rows, np.arange(len(users) + 1)), items)


def identity_pairs(n: int) -> UserItems:
    """Pairs that join everything with itself, and with nothing else."""
    return UserItems(np.arange(n + 1), np.arange(n, dtype=np.int32))


def check_pairs(pairs: Pairs, n_items: int, *, name: str, n_users: int | None = None) -> None:
    """Refuse rows that overlap or end elsewhere, and items out of range.

    Raises:
        ModelError: `pairs`, which the message calls by `name`, are no rows of items.
    """
    indptr, indices = pairs.indptr, pairs.indices
    require_fit(f"axes of {name}", (indptr.ndim, indices.ndim), (1, 1), "two lists")
    types = (str(indptr.dtype), str(indices.dtype))
    require_fit(f"types of {name}", types, ("int64", "int32"), "indptr and indices")
    n_rows = max(len(indptr), 1) if n_users is None else n_users + 1
    require_fit(f"rows of {name}", len(indptr), n_rows, "one for each, and the end")
    ends = (int(indptr[0]), int(indptr[-1]))
    require_fit(f"ends of {name}", ends, (0, len(indices)), "from first to last")
    in_order = bool((np.diff(indptr) >= 0).all())
    require_fit(f"rows of {name} in order", in_order, True, "rows that do not overlap")
    in_range = not len(indices) or (indices.min() >= 0 and indices.max() < n_items)
    require_fit(f"{name} in range", bool(in_range), True, f"0 to {n_items - 1}")


def require_fit(where: str, found: object, wanted: object, why: str) -> None:
    """Refuse a part of a model that does not fit another.

    Raises:
        ModelError: `found` is not what is wanted.
    """
    if found != wanted:
        raise ModelError(
            "the parts of the model do not fit each other",
            where=where,
            found=str(found),
            wanted=f"{wanted} ({why})",
        )


FloatMatrix = NDArray[np.float32]
Indices = NDArray[np.int64]


class Scorer(Protocol):
    """Scores users against all items; the larger the score, the better the item.

    The row of a user has the same bits whatever other users it is computed with.
    """

    @property
    def n_users(self) -> int: ...

    @property
    def n_items(self) -> int: ...

    def scores(self, users: Indices, *, out: FloatMatrix | None = None) -> FloatMatrix:
        """One row of scores for each user [n, n_items], in `out` where that is given."""
        ...


@runtime_checkable
class Factored(Protocol):
    """A scorer whose scores are inner products, which a GPU or an index may compute instead."""

    @property
    def item_vectors(self) -> FloatMatrix:
        """One vector for each item [n_items, d]."""
        ...

    def user_vectors(self, users: Indices) -> FloatMatrix:
        """One vector for each of these users [n, d]."""
        ...


@runtime_checkable
class Narrowable(Protocol):
    """A scorer that scores a few of its items at less cost than all of them."""

    def for_items(self, items: Indices) -> Scorer | None:
        """The same scores, to the last bit, of these items alone; None where nothing is won."""
        ...


class StoredScorer(Scorer, Protocol):
    """A scorer that a model folder can hold: a name for its kind, and plain arrays.

    The folder holds the pairs of training beside the arrays and hands them over as `histories`,
    which is where a model that scores by what a user has finds its users.
    """

    kind: ClassVar[str]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All that the scorer is made of, but for the histories."""
        ...

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], histories: Pairs) -> Self:
        """The scorer again.

        Raises:
            ModelError: The arrays are malformed, or their scores might not be finite.
            KeyError: One of them is missing.
        """
        ...

    def similarity(self) -> Scorer:
        """Scores items against items.

        Raises:
            ConfigError: This kind of model compares no items.
        """
        ...


class FromHistories(ABC):
    """A scorer to which a user is a history, so that it can score anyone who has one."""

    histories: Pairs

    def __post_init__(self) -> None:
        self._check()

    @property
    @abstractmethod
    def n_items(self) -> int: ...

    @property
    def n_users(self) -> int:
        return len(self.histories.indptr) - 1

    def with_histories(self, histories: Pairs) -> Self:
        """The same model for other users; it shares all that has been made of its arrays.

        Raises:
            ModelError: The histories are no rows of items, or too long for finite scores.
        """
        other = copy(self)
        object.__setattr__(other, "histories", histories)
        other._check()
        return other

    @property
    @abstractmethod
    def _largest(self) -> Mapping[str, float]:
        """The largest absolute value in each array, once all are found to be in order."""

    @abstractmethod
    def _bounds(self, longest: int) -> Mapping[str, float]:
        """Bounds of the scores by each array, for histories up to that length."""

    def _check(self) -> None:
        """Refuse malformed arrays and histories, and any score that might not be finite."""
        _ = self._largest  # first of all, as the arrays say how many items there are
        check_pairs(self.histories, self.n_items, name="histories")
        longest = int(np.diff(self.histories.indptr).max(initial=0))
        for name, bound in self._bounds(longest).items():
            refuse_overflow(name, bound)


def history_rows(histories: Pairs, users: Indices, n_items: int) -> scipy.sparse.csr_array:
    """The histories of some users as rows of ones [n, n_items], each in the order it has."""
    import scipy.sparse

    rows = some_of(histories, users)
    ones = np.ones(len(rows.indices), np.float32)
    return scipy.sparse.csr_array((ones, rows.indices, rows.indptr), shape=(len(users), n_items))


Axes = Mapping[str, tuple[str, ...]]
"""The names of the axes of each array; axes of one name have one length."""

_LARGEST = float(np.finfo(np.float32).max) / 2  # the other half is for rounding


def largest_values(
    arrays: Mapping[str, NDArray[Any]], axes: Axes, **lengths: int
) -> dict[str, float]:
    """The largest absolute value in each array, once all are found to be finite float32.

    Args:
        arrays: Where to look.
        axes: What to look at.
        **lengths: Axes whose length is known; that of any other is what is found first.

    Raises:
        ModelError: An array has another type, another shape, or a value that is not finite.
    """
    for name, names in axes.items():
        _check_shape(name, arrays[name], names, lengths)
    largest = {name: largest_value(arrays[name]) for name in axes}
    for name, value in largest.items():
        refuse_overflow(name, value)
    return largest


def refuse_overflow(name: str, bound: float) -> None:
    """Refuse an array that might lead to a score of up to `bound` where float32 ends before.

    Raises:
        ModelError: The bound is too large, or not a number.
    """
    if not bound < _LARGEST:
        raise ModelError(
            "an array of the model gives scores that are not finite",
            where=name,
            found=f"values up to {bound:g}",
            wanted="finite values whose sums stay below 1.7e38",
        )


def _check_shape(
    name: str, array: NDArray[Any], names: tuple[str, ...], lengths: dict[str, int]
) -> None:
    fits = array.dtype == np.float32 and array.ndim == len(names)
    if fits:
        found = zip(names, array.shape, strict=True)
        fits = all(lengths.setdefault(axis, length) == length for axis, length in found)
    if not fits:
        axes = [f"{axis} = {lengths[axis]}" if axis in lengths else axis for axis in names]
        raise ModelError(
            "an array of the model is malformed",
            where=name,
            found=f"{array.dtype} {list(array.shape)}",
            wanted=f"float32 [{', '.join(axes)}]",
        )


def largest_value(array: NDArray[np.float32]) -> float:
    """The largest absolute value, or NaN where there is one."""
    # the absolute values of a large array would be a second large array
    return float(np.maximum(array.max(initial=0), -array.min(initial=0)))


# A matrix product takes other instructions at the edge of a matrix, for a single row, and where
# it is cut for another thread, and then the last digit differs. So every product here has one
# shape: 8 users by 64 items. In that shape each of numpy's BLAS kernels treats all rows and
# columns alike, and it is small enough to stay on one core. Cores are used by ranking several
# blocks of users at once, and together that is no slower than one large product.
_TILE_USERS = 8
_TILE_ITEMS = 64
_ONE_CORE = 2**18  # OpenBLAS keeps a product of at most this many multiplications on one core
_SLAB_BYTES = 2**20  # items multiplied in one go stay in the cache nearest to a core


@dataclass(frozen=True, eq=False)
class FixedTiles:
    """Vectors of items, cut into tiles [n_tiles, dimension, items of a tile] of one width."""

    tiles: FloatMatrix
    n_items: int

    @classmethod
    def of(cls, items: FloatMatrix) -> FixedTiles:
        """The items [n_items, dimension], filled up with zeros to whole tiles."""
        n_items, dimension = items.shape
        width = min(_TILE_ITEMS, max(16, _ONE_CORE // (_TILE_USERS * dimension) // 16 * 16))
        padded = np.zeros((-(-n_items // width) * width, dimension), np.float32)
        padded[:n_items] = items
        tiles = padded.reshape(-1, width, dimension).transpose(0, 2, 1)
        return cls(np.ascontiguousarray(tiles), n_items)

    def take(self, items: Indices) -> FixedTiles:
        """Tiles of these items alone."""
        tiles, places = np.divmod(items, self.tiles.shape[2])
        return FixedTiles.of(self.tiles[tiles, :, places])

    def products(self, vectors: FloatMatrix, *, out: FloatMatrix | None = None) -> FloatMatrix:
        """The inner products of each vector with every item's [n, n_items]."""
        n_vectors, (_, dimension, width) = len(vectors), self.tiles.shape
        if out is None:
            out = np.empty((n_vectors, self.n_items), np.float32)
        padded = np.zeros((-(-n_vectors // _TILE_USERS), _TILE_USERS, dimension), np.float32)
        padded.reshape(-1, dimension)[:n_vectors] = vectors
        whole = n_vectors // _TILE_USERS
        for tiles in self._slabs():
            columns = slice(tiles.start * width, min(tiles.stop * width, self.n_items))
            for rows in (slice(0, whole), slice(whole, len(padded))):
                part = out[rows.start * _TILE_USERS : rows.stop * _TILE_USERS, columns]
                if part.size:
                    _multiply(padded[rows], self.tiles[tiles], part)
        return out

    def _slabs(self) -> Iterator[slice]:
        """Tiles that are multiplied in one go; one that is not full stands alone."""
        n_tiles, dimension, width = self.tiles.shape
        step = max(1, _SLAB_BYTES // (4 * dimension * width))
        n_full = self.n_items // width
        for start in range(0, n_full, step):
            yield slice(start, min(start + step, n_full))
        if n_full < n_tiles:
            yield slice(n_full, n_tiles)


@dataclass(frozen=True, eq=False)
class ItemProducts:
    """Scores that are inner products of users' vectors with those in tiles."""

    n_users: int
    vectors: Callable[[Indices], FloatMatrix]
    tiles: FixedTiles

    @property
    def n_items(self) -> int:
        return self.tiles.n_items

    def scores(self, users: Indices, *, out: FloatMatrix | None = None) -> FloatMatrix:
        """The inner products of each user's vector with every item's."""
        return self.tiles.products(self.vectors(users), out=out)


def _multiply(vectors: FloatMatrix, tiles: FloatMatrix, out: FloatMatrix) -> None:
    """Fill `out` with all products [a, 8, d] × [b, d, w]; what stands over the edge is dropped."""
    (a, height, _), (b, _, width) = vectors.shape, tiles.shape
    if out.shape == (a * height, b * width):
        target = out.reshape(a, height, b, width).transpose(0, 2, 1, 3)
        np.matmul(vectors[:, None], tiles[None], out=target)
    else:
        product = np.matmul(vectors[:, None], tiles[None]).transpose(0, 2, 1, 3)
        out[...] = product.reshape(a * height, b * width)[: len(out), : out.shape[1]]
