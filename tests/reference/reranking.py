"""Lists under rules, one user and one place at a time, from the definitions (theory: L1 to L4)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

Table = Sequence[Mapping[str, object]]
"""The attributes of each item, in plain types."""

SMOOTHING = 0.01


def values_of(row: Mapping[str, object], name: str) -> list[object]:
    """The values of one attribute: several tags, one category or number, or none."""
    value = row[name]
    if isinstance(value, list):
        return list(value)
    return [] if value is None else [value]


@dataclass(frozen=True)
class SlowRules:
    """Rules for the lists of one user, whose history is given as items."""

    table: Table
    history: Sequence[int]
    vectors: Sequence[Sequence[float]]
    limits: Mapping[str, int] = field(default_factory=dict)
    apart: Mapping[str, int] = field(default_factory=dict)
    pins: Mapping[int, int] = field(default_factory=dict)  # item by place, from 1
    diversity: float = 0.0
    calibration: Mapping[str, float] = field(default_factory=dict)
    cosines: dict[tuple[int, int], float] = field(default_factory=dict)

    def list_of(self, scores: Sequence[float], k: int) -> list[int]:
        """The list; a score of -inf is an item that may not be listed."""
        listable = [i for i in range(len(scores)) if scores[i] > -math.inf]
        best = sorted(listable, key=lambda i: (-scores[i], i))
        is_weighed = self.diversity > 0 or any(self.calibration.values())
        length = max(200, k, min(10 * k, 2000)) if is_weighed else len(best)
        while True:
            listed = self._from_head(best[:length], scores, k)
            if len(listed) == k or length >= len(best):
                return listed
            length *= 4

    def _from_head(self, head: list[int], scores: Sequence[float], k: int) -> list[int]:
        places: dict[int, int] = {
            place: item
            for place, item in self.pins.items()
            if place <= k and scores[item] > -math.inf
        }
        pinned = set(places.values())
        span = min(scores[i] for i in head), max(scores[i] for i in head)
        for place in range(1, k + 1):
            if place in places:
                continue
            left = [i for i in head if i not in places.values() and i not in pinned]
            fit = [i for i in left if self._fits(i, place, places)]
            if not fit:
                break
            listed = list(places.values())
            worth = [round(self._worth(i, scores[i], span, listed), 10) for i in fit]
            places[place] = fit[worth.index(max(worth))]
        return [places[place] for place in sorted(places)]

    def _fits(self, item: int, place: int, places: Mapping[int, int]) -> bool:
        for name, at_most in self.limits.items():
            for value in values_of(self.table[item], name):
                n = sum(value in values_of(self.table[i], name) for i in places.values())
                if n >= at_most:
                    return False
        for name, apart in self.apart.items():
            near = [i for at, i in places.items() if abs(at - place) < apart]
            for value in values_of(self.table[item], name):
                if any(value in values_of(self.table[i], name) for i in near):
                    return False
        return True

    def _worth(
        self, item: int, score: float, span: tuple[float, float], listed: list[int]
    ) -> float:
        strengths = {name: s for name, s in self.calibration.items() if s}
        if not self.diversity and not strengths:
            return score
        low, high = span
        worth = (score - low) / (high - low) if high > low else 0.0
        worth *= (1 - self.diversity) * math.prod(1 - s for s in strengths.values())
        if listed:
            worth -= self.diversity * max(self.cosine(item, other) for other in listed)
        for name, strength in strengths.items():
            worth -= strength * (len(listed) + 1) * self.divergence(name, [*listed, item])
        return worth

    def cosine(self, i: int, j: int) -> float:
        if (i, j) not in self.cosines:
            a, b = (np.asarray(self.vectors[n], np.float64) for n in (i, j))
            lengths = math.sqrt(a @ a) * math.sqrt(b @ b)
            self.cosines[i, j] = float(a @ b) / lengths if lengths else 0.0
        return self.cosines[i, j]

    def shares(self, name: str, items: Sequence[int]) -> dict[object, float]:
        """The shares of values among items; those without any are one more value."""
        found: dict[object, float] = {}
        for item in items:
            values = values_of(self.table[item], name) or ["missing value"]
            for value in values:
                found[value] = found.get(value, 0.0) + 1 / len(values) / len(items)
        return found

    def divergence(self, name: str, listed: Sequence[int]) -> float:
        """KL(p, q) of the history and a list, whose shares are smoothed by those of the former."""
        p, q = self.shares(name, self.history), self.shares(name, listed)
        return sum(
            share * math.log(share / ((1 - SMOOTHING) * q.get(value, 0.0) + SMOOTHING * share))
            for value, share in p.items()
        )
