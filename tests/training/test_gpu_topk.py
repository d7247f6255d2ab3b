from __future__ import annotations

import numpy as np
import pytest
import torch

from ratiorec.evaluation.evaluate import evaluate
from ratiorec.kernels.gpu_topk import GpuTopK
from ratiorec.scorers import InnerProduct, PopularityScorer, Scorer
from ratiorec.scorers.scorer import UserItems
from ratiorec.scorers.topk import Exact
from support.small_data import random_interactions
from support.small_scorers import MAKERS

CPU = torch.device("cpu")
N_USERS, N_ITEMS = 30, 25
SEEN = random_interactions(np.random.default_rng(0), n_users=N_USERS, n_items=N_ITEMS, n_pairs=200)


def inner_product() -> InnerProduct:
    rng = np.random.default_rng(1)
    users, items = (rng.standard_normal((n, 6), np.float32) for n in (N_USERS, N_ITEMS))
    return InnerProduct(users, items)


@pytest.mark.parametrize("memory_mb", [1e-6, 1e-3, 100], ids=["one row", "few rows", "all rows"])
@pytest.mark.parametrize("k", [1, 7, N_ITEMS])
def test_the_lists_are_those_of_exact_ranking(k: int, memory_mb: float) -> None:
    users = np.array([3, 0, 29, 3])
    ranked = list(GpuTopK(k, CPU, memory_mb).stream(inner_product(), users, seen=SEEN))
    expected = Exact(k)(inner_product(), users, seen=SEEN)
    assert np.concatenate([block.users for block in ranked]).tolist() == users.tolist()
    assert np.concatenate([block.items for block in ranked]).tolist() == expected.items.tolist()
    scores = np.concatenate([block.scores for block in ranked])
    np.testing.assert_allclose(scores, expected.scores, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", list(MAKERS))
def test_every_kind_of_model_is_judged_as_by_exact_ranking(kind: str) -> None:
    scorer = MAKERS[kind](UserItems.of(SEEN), N_ITEMS)
    test = random_interactions(
        np.random.default_rng(2), n_users=scorer.n_users, n_items=scorer.n_items, n_pairs=300
    )
    found = evaluate(scorer, None, test, ranker=lambda k: GpuTopK(k, CPU))
    expected = evaluate(scorer, None, test)
    for name in ("recall@20", "ndcg@20"):
        assert found.value(name) == pytest.approx(expected.value(name), abs=1e-12)


def test_a_model_without_vectors_is_ranked_all_the_same() -> None:
    scorer: Scorer = PopularityScorer(np.arange(N_ITEMS, dtype=np.float32), N_USERS)
    (block,) = GpuTopK(2, CPU).stream(scorer, np.array([4]), seen=None)
    assert block.items.tolist() == [[N_ITEMS - 1, N_ITEMS - 2]]


def test_progress_is_told_after_every_block() -> None:
    told: list[tuple[int, int]] = []
    blocks = GpuTopK(3, CPU, 1e-6).stream(
        inner_product(), np.arange(4), seen=UserItems.of(SEEN), progress=lambda *n: told.append(n)
    )
    assert len(list(blocks)) == 4
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]
