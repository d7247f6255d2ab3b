from __future__ import annotations

import numpy as np

from ratiorec.scorers import InnerProduct, WithFallbackUser
from support import small_scorers


def known(n_users: int) -> InnerProduct:
    return small_scorers.inner_product(small_scorers.random_rows(n_users, 3), 3)


def test_a_stranger_is_the_user_after_the_last() -> None:
    scorer = WithFallbackUser(known(5), np.array([4, 5, 6], np.float32))
    assert scorer.n_users == 6
    scores = scorer.scores(np.array([5, 2, 5]))
    assert scores[[0, 2]].tolist() == [[4, 5, 6], [4, 5, 6]]
    assert scores[1].tobytes() == known(5).scores(np.array([2])).tobytes()


def test_there_may_be_strangers_only() -> None:
    scorer = WithFallbackUser(known(0), np.array([4, 5, 6], np.float32))
    assert scorer.scores(np.array([0, 0])).tolist() == [[4, 5, 6], [4, 5, 6]]
