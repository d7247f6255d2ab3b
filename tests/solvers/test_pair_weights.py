"""Weights of pairs in closed forms (theory: W9)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from ratiorec.data.interactions import Interactions
from ratiorec.machine import Processor
from ratiorec.scorers import ItemWeights, Neighbours, PopularityScorer, WalkScorer
from ratiorec.solvers import ease
from ratiorec.solvers.settings import EASE, AnySolver, ItemKNN, LocalEASE, PopularitySolver, Walk
from ratiorec.training.experiment import fit
from ratiorec.training.fit import FitOptions
from support.small_data import interactions, random_interactions

N_USERS, N_ITEMS = 25, 12


def weighted() -> Interactions:
    rng = np.random.default_rng(0)
    data = random_interactions(rng, n_users=N_USERS, n_items=N_ITEMS, n_pairs=220)
    return replace(data, weights=rng.uniform(0.2, 9, data.n_pairs).astype(np.float32))


DATA = weighted()
assert DATA.relative_weights is not None
X = np.zeros((N_USERS, N_ITEMS))
X[DATA.pair_users, DATA.indices] = 1
C = np.zeros((N_USERS, N_ITEMS))
C[DATA.pair_users, DATA.indices] = DATA.relative_weights
EVERYONE = np.arange(N_USERS)


def solved(settings: AnySolver) -> object:
    context = {"rng": np.random.default_rng(0), "device": Processor(), "memory_mb": 1000.0}
    return settings.start(DATA, **context).scorer()  # type: ignore[arg-type]


def test_popularity_is_the_sum_of_weights() -> None:
    found = solved(PopularitySolver())
    assert isinstance(found, PopularityScorer)
    np.testing.assert_allclose(found.counts, C.sum(0), rtol=1e-6)


@pytest.mark.parametrize("n_neighbours", [0, N_ITEMS])
def test_the_last_step_of_a_walk_goes_by_weight(n_neighbours: int) -> None:
    found = solved(Walk(0.7, 0.9, 0.4, n_neighbours))
    assert isinstance(found, WalkScorer | Neighbours)
    degrees, lengths = X.sum(0), X.sum(1)
    steps = (X * lengths[:, None] ** -0.9).T @ C  # [source, target]
    steps *= degrees[:, None] ** -0.7 * degrees**-0.4
    np.fill_diagonal(steps, 0)
    np.testing.assert_allclose(found.scores(EVERYONE), X @ steps, rtol=1e-4, atol=1e-5)


def test_neighbours_are_near_by_the_weights_of_the_item_that_is_scored() -> None:
    found = solved(ItemKNN(N_ITEMS, shrinkage=2.0, user_exponent=0.5))
    assert isinstance(found, Neighbours)
    common = (X * X.sum(1)[:, None] ** -0.5).T @ C
    near = common / (np.sqrt(np.outer(X.sum(0), X.sum(0))) + 2.0)
    np.fill_diagonal(near, 0)
    np.testing.assert_allclose(found.scores(EVERYONE), X @ near, rtol=1e-4, atol=1e-5)


def regression() -> np.ndarray:
    """Each item's weights are regressed on the other items a user has, one by one."""
    l2, gram, right = 5.0, X.T @ X, X.T @ C
    weights = np.zeros((N_ITEMS, N_ITEMS))
    for item in range(N_ITEMS):
        others = [other for other in range(N_ITEMS) if other != item]
        matrix = gram[np.ix_(others, others)] + l2 * np.eye(N_ITEMS - 1)
        weights[others, item] = np.linalg.solve(matrix, right[others, item])
    return weights


def test_ease_regresses_the_weights_on_who_has_what() -> None:
    found = solved(EASE(5.0))
    assert isinstance(found, ItemWeights)
    np.testing.assert_allclose(found.weights, regression(), rtol=1e-3, atol=1e-4)


def test_the_product_of_a_gpu_is_the_product() -> None:
    rng = np.random.default_rng(1)
    matrix, block = (rng.random(shape, dtype=np.float32) for shape in ((9, 9), (9, 4)))
    found = ease._product_on_gpu(matrix, torch.device("cpu"))(block)
    np.testing.assert_allclose(found, matrix @ block, rtol=1e-5)


def test_local_ease_with_all_neighbours_is_ease() -> None:
    found = solved(LocalEASE(5.0, 0.0, 0.0, 0.0, n_neighbours=N_ITEMS))
    assert isinstance(found, Neighbours)
    np.testing.assert_allclose(found.scores(EVERYONE), X @ regression(), rtol=1e-3, atol=1e-3)


def test_pairs_that_come_later_keep_the_weights_of_those_before() -> None:
    options = FitOptions(validation=0)
    model = fit(DATA, preset="walk", device="cpu", options=options)
    more = interactions([0, N_USERS - 1], [3, N_ITEMS - 1], n_users=N_USERS, n_items=N_ITEMS)
    before, after = model.scorer, model.update(more).scorer
    assert isinstance(before, WalkScorer)
    assert isinstance(after, WalkScorer)
    assert before.pair_weights is not None
    assert after.pair_weights is not None
    n_new = len(after.pair_weights) - len(before.pair_weights)
    assert 0 < n_new <= 2
    users = np.repeat(EVERYONE, np.diff(after.histories.indptr))
    is_old = X[users, after.histories.indices] == 1
    np.testing.assert_array_equal(after.pair_weights[is_old], before.pair_weights)
    assert after.pair_weights[~is_old].tolist() == [1.0] * n_new


def test_counts_go_on_from_the_sum_of_weights() -> None:
    options = FitOptions(validation=0)
    model = fit(DATA, preset="popularity", device="cpu", options=options)
    item = int(np.flatnonzero(X[0] == 0)[0])
    more = interactions([0], [item], n_users=N_USERS, n_items=N_ITEMS)
    before, after = model.scorer, model.update(more).scorer
    assert isinstance(before, PopularityScorer)
    assert isinstance(after, PopularityScorer)
    gained = after.counts - before.counts
    assert np.flatnonzero(gained).tolist() == [item]
    assert gained[item] == pytest.approx(1)
