"""Description of data in numbers, with warnings about what is hard to learn from."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ratiorec.data.interactions import Interactions

_EARLY_UNIX_TIME = 10**8  # March 1973, in seconds


@dataclass(frozen=True)
class DegreeSummary:
    """The spread of the numbers of pairs over the users, or over the items."""

    min: int
    median: float
    mean: float
    p90: float
    max: int

    @classmethod
    def of(cls, degrees: NDArray[np.int64]) -> DegreeSummary:
        """The summary of these degrees; zeros where there are none."""
        if not len(degrees):
            return cls(0, 0.0, 0.0, 0.0, 0)
        median, p90 = np.quantile(degrees, (0.5, 0.9))
        return cls(
            int(degrees.min()), float(median), float(degrees.mean()), float(p90), int(degrees.max())
        )


@dataclass(frozen=True)
class Description:
    """Counts, density, degrees and inequality of the pairs, with warnings in words."""

    n_users: int
    n_items: int
    n_pairs: int
    density: float
    user_degrees: DegreeSummary
    item_degrees: DegreeSummary
    n_users_with_one_pair: int
    n_items_with_one_pair: int
    n_users_without_pair: int
    n_items_without_pair: int
    item_gini: float
    has_weights: bool
    has_timestamps: bool
    warnings: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """The same as plain dictionaries, lists and numbers."""
        return {**asdict(self), "warnings": list(self.warnings)}


def describe(data: Interactions) -> Description:
    """Count users, items and pairs, and warn about what is hard to learn from."""
    of_users, of_items = data.user_degrees, data.item_degrees
    return Description(
        n_users=data.n_users,
        n_items=data.n_items,
        n_pairs=data.n_pairs,
        density=data.density,
        user_degrees=DegreeSummary.of(of_users),
        item_degrees=DegreeSummary.of(of_items),
        n_users_with_one_pair=int((of_users == 1).sum()),
        n_items_with_one_pair=int((of_items == 1).sum()),
        n_users_without_pair=int((of_users == 0).sum()),
        n_items_without_pair=int((of_items == 0).sum()),
        item_gini=gini(of_items),
        has_weights=data.weights is not None,
        has_timestamps=data.timestamps is not None,
        warnings=_warnings(data),
    )


def gini(counts: NDArray[np.int64]) -> float:
    """The Gini coefficient: 0 where all are equal, towards 1 where one has everything.

    >>> gini(np.array([0, 0, 0, 4]))
    0.75
    """
    total = counts.sum()
    if not total:
        return 0.0
    n = len(counts)
    ranks = np.arange(1, n + 1)
    return float(2 * (ranks * np.sort(counts)).sum() / (n * total) - (n + 1) / n)


def _warnings(data: Interactions) -> tuple[str, ...]:
    found = []
    for kind, degrees in (("user", data.user_degrees), ("item", data.item_degrees)):
        if len(degrees) < 2:
            found.append(f"too few {kind}s to learn from: {len(degrees)}; at least 2 are needed")
        if n_single := int((degrees == 1).sum()):
            found.append(
                f"{_count(n_single, kind)} of {len(degrees):,} with one pair only: it cannot be "
                "held out and learnt from at once; two or more pairs are better"
            )
        if n_empty := int((degrees == 0).sum()):
            found.append(
                f"{_count(n_empty, kind)} of {len(degrees):,} without any pair: nothing can be "
                "learnt about them; leave them out or find their pairs"
            )
    if data.weights is not None and len(data.weights) and data.weights.min() > _EARLY_UNIX_TIME:
        found.append(
            f"every weight is above {_EARLY_UNIX_TIME:,}, like a time in seconds: name the "
            "column as timestamp if that is what it is"
        )
    return tuple(found)


def _count(n: int, kind: str) -> str:
    return f"{n:,} {kind}{'' if n == 1 else 's'}"
