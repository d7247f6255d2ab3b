"""Figures beyond accuracy as loops in plain Python, straight from their definitions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from statistics import fmean

Histories = Sequence[Sequence[int]]


def users_of(histories: Histories, item: int) -> set[int]:
    return {user for user, items in enumerate(histories) if item in items}


def popularity(histories: Histories, item: int) -> float:
    return len(users_of(histories, item)) / len(histories)


def mean_popularity(items: Sequence[int], histories: Histories) -> float:
    return fmean(popularity(histories, item) for item in items) if items else math.nan


def novelty(items: Sequence[int], histories: Histories) -> float:
    least = 1 / len(histories)
    return (
        fmean(-math.log2(max(popularity(histories, item), least)) for item in items)
        if items
        else math.nan
    )


def distance(a: set[int], b: set[int]) -> float:
    return 1 - len(a & b) / math.sqrt(len(a) * len(b)) if a and b else 1.0


def diversity(items: Sequence[int], histories: Histories) -> float:
    pairs = [*combinations([users_of(histories, item) for item in items], 2)]
    return fmean(distance(a, b) for a, b in pairs) if pairs else math.nan


def gini(lists: Sequence[Sequence[int]], n_items: int) -> float:
    """Half the mean absolute difference of all pairs of items, over the mean."""
    counts = [sum(items.count(item) for items in lists) for item in range(n_items)]
    gaps = sum(abs(a - b) for a in counts for b in counts)
    return gaps / (2 * n_items * sum(counts)) if sum(counts) else 0.0


def popularity_lift(lists: Sequence[Sequence[int]], users: Sequence[int], had: Histories) -> float:
    """Over the users who have both a list and a history."""
    both = [(items, had[user]) for items, user in zip(lists, users, strict=True)]
    both = [(items, history) for items, history in both if items and history]
    if not both:
        return math.nan
    listed = fmean(mean_popularity(items, had) for items, _ in both)
    return listed / fmean(mean_popularity(history, had) for _, history in both) - 1


def groups(histories: Histories, n_items: int) -> list[int]:
    """Head, middle and tail by the place of an item's first pair, the most popular items first."""
    counts = [len(users_of(histories, item)) for item in range(n_items)]
    found, before = [0] * n_items, 0
    for item in sorted(range(n_items), key=lambda item: -counts[item]):
        share = before / max(sum(counts), 1)
        found[item] = 0 if share < 0.2 else 1 if share < 0.8 else 2
        before += counts[item]
    return found


def miscalibration(items: Sequence[int], history: Sequence[int], groups: Sequence[int]) -> float:
    if not items or not history:
        return math.nan
    p, q = (
        [sum(1 for item in some if groups[item] == group) / len(some) for group in range(3)]
        for some in (history, items)
    )
    total = 0.0
    for a, b in zip(p, q, strict=True):
        for share in (a, b):
            total += share * math.log2(2 * share / (a + b)) / 2 if share else 0.0
    return total
