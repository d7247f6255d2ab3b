"""Users beyond those of a scorer: a fallback user, and those of another scorer."""

from __future__ import annotations

import numpy as np

from ratiorec.scorers import InnerProduct, with_unknown_users
from ratiorec.scorers.popularity import PopularityScorer
from ratiorec.scorers.scorer import UserItems
from support.small_scorers import random_floats

POPULAR = np.array([4, 5, 6], np.float32)


def factors(n_users: int) -> InnerProduct:
    return InnerProduct(random_floats(n_users, 4), random_floats(3, 4))


def seen_by(n_users: int) -> UserItems:
    return UserItems(np.arange(n_users + 1), np.zeros(n_users, np.int32))


def test_known_users_alone_need_no_other_scorer() -> None:
    known, users, seen = factors(5), np.array([4, 0]), seen_by(5)
    assert with_unknown_users(known, users, seen, POPULAR) == (known, users, seen)


def test_whoever_is_unknown_comes_after_the_last_and_has_seen_nothing() -> None:
    known, seen = factors(5), seen_by(5)
    new = PopularityScorer(np.array([1, 2, 3], np.float32), 2)
    asked = np.array([-1, 2, -2, -3, -1])
    scorer, users, rows = with_unknown_users(known, asked, seen, POPULAR, new)
    assert users.tolist() == [7, 2, 5, 6, 7]
    scores = scorer.scores(users)
    assert scores[[0, 2, 3, 4]].tolist() == [[4, 5, 6], [1, 2, 3], [1, 2, 3], [4, 5, 6]]
    assert scores[1].tobytes() == known.scores(np.array([2])).tobytes()
    assert np.diff(rows.indptr).tolist() == [1] * 5 + [0] * 3
    assert scorer.n_users == rows.n_users == 8


def test_there_may_be_no_other_user() -> None:
    scorer, users, _ = with_unknown_users(factors(0), np.array([-1, -1]), seen_by(0), POPULAR)
    assert scorer.scores(users).tolist() == [[4, 5, 6], [4, 5, 6]]
