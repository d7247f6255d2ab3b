from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratiorec.solvers import wmf as least_squares
from ratiorec.solvers.wmf import LeastSquares, gram
from reference.solvers import best_vectors


def compressed(histories: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    indptr = np.cumsum([0, *map(len, histories)]).astype(np.int64)
    return indptr, np.array([item for items in histories for item in items], np.int32)


def solve(
    others: np.ndarray, histories: list[list[int]], *, confidence: float, l2: float
) -> tuple[np.ndarray, least_squares.PairSums]:
    side = LeastSquares(*compressed(histories), n_others=len(others), dimension=others.shape[1])
    return side.solve(others, confidence=confidence, l2=l2)


def drawn(n_rows: int, dimension: int) -> np.ndarray:
    return np.random.default_rng(dimension).standard_normal((n_rows, dimension), dtype=np.float32)


@given(
    histories=st.lists(st.sets(st.integers(0, 19)), min_size=1, max_size=30),
    dimension=st.sampled_from([1, 3, 8]),
    confidence=st.sampled_from([0.1, 1.0, 40.0]),
    l2=st.sampled_from([0.1, 5.0]),
)
def test_every_row_is_solved_as_if_it_were_alone(
    histories: list[set[int]], dimension: int, confidence: float, l2: float
) -> None:
    rows = [sorted(items) for items in histories]
    others = drawn(20, dimension)
    found, sums = solve(others, rows, confidence=confidence, l2=l2)
    wide = others.astype(np.float64)
    expected = best_vectors(wide, rows, confidence=confidence, l2=l2)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    scores = [
        float(row @ wide[i]) for row, items in zip(expected, rows, strict=True) for i in items
    ]
    assert sums.scores == pytest.approx((1 + confidence) * sum(scores), rel=1e-4, abs=1e-4)
    squares = confidence * sum(s * s for s in scores)
    assert sums.squares == pytest.approx(squares, rel=1e-4, abs=1e-4)


@given(seed=st.integers(0, 2**32), dimension=st.sampled_from([1, 3, 8]))
def test_a_heavier_pair_has_more_confidence(seed: int, dimension: int) -> None:
    rng = np.random.default_rng(seed)
    rows = [sorted(rng.choice(20, n, replace=False).tolist()) for n in (1, 2, 5, 12, 20)]
    indptr, indices = compressed(rows)
    weights = rng.uniform(0.1, 5, len(indices)).astype(np.float32)
    others = drawn(20, dimension)
    side = LeastSquares(indptr, indices, n_others=20, dimension=dimension, weights=weights)
    found, sums = side.solve(others, confidence=3.0, l2=0.5)
    wide, scores, squares = others.astype(np.float64), 0.0, 0.0
    for row, (start, end) in enumerate(pairwise(indptr.tolist())):
        near, extra = wide[indices[start:end]], 3.0 * weights[start:end].astype(np.float64)
        matrix = wide.T @ wide + 0.5 * np.eye(dimension) + (near.T * extra) @ near
        best = np.linalg.solve(matrix, near.T @ (1 + extra))
        np.testing.assert_allclose(found[row], best, rtol=1e-3, atol=1e-4)
        scores += float(((1 + extra) * (near @ best)).sum())
        squares += float((extra * (near @ best) ** 2).sum())
    assert sums.scores == pytest.approx(scores, rel=1e-3)
    assert sums.squares == pytest.approx(squares, rel=1e-3)


@pytest.mark.parametrize("gathered", [1, 16, 60, 333])
def test_the_size_of_the_blocks_changes_nothing(
    gathered: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    # rows with nothing, with fewer and with more others than dimensions, and one with nearly all
    rows = [sorted(rng.choice(50, n, replace=False).tolist()) for n in (0, 1, 3, 4, 5, 9, 20, 49)]
    others = drawn(50, 4)
    whole, sums = solve(others, rows, confidence=3.0, l2=0.7)
    monkeypatch.setattr(least_squares, "_GATHERED", gathered)
    monkeypatch.setattr(least_squares, "_ROWS_PER_BLOCK", 1 + gathered % 7)
    found, sums_of_blocks = solve(others, rows, confidence=3.0, l2=0.7)
    np.testing.assert_allclose(found, whole, rtol=1e-5, atol=1e-6)
    assert sums_of_blocks == pytest.approx(sums, rel=1e-5)


def test_columns_that_are_orthogonal_to_each_other_are_nothing_special() -> None:
    others = np.array([[1, 1, 0], [0, 1, 1], [0, 2, 0]], np.float32)
    rows = [[0], [1, 2], [0, 1, 2]]
    found, _ = solve(others, rows, confidence=2.0, l2=1.0)
    expected = best_vectors(others.astype(np.float64), rows, confidence=2.0, l2=1.0)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_a_row_without_pairs_is_zero() -> None:
    found, sums = solve(np.ones((3, 2), np.float32), [[], []], confidence=1.0, l2=1.0)
    assert found.tolist() == [[0, 0], [0, 0]]
    assert sums == (0, 0)


def test_nothing_gathered_is_larger_than_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(least_squares, "_GATHERED", 40)
    sizes = []

    class Noted(np.ndarray):
        def __getitem__(self, places: Any) -> Any:
            found = super().__getitem__(places)
            sizes.append(found.size)
            return found.view(np.ndarray)

    side = LeastSquares(*compressed([list(range(n)) for n in range(91)]), n_others=90, dimension=4)
    for block in side._blocks:
        side._solve_block(block, drawn(91, 4).view(Noted), 1.0)
    assert max(sizes) == 40


def test_the_gram_matrix_is_summed_in_double_precision() -> None:
    table = np.full((30_000, 1), 1 / 3, np.float32)
    third = np.float64(np.float32(1 / 3))
    assert gram(table).item() == pytest.approx(30_000 * third**2, rel=1e-12)
