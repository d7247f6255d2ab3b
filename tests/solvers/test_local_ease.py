from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ratiorec.data.interactions import Interactions
from ratiorec.errors import ConfigError
from ratiorec.scorers import Neighbours, StoredScorer
from ratiorec.solvers import local_ease
from ratiorec.solvers.settings import EASE, AnySolver, LocalEASE
from support.small_data import as_csr, interactions, random_interactions

CPU = torch.device("cpu")
DATA = random_interactions(np.random.default_rng(0), n_users=60, n_items=23, n_pairs=400)


def solved(solver: AnySolver, data: Interactions = DATA) -> StoredScorer:
    return solver.start(data, rng=np.random.default_rng(0), device=CPU, memory_mb=512).scorer()


def weights(solver: AnySolver, data: Interactions = DATA) -> np.ndarray:
    """What each item says of every item."""
    return solved(solver, data).similarity().scores(np.arange(data.n_items))


corrections = st.tuples(
    st.sampled_from([2.0, 50.0]), *[st.sampled_from([0.0, 0.3])] * 2, st.sampled_from([0.0, 0.6])
)


@given(settings=corrections, seed=st.integers(0, 5))
def test_the_corrected_regression_is_that_of_its_formula(
    settings: tuple[float, float, float, float], seed: int
) -> None:
    data = random_interactions(np.random.default_rng(seed), n_users=30, n_items=9, n_pairs=90)
    l2, a, beta, p = settings
    pairs, degrees = as_csr(data).toarray().astype(np.float64), data.item_degrees
    gram = pairs.T @ (pairs * (data.user_degrees.clip(1) ** -beta)[:, None])
    inverse = np.linalg.inv(gram + np.diag(l2 + p / (1 - p) * degrees))
    expected = -inverse / np.diagonal(inverse)
    np.fill_diagonal(expected, 0)
    powers = degrees.clip(1) ** a
    expected = expected * powers[:, None] / powers
    np.testing.assert_allclose(weights(EASE(*settings), data), expected, rtol=1e-3, atol=1e-5)


@given(settings=corrections, seed=st.integers(0, 5))
def test_on_all_other_items_it_is_the_full_regression(
    settings: tuple[float, float, float, float], seed: int
) -> None:
    # with a user who has everything, all items are neighbours
    users, items = np.random.default_rng(seed).integers(0, 9, (2, 60))
    data = interactions(
        np.append(users, np.full(9, 9)), np.append(items, np.arange(9)), n_users=10, n_items=9
    )
    local = weights(LocalEASE(*settings, n_neighbours=8), data)
    np.testing.assert_allclose(local, weights(EASE(*settings), data), rtol=1e-3, atol=1e-5)


def test_every_item_is_regressed_on_its_nearest_alone() -> None:
    pairs = as_csr(DATA).toarray().astype(np.float64)
    gram, degrees = pairs.T @ pairs, DATA.item_degrees
    found = weights(LocalEASE(5.0, 0.0, 0.0, 0.0, n_neighbours=4))
    for item in range(23):
        cosines = gram[item] / np.sqrt(degrees * degrees[item])
        cosines[item] = 0
        near = np.argsort(-cosines.astype(np.float32), kind="stable")[:4]
        ridge = gram[np.ix_(near, near)] + 5 * np.eye(4)
        expected = np.zeros(23)
        expected[near] = np.linalg.solve(ridge, gram[near, item])
        np.testing.assert_allclose(found[:, item], expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("n_bytes", [1, 4 * 25 * 7])
def test_the_number_solved_at_once_changes_nothing(
    n_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = weights(LocalEASE(n_neighbours=5))
    monkeypatch.setattr(local_ease, "_BYTES_OF_SYSTEMS", n_bytes)
    monkeypatch.setattr(local_ease, "_LEAST_SYSTEMS", 3)
    assert weights(LocalEASE(n_neighbours=5)).tobytes() == whole.tobytes()


def test_an_item_with_fewer_neighbours_is_regressed_on_these() -> None:
    data = interactions([0, 0, 1, 1, 2], [0, 1, 0, 1, 2], n_users=3, n_items=4)
    found = weights(LocalEASE(1.0, 0.0, 0.0, 0.0, n_neighbours=3), data)
    # item 1 on item 0: 2 common users over 2 users and the ridge
    assert found[0, 1] == pytest.approx(2 / (2 + 1))
    assert not found[2:].any()
    assert not found[:, 2:].any()


def test_a_penalty_that_vanishes_in_single_precision_is_refused() -> None:
    users, items = np.divmod(np.arange(300 * 4), 4)
    data = interactions(users, items, n_users=300, n_items=4)  # four equal columns
    with pytest.raises(ConfigError, match="single precision"):
        weights(LocalEASE(1e-9, 0.0, 0.0, 0.0), data)


def test_the_model_keeps_no_more_than_the_neighbours() -> None:
    model = solved(LocalEASE(n_neighbours=5))
    assert isinstance(model, Neighbours)
    assert len(model.values) <= 5 * 23
