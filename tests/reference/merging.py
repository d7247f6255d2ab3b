"""Pairs of rows with kinds of event, times and repeats, by a loop from the definition."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class Row(NamedTuple):
    """One row of a log."""

    user: Any
    item: Any
    weight: float
    time: int
    event: str


class Pair(NamedTuple):
    """What is left of the rows of one pair."""

    weight: float
    earliest: int
    latest: int


def merged(
    rows: Sequence[Row],
    *,
    event_weights: Mapping[str, float],
    half_life: float | None,
    repeats: str,
) -> tuple[dict[tuple[Any, Any], Pair], int, int]:
    """The pairs, the number of rows of weight 0, and the number of pairs that are taken back."""
    now = max(row.time for row in rows)
    of_pairs: dict[tuple[Any, Any], list[tuple[float, int]]] = {}
    n_zero = 0
    for row in rows:
        weight = row.weight * event_weights[row.event]
        if weight == 0:
            n_zero += 1
            continue
        if half_life is not None:
            weight *= 2 ** -((now - row.time) / half_life)
        of_pairs.setdefault((row.user, row.item), []).append((weight, row.time))
    pairs, n_removed = {}, 0
    for key, weighed in of_pairs.items():
        total = math.fsum(weight for weight, _ in weighed)
        if total <= 1e-12 * math.fsum(abs(weight) for weight, _ in weighed):
            n_removed += 1
            continue
        times = [time for weight, time in weighed if weight > 0]
        weight = {"sum": total, "max": max(weighed)[0], "once": 1.0}[repeats]
        pairs[key] = Pair(weight, min(times), max(times))
    return pairs, n_zero, n_removed
