from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ratiorec.solvers import wmf as least_squares
from ratiorec.solvers.wmf import LeastSquares, gram
from reference.solvers import best_vectors

CPU = torch.device("cpu")


def compressed(histories: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    indptr = np.cumsum([0, *map(len, histories)]).astype(np.int64)
    return indptr, np.array([item for items in histories for item in items], np.int32)


def solve(
    others: torch.Tensor, histories: list[list[int]], *, confidence: float, l2: float
) -> tuple[np.ndarray, least_squares.PairSums]:
    side = LeastSquares(
        *compressed(histories), n_others=len(others), dimension=others.shape[1], device=CPU
    )
    table, sums = side.solve(others, confidence=confidence, l2=l2)
    return table.numpy(), sums


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
    others = torch.randn(20, dimension, generator=torch.Generator().manual_seed(dimension))
    found, sums = solve(others, rows, confidence=confidence, l2=l2)
    wide = others.double().numpy()
    expected = best_vectors(wide, rows, confidence=confidence, l2=l2)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    scores = [
        float(row @ wide[i]) for row, items in zip(expected, rows, strict=True) for i in items
    ]
    assert sums.scores == pytest.approx(sum(scores), rel=1e-4, abs=1e-5)
    assert sums.squares == pytest.approx(sum(s * s for s in scores), rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("gathered", [1, 16, 60, 333])
def test_the_size_of_the_blocks_changes_nothing(
    gathered: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    # rows with nothing, with fewer and with more others than dimensions, and one with nearly all
    rows = [sorted(rng.choice(50, n, replace=False).tolist()) for n in (0, 1, 3, 4, 5, 9, 20, 49)]
    others = torch.randn(50, 4, generator=torch.Generator().manual_seed(0))
    whole, sums = solve(others, rows, confidence=3.0, l2=0.7)
    monkeypatch.setattr(least_squares, "_GATHERED_ON_CPU", gathered)
    monkeypatch.setattr(least_squares, "_ROWS_PER_BLOCK", 1 + gathered % 7)
    found, sums_of_blocks = solve(others, rows, confidence=3.0, l2=0.7)
    np.testing.assert_allclose(found, whole, rtol=1e-5, atol=1e-6)
    assert sums_of_blocks == pytest.approx(sums, rel=1e-5)


def test_columns_that_are_orthogonal_to_each_other_are_nothing_special() -> None:
    others = torch.tensor([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0], [0.0, 2.0, 0.0]])
    rows = [[0], [1, 2], [0, 1, 2]]
    found, _ = solve(others, rows, confidence=2.0, l2=1.0)
    expected = best_vectors(others.double().numpy(), rows, confidence=2.0, l2=1.0)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_a_row_without_pairs_is_zero() -> None:
    found, sums = solve(torch.ones(3, 2), [[], []], confidence=1.0, l2=1.0)
    assert found.tolist() == [[0, 0], [0, 0]]
    assert sums == (0, 0)


def test_nothing_gathered_is_larger_than_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(least_squares, "_GATHERED_ON_CPU", 40)
    sizes = []
    gather = torch.Tensor.index_select

    def noted(table: torch.Tensor, axis: int, places: torch.Tensor) -> torch.Tensor:
        sizes.append(places.numel() * table.shape[1])
        return gather(table, axis, places)

    monkeypatch.setattr(torch.Tensor, "index_select", noted)
    solve(torch.randn(90, 4), [list(range(n)) for n in range(91)], confidence=1.0, l2=1.0)
    assert max(sizes) == 40


def test_the_gram_matrix_is_summed_in_double_precision() -> None:
    table = torch.full((30_000, 1), 1 / 3)
    third = np.float64(np.float32(1 / 3))
    assert float(gram(table)) == pytest.approx(30_000 * third**2, rel=1e-12)
