"""What every scorer must hold to, whatever model is behind it."""

from __future__ import annotations

import os
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ratiorec.errors import ModelError
from ratiorec.scorers import SCORERS, Blend, Scorer, StoredScorer, WithMoreUsers, by_cosine
from ratiorec.scorers.popularity import PopularityScorer
from ratiorec.scorers.scorer import Narrowable
from ratiorec.scorers.topk import Exact
from support.small_scorers import MAKERS, random_floats, random_rows

N_USERS, N_ITEMS = 37, 101
HISTORIES = random_rows(N_USERS, N_ITEMS)


def stored(kind: str) -> StoredScorer:
    return MAKERS[kind](HISTORIES, N_ITEMS)


SCORER_MAKERS: dict[str, Callable[[], Scorer]] = {
    "cosine": lambda: by_cosine(random_floats(N_ITEMS, 12)),
    "with a fallback user": lambda: WithMoreUsers(
        stored("inner_product"), PopularityScorer(np.arange(N_ITEMS, dtype=np.float32), 1)
    ),
    "blend of vectors": lambda: Blend(
        (stored("inner_product"), stored("item_factors")), np.array([0.5, 0.5], np.float32)
    ),
    "similarity by weights": lambda: stored("item_weights").similarity(),
    "similarity by neighbours": lambda: stored("neighbours").similarity(),
} | {kind: lambda kind=kind: stored(kind) for kind in MAKERS}


@pytest.fixture(params=list(SCORER_MAKERS))
def scorer(request: pytest.FixtureRequest) -> Scorer:
    return SCORER_MAKERS[request.param]()


@pytest.fixture(params=list(SCORERS))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


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


def test_a_few_items_have_the_bits_that_they_have_among_all(scorer: Scorer) -> None:
    together, rng = scorer.scores(np.arange(scorer.n_users)), np.random.default_rng(0)
    for n in (0, 1, 7, 65, scorer.n_items):
        items = np.sort(rng.choice(scorer.n_items, n, replace=False))
        few = scorer.for_items(items) if isinstance(scorer, Narrowable) else None
        if few is None:
            continue
        assert (few.n_users, few.n_items) == (scorer.n_users, n)
        scores = few.scores(np.arange(scorer.n_users))
        assert scores.tobytes() == np.ascontiguousarray(together[:, items]).tobytes()


def test_scorers_of_vectors_and_weights_score_a_few_items_alone() -> None:
    makers = ("inner_product", "item_factors", "autoencoder", "item_weights", "popularity")
    for name in (*makers, "with a fallback user", "blend of vectors"):
        scorer = SCORER_MAKERS[name]()
        assert isinstance(scorer, Narrowable)
        assert scorer.for_items(np.arange(3)) is not None


def test_the_rows_follow_the_users_asked_about(scorer: Scorer) -> None:
    together = scorer.scores(np.arange(scorer.n_users))
    users = np.array([4, 0, scorer.n_users - 1, 4])
    assert scorer.scores(users).tobytes() == together[users].tobytes()


def test_several_threads_may_score_at_once(scorer: Scorer) -> None:
    users = np.tile(np.arange(scorer.n_users), 5)
    expected = Exact(7, memory_mb=0.05, n_threads=1)(scorer, users)
    found = Exact(7, memory_mb=0.05, n_threads=4)(scorer, users)
    assert found.items.tobytes() == expected.items.tobytes()
    assert found.scores.tobytes() == expected.scores.tobytes()


