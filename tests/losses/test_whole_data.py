from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

import reference.rivals as slow
from ratiorec.batches.users import Batch
from ratiorec.errors import ConfigError
from ratiorec.losses.whole_data import WholeData, squared_scores
from ratiorec.settings import UserBatches
from ratiorec.shapes import Embeddings
from reference.comparison import as_sample, assert_equal_to_reference, random_embeddings
from reference.dual import Dual
from support.small_data import handmade_batch, random_batch, random_interactions

N_USERS, N_ITEMS = 6, 9


def loops(embeddings: Embeddings, batch: Batch, unlabelled_weight: float) -> Dual:
    sample = as_sample(batch)
    users = slow.free("user", embeddings.users.tolist())
    return slow.whole_data(
        [users[u] for u in sample.users],
        slow.free("item", embeddings.items.tolist()),
        [[sample.candidates[place] for place in places] for places in sample.positives],
        unlabelled_weight=unlabelled_weight,
    )


@given(
    seed=st.integers(0, 2**32),
    unlabelled_weight=st.floats(0.001, 2),
    largest_score=st.floats(0.1, 10),
)
def test_value_and_gradient_equal_a_loop_over_all_pairs(
    seed: int, unlabelled_weight: float, largest_score: float
) -> None:
    rng = np.random.default_rng(seed)
    batch = random_batch(rng, n_users=N_USERS, n_items=N_ITEMS)
    embeddings = random_embeddings(
        rng, n_users=N_USERS, n_items=N_ITEMS, largest_score=largest_score
    )
    expected = loops(embeddings, batch, unlabelled_weight)
    assert_equal_to_reference(WholeData(unlabelled_weight), expected, embeddings, batch)


@given(seed=st.integers(0, 2**32), largest_score=st.floats(0.1, 10))
def test_the_sum_of_all_squares_needs_no_score(seed: int, largest_score: float) -> None:
    users, items = random_embeddings(
        np.random.default_rng(seed), n_users=7, n_items=11, largest_score=largest_score
    )
    expected = sum(float(user @ item) ** 2 for user in users for item in items)
    assert float(squared_scores(Embeddings(users, items))) == pytest.approx(expected, rel=1e-12)


def test_one_user_by_hand() -> None:
    # scores 1, 2 and 4, of which the first two are positives
    embeddings = Embeddings(
        torch.ones(1, 1, dtype=torch.float64), torch.tensor([[1.0], [2.0], [4.0]]).double()
    )
    batch = handmade_batch(
        [0], [0, 1], [[0, 1]], prior=[2 / 3], popularity=[1, 1], inclusion=[1.0, 1.0]
    )
    expected = (0.9 * 1**2 - 2 * 1) + (0.9 * 2**2 - 2 * 2) + 0.1 * (1**2 + 2**2 + 4**2)
    assert float(WholeData(0.1)(embeddings, batch)) == pytest.approx(expected, rel=1e-14)


def test_with_equal_weights_the_minimum_is_one_at_positives_and_zero_elsewhere() -> None:
    liked = torch.tensor([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]], dtype=torch.float64)
    items = torch.eye(3, dtype=torch.float64)  # so that a user's vector is the row of his scores
    users = liked.clone().requires_grad_()
    rows, columns = liked.nonzero(as_tuple=True)
    batch = handmade_batch(
        [0, 1], [0, 1, 2], [[0, 2], [1, 2]], prior=[1, 1], popularity=[1] * 3, inclusion=[1.0] * 3
    )
    assert torch.equal(batch.rows, rows)
    assert torch.equal(batch.columns, columns)
    (gradient,) = torch.autograd.grad(WholeData(1.0)(Embeddings(users, items), batch), users)
    assert torch.equal(gradient, torch.zeros_like(gradient))


def test_the_order_of_users_changes_nothing() -> None:
    rng = np.random.default_rng(0)
    batches = UserBatches()(
        random_interactions(rng, n_users=N_USERS, n_items=N_ITEMS, n_pairs=20),
        device=torch.device("cpu"),
    )
    users, items = random_embeddings(rng, n_users=N_USERS, n_items=N_ITEMS, largest_score=3)
    values = [
        float(WholeData()(Embeddings(users[order], items), batches.batch(order.numpy())))
        for order in (torch.arange(N_USERS), torch.tensor([3, 1, 5, 0, 4, 2]))
    ]
    assert values[0] == pytest.approx(values[1], rel=1e-13)


def test_single_precision_loses_few_digits() -> None:
    rng = np.random.default_rng(0)
    data = random_interactions(rng, n_users=400, n_items=3000, n_pairs=8000)
    batch = UserBatches()(data, device=torch.device("cpu")).batch(np.arange(400))
    embeddings = random_embeddings(rng, n_users=400, n_items=3000, largest_score=3)
    double = float(WholeData()(embeddings, batch))
    single = float(WholeData()(Embeddings(*(x.float() for x in embeddings)), batch))
    assert single == pytest.approx(double, rel=1e-5)


class LargestTensor(TorchDispatchMode):
    """Notes the size of the largest tensor made inside."""

    size = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        result = function(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor):
            self.size = max(self.size, result.numel())
        return result


def test_no_matrix_of_users_and_items_is_ever_made() -> None:
    rng = np.random.default_rng(0)
    data = random_interactions(rng, n_users=100, n_items=200, n_pairs=300)
    batch = UserBatches()(data, device=torch.device("cpu")).batch(np.arange(100))
    users, items = random_embeddings(rng, n_users=100, n_items=200, largest_score=3)
    users, items = users.requires_grad_(), items.requires_grad_()
    with LargestTensor() as largest:
        WholeData()(Embeddings(users, items), batch).backward()
    assert 0 < largest.size <= 300 * users.shape[1]


@pytest.mark.parametrize("weight", [0.0, -1.0, float("inf"), float("nan")])
def test_a_weight_that_is_not_positive_is_refused(weight: float) -> None:
    with pytest.raises(ConfigError, match=r"where: risk\.unlabelled_weight"):
        WholeData(unlabelled_weight=weight)


def test_what_is_sampled_plays_no_part() -> None:
    rng = np.random.default_rng(0)
    batch = random_batch(rng, n_users=N_USERS, n_items=N_ITEMS)
    embeddings = random_embeddings(rng, n_users=N_USERS, n_items=N_ITEMS, largest_score=3)
    other = dataclasses.replace(
        batch, prior=batch.prior / 2, popularity=batch.popularity * 3, inclusion=batch.inclusion / 4
    )
    rows = Embeddings(embeddings.users[batch.users], embeddings.items)
    assert float(WholeData()(rows, batch)) == float(WholeData()(rows, other))
