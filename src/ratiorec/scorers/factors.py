"""Factors: scores that are inner products of vectors, and the items on a plane."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
    Narrowable,
    Pairs,
    Scorer,
    StoredScorer,
    UserItems,
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


@dataclass(frozen=True, eq=False)
class WithFallbackUser:
    """A scorer with one user more: the last, the fallback user, has the scores given."""

    known: Scorer
    fallback_scores: NDArray[np.float32]

    @property
    def n_users(self) -> int:
        return self.known.n_users + 1

    @property
    def n_items(self) -> int:
        return self.known.n_items

    def scores(self, users: Indices, *, out: FloatMatrix | None = None) -> FloatMatrix:
        """The known users' own scores, and the given ones for the fallback user."""
        if out is None:
            out = np.empty((len(users), self.n_items), np.float32)
        is_known = users < self.known.n_users
        if is_known.any():
            # the fallback user is scored as user 0 at first, so that one buffer is enough
            self.known.scores(np.where(is_known, users, 0), out=out)
        out[~is_known] = self.fallback_scores
        return out

    def for_items(self, items: Indices) -> WithFallbackUser | None:
        """The scores of these items alone, where the known users have them at less cost."""
        known = self.known.for_items(items) if isinstance(self.known, Narrowable) else None
        return None if known is None else WithFallbackUser(known, self.fallback_scores[items])


def with_fallback_users(
    scorer: Scorer, users: Indices, seen: UserItems, popularity: NDArray[np.float32]
) -> tuple[Scorer, Indices, UserItems]:
    """Scorer, users and seen items, where -1 becomes the fallback user, scored by popularity."""
    if (users >= 0).all():
        return scorer, users, seen
    return (
        WithFallbackUser(scorer, popularity),
        np.where(users >= 0, users, scorer.n_users),
        UserItems(np.append(seen.indptr, seen.indptr[-1]), seen.indices),
    )


_NUMBERS_AT_ONCE = 2**20  # so many of the vectors are held once more while the plane is found
_ROUNDING = 1e-12  # equal directions differ from their mean by less
_DIGITS = 4  # finer than a screen, and the last bits of a matrix product do not reach so far
_PLACES, _SHOWN = "map.places", "map.shown"

Places = NDArray[np.float32]
Directions = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ItemMap:
    """Two coordinates for each item, in [-1, 1], and how much of the variance they show."""

    places: Places
    shown: float

    @classmethod
    def of(cls, scorer: StoredScorer) -> Self | None:
        """The map of a model's item vectors; None where it has none."""
        vectors: FloatMatrix | None = getattr(scorer, "item_vectors", None)
        return None if vectors is None else cls(*principal_plane(vectors))

    def arrays(self) -> dict[str, NDArray[np.float32]]:
        """The map as a model folder keeps it."""
        return {_PLACES: self.places, _SHOWN: np.array([self.shown], np.float32)}

    @classmethod
    def kept(cls, arrays: Mapping[str, NDArray[Any]], n_items: int) -> Self | None:
        """The map among the arrays of a folder; None in one that was written without."""
        if _PLACES not in arrays or _SHOWN not in arrays:
            return None
        _check(_PLACES, arrays[_PLACES], (n_items, 2), least=-1)
        _check(_SHOWN, arrays[_SHOWN], (1,), least=0)
        return cls(arrays[_PLACES], round(float(arrays[_SHOWN][0]), _DIGITS))


def principal_plane(vectors: FloatMatrix) -> tuple[Places, float]:
    """Directions of vectors on their first two principal axes, and the share of variance there.

    Directions, as items are alike by the cosine; lengths would part the popular from the rest.
    Each axis points to where its largest part is positive, and the farthest item is at 1.
    """
    n_items, dimension = vectors.shape
    mean = sum((block.sum(axis=0) for block in _directions(vectors)), np.zeros(dimension))
    mean /= max(1, n_items)
    spread = np.zeros((dimension, dimension))
    for block in _directions(vectors):
        centred = block - mean
        spread += centred.T @ centred  # of one array: half the work of two that are alike
    variances, axes = np.linalg.eigh(spread)
    variances, axes = variances[::-1].clip(min=0), axes[:, ::-1][:, :2]
    axes = axes * np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])])
    places = np.zeros((n_items, 2))
    if n_items:
        blocks = [(block - mean) @ axes for block in _directions(vectors)]
        places[:, : axes.shape[1]] = np.concatenate(blocks)
    farthest = float(np.abs(places).max(initial=0.0))
    if farthest <= _ROUNDING:  # all in one place, which shows all that there is
        return np.zeros((n_items, 2), np.float32), 1.0
    shown = float(variances[:2].sum() / variances.sum())
    return (places / farthest).round(_DIGITS).astype(np.float32), round(shown, _DIGITS)


def _directions(vectors: FloatMatrix) -> Iterator[Directions]:
    """The vectors at length 1, or 0 where they are 0, in blocks that take little memory."""
    n_rows = max(1, _NUMBERS_AT_ONCE // vectors.shape[1])
    for start in range(0, len(vectors), n_rows):
        block = vectors[start : start + n_rows].astype(np.float64)
        lengths = np.linalg.norm(block, axis=1, keepdims=True)
        yield block / np.where(lengths > 0, lengths, 1)


def _check(name: str, array: NDArray[Any], shape: tuple[int, ...], *, least: int) -> None:
    found = f"{array.dtype} {list(array.shape)}"
    if array.dtype == np.float32 and array.shape == shape:
        if ((array >= least) & (array <= 1)).all():
            return
        found = "a number out of range"
    raise ModelError(
        "the map of the items does not fit the model",
        where=name,
        found=found,
        wanted=f"float32 {list(shape)} from {least} to 1",
    )
