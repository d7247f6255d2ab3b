from __future__ import annotations

import numpy as np
import pytest

from ratiorec.solvers import neighbours as common_users
from ratiorec.solvers.neighbours import CommonUsers, item_blocks, most_neighbours
from support.small_data import as_csr, interactions, random_interactions

DATA = random_interactions(np.random.default_rng(0), n_users=20, n_items=15, n_pairs=60)


def test_a_row_counts_the_users_of_two_items() -> None:
    dense = as_csr(DATA).toarray()
    expected = dense.T @ dense
    common = CommonUsers(DATA)
    for items in (slice(0, 15), slice(3, 4), slice(14, 15)):
        np.testing.assert_array_equal(common.rows(items).toarray(), expected[items])


def test_users_count_by_their_activity() -> None:
    dense = as_csr(DATA).toarray()
    weights = np.maximum(dense.sum(1).astype(float), 1) ** -0.7
    found = CommonUsers(DATA, 0.7).rows(slice(0, 15)).toarray()
    np.testing.assert_allclose(found, dense.T @ (weights[:, None] * dense), rtol=1e-12)


def test_no_row_has_more_entries_than_announced() -> None:
    n_entries = np.diff(CommonUsers(DATA).rows(slice(0, 15)).indptr)
    assert (n_entries <= most_neighbours(DATA)).all()
    # item 0 meets two items of user 0 and three of user 1; item 4 has no user
    data = interactions([0, 0, 1, 1, 1], [0, 1, 0, 2, 3], n_users=2, n_items=9)
    assert most_neighbours(data).tolist() == [2 + 3, 2, 3, 3, 0, 0, 0, 0, 0]


def test_no_row_has_more_entries_than_there_are_items() -> None:
    data = interactions([0, 0, 1, 1, 2, 2], [0, 1] * 3, n_users=3, n_items=2)
    assert most_neighbours(data).tolist() == [2, 2]


@pytest.mark.parametrize("most", [1, 5, 12, 10**9])
def test_blocks_follow_one_another_and_are_no_larger_than_they_may_be(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(common_users, "_ENTRIES_AT_ONCE", most)
    n_entries = np.random.default_rng(0).integers(0, 9, 50)
    blocks = item_blocks(n_entries)
    assert [i for block in blocks for i in range(block.start, block.stop)] == list(range(50))
    for block in blocks:
        assert n_entries[block].sum() <= most or block.stop - block.start == 1
    assert len(blocks) == 1 or most < n_entries.sum()


def test_a_block_takes_as_many_items_as_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(common_users, "_ENTRIES_AT_ONCE", 4)
    assert item_blocks(np.array([2, 2, 2, 9, 0, 4])) == [
        slice(0, 2),
        slice(2, 3),
        slice(3, 4),
        slice(4, 6),
    ]


def test_no_items_make_no_blocks() -> None:
    assert item_blocks(np.zeros(0, np.int64)) == []