def test_scores_do_not_depend_on_the_threads_of_a_library() -> None:
    script = """
import hashlib, numpy as np
from support.small_scorers import MAKERS, autoencoder, random_rows
histories = random_rows(300, 500)
models = [make(histories, 500) for make in MAKERS.values()]
models.append(autoencoder(histories, 500, n_hidden=600, n_latent=200))
scores = [model.scores(np.arange(300)) for model in models]
print(hashlib.sha256(np.concatenate(scores)).hexdigest())
"""
    digests = {
        subprocess.run(
            [sys.executable, "-c", script],
            env=os.environ
            | {"OPENBLAS_NUM_THREADS": n, "OMP_NUM_THREADS": n}
            | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for n in ("1", "2", "5")
    }
    assert len(digests) == 1


def test_no_users_give_no_rows(scorer: Scorer) -> None:
    assert scorer.scores(np.zeros(0, np.int64)).shape == (0, scorer.n_items)


def test_the_buffer_is_used(scorer: Scorer) -> None:
    buffer = np.full((6, scorer.n_items), np.nan, np.float32)
    scores = scorer.scores(np.arange(6), out=buffer)
    assert np.shares_memory(scores, buffer)
    assert buffer.tobytes() == scorer.scores(np.arange(6)).tobytes()


def test_a_buffer_may_be_part_of_a_wider_one(scorer: Scorer) -> None:
    wide = np.full((6, scorer.n_items + 9), np.nan, np.float32)
    scorer.scores(np.arange(6), out=wide[:, 4:-5])
    assert wide[:, 4:-5].tobytes() == scorer.scores(np.arange(6)).tobytes()
    assert np.isnan(wide[:, :4]).all()
    assert np.isnan(wide[:, -5:]).all()


def test_with_a_buffer_no_other_matrix_of_scores_is_made(kind: str) -> None:
    n_users, n_items = 4000, 1200
    scorer = MAKERS[kind](random_rows(n_users, n_items), n_items)
    users, buffer = np.arange(n_users), np.empty((n_users, n_items), np.float32)
    scorer.scores(users[:8])  # what is made once is not counted
    fallback = WithMoreUsers(scorer, PopularityScorer(np.zeros(n_items, np.float32), 1))
    for asked in (scorer, fallback):
        tracemalloc.start()
        asked.scores(users, out=buffer)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < buffer.nbytes / 4


def test_every_kind_a_model_may_hold_is_under_this_contract() -> None:
    assert set(MAKERS) == set(SCORERS)
    assert all(SCORERS[kind].kind == kind for kind in SCORERS)


def test_a_scorer_is_the_same_again_from_its_arrays(kind: str) -> None:
    before = stored(kind)
    again = SCORERS[kind].from_arrays(before.arrays(), HISTORIES)
    users = np.arange(N_USERS)
    assert type(again) is type(before)
    assert again.scores(users).tobytes() == before.scores(users).tobytes()


@pytest.mark.parametrize("kind", sorted(SCORERS.keys() - {"popularity"}))
def test_items_are_scored_against_items(kind: str) -> None:
    similarity = stored(kind).similarity()
    assert similarity.n_users == similarity.n_items == N_ITEMS
    assert np.isfinite(similarity.scores(np.arange(N_ITEMS))).all()


MALFORMED: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "another type": lambda array: array.astype(np.float16),
    "one axis more": lambda array: array[None],
    "no axis": lambda array: array.ravel()[0].reshape(()),
    "not a number": lambda array: np.full_like(array, np.nan),
    "infinite": lambda array: np.full_like(array, -np.inf),
}


@pytest.mark.parametrize("fault", list(MALFORMED))
def test_malformed_arrays_are_refused(kind: str, fault: str) -> None:
    arrays = stored(kind).arrays()
    for name, array in arrays.items():
        if "axis" in fault or "type" in fault or array.dtype.kind == "f":
            with pytest.raises(ModelError):
                SCORERS[kind].from_arrays(arrays | {name: MALFORMED[fault](array)}, HISTORIES)


def test_a_missing_array_is_missed_by_name(kind: str) -> None:
    arrays = stored(kind).arrays()
    for name in arrays:
        with pytest.raises(KeyError, match=name):
            SCORERS[kind].from_arrays(
                {other: array for other, array in arrays.items() if other != name}, HISTORIES
            )
