from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ratiorec_lab.bench.random_data import random_model, random_pairs


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 400))
def test_every_user_and_every_item_has_a_pair(n_users: int, n_items: int, n_pairs: int) -> None:
    data = random_pairs(n_users, n_items, n_pairs)
    assert (data.n_users, data.n_items) == (n_users, n_items)
    assert data.user_degrees.min() >= 1
    assert data.item_degrees.min() >= 1


def test_there_are_about_as_many_pairs_as_asked_for() -> None:
    assert abs(random_pairs(300, 200, 6000).n_pairs - 6000) <= 300


def test_a_model_has_factors_of_its_size() -> None:
    model = random_model(5, 7, 3)
    assert model.users.shape == (5, 3)
    assert model.items.shape == (7, 3)
    assert len(np.unique(model.users)) == 15
