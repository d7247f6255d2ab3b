from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratiorec.errors import ModelError
from ratiorec.scorers.scorer import UserItems, check_pairs, identity_pairs, pairs_of
from support.small_scorers import rows_of


@given(st.lists(st.lists(st.integers(0, 9), max_size=4), min_size=1, max_size=6), st.data())
def test_pairs_are_found_by_the_place_of_their_user(
    lists: list[list[int]], data: st.DataObject
) -> None:
    users = data.draw(st.lists(st.integers(0, len(lists) - 1), max_size=6))
    rows, items = pairs_of(rows_of(lists), np.array(users, np.int64))
    expected = [(row, item) for row, user in enumerate(users) for item in lists[user]]
    assert list(zip(rows.tolist(), items.tolist(), strict=True)) == expected


def test_everything_is_joined_with_itself_alone() -> None:
    rows, items = pairs_of(identity_pairs(4), np.arange(4))
    assert rows.tolist() == items.tolist() == [0, 1, 2, 3]


GOOD = rows_of([[0, 2], [], [1]])


def test_rows_of_items_pass() -> None:
    check_pairs(GOOD, 3, name="pairs")
    check_pairs(GOOD, 3, name="pairs", n_users=3)
    check_pairs(rows_of([]), 0, name="pairs", n_users=0)


@pytest.mark.parametrize(
    ("indptr", "indices", "where"),
    [
        (GOOD.indptr[None], GOOD.indices, "axes of pairs"),
        (GOOD.indptr, GOOD.indices[None], "axes of pairs"),
        (GOOD.indptr.astype(np.int32), GOOD.indices, "types of pairs"),
        (GOOD.indptr, GOOD.indices.astype(np.int64), "types of pairs"),
        (GOOD.indptr[:0], GOOD.indices, "rows of pairs"),
        (GOOD.indptr + 1, GOOD.indices, "ends of pairs"),
        (GOOD.indptr, GOOD.indices[:-1], "ends of pairs"),
        (np.array([0, 3, 2, 3]), GOOD.indices, "rows of pairs in order"),
        (GOOD.indptr, GOOD.indices + np.int32(1), "pairs in range"),
        (GOOD.indptr, GOOD.indices - np.int32(1), "pairs in range"),
    ],
)
def test_what_is_no_rows_of_items_is_refused(
    indptr: np.ndarray, indices: np.ndarray, where: str
) -> None:
    with pytest.raises(ModelError, match=f"do not fit.*where: {where};"):
        check_pairs(UserItems(indptr, indices), 3, name="pairs")


def test_another_number_of_rows_is_refused() -> None:
    with pytest.raises(ModelError, match=r"rows of pairs; found: 4; wanted: 5"):
        check_pairs(GOOD, 3, name="pairs", n_users=4)
