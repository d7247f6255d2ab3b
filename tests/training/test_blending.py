from __future__ import annotations

import numpy as np
import pytest
import torch

from ratiorec.data.interactions import Interactions
from ratiorec.data.split import RatioSplit
from ratiorec.data.vocabulary import Vocabulary
from ratiorec.evaluation.evaluate import evaluate
from ratiorec.kernels.gpu_topk import BestOfEach
from ratiorec.scorers import Blend, InnerProduct
from ratiorec.scorers.scorer import UserItems
from ratiorec.training import blending, blending_gpu
from ratiorec.training.blending import (
    CandidateScores,
    difference,
    narrowed,
    search_weights,
)
from ratiorec.training.blending_gpu import CandidateScoresOnGpu
from support.small_scorers import random_floats, random_rows

N_USERS, N_ITEMS = 60, 90


@pytest.fixture(scope="module")
def parts() -> tuple[Interactions, Interactions]:
    rows = random_rows(N_USERS, N_ITEMS, longest=30)
    users = Vocabulary(np.arange(N_USERS), "user")
    items = Vocabulary(np.arange(N_ITEMS), "item")
    data = Interactions(users, items, rows.indptr, rows.indices)
    split = RatioSplit(0.4)(data, rng=np.random.default_rng(0))
    return split.train, split.held_out


def noisy(truth: np.ndarray, noise: float, seed: int) -> InnerProduct:
    """Scores near to the truth, as inner products with unit vectors."""
    rng = np.random.default_rng(seed)
    scores = truth + noise * rng.standard_normal(truth.shape)
    return InnerProduct(scores.astype(np.float32), np.eye(N_ITEMS, dtype=np.float32))


def truth_of(held_out: Interactions) -> np.ndarray:
    truth = np.zeros((N_USERS, N_ITEMS))
    truth[held_out.pair_users, held_out.indices] = 1
    return truth


def table_of(members: list, parts: tuple[Interactions, Interactions]) -> CandidateScores:
    train, held_out = parts
    users = np.flatnonzero(held_out.user_degrees)
    return CandidateScores.of(members, UserItems.of(train), held_out, users)


def test_the_table_judges_as_evaluation_does(parts: tuple[Interactions, Interactions]) -> None:
    train, held_out = parts
    members = [noisy(truth_of(held_out), 0.8, seed) for seed in range(3)]
    weights = np.array([0.5, 0.3, 0.2])
    report = evaluate(Blend(tuple(members), weights.astype(np.float32)), train, held_out)
    table = table_of(members, parts)
    np.testing.assert_allclose(table.ndcg(weights), report.per_user["ndcg@20"], atol=1e-9)
    assert table.metrics(weights) == pytest.approx(
        {name: report.value(name) for name in ("recall@20", "ndcg@20")}
    )


def test_fewer_candidates_than_places_are_judged_too(
    parts: tuple[Interactions, Interactions], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blending, "N_CANDIDATES", 3)
    table = table_of([noisy(truth_of(parts[1]), 0.1, 0)], parts)
    assert table.scores.shape[2] == 3
    assert (table.ndcg(np.ones(1)) > 0).any()


def test_two_noisy_members_are_blended_and_a_useless_one_is_left_out(
    parts: tuple[Interactions, Interactions],
) -> None:
    truth = truth_of(parts[1])
    useless = InnerProduct(random_floats(N_USERS, 4), random_floats(N_ITEMS, 4))
    table = table_of([useless, noisy(truth, 0.6, 1), noisy(truth, 0.6, 2)], parts)
    weights, ndcg = search_weights(table)
    assert weights.sum() == pytest.approx(1)
    assert weights[0] < 0.1
    assert weights[1] > 0.2
    assert weights[2] > 0.2
    assert ndcg.mean() > max(table.alone(1).mean(), table.alone(2).mean())


def test_the_best_member_stays_alone_where_the_others_add_nothing(
    parts: tuple[Interactions, Interactions],
) -> None:
    perfect = noisy(truth_of(parts[1]), 0.0, 0)
    useless = InnerProduct(random_floats(N_USERS, 4), random_floats(N_ITEMS, 4))
    weights, _ = search_weights(table_of([useless, perfect], parts))
    assert weights.tolist() == [0, 1]


