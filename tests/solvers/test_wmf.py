from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from ratiorec.data.interactions import Interactions
from ratiorec.errors import MemoryBudgetError
from ratiorec.solvers.settings import WMF
from ratiorec.solvers.wmf import AlternatingLeastSquares
from reference.solvers import best_vectors, squared_loss
from support.small_data import interactions, random_interactions

CPU = torch.device("cpu")
DATA = random_interactions(np.random.default_rng(0), n_users=30, n_items=20, n_pairs=150)
BY_USER = [DATA.positives(user).tolist() for user in range(30)]
BY_ITEM = [[u for u in range(30) if item in BY_USER[u]] for item in range(20)]
SETTINGS = WMF(dimension=5, confidence=4.0, l2=0.3)
WEIGHTS = {"confidence": 4.0, "l2": 0.3}


def started(
    data: Interactions = DATA, solver: WMF = SETTINGS, *, seed: int = 0
) -> AlternatingLeastSquares:
    return solver.start(data, rng=np.random.default_rng(seed), device=CPU, memory_mb=512)


def tables(solution: AlternatingLeastSquares) -> tuple[np.ndarray, np.ndarray]:
    return solution.users.astype(np.float64), solution.items.astype(np.float64)


def test_a_sweep_solves_every_user_and_then_every_item() -> None:
    solution = started()
    _, items = tables(solution)
    for _ in range(3):
        solution.sweep()
        expected_users = best_vectors(items, BY_USER, **WEIGHTS)
        users, items = tables(solution)
        np.testing.assert_allclose(users, expected_users, rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(
            items, best_vectors(users, BY_ITEM, **WEIGHTS), rtol=1e-3, atol=1e-4
        )


def test_the_objective_is_that_of_all_pairs_and_never_rises() -> None:
    solution = started()
    objectives = []
    for _ in range(8):
        objectives.append(solution.sweep())
        assert objectives[-1] == pytest.approx(
            squared_loss(*tables(solution), BY_USER, **WEIGHTS), rel=1e-5
        )
    assert all(b < a for a, b in itertools.pairwise(objectives))


def test_the_scores_are_inner_products_of_the_tables() -> None:
    solution = started()
    solution.sweep()
    users, items = tables(solution)
    np.testing.assert_allclose(
        solution.scorer().scores(np.arange(30)), users @ items.T, rtol=1e-5, atol=1e-6
    )


def test_the_first_items_follow_from_the_seed_alone() -> None:
    first, again, other = started(), started(), started(seed=1)
    assert np.array_equal(first.items, again.items)
    assert not np.array_equal(first.items, other.items)
    assert float(first.items.std()) == pytest.approx(5**-0.5, rel=0.2)


def test_pairs_are_fitted_more_closely_the_more_they_count() -> None:
    fits = []
    for confidence in (0.5, 5.0, 50.0):
        solution = started(solver=WMF(3, confidence, 0.3))
        for _ in range(5):
            solution.sweep()
        users, items = tables(solution)
        fits.append((users @ items.T)[DATA.pair_users, DATA.indices].mean())
    assert fits[0] < fits[1] < fits[2]


def test_a_table_that_does_not_fit_is_refused_with_the_way_out() -> None:
    data = interactions([0, 1], [0, 999_999], n_users=2, n_items=1_000_000)
    with pytest.raises(MemoryBudgetError, match=r"a smaller solver\.dimension"):
        started(data, WMF(dimension=256))
