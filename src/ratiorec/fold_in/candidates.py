"""Some items that stand for all of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ratiorec.scorers import FloatMatrix
from ratiorec.scorers.tiles import Tiled


@dataclass(frozen=True, eq=False)
class Candidates:
    """Items [m, d], each with the weight [m] of all those it stands for (theory: F4)."""

    vectors: FloatMatrix
    weights: NDArray[np.float32]

    @classmethod
    def drawn(
        cls,
        items: FloatMatrix,
        weights: NDArray[np.float64],
        sizes: NDArray[np.float64],
        *,
        n: int,
    ) -> Candidates:
        """About n items, those of a large size more likely, weighted by inverse probability.

        The draw is systematic, an item wherever the chances add up to another whole number and
        a half, so that nothing in it is random.
        """
        chances = inclusion(sizes, n=n)
        ends = np.cumsum(chances)
        drawn = np.flatnonzero(np.floor(ends + 0.5) > np.floor(ends - chances + 0.5))
        if n >= len(items):
            drawn = np.arange(len(items))
        return cls(items[drawn], (weights[drawn] / chances[drawn]).astype(np.float32))

    @cached_property
    def rows(self) -> Tiled:
        """For products of users with candidates."""
        return Tiled.of(self.vectors)

    @cached_property
    def columns(self) -> Tiled:
        """For sums over candidates."""
        return Tiled.of(self.vectors.T)


def inclusion(sizes: NDArray[np.float64], *, n: int) -> NDArray[np.float64]:
    """min(1, τ·size) with τ such that n are expected (theory: F4)."""
    if n >= len(sizes):
        return np.ones(len(sizes))
    chances = np.zeros(len(sizes))
    certain = np.zeros(len(sizes), bool)
    while True:  # those that would be above 1 are certain, and the others share what is left
        rest = ~certain
        chances[rest] = sizes[rest] * (n - certain.sum()) / sizes[rest].sum()
        if not (chances > 1).any():
            return chances
        certain |= chances > 1
        chances[certain] = 1
