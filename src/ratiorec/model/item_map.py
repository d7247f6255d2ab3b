"""The items of a model on a plane, so that people can see which lie together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ratiorec.errors import ModelError
from ratiorec.model.store import Arrays
from ratiorec.scorers import Factored, FloatMatrix, StoredScorer

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
        return cls(*principal_plane(scorer.item_vectors)) if isinstance(scorer, Factored) else None

    def arrays(self) -> dict[str, NDArray[np.float32]]:
        """The map as a model folder keeps it."""
        return {_PLACES: self.places, _SHOWN: np.array([self.shown], np.float32)}

    @classmethod
    def kept(cls, arrays: Arrays, n_items: int) -> Self | None:
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
