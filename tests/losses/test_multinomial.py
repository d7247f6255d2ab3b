from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

import reference.rivals as slow
from ratiorec.batches.users import Batch
from ratiorec.kernels import softmax
from ratiorec.kernels.blocks import deterministic_threads
from ratiorec.kernels.softmax import Tile
from ratiorec.losses.multinomial import Multinomial
from ratiorec.settings import UserBatches
from ratiorec.shapes import Embeddings
from reference.comparison import (
    as_sample,
    assert_equal_to_reference,
    random_embeddings,
    value_and_gradient,
)
from reference.dual import Dual
from support.small_data import handmade_batch, random_batch, random_interactions

CPU = torch.device("cpu")
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
        Multinomial().per_user(shifted, batch),
        Multinomial().per_user(Embeddings(users, items), batch),
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


def test_each_users_term_has_its_own_gradient() -> None:
    rng = np.random.default_rng(1)
    batch = random_batch(rng, n_users=N_USERS, n_items=N_ITEMS)
    users, items = random_embeddings(rng, n_users=N_USERS, n_items=N_ITEMS, largest_score=3)
    users = users[batch.users].requires_grad_()
    values = Multinomial().per_user(Embeddings(users, items), batch)
    (gradient,) = torch.autograd.grad(values[1], users)
    assert gradient[1].abs().sum() > 0
    assert not gradient[[row for row in range(len(users)) if row != 1]].any()


@pytest.mark.parametrize("tile", [Tile(1, 1), Tile(2, 4), Tile(5, 100)])
def test_blocks_of_any_size_give_the_same(tile: Tile, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    batch = random_batch(rng, n_users=N_USERS, n_items=N_ITEMS)
    embeddings = random_embeddings(rng, n_users=N_USERS, n_items=N_ITEMS, largest_score=3)
    whole = value_and_gradient(Multinomial(), embeddings, batch)
    monkeypatch.setattr(softmax, "ON_CPU", tile)
    for cut, expected in zip(
        value_and_gradient(Multinomial(), embeddings, batch), whole, strict=True
    ):
        np.testing.assert_allclose(cut, expected, rtol=0, atol=1e-13)


def test_the_number_of_threads_changes_no_bit() -> None:
    rng = np.random.default_rng(3)
    data = random_interactions(rng, n_users=300, n_items=2100, n_pairs=2000)
    batch = UserBatches()(data, device=CPU).batch(np.arange(300))
    tables = [rng.normal(size=(n, 67)).astype(np.float32) / 8 for n in (300, 2100)]
    results = []
    for n_threads in (1, 3):
        users, items = (torch.from_numpy(table).requires_grad_() for table in tables)
        before = torch.get_num_threads()
        torch.set_num_threads(n_threads)
        try:
            with deterministic_threads():
                value = Multinomial()(Embeddings(users, items), batch)
                value.backward()
        finally:
            torch.set_num_threads(before)
        results.append((value.detach(), users.grad, items.grad))
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


class LargeStorages(TorchDispatchMode):
    """Notes every piece of memory made inside that holds at least so many bytes."""

    def __init__(self, least: int) -> None:
        super().__init__()
        self.least = least
        self.kept: dict[int, torch.Tensor] = {}  # alive, so that no address is used twice

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        result = function(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor) and result.untyped_storage().nbytes() >= self.least:
            self.kept[result.untyped_storage().data_ptr()] = result
        return result


def test_one_matrix_of_users_and_items_is_made_and_no_more() -> None:
    rng = np.random.default_rng(4)
    data = random_interactions(rng, n_users=50, n_items=200, n_pairs=300)
    batch = UserBatches()(data, device=CPU).batch(np.arange(50))
    users, items = random_embeddings(rng, n_users=50, n_items=200, largest_score=3)
    users, items = users.requires_grad_(), items.requires_grad_()
    with LargeStorages(50 * 200 * 8) as large:
        Multinomial()(Embeddings(users, items), batch).backward()
    assert len(large.kept) == 1
