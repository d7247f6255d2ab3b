from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from ratiorec.data.interactions import Interactions
from ratiorec.data.vocabulary import Vocabulary
from ratiorec.kernels import gpu_topk
from ratiorec.kernels.gpu_topk import GpuTopK
from ratiorec.scorers import InnerProduct, PopularityScorer, Scorer
from ratiorec.training.team import evaluate_on_device
from reference import metrics

CPU, GPU = torch.device("cpu"), torch.device("cuda")
N_USERS, N_ITEMS, K = 15, 60, 20


def pairs(lists: list[list[int]]) -> Interactions:
    return Interactions.from_indices(
        Vocabulary.dense(N_USERS, kind="user"),
        Vocabulary.dense(N_ITEMS, kind="item"),
        [user for user, items in enumerate(lists) for _ in items],
        [item for items in lists for item in items],
    )


def drawn() -> tuple[Interactions, Interactions]:
    """Training and held-out pairs; user 0 has none held out, user 1 has few candidates left."""
    rng = np.random.default_rng(0)
    train, held_out = [], []
    for user in range(N_USERS):
        n_train, n_held_out = (50, 5) if user == 1 else (25, int(user > 0) * (1 + user % 4))
        items = rng.permutation(N_ITEMS).tolist()
        train.append(items[:n_train])
        held_out.append(items[n_train : n_train + n_held_out])
    return pairs(train), pairs(held_out)


TRAIN, HELD_OUT = drawn()


def as_trained() -> InnerProduct:
    """A scorer that likes its training pairs best, as trained models do."""
    scores = np.random.default_rng(1).random((N_USERS, N_ITEMS), dtype=np.float32)
    scores[TRAIN.pair_users, TRAIN.indices] += 2
    return InnerProduct(scores, np.eye(N_ITEMS, dtype=np.float32))


def popularity() -> PopularityScorer:
    return PopularityScorer(TRAIN.item_degrees.astype(np.float32), N_USERS)


def by_loops(scorer: Scorer, *, exclude_seen: bool) -> dict[str, float]:
    """The mean over users with held-out pairs, one user and one item at a time."""
    found: dict[str, list[float]] = {"recall@20": [], "ndcg@20": []}
    for user in range(N_USERS):
        relevant = HELD_OUT.positives(user).tolist()
        if not relevant:
            continue
        seen = TRAIN.positives(user).tolist() if exclude_seen else []
        ranking = metrics.ranked(scorer.scores(np.array([user]))[0].tolist(), seen)
        found["recall@20"].append(metrics.recall(ranking, relevant, K))
        found["ndcg@20"].append(metrics.ndcg(ranking, relevant, K))
    return {name: sum(values) / len(values) for name, values in found.items()}


@pytest.fixture(params=["CPU", "GPU"])
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> torch.device:
    """The device of training; ranking on a GPU is done by its code on the CPU."""
    monkeypatch.setattr(gpu_topk, "GpuTopK", lambda k, device: GpuTopK(k, CPU))
    return CPU if request.param == "CPU" else GPU


@pytest.mark.parametrize("make", [as_trained, popularity])
def test_validation_ranks_what_training_has_not_seen(
    device: torch.device, make: Callable[[], Scorer]
) -> None:
    scorer = make()
    found = evaluate_on_device(scorer, TRAIN, HELD_OUT, device=device)
    assert found == pytest.approx(by_loops(scorer, exclude_seen=True), abs=1e-12)
    with_seen = by_loops(scorer, exclude_seen=False)
    assert all(abs(found[name] - with_seen[name]) > 0.05 for name in with_seen)  # so it matters
