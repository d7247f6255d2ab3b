"""The items of a model on a plane, so that people can see which lie together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ratiorec.scorers import Factored, FloatMatrix, StoredScorer
from ratiorec.serve.errors import RefusedError

POINTS = 2000  # more would hide one another

Places = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ItemMap:
    """Two coordinates for each item, in [-1, 1], and how much of the variance they show."""

    places: Places
    shown: float

    @classmethod
    def of(cls, scorer: StoredScorer) -> ItemMap:
        """The map of a model's item vectors.

        Raises:
            RefusedError: The model has no vectors of items (404).
        """
        if not isinstance(scorer, Factored):
            raise RefusedError(
                "this kind of model has no map",
                status=404,
                where="/v1/map",
                found=scorer.kind,
                wanted="a model whose items are vectors",
            )
        return cls(*principal_plane(scorer.item_vectors))


def principal_plane(vectors: FloatMatrix) -> tuple[Places, float]:
    """Directions of vectors on their first two principal axes, and the share of variance there.

    Directions, as items are alike by the cosine; lengths would part the popular from the rest.
    Each axis points to where its largest part is positive, and the farthest item is at 1.
    """
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    directions = vectors / np.where(lengths > 0, lengths, 1)
    centred = directions - directions.mean(axis=0, keepdims=True)
    variances, axes = np.linalg.eigh(centred.T @ centred)
    variances, axes = variances[::-1].clip(min=0), axes[:, ::-1][:, :2]
    axes = axes * np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])])
    places = np.zeros((len(vectors), 2))
    places[:, : axes.shape[1]] = centred @ axes
    farthest = np.abs(places).max(initial=0.0)
    total = float(variances.sum())
    share = float(variances[:2].sum()) / total if total > 0 else 1.0
    return places / (farthest if farthest > 0 else 1.0), share