def test_the_search_is_the_same_every_time(parts: tuple[Interactions, Interactions]) -> None:
    members = [noisy(truth_of(parts[1]), 0.5 + 0.2 * seed, seed) for seed in range(4)]
    first, second = (search_weights(table_of(members, parts)).weights for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_the_interval_of_a_difference_covers_its_mean() -> None:
    low, high = difference(np.array([0.3, 0.5, 0.7]), np.array([0.2, 0.5, 0.5]))
    assert low < 0.1 < high
    assert high - low == pytest.approx(2 * 1.96 * np.std([0.1, 0, 0.2]) / np.sqrt(3))


def test_a_device_finds_the_same_candidates(parts: tuple[Interactions, Interactions]) -> None:
    train, held_out = parts
    members = [noisy(truth_of(held_out), 0.8, seed) for seed in range(3)]
    users, seen = np.flatnonzero(held_out.user_degrees), UserItems.of(train)
    on_device = BestOfEach(members, seen, torch.device("cpu"))
    found = CandidateScores.of(members, seen, held_out, users, best_of_each=on_device)
    expected = table_of(members, parts)
    np.testing.assert_allclose(found.scores, expected.scores, atol=1e-5)
    np.testing.assert_array_equal(found.relevant, expected.relevant)


def test_a_device_judges_alike(
    parts: tuple[Interactions, Interactions], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_of([noisy(truth_of(parts[1]), 0.8, seed) for seed in range(3)], parts)
    monkeypatch.setattr(blending_gpu, "_USERS_AT_ONCE", 7)
    on_device = CandidateScoresOnGpu(table.scores, table.relevant, table.n_relevant, device="cpu")
    for weights in (np.eye(3)[1], np.array([0.5, 0.3, 0.2])):
        assert on_device.metrics(weights) == pytest.approx(table.metrics(weights))
        np.testing.assert_allclose(on_device.ndcg(weights), table.ndcg(weights))


def test_members_that_differ_by_chance_alone_share_a_weight(
    parts: tuple[Interactions, Interactions],
) -> None:
    truth = truth_of(parts[1])
    table = table_of([noisy(truth, 0.6, seed) for seed in range(3)], parts)
    weights, ndcg = search_weights(table, [[0, 2]])
    assert weights[0] == weights[2] > 0
    assert weights.sum() == pytest.approx(1)
    np.testing.assert_allclose(ndcg, table.ndcg(weights), atol=1e-12)


def inner(dimension: int, rank: int, seed: int) -> InnerProduct:
    """A model of `dimension` whose scores have a lower rank."""
    rng = np.random.default_rng(seed)
    low = [rng.standard_normal((n, rank)) for n in (N_USERS, N_ITEMS)]
    wide = rng.standard_normal((rank, dimension))
    users = low[0] @ wide
    items = low[1] @ np.linalg.pinv(wide).T
    return InnerProduct(users.astype(np.float32), items.astype(np.float32))


def test_narrowing_keeps_scores_whose_rank_is_low() -> None:
    blend = Blend((inner(24, 3, 0), inner(30, 4, 1)), np.array([0.7, 0.3], np.float32))
    narrow = narrowed(blend, 7)
    users = np.arange(N_USERS)
    assert narrow.joined_users(users).shape == (N_USERS, 7)
    np.testing.assert_allclose(narrow.scores(users), blend.scores(users), atol=1e-3)


def test_narrowing_is_as_near_as_any_matrix_of_its_rank() -> None:
    members = (inner(24, 20, 2), inner(24, 20, 3))
    blend = Blend(members, np.array([0.5, 0.5], np.float32))
    scores = blend.scores(np.arange(N_USERS)).astype(np.float64)
    found = narrowed(blend, 10).scores(np.arange(N_USERS))
    singular = np.linalg.svd(scores, compute_uv=False)
    assert np.square(found - scores).sum() == pytest.approx(
        np.square(singular[10:]).sum(), rel=1e-3
    )


def test_a_blend_of_few_dimensions_stays_as_it_is() -> None:
    blend = Blend((inner(8, 3, 0), inner(8, 3, 1)), np.array([0.7, 0.3], np.float32))
    assert narrowed(blend, 16) is blend
