"""Popularity scores: the same for every user."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ratiorec.errors import ConfigError
from ratiorec.scorers.scorer import FloatMatrix, Indices, Pairs, Scorer, largest_values


@dataclass(frozen=True, eq=False)
class PopularityScorer:
    """The score of an item is how many users have it, whoever asks."""

    counts: NDArray[np.float32]
    n_users: int

    kind: ClassVar[str] = "popularity"

    def __post_init__(self) -> None:
        largest_values(self.arrays(), {"counts": ("n_items",)})

    @property
    def n_items(self) -> int:
        return len(self.counts)

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {"counts": self.counts}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], histories: Pairs) -> Self:
        return cls(arrays["counts"], len(histories.indptr) - 1)

    def scores(self, users: Indices, *, out: FloatMatrix | None = None) -> FloatMatrix:
        """The counts, once for each user."""
        if out is None:
            out = np.empty((len(users), self.n_items), np.float32)
        out[...] = self.counts
        return out

    def for_items(self, items: Indices) -> PopularityScorer:
        """The counts of these items alone."""
        return PopularityScorer(self.counts[items], self.n_users)

    def similarity(self) -> Scorer:
        """Refused: a count says nothing about which items go together."""
        raise ConfigError(
            "popularity knows of no similarity between items",
            where="similar",
            found=self.kind,
            wanted="a model that compares items, such as inner_product or neighbours",
        )
