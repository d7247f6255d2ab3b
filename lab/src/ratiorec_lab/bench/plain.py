"""Ranking and judging as one would write them first: the reference for ours."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ratiorec.scorers import Indices, InnerProduct
from ratiorec.scorers.user_items import Pairs

_USERS_AT_ONCE = 512


def plain_ranking(scorer: InnerProduct, seen: Pairs, users: Indices, k: int) -> Indices:
    """Score a block of users, mask, partition, sort the best few."""
    lists = []
    for start in range(0, len(users), _USERS_AT_ONCE):
        block = users[start : start + _USERS_AT_ONCE]
        scores = scorer.users[block] @ scorer.items.T
        for row, user in enumerate(block):
            scores[row, _items(seen, user)] = -np.inf
        best = np.argpartition(-scores, k - 1, axis=1)[:, :k]
        order = np.argsort(-np.take_along_axis(scores, best, axis=1), axis=1)
        lists.append(np.take_along_axis(best, order, axis=1))
    return np.concatenate(lists)


def plain_evaluation(
    scorer: InnerProduct, seen: Pairs, test: Pairs, users: Indices, k: int
) -> dict[str, float]:
    """Recall@k and nDCG@k user by user (theory: M1, M2)."""
    discount = 1 / np.log2(np.arange(2, k + 2))
    recalls, gains = [], []
    for user, items in zip(users, plain_ranking(scorer, seen, users, k), strict=True):
        relevant = _items(test, user)
        hits = np.isin(items, relevant)
        recalls.append(hits.sum() / len(relevant))
        gains.append((hits * discount).sum() / discount[: len(relevant)].sum())
    return {f"recall@{k}": float(np.mean(recalls)), f"ndcg@{k}": float(np.mean(gains))}


def _items(pairs: Pairs, user: int) -> NDArray[np.int32]:
    return pairs.indices[pairs.indptr[user] : pairs.indptr[user + 1]]
