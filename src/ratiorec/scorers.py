"""Scores of users against all items: the one thing ranking asks of a model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from ratiorec.errors import ModelError

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


class StoredScorer(Scorer, Protocol):
    """A scorer that a model folder can hold: a name for its kind, and plain arrays."""

    kind: ClassVar[str]

    def arrays(self) -> dict[str, NDArray[Any]]: ...

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self: ...


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
class InnerProduct:
    """The score is the inner product of a user's and an item's factors (theory: S1)."""

    users: FloatMatrix
    items: FloatMatrix

    kind: ClassVar[str] = "inner_product"

    def __post_init__(self) -> None:
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
        _refuse_overflow(self.users, self.items)

    @property
    def n_users(self) -> int:
        return len(self.users)

    @property
    def n_items(self) -> int:
        return len(self.items)

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {"users": self.users, "items": self.items}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        return cls(arrays["users"], arrays["items"])

    def scores(self, users: Indices, *, out: FloatMatrix | None = None) -> FloatMatrix:
        """The inner products of each user's factors with every item's."""
        n_users, width = len(users), self._tiles.shape[2]
        if out is None:
            out = np.empty((n_users, self.n_items), np.float32)
        vectors = np.zeros((-(-n_users // _TILE_USERS), _TILE_USERS, self.users.shape[1]), "f4")
        vectors.reshape(-1, self.users.shape[1])[:n_users] = self.users[users]
        whole = n_users // _TILE_USERS
        for tiles in self._slabs():
            columns = slice(tiles.start * width, min(tiles.stop * width, self.n_items))
            for rows in (slice(0, whole), slice(whole, len(vectors))):
                part = out[rows.start * _TILE_USERS : rows.stop * _TILE_USERS, columns]
                if part.size:
                    _multiply(vectors[rows], self._tiles[tiles], part)
        return out

    @cached_property
    def _tiles(self) -> NDArray[np.float32]:
        """The items, filled up with zeros to whole tiles [n_tiles, dimension, items of a tile]."""
        dimension = self.items.shape[1]
        width = min(_TILE_ITEMS, max(16, _ONE_CORE // (_TILE_USERS * dimension) // 16 * 16))
        padded = np.zeros((-(-self.n_items // width) * width, dimension), np.float32)
        padded[: self.n_items] = self.items
        return np.ascontiguousarray(padded.reshape(-1, width, dimension).transpose(0, 2, 1))

    def _slabs(self) -> Iterator[slice]:
        """Tiles that are multiplied in one go; one that is not full stands alone."""
        n_tiles, dimension, width = self._tiles.shape
        step = max(1, _SLAB_BYTES // (4 * dimension * width))
        n_full = self.n_items // width
        for start in range(0, n_full, step):
            yield slice(start, min(start + step, n_full))
        if n_full < n_tiles:
            yield slice(n_full, n_tiles)


@dataclass(frozen=True, eq=False)
class WithStranger:
    """A scorer with one user more: the last is a stranger, to whom all items score as given."""

    known: Scorer
    scores_of_stranger: NDArray[np.float32]

    @property
    def n_users(self) -> int:
        return self.known.n_users + 1

    @property
    def n_items(self) -> int:
        return self.known.n_items

    def scores(self, users: Indices, *, out: FloatMatrix | None = None) -> FloatMatrix:
        """The known users' own scores, and the same row for every stranger."""
        if out is None:
            out = np.empty((len(users), self.n_items), np.float32)
        is_known = users < self.known.n_users
        out[is_known] = self.known.scores(users[is_known])
        out[~is_known] = self.scores_of_stranger
        return out


def _multiply(vectors: FloatMatrix, tiles: FloatMatrix, out: FloatMatrix) -> None:
    """Fill `out` with all products [a, 8, d] × [b, d, w]; what stands over the edge is dropped."""
    (a, height, _), (b, _, width) = vectors.shape, tiles.shape
    if out.shape == (a * height, b * width):
        target = out.reshape(a, height, b, width).transpose(0, 2, 1, 3)
        np.matmul(vectors[:, None], tiles[None], out=target)
    else:
        product = np.matmul(vectors[:, None], tiles[None]).transpose(0, 2, 1, 3)
        out[...] = product.reshape(a * height, b * width)[: len(out), : out.shape[1]]


def _refuse_overflow(users: FloatMatrix, items: FloatMatrix) -> None:
    """No score may be NaN or infinite, so ranking need not look."""
    largest = [float(np.abs(factors).max(initial=0.0)) for factors in (users, items)]
    if not largest[0] * largest[1] * users.shape[1] < float(np.finfo(np.float32).max):
        raise ModelError(
            "factors give scores that are not finite",
            where="factors",
            found=f"largest absolute values {largest[0]:g} (users) and {largest[1]:g} (items)",
            wanted="finite factors whose products stay below 3.4e38",
        )
