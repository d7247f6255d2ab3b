from __future__ import annotations

import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratiorec.errors import ModelError
from ratiorec.scorers import InnerProduct, by_cosine


def random_factors(n_users: int, n_items: int, dimension: int) -> InnerProduct:
    rng = np.random.default_rng([n_users, n_items, dimension])
    return InnerProduct(
        rng.standard_normal((n_users, dimension), dtype=np.float32),
        rng.standard_normal((n_items, dimension), dtype=np.float32),
    )


@given(st.integers(1, 30), st.integers(1, 200), st.sampled_from([1, 2, 7, 16, 64, 65, 513, 1100]))
def test_scores_are_inner_products(n_users: int, n_items: int, dimension: int) -> None:
    scorer = random_factors(n_users, n_items, dimension)
    expected = scorer.users.astype(np.float64) @ scorer.items.astype(np.float64).T
    scores = scorer.scores(np.arange(n_users))
    np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-5 * dimension)


@pytest.mark.parametrize("dimension", [1, 3, 8, 10, 16, 17, 64, 65, 100, 128, 300, 512, 513, 2000])
@pytest.mark.parametrize("n_items", [1, 2, 15, 63, 64, 65, 129, 1003])
def test_the_row_of_a_user_has_the_same_bits_in_blocks_of_any_size(
    n_items: int, dimension: int
) -> None:
    scorer = random_factors(120, n_items, dimension)
    together = scorer.scores(np.arange(120)).tobytes()
    for size in (1, 2, 3, 5, 7, 8, 9, 12, 16, 31, 48, 64, 65, 100):
        blocks = [scorer.scores(np.arange(120)[a : a + size]) for a in range(0, 120, size)]
        assert np.concatenate(blocks).tobytes() == together, size


def test_the_row_of_a_user_has_the_same_bits_beside_any_others() -> None:
    scorer = random_factors(40, 300, 64)
    rng = np.random.default_rng(0)
    alone = scorer.scores(np.array([17]))
    for _ in range(20):
        users = rng.permutation(np.r_[17, rng.integers(40, size=rng.integers(30))])
        row = int(np.flatnonzero(users == 17)[0])
        assert scorer.scores(users)[row].tobytes() == alone.tobytes()


def test_equal_items_score_exactly_equally_wherever_they_stand() -> None:
    rng = np.random.default_rng(0)
    items = np.tile(rng.standard_normal(64, dtype=np.float32), (333, 1))
    scorer = InnerProduct(rng.standard_normal((21, 64), dtype=np.float32), items)
    scores = scorer.scores(np.arange(21))
    assert (scores == scores[:, :1]).all()


def test_scores_do_not_depend_on_the_number_of_threads() -> None:
    script = """
import hashlib, numpy as np
from ratiorec.scorers import InnerProduct
rng = np.random.default_rng(0)
digest = hashlib.sha256()
for dimension in (10, 64, 300, 500, 513, 1024):
    for n_items in (2, 3, 5, 15, 33, 129, 2003):
        users = rng.standard_normal((599, dimension), dtype=np.float32)
        items = rng.standard_normal((n_items, dimension), dtype=np.float32)
        digest.update(InnerProduct(users, items).scores(np.arange(599)).tobytes())
print(digest.hexdigest())
"""
    digests = {
        subprocess.run(
            [sys.executable, "-c", script],
            env=os.environ | {"OPENBLAS_NUM_THREADS": n, "OMP_NUM_THREADS": n},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for n in ("1", "2", "5")
    }
    assert len(digests) == 1
    assert len(digests.pop().strip()) == hashlib.sha256().digest_size * 2


def test_scores_are_written_into_the_buffer_given() -> None:
    scorer = random_factors(9, 70, 4)
    buffer = np.full((20, 70), np.nan, np.float32)
    scores = scorer.scores(np.arange(9), out=buffer[:9])
    assert np.shares_memory(scores, buffer)
    assert buffer[:9].tobytes() == scorer.scores(np.arange(9)).tobytes()
    assert np.isnan(buffer[9:]).all()


def test_a_buffer_with_a_stride_of_its_own_is_filled_alike() -> None:
    scorer = random_factors(16, 128, 64)
    buffer = np.zeros((16, 300), np.float32)
    scorer.scores(np.arange(16), out=buffer[:, 7:135])
    assert buffer[:, 7:135].tobytes() == scorer.scores(np.arange(16)).tobytes()
    assert not buffer[:, 135:].any()
    assert not buffer[:, :7].any()


@pytest.mark.parametrize("value", [np.nan, np.inf, 3e38])
@pytest.mark.parametrize("side", ["users", "items"])
def test_factors_whose_scores_may_not_be_finite_are_refused(side: str, value: float) -> None:
    factors = {"users": np.ones((3, 2), np.float32), "items": np.ones((4, 2), np.float32)}
    factors[side][1, 1] = value
    with pytest.raises(ModelError, match="not finite"):
        InnerProduct(**factors)


@pytest.mark.parametrize(
    ("users", "items", "message"),
    [
        (np.ones((3, 2), np.float32), np.ones((4, 3), np.float32), "do not fit"),
        (np.ones((3, 2)), np.ones((4, 2), np.float32), "float32"),
        (np.ones(3, np.float32), np.ones((4, 2), np.float32), "matrix"),
        (np.ones((3, 0), np.float32), np.ones((4, 0), np.float32), "dimension"),
    ],
)
def test_factors_of_the_wrong_shape_or_type_are_refused(
    users: np.ndarray, items: np.ndarray, message: str
) -> None:
    with pytest.raises(ModelError, match=message):
        InnerProduct(users, items)


def test_items_are_similar_by_the_cosine_of_their_factors() -> None:
    scorer = random_factors(3, 40, 5)
    items = np.arange(40)
    assert (
        scorer.similarity().scores(items).tobytes()
        == by_cosine(scorer.items).scores(items).tobytes()
    )


def test_the_cosine_is_that_of_the_angle_and_0_without_direction() -> None:
    factors = np.array([[1, 0], [5, 5], [0, 0], [-2, 0]], np.float32)
    cosines = by_cosine(factors).scores(np.arange(4))
    half = 1 / np.sqrt(2)
    expected = [[1, half, 0, -1], [half, 1, 0, -half], [0, 0, 0, 0], [-1, -half, 0, 1]]
    np.testing.assert_allclose(cosines, expected, atol=1e-6)
