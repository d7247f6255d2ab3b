"""What every scorer must hold to, whatever model is behind it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from ratiorec.artifact import SCORERS
from ratiorec.recommend import by_cosine
from ratiorec.scorers import InnerProduct, Scorer, StoredScorer, WithStranger

N_USERS, N_ITEMS = 37, 101


def factors(n: int, dimension: int = 12) -> np.ndarray:
    return np.random.default_rng(n).standard_normal((n, dimension), dtype=np.float32)


SCORER_MAKERS: dict[str, Callable[[], Scorer]] = {
    "inner product": lambda: InnerProduct(factors(N_USERS), factors(N_ITEMS)),
    "cosine": lambda: by_cosine(factors(N_ITEMS)),
    "with a stranger": lambda: WithStranger(
        InnerProduct(factors(N_USERS), factors(N_ITEMS)), np.arange(N_ITEMS, dtype=np.float32)
    ),
}
STORED_MAKERS: dict[str, Callable[[], StoredScorer]] = {
    InnerProduct.kind: lambda: InnerProduct(factors(N_USERS), factors(N_ITEMS)),
}


@pytest.fixture(params=list(SCORER_MAKERS))
def scorer(request: pytest.FixtureRequest) -> Scorer:
    return SCORER_MAKERS[request.param]()


def test_there_is_one_finite_score_for_each_item(scorer: Scorer) -> None:
    scores = scorer.scores(np.arange(5))
    assert scores.shape == (5, scorer.n_items)
    assert scores.dtype == np.float32
    assert np.isfinite(scores).all()


def test_a_row_has_the_same_bits_in_any_block(scorer: Scorer) -> None:
    users = np.arange(scorer.n_users)
    together = scorer.scores(users)
    for size in (1, 3, 8, 20):
        blocks = [scorer.scores(users[a : a + size]) for a in range(0, len(users), size)]
        assert np.concatenate(blocks).tobytes() == together.tobytes()


def test_the_rows_follow_the_users_asked_about(scorer: Scorer) -> None:
    together = scorer.scores(np.arange(scorer.n_users))
    users = np.array([4, 0, scorer.n_users - 1, 4])
    assert scorer.scores(users).tobytes() == together[users].tobytes()


def test_no_users_give_no_rows(scorer: Scorer) -> None:
    assert scorer.scores(np.zeros(0, np.int64)).shape == (0, scorer.n_items)


def test_the_buffer_is_used(scorer: Scorer) -> None:
    buffer = np.full((6, scorer.n_items), np.nan, np.float32)
    scores = scorer.scores(np.arange(6), out=buffer)
    assert np.shares_memory(scores, buffer)
    assert buffer.tobytes() == scorer.scores(np.arange(6)).tobytes()


def test_every_kind_a_model_may_hold_is_under_this_contract() -> None:
    assert set(STORED_MAKERS) == set(SCORERS)


@pytest.mark.parametrize("kind", list(SCORERS))
def test_a_scorer_is_the_same_again_from_its_arrays(kind: str) -> None:
    stored = STORED_MAKERS[kind]()
    again = SCORERS[kind].from_arrays(stored.arrays())
    users = np.arange(stored.n_users)
    assert stored.kind == kind
    assert again.scores(users).tobytes() == stored.scores(users).tobytes()
