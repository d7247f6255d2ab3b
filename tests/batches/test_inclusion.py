from __future__ import annotations

from fractions import Fraction
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratiorec.batches.dealing import inclusion_probability


def exactly(degree: int, *, n_users: int, n_drawn: int) -> Fraction:
    """1 − C(n_i⁻, |U_B|) / C(|U|, |U_B|); no way to choose more users than there are is 0."""
    return 1 - Fraction(comb(n_users - degree, n_drawn), comb(n_users, n_drawn))


@given(data=st.data(), n_users=st.integers(1, 60))
def test_the_probability_is_a_ratio_of_two_counts(data: st.DataObject, n_users: int) -> None:
    n_drawn = data.draw(st.integers(1, n_users))
    found = inclusion_probability(np.arange(n_users + 1), n_users=n_users, n_drawn=n_drawn)
    for degree, probability in enumerate(found.tolist()):
        wanted = exactly(degree, n_users=n_users, n_drawn=n_drawn)
        assert probability == pytest.approx(float(wanted), rel=1e-11, abs=1e-13)


@pytest.mark.parametrize(("n_users", "n_drawn"), [(3_000, 7), (3_000, 1_500), (30_000, 2_500)])
def test_the_probability_is_right_for_thousands_of_users(n_users: int, n_drawn: int) -> None:
    degrees = np.array([0, 1, 2, 5, 40, 300, 2_000])
    found = inclusion_probability(degrees, n_users=n_users, n_drawn=n_drawn)
    for degree, probability in zip(degrees.tolist(), found.tolist(), strict=True):
        wanted = exactly(degree, n_users=n_users, n_drawn=n_drawn)
        assert probability == pytest.approx(float(wanted), rel=1e-7)


@pytest.mark.parametrize("degree", [6, 9, 10])
def test_an_item_that_some_drawn_user_must_have_is_certain(degree: int) -> None:
    # 5 of 10 users are drawn, and fewer than 5 of them lack the item
    assert inclusion_probability(np.array([degree]), n_users=10, n_drawn=5)[0] == 1


def test_one_way_to_miss_an_item_is_less_than_certain() -> None:
    # exactly 5 users lack the item: one draw in C(10, 5) misses it
    found = inclusion_probability(np.array([5]), n_users=10, n_drawn=5)[0]
    assert found == pytest.approx(1 - 1 / comb(10, 5), rel=1e-13)


def test_an_item_without_users_never_comes_up() -> None:
    found = inclusion_probability(np.array([0]), n_users=10, n_drawn=5)[0]
    assert found == pytest.approx(0, abs=1e-14)


def test_drawing_everybody_makes_every_item_with_a_user_certain() -> None:
    found = inclusion_probability(np.arange(8), n_users=7, n_drawn=7)
    assert found.tolist() == pytest.approx([0, 1, 1, 1, 1, 1, 1, 1], abs=1e-14)


@pytest.mark.parametrize("n_drawn", [100, 2_500, 100_000])
def test_ten_million_users_keep_the_probability_in_range_and_in_order(n_drawn: int) -> None:
    n_users = 10_000_000
    degrees = np.unique(np.geomspace(1, n_users, 400).astype(np.int64))
    found = inclusion_probability(degrees, n_users=n_users, n_drawn=n_drawn)
    assert ((found > 0) & (found <= 1)).all()
    assert (np.diff(found) >= 0).all()


@pytest.mark.parametrize("n_drawn", [100, 2_500])
def test_ten_million_users_keep_the_probability_of_a_rare_item(n_drawn: int) -> None:
    # an item of one user comes up exactly as often as that user
    found = inclusion_probability(np.array([1]), n_users=10_000_000, n_drawn=n_drawn)[0]
    assert found == pytest.approx(n_drawn / 10_000_000, rel=1e-2)
