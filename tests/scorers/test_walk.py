from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ratiorec.errors import ModelError
from ratiorec.scorers import GraphFilterScorer, WalkScorer
from ratiorec.scorers import walk as walks
from ratiorec.scorers.scorer import UserItems
from support.small_scorers import graph_filter, random_floats, random_rows, rows_of

EXPONENTS = np.array([0.7, 1, 0.3], np.float32)
GRAPH = random_rows(30, 20)


def as_matrix(histories: UserItems, n_items: int) -> NDArray[np.float64]:
    matrix = np.zeros((histories.n_users, n_items))
    matrix[np.repeat(np.arange(len(matrix)), np.diff(histories.indptr)), histories.indices] = 1
    return matrix


def dense_walk(graph: UserItems, n_items: int, exponents: tuple[float, ...]) -> NDArray[np.float64]:
    """D_I^−a Xᵀ D_U^−b X D_I^−c without its diagonal, by the definition."""
    pairs, (a, b, c) = as_matrix(graph, n_items), exponents
    of_users, of_items = (np.maximum(pairs.sum(axis), 1) for axis in (1, 0))
    matrix = (of_items**-a)[:, None] * (pairs.T @ (pairs * (of_users**-b)[:, None])) * of_items**-c
    np.fill_diagonal(matrix, 0)
    return matrix


@pytest.fixture(params=[1e-9, 1e9], ids=["by the users reached", "by all users"])
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walks, "_DENSE_SPEED", request.param)


@given(
    lists=st.lists(st.sets(st.integers(0, 8)), min_size=1, max_size=12),
    exponents=st.tuples(*[st.sampled_from([0.0, 0.3, 1.0])] * 3),
    dense=st.booleans(),
)
def test_the_scores_are_those_of_the_product_of_three_matrices(
    lists: list[set[int]], exponents: tuple[float, float, float], dense: bool
) -> None:
    histories = rows_of([sorted(items) for items in lists])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(walks, "_DENSE_SPEED", 1e9 if dense else 1e-9)
        model = WalkScorer.over(histories, np.array(exponents, np.float32), 9)
        found = model.scores(np.arange(len(lists)))
    expected = as_matrix(histories, 9) @ dense_walk(histories, 9, exponents)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.usefixtures("_way")
@pytest.mark.parametrize("n_at_once", [1, 3, 100])
def test_the_size_of_the_blocks_changes_no_bit(
    n_at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = WalkScorer.over(GRAPH, EXPONENTS, 20).scores(np.arange(30))
    model = WalkScorer.over(GRAPH, EXPONENTS, 20)
    monkeypatch.setattr(
        WalkScorer,
        "_walk",
        property(lambda _, walk=model._walk: walk._replace(n_at_once=n_at_once)),
    )
    assert model.scores(np.arange(30)).tobytes() == whole.tobytes()


@pytest.mark.usefixtures("_way")
def test_other_users_walk_on_the_graph_of_training() -> None:
    model, others = WalkScorer.over(GRAPH, EXPONENTS, 20), random_rows(7, 20, seed=1)
    found = model.with_histories(others).scores(np.arange(7))
    expected = as_matrix(others, 20) @ dense_walk(GRAPH, 20, (0.7, 1, 0.3))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_a_filter_adds_what_its_eigenvectors_gain_to_the_walk() -> None:
    model, others = graph_filter(GRAPH, 20), random_rows(7, 20, seed=1)
    degrees = np.maximum(as_matrix(GRAPH, 20).sum(0), 1)
    low_rank = model.eigenvectors * model.gains @ model.eigenvectors.T
    matrix = model.linear_gain * dense_walk(GRAPH, 20, (0.7, 1, 0.3))
    matrix += (degrees**-0.2)[:, None] * low_rank * degrees**0.2
    for histories in (GRAPH, others):
        found = model.with_histories(histories).scores(np.arange(histories.n_users))
        expected = as_matrix(histories, 20) @ matrix
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_items_are_alike_as_the_walk_from_one_leads_to_the_other() -> None:
    found = WalkScorer.over(GRAPH, EXPONENTS, 20).similarity().scores(np.arange(20))
    np.testing.assert_allclose(found, dense_walk(GRAPH, 20, (0.7, 1, 0.3)), rtol=1e-5, atol=1e-6)


def test_exponents_that_make_scores_without_end_are_refused() -> None:
    with pytest.raises(ModelError, match="not finite"):
        WalkScorer.over(GRAPH, np.array([-90, 0, 0], np.float32), 20)


def test_eigenvectors_of_other_items_are_refused() -> None:
    model = graph_filter(GRAPH, 20)
    with pytest.raises(ModelError, match="eigenvectors"):
        GraphFilterScorer.from_arrays(
            model.arrays() | {"eigenvectors": random_floats(19, 6)}, GRAPH
        )
