from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ratiorec.batches.dealing import inclusion_probability
from ratiorec.batches.static import StaticEpochs
from ratiorec.batches.users import Batch, UserEpochs
from ratiorec.data.interactions import Interactions
from ratiorec.errors import ConfigError
from ratiorec.settings import UserBatches
from support.small_data import interactions, random_interactions

CPU = torch.device("cpu")


def pairs_of(batch: Batch) -> list[tuple[int, int]]:
    users, items = batch.users[batch.rows], batch.candidates[batch.columns]
    return list(zip(users.tolist(), items.tolist(), strict=True))


def weighted(**sizes: int) -> Interactions:
    """Random pairs with weights that differ."""
    data = random_interactions(np.random.default_rng(0), **sizes)
    weights = np.arange(1, data.n_pairs + 1, dtype=np.float32)
    return dataclasses.replace(data, weights=weights)


def draw(seed: int) -> tuple[Interactions, UserEpochs, np.random.Generator]:
    """Pairs in which some users and some items have none."""
    rng = np.random.default_rng(seed)
    n_users, n_items = int(rng.integers(2, 40)), int(rng.integers(2, 30))
    n_pairs = int(rng.integers(1, 80))
    data = interactions(
        rng.integers(0, n_users, n_pairs),
        rng.integers(0, n_items, n_pairs),
        n_users=n_users,
        n_items=n_items,
    )
    return data, UserBatches(int(rng.integers(1, 45)))(data, device=CPU), rng


seeds = st.integers(0, 2**32)


@given(seed=seeds)
def test_an_epoch_shows_every_user_with_a_pair_once_and_nobody_else(seed: int) -> None:
    data, epochs, rng = draw(seed)
    shown = [user for batch in epochs(rng) for user in batch.users.tolist()]
    assert sorted(shown) == np.flatnonzero(data.user_degrees).tolist()


@given(seed=seeds)
def test_batches_are_even_and_never_above_the_setting(seed: int) -> None:
    _, epochs, rng = draw(seed)
    sizes = [len(batch.users) for batch in epochs(rng)]
    assert max(sizes) <= epochs.batch_size
    assert max(sizes) - min(sizes) <= 1
    assert len(sizes) == epochs.n_steps
    # one batch fewer would not do
    assert (len(sizes) - 1) * epochs.batch_size < sum(sizes)


@given(seed=seeds)
def test_a_batch_holds_all_positives_of_its_users(seed: int) -> None:
    data, epochs, rng = draw(seed)
    for batch in epochs(rng):
        expected = [(u, int(i)) for u in batch.users.tolist() for i in data.positives(u)]
        assert pairs_of(batch) == expected
        assert (batch.rows.diff() >= 0).all()


@given(seed=seeds)
def test_the_candidates_are_the_union_of_the_positives(seed: int) -> None:
    _, epochs, rng = draw(seed)
    for batch in epochs(rng):
        assert batch.candidates.tolist() == sorted({item for _, item in pairs_of(batch)})


@given(seed=seeds)
def test_prior_popularity_and_inclusion_belong_to_their_users_and_items(seed: int) -> None:
    data, epochs, rng = draw(seed)
    n_eligible = int((data.user_degrees > 0).sum())
    for batch in epochs(rng):
        users, items = batch.users.numpy(), batch.candidates.numpy()
        np.testing.assert_allclose(batch.prior, data.user_degrees[users] / data.n_items, rtol=1e-6)
        assert batch.popularity.tolist() == data.item_degrees[items].tolist()
        expected = inclusion_probability(
            data.item_degrees[items], n_users=n_eligible, n_drawn=len(users)
        )
        np.testing.assert_allclose(batch.inclusion, expected, rtol=1e-6)
        assert (batch.inclusion > 0).all()


def test_the_prior_is_the_share_of_all_items_that_a_user_has() -> None:
    data = interactions([0, 0, 1], [0, 1, 0], n_users=2, n_items=8)
    (batch,) = UserBatches(2)(data, device=CPU)(np.random.default_rng(0))
    by_user = dict(zip(batch.users.tolist(), batch.prior.tolist(), strict=True))
    assert by_user == {0: 2 / 8, 1: 1 / 8}


def test_users_without_pairs_do_not_count_when_the_chance_of_an_item_is_computed() -> None:
    # users 2 … 9 have nothing, so both others are always drawn
    data = interactions([0, 1], [0, 1], n_users=10, n_items=2)
    (batch,) = UserBatches(2)(data, device=CPU)(np.random.default_rng(0))
    assert batch.inclusion.tolist() == [1, 1]


