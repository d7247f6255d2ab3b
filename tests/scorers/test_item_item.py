from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratiorec.errors import ModelError
from ratiorec.scorers import ItemWeights, Neighbours, item_item
from reference.scorers import item_weights_scores, neighbours_scores
from support import small_scorers
from support.small_scorers import random_floats, random_rows, rows_of

histories = st.lists(st.sets(st.integers(0, 8)).map(sorted), min_size=1, max_size=6)


@given(histories)
def test_weights_of_a_history_add_up(lists: list[list[int]]) -> None:
    model = small_scorers.item_weights(rows_of(lists), 9)
    expected = [item_weights_scores(model, history) for history in lists]
    np.testing.assert_allclose(model.scores(np.arange(len(lists))), expected, atol=1e-5)


@given(histories)
def test_weights_of_the_neighbours_of_a_history_add_up(lists: list[list[int]]) -> None:
    model = small_scorers.neighbours(rows_of(lists), 9)
    expected = [neighbours_scores(model, history) for history in lists]
    np.testing.assert_allclose(model.scores(np.arange(len(lists))), expected, atol=1e-5)


def test_a_neighbour_named_twice_counts_twice() -> None:
    values = np.array([1, 2, 5], np.float32)
    model = Neighbours(np.array([0, 3, 3]), np.array([1, 1, 0], np.int32), values, rows_of([[0]]))
    assert model.scores(np.array([0])).tolist() == [[5, 1 + 2]]


def test_dense_and_sparse_weights_give_the_same_scores() -> None:
    sparse = small_scorers.neighbours(random_rows(30, 50), 50)
    dense = np.zeros((50, 50), np.float32)
    rows = np.repeat(np.arange(50), np.diff(sparse.indptr))
    dense[rows, sparse.indices] = sparse.values
    expected = ItemWeights(dense, sparse.histories).scores(np.arange(30))
    assert (sparse.scores(np.arange(30)) == expected).all()


def test_weights_may_lie_in_memory_in_any_way() -> None:
    weights, rows = random_floats(50, 50), random_rows(30, 50)
    expected = ItemWeights(weights, rows).scores(np.arange(30))
    turned = ItemWeights(np.asfortranarray(weights), rows).scores(np.arange(30))
    assert turned.tobytes() == expected.tobytes()


@pytest.mark.parametrize("make", [small_scorers.item_weights, small_scorers.neighbours])
@pytest.mark.parametrize("size", ["_CACHED_SCORES", "_GATHERED_WEIGHTS"])
@pytest.mark.parametrize("n", [1, 300, 2000])
def test_how_many_users_are_summed_in_one_go_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, make: Any, size: str, n: int
) -> None:
    model = make(random_rows(40, 100), 100)
    expected = model.scores(np.arange(40)).tobytes()
    monkeypatch.setattr(item_item, size, n)
    assert model.scores(np.arange(40)).tobytes() == expected


@pytest.mark.parametrize("make", [small_scorers.item_weights, small_scorers.neighbours])
def test_the_row_of_an_item_says_what_is_similar(make: Any) -> None:
    model = make(random_rows(5, 30), 30)
    alone = make(rows_of([[item] for item in range(30)]), 30)
    similarity = model.similarity()
    assert similarity.n_users == similarity.n_items == 30
    everything = np.arange(30)
    assert similarity.scores(everything).tobytes() == alone.scores(everything).tobytes()


def test_dense_similarity_is_the_weights_themselves() -> None:
    model = small_scorers.item_weights(random_rows(5, 30), 30)
    assert model.similarity().scores(np.arange(30)).tolist() == model.weights.tolist()


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (random_floats(4, 3), r"malformed.*weights.*\[4, 3\].*\[n_items = 4, n_items = 4\]"),
        (random_floats(3, 3).astype(np.float64), "malformed.*float64"),
        (random_floats(9), "malformed"),
        (np.array(1, np.float32), "malformed"),
        (np.full((3, 3), np.nan, np.float32), "not finite"),
        (np.full((3, 3), -np.inf, np.float32), "not finite"),
        (np.full((3, 3), -1e38, np.float32), "not finite.*2e[+]38"),
    ],
)
def test_malformed_weights_are_refused(weights: np.ndarray, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        ItemWeights(weights, rows_of([[0, 2]]))


PARTS = {
    "indptr": np.array([0, 2, 2, 3]),
    "indices": np.array([1, 2, 0], np.int32),
    "values": np.array([1, 2, 3], np.float32),
}


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("indptr", np.array([0, 2, 2, 4])),
        ("indptr", np.array([1, 2, 2, 3])),
        ("indptr", np.array([0, 3, 2, 3])),
        ("indptr", np.array([0, 2, 2, 3], np.int32)),
        ("indptr", np.zeros(0, np.int64)),
        ("indptr", np.array(3)),
        ("indices", np.array([1, 3, 0], np.int32)),
        ("indices", np.array([1, -1, 0], np.int32)),
        ("indices", np.array([1, 2, 0], np.int64)),
        ("indices", np.array([1, 2], np.int32)),
        ("values", np.array([1, 2], np.float32)),
        ("values", np.array([1, 2, 3, 4], np.float32)),
        ("values", np.array([1, 2, 3], np.float64)),
        ("values", np.array([[1, 2, 3]], np.float32)),
        ("values", np.array([1, np.nan, 3], np.float32)),
        ("values", np.array([1, np.inf, 3], np.float32)),
        ("values", np.array([1, 1e38, 3], np.float32)),
    ],
)
def test_malformed_neighbours_are_refused(name: str, array: np.ndarray) -> None:
    Neighbours(**PARTS, histories=rows_of([[0, 1]]))
    with pytest.raises(ModelError):
        Neighbours(**PARTS | {name: array}, histories=rows_of([[0, 1]]))


def test_a_neighbour_named_until_its_sum_overflows_is_refused() -> None:
    values, again = np.full(2, 1e38, np.float32), np.array([1, 1], np.int32)
    with pytest.raises(ModelError, match=r"not finite.*values.*2e[+]38"):
        Neighbours(np.array([0, 2, 2]), again, values, rows_of([[0]]))


def test_a_catalogue_without_items_or_neighbours_has_no_scores_but_zero() -> None:
    nobody = rows_of([[], []])
    none = np.zeros(0, np.float32)
    assert ItemWeights(np.zeros((0, 0), np.float32), nobody).scores(np.arange(2)).shape == (2, 0)
    lonely = Neighbours(np.zeros(4, np.int64), np.zeros(0, np.int32), none, rows_of([[0, 2], []]))
    assert lonely.scores(np.arange(2)).tolist() == [[0, 0, 0], [0, 0, 0]]
