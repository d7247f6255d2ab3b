"""The items on a plane: near one another where the model holds them alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ratiorec.errors import ModelError
from ratiorec.scorers.scorer import FloatMatrix, StoredScorer

Places = NDArray[np.float32]
Points = NDArray[np.float64]

_NUMBERS_AT_ONCE = 2**20  # so many of the vectors are held once more while the plane is found
_ROUNDING = 1e-12  # equal directions differ from their mean by less
DIGITS = 4  # finer than a screen, and the last bits of a matrix product do not reach so far
_PLACES, _SHOWN, _KEPT = "map.places", "map.shown", "map.kept"


@dataclass(frozen=True, eq=False)
class ItemMap:
    """Two coordinates for each item, in [-1, 1], and what they keep of the model.

    `kept` is the share of the 10 nearest items on the map that are among the 30 nearest by the
    cosine of the vectors (theory: V1), and `kept_by_plane` that of the two principal axes, which
    show the share `shown` of the variance. Maps made before there was such a figure have none.
    """

    places: Places
    shown: float
    kept: float | None = None
    kept_by_plane: float | None = None

    @classmethod
    def of(cls, scorer: StoredScorer) -> Self | None:
        """The map of a model's item vectors; None where it has none."""
        vectors: FloatMatrix | None = getattr(scorer, "item_vectors", None)
        if vectors is None:
            return None
        from ratiorec.scorers import neighbour_embedding as n  # scipy, which loading does without

        plane, shown = principal_plane(vectors)
        if not n.FEWEST_ITEMS <= len(vectors) <= n.MOST_ITEMS or not plane.any():
            return cls(plane, shown)
        places, kept, kept_by_plane = n.embedded(vectors, plane)
        return cls(places, shown, kept, kept_by_plane)

    @classmethod
    def plane_of(cls, scorer: StoredScorer) -> Self | None:
        """The principal plane alone, which takes no time to speak of."""
        vectors: FloatMatrix | None = getattr(scorer, "item_vectors", None)
        return None if vectors is None else cls(*principal_plane(vectors))

    def resized(self, scorer: StoredScorer) -> Self:
        """The map of fewer of these items, or of more: each between those that it is most like."""
        n_known, vectors = len(self.places), getattr(scorer, "item_vectors", None)
        if vectors is None or len(vectors) <= n_known:
            return replace(self, places=self.places[: scorer.n_items])
        from ratiorec.scorers.neighbour_embedding import placed_between

        more = placed_between(vectors[n_known:], vectors[:n_known], self.places)
        return replace(self, places=np.concatenate([self.places, more]))

    def arrays(self) -> dict[str, NDArray[np.float32]]:
        """The map as a model folder keeps it."""
        arrays = {_PLACES: self.places, _SHOWN: np.array([self.shown], np.float32)}
        if self.kept is not None:
            arrays[_KEPT] = np.array([self.kept, self.kept_by_plane], np.float32)
        return arrays

    @classmethod
    def stored(cls, arrays: Mapping[str, NDArray[Any]], n_items: int) -> Self | None:
        """The map among the arrays of a folder; None in one that was written without."""
        if _PLACES not in arrays or _SHOWN not in arrays:
            return None
        _check(_PLACES, arrays[_PLACES], (n_items, 2), least=-1)
        _check(_SHOWN, arrays[_SHOWN], (1,), least=0)
        kept = arrays.get(_KEPT, np.zeros(0, np.float32))
        if _KEPT in arrays:
            _check(_KEPT, kept, (2,), least=0)
        figures = [round(float(one), DIGITS) for one in (*arrays[_SHOWN], *kept)]
        return cls(arrays[_PLACES], *figures)


def principal_plane(vectors: FloatMatrix) -> tuple[Places, float]:
    """Directions of vectors on their first two principal axes, and the share of variance there.

    Directions, as items are alike by the cosine; lengths would part the popular from the rest.
    Each axis points to where its largest part is positive, and the farthest item is at 1.
    """
    n_items, dimension = vectors.shape
    mean = sum((block.sum(axis=0) for block in directions_of(vectors)), np.zeros(dimension))
    mean /= max(1, n_items)
    spread = np.zeros((dimension, dimension))
    for block in directions_of(vectors):
        centred = block - mean
        spread += centred.T @ centred  # of one array: half the work of two that are alike
    variances, axes = np.linalg.eigh(spread)
    variances, axes = variances[::-1].clip(min=0), axes[:, ::-1][:, :2]
    axes = axes * np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])])
    places = np.zeros((n_items, 2))
    if n_items:
        blocks = [(block - mean) @ axes for block in directions_of(vectors)]
        places[:, : axes.shape[1]] = np.concatenate(blocks)
    farthest = float(np.abs(places).max(initial=0.0))
    if farthest <= _ROUNDING:  # all in one place, which shows all that there is
        return np.zeros((n_items, 2), np.float32), 1.0
    shown = float(variances[:2].sum() / variances.sum())
    return (places / farthest).round(DIGITS).astype(np.float32), round(shown, DIGITS)


def directions_of(vectors: FloatMatrix) -> Iterator[Points]:
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
