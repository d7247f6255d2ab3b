from __future__ import annotations

from math import log2

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import reference.metrics as slow
from ratiorec.evaluation import metrics

HITS = np.array([[True, False, True, False], [False, False, False, True], [False] * 4])
N_RELEVANT = np.array([2, 5, 1])

judged = st.tuples(st.integers(1, 6), st.integers(1, 8)).flatmap(
    lambda shape: st.tuples(
        arrays(bool, shape), arrays(np.int64, shape[0], elements=st.integers(0, 9))
    )
)


def with_possible_counts(hits: np.ndarray, spare: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """There are at least as many relevant items as hits, and at least one."""
    return hits, np.maximum(hits.sum(axis=1) + spare, 1)


def test_recall_is_the_share_of_relevant_items_listed() -> None:
    assert metrics.recall(HITS, N_RELEVANT).tolist() == [2 / 2, 1 / 5, 0 / 1]


def test_ndcg_divides_by_the_best_list_that_was_possible() -> None:
    expected = [
        (1 / log2(2) + 1 / log2(4)) / (1 / log2(2) + 1 / log2(3)),
        (1 / log2(5)) / (1 / log2(2) + 1 / log2(3) + 1 / log2(4) + 1 / log2(5)),
        0.0,
    ]
    np.testing.assert_allclose(metrics.ndcg(HITS, N_RELEVANT), expected, rtol=1e-15)


def test_precision_divides_by_k_even_where_fewer_items_are_relevant() -> None:
    assert metrics.precision(HITS, N_RELEVANT).tolist() == [2 / 4, 1 / 4, 0 / 4]


def test_average_precision_divides_by_the_hits_that_were_possible() -> None:
    expected = [(1 / 1 + 2 / 3) / 2, (1 / 4) / 4, 0.0]
    np.testing.assert_allclose(metrics.average_precision(HITS, N_RELEVANT), expected, rtol=1e-15)


def test_reciprocal_rank_looks_at_the_first_hit_only() -> None:
    assert metrics.reciprocal_rank(HITS, N_RELEVANT).tolist() == [1 / 1, 1 / 4, 0.0]


def test_hit_rate_is_one_where_anything_was_hit() -> None:
    assert metrics.hit_rate(HITS, N_RELEVANT).tolist() == [1.0, 1.0, 0.0]


def test_coverage_counts_an_item_once_and_empty_places_never() -> None:
    assert metrics.coverage(np.array([[0, 1], [1, -1]]), 8) == 2 / 8


def test_several_cutoffs_are_judged_from_one_ranking() -> None:
    values = metrics.at_cutoffs(HITS, N_RELEVANT, [1, 4])
    assert list(values) == [f"{name}@{k}" for k in (1, 4) for name in metrics.PER_USER]
    assert values["recall@1"].tolist() == [1 / 2, 0 / 5, 0 / 1]
    assert values["recall@4"].tolist() == [2 / 2, 1 / 5, 0 / 1]


@pytest.mark.parametrize("name", list(metrics.PER_USER))
@given(judged)
def test_a_metric_equals_the_loop_from_its_definition(
    name: str, case: tuple[np.ndarray, np.ndarray]
) -> None:
    hits, n_relevant = with_possible_counts(*case)
    n, k = hits.shape
    values = metrics.PER_USER[name](hits, n_relevant)
    for row in range(n):
        # items 0 … k-1 are listed in this order; relevant ones that were not hit come later
        relevant = set(np.flatnonzero(hits[row])) | set(range(k, k + 10))
        relevant = set(sorted(relevant)[: n_relevant[row]])
        expected = slow.PER_USER[name](list(range(k)), relevant, k)
        assert values[row] == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("name", list(metrics.PER_USER))
@given(judged)
def test_a_metric_lies_between_zero_and_one(name: str, case: tuple[np.ndarray, np.ndarray]) -> None:
    values = metrics.PER_USER[name](*with_possible_counts(*case))
    assert ((values >= 0) & (values <= 1 + 1e-15)).all()


@pytest.mark.parametrize("name", list(metrics.PER_USER))
@given(judged)
def test_a_user_is_judged_alike_alone_and_among_others(
    name: str, case: tuple[np.ndarray, np.ndarray]
) -> None:
    hits, n_relevant = with_possible_counts(*case)
    together = metrics.PER_USER[name](hits, n_relevant)
    alone = [
        metrics.PER_USER[name](hits[row : row + 1], n_relevant[row : row + 1])
        for row in range(len(hits))
    ]
    assert together.tolist() == np.concatenate(alone).tolist()
