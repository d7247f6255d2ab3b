"""Metrics of ranked lists: what each one is, and nothing else.

A ranked list of K items is judged by `hits` [n, K], whether the item at rank 1 … K is relevant
to the user, and `n_relevant` [n], how many relevant items the user has in all (1 or more).
A list that ends early has no hits behind its end. Each metric is one number a user.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

Hits = NDArray[np.bool_]
Counts = NDArray[np.int64]
PerUser = NDArray[np.float64]


def recall(hits: Hits, n_relevant: Counts) -> PerUser:
    """Recall@K = hits / |test_u| (theory: M1).

    >>> recall(np.array([[True, False, True]]), np.array([4]))
    array([0.5])
    """
    return np.asarray(hits.sum(axis=1) / n_relevant)


def ndcg(hits: Hits, n_relevant: Counts) -> PerUser:
    """nDCG@K = Σ_hits 1/log₂(rank+1) / Σ_{k ≤ min(K, |test_u|)} 1/log₂(k+1) (theory: M2).

    The ideal list has all relevant items first, so a perfect list scores 1 whatever |test_u|.

    >>> ndcg(np.array([[False, False, True]]), np.array([1]))
    array([0.5])
    """
    k = hits.shape[1]
    gains = 1 / np.log2(np.arange(2, k + 2))
    ideal = np.cumsum(gains)[np.minimum(k, n_relevant) - 1]
    return np.asarray(np.where(hits, gains, 0.0).sum(axis=1) / ideal)


def precision(hits: Hits, n_relevant: Counts) -> PerUser:
    """Precision@K = hits / K, also where the list ends before K (theory: M3).

    >>> precision(np.array([[True, False, True, False]]), np.array([9]))
    array([0.5])
    """
    return np.asarray(hits.sum(axis=1) / hits.shape[1])


def average_precision(hits: Hits, n_relevant: Counts) -> PerUser:
    """MAP@K: the mean over users of Σ_hits precision@rank / min(K, |test_u|) (theory: M4).

    Dividing by min(K, |test_u|) lets a perfect list score 1.

    >>> average_precision(np.array([[False, True]]), np.array([1]))
    array([0.5])
    """
    k = hits.shape[1]
    precisions = np.cumsum(hits, axis=1) / np.arange(1, k + 1)
    return np.asarray(np.where(hits, precisions, 0.0).sum(axis=1) / np.minimum(k, n_relevant))


def reciprocal_rank(hits: Hits, n_relevant: Counts) -> PerUser:
    """MRR@K: the mean over users of 1 / rank of the first hit, 0 without one (theory: M5).

    >>> reciprocal_rank(np.array([[False, True], [False, False]]), np.array([1, 1]))
    array([0.5, 0. ])
    """
    return np.asarray(hits.any(axis=1) / (hits.argmax(axis=1) + 1))


def hit_rate(hits: Hits, n_relevant: Counts) -> PerUser:
    """Hit rate@K = 1 where there is a hit, else 0 (theory: M6).

    >>> hit_rate(np.array([[False, True], [False, False]]), np.array([1, 1]))
    array([1., 0.])
    """
    return np.asarray(hits.any(axis=1), np.float64)


def coverage(items: NDArray[np.integer], n_items: int) -> float:
    """Coverage@K = the share of all items that are in anyone's list; -1 is no item (theory: M7).

    >>> coverage(np.array([[0, 2], [2, -1]]), 4)
    0.5
    """
    return len(np.unique(items[items >= 0])) / n_items


Metric = Callable[[Hits, Counts], PerUser]

PER_USER: Mapping[str, Metric] = MappingProxyType(
    {
        "recall": recall,
        "ndcg": ndcg,
        "precision": precision,
        "map": average_precision,
        "mrr": reciprocal_rank,
        "hit_rate": hit_rate,
    }
)


def is_accuracy(name: str) -> bool:
    """Whether a name such as "recall@20" is one of these metrics."""
    return name.partition("@")[0] in PER_USER


DEFINITION = (
    "Every item a user has not interacted with in training is a candidate, ties go to the smaller "
    "item index, and the mean is over users with at least one test item: "
    "recall@K = hits/|test|; ndcg@K = sum over hits of 1/log2(rank+1), divided by the same sum "
    "over ranks 1 to min(K,|test|); precision@K = hits/K; "
    "map@K = sum over hits of precision@rank, divided by min(K,|test|); "
    "mrr@K = 1/rank of the first hit; hit_rate@K = 1 if there is a hit; "
    "coverage@K = share of all items that are in a list. Beyond accuracy: "
    "novelty@K = mean over the list of -log2(share of users who have the item); "
    "diversity@K = 1 - mean cosine of two listed items by their users; "
    "popularity@K = mean share of users who have a listed item; "
    "popularity_lift@K = mean popularity of lists / that of histories - 1; "
    "miscalibration@K = Jensen-Shannon divergence of head, middle and tail in list and history; "
    "gini@K = inequality of how often items are listed. "
    "Of reachable: without test pairs that the model was trained on."
)


def at_cutoffs(
    hits: Hits,
    n_relevant: Counts,
    ks: Sequence[int],
    metrics: Iterable[tuple[str, Metric]] = tuple(PER_USER.items()),
) -> dict[str, PerUser]:
    """Every metric at every K, from one ranking as long as the largest K.

    >>> at_cutoffs(np.array([[False, True]]), np.array([1]), [1, 2])["mrr@2"]
    array([0.5])
    """
    return {f"{name}@{k}": metric(hits[:, :k], n_relevant) for k in ks for name, metric in metrics}
