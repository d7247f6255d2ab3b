from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import reference.rivals as slow
from ratiorec.batches.users import Batch
from ratiorec.losses.multinomial import Multinomial
from ratiorec.shapes import Embeddings
from reference.comparison import as_sample, assert_equal_to_reference, random_embeddings
from reference.dual import Dual
from support.small_data import handmade_batch, random_batch

N_USERS, N_ITEMS = 6, 9


def loops(embeddings: Embeddings, batch: Batch) -> Dual:
    sample = as_sample(batch)
    users = slow.free("user", embeddings.users.tolist())
    return slow.multinomial(
        [users[u] for u in sample.users],
        slow.free("item", embeddings.items.tolist()),
        [[sample.candidates[place] for place in places] for places in sample.positives],
    )


@given(seed=st.integers(0, 2**32), largest_score=st.floats(0.1, 100))
def test_value_and_gradient_equal_the_plain_loops(seed: int, largest_score: float) -> None:
    rng = np.random.default_rng(seed)
    batch = random_batch(rng, n_users=N_USERS, n_items=N_ITEMS)
    embeddings = random_embeddings(
        rng, n_users=N_USERS, n_items=N_ITEMS, largest_score=largest_score
    )
    assert_equal_to_reference(Multinomial(), loops(embeddings, batch), embeddings, batch)


def test_equal_scores_make_all_items_equally_likely() -> None:
    embeddings = Embeddings(
        torch.zeros(2, 1, dtype=torch.float64), torch.ones(5, 1, dtype=torch.float64)
    )
    batch = handmade_batch(
        [0, 1], [1, 4], [[0, 1], [1]], prior=[1, 1], popularity=[1, 1], inclusion=[1.0, 1.0]
    )
    # two positives of the first user and one of the second, each with a probability of 1/5
    value = float(Multinomial()(embeddings, batch))
    assert value == pytest.approx((2 + 1) * math.log(5) / 2, rel=1e-14)


def test_a_number_added_to_all_scores_of_a_user_changes_nothing() -> None:
    rng = np.random.default_rng(0)
    batch = random_batch(rng, n_users=N_USERS, n_items=N_ITEMS)
    users, items = random_embeddings(rng, n_users=N_USERS, n_items=N_ITEMS, largest_score=3)
    users = users[batch.users]
    shifts = torch.from_numpy(rng.normal(size=(len(users), 1)) * 100)
    ones = torch.ones(N_ITEMS, 1, dtype=torch.float64)
    shifted = Embeddings(torch.cat([users, shifts], 1), torch.cat([items, ones], 1))
    torch.testing.assert_close(
        Multinomial()(shifted, batch), Multinomial()(Embeddings(users, items), batch)
    )


@pytest.mark.parametrize("score", [1e4, -1e4])
def test_scores_beyond_the_range_of_an_exponential_stay_finite(score: float) -> None:
    users = torch.ones(1, 1, requires_grad=True)
    items = torch.tensor([[score], [0.0], [0.0]], requires_grad=True)
    batch = handmade_batch([0], [0], [[0]], prior=[1 / 3], popularity=[1], inclusion=[1.0])
    value = Multinomial()(Embeddings(users, items), batch)
    value.backward()
    # a positive far above the others is certain; far below, it costs the distance
    expected = 0 if score > 0 else 1e4 + math.log(2)
    assert float(value.detach()) == pytest.approx(expected, rel=1e-6)
    assert users.grad is not None
    assert users.grad.isfinite().all()
    assert items.grad is not None
    assert items.grad.isfinite().all()