@pytest.mark.parametrize("batch_size", [5, 8, 19])
def test_items_come_up_as_often_as_their_probability_says(batch_size: int) -> None:
    n_draws = 3000
    rng = np.random.default_rng(batch_size)
    data = random_interactions(rng, n_users=20, n_items=15, n_pairs=60)
    epochs = UserBatches(batch_size)(data, device=CPU)
    counts = np.zeros(data.n_items)
    for _ in range(n_draws):
        batch = next(epochs(rng))  # batches of one epoch depend on each other; first ones do not
        counts[batch.candidates] += 1
    chance = inclusion_probability(data.item_degrees, n_users=20, n_drawn=len(batch.users))
    deviation = np.sqrt(np.maximum(chance * (1 - chance), 1e-9) / n_draws)
    assert (np.abs(counts / n_draws - chance) <= 4 * deviation + 1e-12).all()
    # the bound is tight enough to tell this from drawing users with replacement
    with_replacement = 1 - (1 - data.item_degrees / 20) ** len(batch.users)
    assert (np.abs(with_replacement - chance) / deviation).max() > 6


def tensors_of(batch: Batch) -> list[torch.Tensor]:
    values = [getattr(batch, field.name) for field in dataclasses.fields(Batch)]
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    assert len(tensors) == 8, "all that have an axis, weights of pairs among them"
    return tensors


def test_the_same_seed_deals_the_same_batches() -> None:
    data = weighted(n_users=30, n_items=20, n_pairs=90)
    first, second, third = (
        list(UserBatches(7)(data, device=CPU)(np.random.default_rng(seed))) for seed in (1, 1, 2)
    )
    for a, b in zip(first, second, strict=True):
        for tensor, same in zip(tensors_of(a), tensors_of(b), strict=True):
            assert torch.equal(tensor, same)
    assert any(not torch.equal(a.users, c.users) for a, c in zip(first, third, strict=True))


def test_epochs_differ_from_one_another() -> None:
    data = random_interactions(np.random.default_rng(0), n_users=30, n_items=20, n_pairs=90)
    rng = np.random.default_rng(1)
    epochs = UserBatches(7)(data, device=CPU)
    assert next(epochs(rng)).users.tolist() != next(epochs(rng)).users.tolist()


def test_a_batch_moves_to_a_device_whole() -> None:
    data = weighted(n_users=5, n_items=5, n_pairs=9)
    batch = next(UserBatches(5)(data, device=CPU)(np.random.default_rng(1)))
    moved = batch.to(torch.device("meta"))
    for tensor, there in zip(tensors_of(batch), tensors_of(moved), strict=True):
        assert there.device.type == "meta"
        assert there.shape == tensor.shape


@pytest.mark.parametrize("n_users", [0, -1])
def test_a_batch_without_users_is_refused(n_users: int) -> None:
    with pytest.raises(ConfigError, match=r"batches\.n_users"):
        UserBatches(n_users)


def test_few_users_still_make_as_many_steps_as_asked_for() -> None:
    data = random_interactions(np.random.default_rng(0), n_users=23, n_items=9, n_pairs=60)
    assert UserBatches(1000, min_steps_per_epoch=5)(data, device=CPU).n_steps == 5
    assert UserBatches(2, min_steps_per_epoch=5)(data, device=CPU).n_steps == 12
    assert UserBatches(1000, min_steps_per_epoch=50)(data, device=CPU).n_steps == 23
    with pytest.raises(ConfigError, match=r"batches\.min_steps_per_epoch"):
        UserBatches(min_steps_per_epoch=0)


def test_every_positive_has_the_weight_of_its_pair() -> None:
    data = weighted(n_users=30, n_items=20, n_pairs=90)
    assert data.relative_weights is not None
    pairs = zip(data.pair_users.tolist(), data.indices.tolist(), strict=True)
    expected = dict(zip(pairs, data.relative_weights.tolist(), strict=True))
    for epochs in (UserEpochs(data, 7), StaticEpochs(UserEpochs(data, 7), CPU)):
        for dealt in epochs(np.random.default_rng(1)):  # type: ignore[operator]
            batch = epochs.complete(dealt)  # type: ignore[attr-defined]
            assert batch.pair_weights is not None
            there = batch.rows < len(batch.users)
            known = zip(
                batch.users[batch.rows[there]].tolist(),
                batch.candidates[batch.columns[there]].tolist(),
                strict=True,
            )
            found = dict(zip(known, batch.pair_weights[there].tolist(), strict=True))
            assert found == {pair: expected[pair] for pair in found}
