from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ratiorec.data.interactions import Interactions
from ratiorec.scorers import Neighbours
from ratiorec.solvers import neighbours as common_users
from ratiorec.solvers.settings import ItemKNN
from reference.solvers import neighbour_scores
from support.small_data import interactions


def neighbours(solver: ItemKNN, data: Interactions) -> Neighbours:
    solution = solver.start(
        data, rng=np.random.default_rng(0), device=torch.device("cpu"), memory_mb=512
    )
    solution.sweep()
    scorer = solution.scorer()
    assert isinstance(scorer, Neighbours)
    return scorer


def rows(scorer: Neighbours) -> list[dict[int, float]]:
    """What each item says of its neighbours."""
    ends = scorer.indptr.tolist()
    return [
        dict(zip(scorer.indices[a:b].tolist(), scorer.values[a:b].tolist(), strict=True))
        for a, b in itertools.pairwise(ends)
    ]


@given(
    histories=st.lists(st.sets(st.integers(0, 8)), min_size=1, max_size=12),
    n=st.integers(1, 10),
    shrinkage=st.sampled_from([0.0, 0.5, 20.0]),
    user_exponent=st.sampled_from([0.0, 0.5, 1.0]),
)
def test_the_scores_are_those_of_two_loops_over_the_items(
    histories: list[set[int]], n: int, shrinkage: float, user_exponent: float
) -> None:
    users = [user for user, items in enumerate(histories) for _ in items]
    items = [item for items in histories for item in sorted(items)]
    data = interactions(np.array(users, int), np.array(items, int), n_users=12, n_items=9)
    found = neighbours(ItemKNN(n, shrinkage, user_exponent), data).scores(np.arange(12))
    histories += [set()] * (12 - len(histories))
    expected = neighbour_scores(histories, 9, n=n, shrinkage=shrinkage, user_exponent=user_exponent)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)


def test_the_similarity_is_the_shrunk_cosine_of_what_common_users_weigh() -> None:
    # items 0 and 1 share user 0, who has two items, and user 1, who has three
    data = interactions([0, 0, 1, 1, 1, 2], [0, 1, 0, 1, 2, 1], n_users=3, n_items=3)
    plain = rows(neighbours(ItemKNN(5, 0, 0), data))
    assert plain[0][1] == pytest.approx(2 / (2 * 3) ** 0.5)
    shrunk = rows(neighbours(ItemKNN(5, 10, 0), data))
    assert shrunk[0][1] == pytest.approx(2 / ((2 * 3) ** 0.5 + 10))
    weighted = rows(neighbours(ItemKNN(5, 10, 0.5), data))
    assert weighted[0][1] == pytest.approx((2**-0.5 + 3**-0.5) / ((2 * 3) ** 0.5 + 10))


def test_of_equal_neighbours_the_smaller_index_is_kept_and_an_item_is_not_its_own() -> None:
    # every user has all items, so all are equally near
    users, items = np.divmod(np.arange(4 * 5), 5)
    data = interactions(users, items, n_users=4, n_items=5)
    said = rows(neighbours(ItemKNN(2, 0, 0), data))
    nearest = [{j for j in range(5) if i in said[j]} for i in range(5)]
    assert nearest == [{1, 2}, {0, 2}, {0, 1}, {0, 1}, {0, 1}]


def test_each_item_is_scored_by_its_own_nearest_and_not_by_those_it_is_nearest_to() -> None:
    # items 1 and 2 are nearest to item 0, which has room for one neighbour only
    data = interactions([0, 0, 1, 1, 2], [0, 1, 0, 2, 2], n_users=3, n_items=3)
    scores = neighbours(ItemKNN(1, 0, 0), data).scores(np.array([2]))
    # user 2 has item 2; of item 0 the nearest is item 1, since item 2 has another user besides
    assert scores.tolist() == [[0, 0, 0]]


@pytest.mark.parametrize("n_entries", [1, 30, 250])
def test_the_size_of_the_blocks_changes_nothing(
    n_entries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    data = interactions(rng.integers(0, 60, 900), rng.integers(0, 40, 900), n_users=60, n_items=40)
    whole = neighbours(ItemKNN(7), data).arrays()
    monkeypatch.setattr(common_users, "_ENTRIES_AT_ONCE", n_entries)
    in_blocks = neighbours(ItemKNN(7), data).arrays()
    assert all(in_blocks[name].tobytes() == whole[name].tobytes() for name in whole)


def test_a_catalogue_of_a_million_items_is_no_obstacle_where_few_have_users() -> None:
    data = interactions([0, 0, 1], [5, 999_999, 5], n_users=2, n_items=1_000_000)
    rng, device = np.random.default_rng(0), torch.device("cpu")
    solution = ItemKNN().start(data, rng=rng, device=device, memory_mb=256)
    solution.sweep()
    assert solution.scorer().scores(np.array([1]))[0].argmax() == 999_999
