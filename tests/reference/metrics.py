"""Metrics as loops in plain Python, straight from their definitions."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence


def ranked(scores: Sequence[float], excluded: Collection[int] = ()) -> list[int]:
    """All candidates from best to worst; of equal ones the smaller index first."""
    candidates = [item for item in range(len(scores)) if item not in excluded]
    return sorted(candidates, key=lambda item: (-scores[item], item))


def recall(ranking: Sequence[int], relevant: Collection[int], k: int) -> float:
    return sum(1 for item in ranking[:k] if item in relevant) / len(relevant)


def ndcg(ranking: Sequence[int], relevant: Collection[int], k: int) -> float:
    gain = 0.0
    for rank, item in enumerate(ranking[:k], start=1):
        if item in relevant:
            gain += 1 / math.log2(rank + 1)
    ideal = 0.0
    for rank in range(1, min(k, len(relevant)) + 1):
        ideal += 1 / math.log2(rank + 1)
    return gain / ideal


def precision(ranking: Sequence[int], relevant: Collection[int], k: int) -> float:
    return sum(1 for item in ranking[:k] if item in relevant) / k


def average_precision(ranking: Sequence[int], relevant: Collection[int], k: int) -> float:
    total = 0.0
    for rank, item in enumerate(ranking[:k], start=1):
        if item in relevant:
            total += precision(ranking, relevant, rank)
    return total / min(k, len(relevant))


def reciprocal_rank(ranking: Sequence[int], relevant: Collection[int], k: int) -> float:
    for rank, item in enumerate(ranking[:k], start=1):
        if item in relevant:
            return 1 / rank
    return 0.0


def hit_rate(ranking: Sequence[int], relevant: Collection[int], k: int) -> float:
    return 1.0 if any(item in relevant for item in ranking[:k]) else 0.0


def coverage(rankings: Sequence[Sequence[int]], n_items: int, k: int) -> float:
    listed = {item for ranking in rankings for item in ranking[:k]}
    return len(listed) / n_items


PER_USER = {
    "recall": recall,
    "ndcg": ndcg,
    "precision": precision,
    "map": average_precision,
    "mrr": reciprocal_rank,
    "hit_rate": hit_rate,
}
