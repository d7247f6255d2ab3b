"""Targets `recommend` and `evaluate`: the best items of many users, and the figures of their lists.

Ours on each device, beside plain numpy as one would write it first, and the library implicit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ratiorec.data.interactions import Interactions
from ratiorec.errors import MissingExtraError
from ratiorec.evaluation.evaluate import evaluate
from ratiorec.kernels.gpu_topk import GpuTopK
from ratiorec.machine import one_blas_thread
from ratiorec.scorers import Indices, InnerProduct
from ratiorec.scorers.scorer import Pairs, pairs_of
from ratiorec.scorers.topk import Exact
from ratiorec.solvers.implicit_als import implicit_library
from ratiorec_lab.bench.case import Measured, Size
from ratiorec_lab.bench.clock import CPU, Conditions, Floor, Way, once
from ratiorec_lab.bench.random_data import random_model, random_pairs
from ratiorec_lab.bench.side_by_side import side_by_side

K = 20
DIMENSION = 64
MOST_USERS = 4096
OURS, ON_GPU, REFERENCE, RIVAL = "ratiorec", "ratiorec, GPU", "numpy argpartition", "implicit"
TEST_PAIRS_PER_USER = 7  # of random data
_USERS_AT_ONCE = 512


def measure_recommend(conditions: Conditions) -> Measured:
    """Random factors, and the data's own pairs as what users have seen."""
    data = conditions.dataset.train
    size = _size(data, min(conditions.n_users or MOST_USERS, data.n_users))
    ways = {
        backend: _ranking_way(backend, data, size, device)
        for backend, device in _devices(conditions).items()
    }
    left_out = {}
    try:
        ways[RIVAL] = _ranking_way(RIVAL, data, size, CPU)
    except MissingExtraError as error:
        left_out[RIVAL] = str(error)
    return _measured("recommend", "top-k", ways, size, conditions, left_out)


def measure_evaluate(conditions: Conditions) -> Measured:
    """Random factors, the data's own training and test pairs; intervals over users included."""
    train, test = conditions.dataset.train, conditions.dataset.test
    assert test is not None, "the command holds out a test part where there is none"
    part = of_some_users(test, conditions.n_users or MOST_USERS)
    size = _size(train, int(np.count_nonzero(part.user_degrees)))
    ways = {
        backend: _evaluation_way(backend, train, part, size, device)
        for backend, device in _devices(conditions).items()
    }
    return _measured("evaluate", "evaluation", ways, size, conditions, {})


def _size(data: Interactions, n_ranked: int) -> dict[str, int]:
    return {
        "users": data.n_users,
        "items": data.n_items,
        "pairs": data.n_pairs,
        "ranked": n_ranked,
        "dimension": DIMENSION,
        "k": min(K, data.n_items),
    }


def _devices(conditions: Conditions) -> dict[str, torch.device]:
    gpu = {ON_GPU: conditions.device} if conditions.device.type == "cuda" else {}
    return {OURS: CPU, REFERENCE: CPU, **gpu}


def _measured(
    target: str,
    name: str,
    ways: Mapping[str, Way],
    size: Size,
    conditions: Conditions,
    left_out: Mapping[str, str],
) -> Measured:
    found = side_by_side(target, ways, size, conditions)
    cases = [
        found.case(
            backend,
            name,
            backend,
            size,
            ranking_floor(size),
            is_reference=backend == REFERENCE,
            is_rival=backend == RIVAL,
            figures={"users_per_second": round(size["ranked"] / found.times[backend].median, 1)},
        )
        for backend in ways
    ]
    return Measured(target, cases, found.ceilings, left_out)


def recommend_alone(backend: str, size: Size) -> Way:
    """One backend on random pairs of this size."""
    seen = random_pairs(size["users"], size["items"], size["pairs"])
    return _ranking_way(backend, seen, size, CPU)


def evaluate_alone(backend: str, size: Size) -> Way:
    """One backend on random pairs of this size."""
    train = random_pairs(size["users"], size["items"], size["pairs"])
    n_test = size["users"] * TEST_PAIRS_PER_USER
    test = of_some_users(random_pairs(size["users"], size["items"], n_test), size["ranked"])
    return _evaluation_way(backend, train, test, size, CPU)


def ranking_floor(size: Size) -> Floor:
    """The product of all factors; the factors are read once, the lists written once."""
    n_scores, row_bytes = size["ranked"] * size["items"], 4 * size["dimension"]
    return Floor.of(
        n_operations=2 * n_scores * size["dimension"],
        n_bytes=row_bytes * (size["ranked"] + size["items"]) + 8 * size["ranked"] * size["k"],
    )


def some_users(size: Size) -> Indices:
    """Evenly spread over all of them."""
    return np.linspace(0, size["users"] - 1, size["ranked"]).astype(np.int64)


def of_some_users(test: Interactions, n_users: int) -> Interactions:
    """The test pairs of so many users, evenly spread over those who have any."""
    judged = np.flatnonzero(test.user_degrees)
    places = np.linspace(0, len(judged) - 1, min(n_users, len(judged))).astype(np.int64)
    chosen = np.zeros(test.n_users, dtype=bool)
    chosen[judged[places]] = True
    return test.select(chosen[test.pair_users])


def _ranking_way(backend: str, seen: Pairs, size: Size, device: torch.device) -> Way:
    model = random_model(size["users"], size["items"], size["dimension"])
    users, k = some_users(size), size["k"]
    if backend == RIVAL:
        return implicit_way(model, seen, users, k)
    work: dict[str, Callable[[], object]] = {
        OURS: lambda: Exact(k)(model, users, seen=seen),
        REFERENCE: lambda: plain_ranking(model, seen, users, k),
        ON_GPU: lambda: exhaust(GpuTopK(k, device), model, users, seen),
    }
    return Way(once(work[backend]), device=device)


def _evaluation_way(
    backend: str, seen: Pairs, test: Interactions, size: Size, device: torch.device
) -> Way:
    model = random_model(size["users"], size["items"], size["dimension"])
    k, users = size["k"], np.flatnonzero(test.user_degrees)
    on_gpu = partial(GpuTopK, device=device)
    work: dict[str, Callable[[], object]] = {
        OURS: lambda: evaluate(model, seen, test, ks=(k,)).to_json(),
        REFERENCE: lambda: plain_evaluation(model, seen, test, users, k),
        ON_GPU: lambda: evaluate(model, seen, test, ks=(k,), ranker=on_gpu).to_json(),
    }
    return Way(once(work[backend]), device=device)


def exhaust(ranker: Any, model: InnerProduct, users: Indices, seen: Pairs) -> None:
    """Rank block by block, and throw every block away."""
    deque(ranker.stream(model, users, seen=seen), maxlen=0)


def implicit_way(model: InnerProduct, seen: Pairs, users: Indices, k: int) -> Way:
    """The batch recommendation of the library implicit, on factors of ours.

    Raises:
        MissingExtraError: implicit is not installed.
    """
    import scipy.sparse

    library = implicit_library()
    with one_blas_thread():
        ranker = library.AlternatingLeastSquares(model.users.shape[1])
    ranker.user_factors, ranker.item_factors = model.users, model.items
    rows, columns = pairs_of(seen, users)
    ones = np.ones(len(rows), np.float32)
    shape = (len(users), model.n_items)
    liked = scipy.sparse.csr_matrix((ones, (rows, columns)), shape=shape)
    return Way(once(lambda: ranker.recommend(users, liked, N=k)), one_blas_thread)


# Ranking and evaluation as one would write them first: the reference for ours.


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
