from __future__ import annotations

import dataclasses
from collections import Counter
from itertools import islice

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ratiorec.batches import pairs as pair_batches
from ratiorec.batches.pairs import PairBatch, PairEpochs
from ratiorec.data.interactions import Interactions
from ratiorec.errors import ConfigError, DataError
from ratiorec.settings import AnySampler, PairBatches, PopularitySampler, UniformSampler
from support.small_data import interactions, random_interactions

CPU = torch.device("cpu")
SAMPLERS = (UniformSampler(), PopularitySampler(), UniformSampler(3))
seeds = st.integers(0, 2**32)


def draw(seed: int) -> tuple[Interactions, PairEpochs, np.random.Generator]:
    """Pairs of users with few items, and of one with every item."""
    rng = np.random.default_rng(seed)
    n_items = int(rng.integers(3, 12))
    few = rng.integers(0, 9, int(rng.integers(1, 60)))
    users = np.concatenate([np.full(n_items, 9), few])
    items = np.concatenate([np.arange(n_items), rng.integers(0, n_items - 1, len(few))])
    data = interactions(users, items, n_users=11, n_items=n_items)
    sampler = SAMPLERS[int(rng.integers(3))]
    return data, PairBatches(int(rng.integers(1, 70)), sampler)(data, device=CPU), rng


def pairs_of(batch: PairBatch) -> list[tuple[int, int]]:
    return list(zip(batch.users.tolist(), batch.items.tolist(), strict=True))


def are_equal(a: PairBatch, b: PairBatch) -> bool:
    names = [field.name for field in dataclasses.fields(PairBatch)]
    return all(torch.equal(getattr(a, name), getattr(b, name)) for name in names)


def some_data() -> Interactions:
    """Pairs with weights."""
    data = random_interactions(np.random.default_rng(0), n_users=30, n_items=20, n_pairs=90)
    weights = np.arange(1, data.n_pairs + 1, dtype=np.float32)
    return dataclasses.replace(data, weights=weights)


@given(seed=seeds)
def test_an_epoch_shows_every_pair_and_none_more_than_twice(seed: int) -> None:
    data, epochs, rng = draw(seed)
    shown = Counter(pair for batch in epochs(rng) for pair in pairs_of(batch))
    # user 9 has every item
    expected = {(u, int(i)) for u in range(9) for i in data.positives(u)}
    assert shown.keys() == expected
    assert max(shown.values()) <= 2


@given(seed=seeds)
def test_no_batch_has_a_pair_twice(seed: int) -> None:
    _, epochs, rng = draw(seed)
    for batch in epochs(rng):
        assert len(set(pairs_of(batch))) == len(batch.users)


@given(seed=seeds)
def test_pairs_are_repeated_only_to_make_batches_even(seed: int) -> None:
    _, epochs, rng = draw(seed)
    batches = list(epochs(rng))
    shown = [pair for batch in batches for pair in pairs_of(batch)]
    n_repeated = len(shown) - len(set(shown))
    assert n_repeated < len(batches)
    # the epoch ends with its own beginning
    assert shown[len(set(shown)) :] == shown[:n_repeated]


@given(seed=seeds)
def test_all_batches_have_the_same_shape_and_are_as_few_as_possible(seed: int) -> None:
    _, epochs, rng = draw(seed)
    batches = list(epochs(rng))
    size = epochs.batch_size
    assert {tuple(batch.users.shape) for batch in batches} == {(size,)}
    assert {tuple(batch.items.shape) for batch in batches} == {(size,)}
    assert {tuple(batch.negatives.shape) for batch in batches} == {(size, epochs.draw.n_drawn)}
    assert len(batches) == epochs.n_steps
    assert size <= epochs.largest_batch
    assert (len(batches) - 1) * epochs.largest_batch < len(epochs.users)


@given(seed=seeds)
def test_unlabelled_items_are_not_positives_of_their_user(seed: int) -> None:
    data, epochs, rng = draw(seed)
    for batch in epochs(rng):
        for user, items in zip(batch.users.tolist(), batch.negatives.tolist(), strict=True):
            assert not set(items) & set(data.positives(user).tolist())


def test_an_order_is_no_likelier_than_another() -> None:
    # three pairs in batches of one: six orders
    data = interactions([0, 1, 2], [0, 1, 2], n_users=3, n_items=4)
    epochs = PairBatches(1)(data, device=CPU)
    rng = np.random.default_rng(0)
    orders = Counter(tuple(int(batch.users) for batch in epochs(rng)) for _ in range(1200))
    assert len(orders) == 6
    assert max(abs(n - 200) for n in orders.values()) < 4 * np.sqrt(200 * 5 / 6)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_the_same_seed_deals_the_same_batches(sampler: AnySampler) -> None:
    epochs = PairBatches(7, sampler)(some_data(), device=CPU)
    first, second = (list(epochs(np.random.default_rng(1))) for _ in range(2))
    assert all(are_equal(a, b) for a, b in zip(first, second, strict=True))


def test_another_seed_deals_others() -> None:
    epochs = PairBatches(7)(some_data(), device=CPU)
    first, second = (next(epochs(np.random.default_rng(seed))) for seed in (1, 2))
    assert pairs_of(first) != pairs_of(second)
    assert not torch.equal(first.negatives, second.negatives)


def test_epochs_differ_from_one_another() -> None:
    epochs = PairBatches(7)(some_data(), device=CPU)
    rng = np.random.default_rng(1)
    first, second = next(epochs(rng)), next(epochs(rng))
    assert pairs_of(first) != pairs_of(second)
    assert not torch.equal(first.negatives, second.negatives)


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """An epoch of a few pairs is drawn in several goes."""
    monkeypatch.setattr(pair_batches, "DRAWN_AT_A_TIME", 45)


@pytest.mark.usefixtures("small_chunks")
def test_an_epoch_that_is_dealt_again_goes_on_as_it_did() -> None:
    epochs = PairBatches(7, UniformSampler(3))(some_data(), device=CPU)
    rng = np.random.default_rng(1)
    at_start = rng.bit_generator.state
    whole = list(epochs(rng))
    rng.bit_generator.state = at_start
    rest = list(islice(epochs(rng), 4, None))
    assert all(are_equal(a, b) for a, b in zip(whole[4:], rest, strict=True))


@pytest.mark.usefixtures("small_chunks")
def test_all_that_an_epoch_takes_of_the_generator_is_taken_before_its_first_batch() -> None:
    epochs = PairBatches(7)(some_data(), device=CPU)
    rng = np.random.default_rng(1)
    dealt = epochs(rng)
    next(dealt)
    after_first = rng.bit_generator.state
    list(dealt)
    assert rng.bit_generator.state == after_first


def test_the_generator_of_the_process_is_left_alone() -> None:
    before = torch.get_rng_state()
    list(PairBatches(7)(some_data(), device=CPU)(np.random.default_rng(1)))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.usefixtures("small_chunks")
def test_items_are_drawn_for_several_batches_at_once_but_not_for_all(sampler: AnySampler) -> None:
    epochs = PairBatches(7, sampler)(some_data(), device=CPU)
    asked_for: list[int] = []

    class Watched:
        n_drawn = epochs.draw.n_drawn

        def __call__(self, users: torch.Tensor, *, rng: torch.Generator) -> torch.Tensor:
            asked_for.append(len(users))
            return epochs.draw(users, rng=rng)

    list(dataclasses.replace(epochs, draw=Watched())(np.random.default_rng(1)))
    n_together = 45 // (7 * epochs.draw.n_drawn)
    assert epochs.batch_size == 7
    assert set(asked_for[:-1]) == {7 * n_together}
    assert sum(asked_for) == 7 * epochs.n_steps


def test_a_batch_larger_than_what_is_drawn_at_a_time_is_drawn_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pair_batches, "DRAWN_AT_A_TIME", 3)
    epochs = PairBatches(7)(some_data(), device=CPU)
    assert {len(batch.users) for batch in epochs(np.random.default_rng(1))} == {epochs.batch_size}


def test_the_penalty_sees_positives_and_unlabelled_items_apart() -> None:
    batch = next(
        PairBatches(5, UniformSampler(3))(some_data(), device=CPU)(np.random.default_rng(1))
    )
    positives, unlabelled = batch.item_groups
    assert torch.equal(positives.items, batch.items)
    assert torch.equal(unlabelled.items, batch.negatives)
    assert positives.mask is unlabelled.mask is None


def test_a_batch_moves_to_a_device_whole() -> None:
    batch = next(PairBatches(5)(some_data(), device=CPU)(np.random.default_rng(1)))
    moved = batch.to(torch.device("meta"))
    for field in dataclasses.fields(PairBatch):
        assert getattr(moved, field.name).device.type == "meta"
        assert getattr(moved, field.name).shape == getattr(batch, field.name).shape


def test_indices_are_of_the_kind_that_tables_are_indexed_with() -> None:
    batch = next(PairBatches(5)(some_data(), device=CPU)(np.random.default_rng(1)))
    kinds = {getattr(batch, field.name).dtype for field in dataclasses.fields(PairBatch)[:3]}
    assert kinds == {torch.int64}


def test_users_who_all_have_everything_are_refused() -> None:
    data = interactions([0, 0, 1, 1], [0, 1, 0, 1], n_users=3, n_items=2)
    with pytest.raises(DataError, match="4 pairs, all of users who have every item"):
        PairBatches()(data, device=CPU)


@pytest.mark.parametrize("n_pairs", [0, -1])
def test_a_batch_without_pairs_is_refused(n_pairs: int) -> None:
    with pytest.raises(ConfigError, match=r"batches\.n_pairs"):
        PairBatches(n_pairs)


def test_equal_users_are_dealt_equally_often_and_their_pairs_too() -> None:
    # user 0 has one item, user 1 three, user 2 every item and user 3 none
    data = interactions([0, 1, 1, 1, 2, 2, 2, 2], [3, 0, 1, 2, 0, 1, 2, 3], n_users=4, n_items=4)
    epochs = PairBatches(4, pair_order="user-balanced")(data, device=CPU)
    rng = np.random.default_rng(0)
    shown = Counter(pair for _ in range(2000) for batch in epochs(rng) for pair in pairs_of(batch))
    n_shown = 2000 * 4
    assert sum(shown.values()) == n_shown
    expected = {(0, 3): 1 / 2, (1, 0): 1 / 6, (1, 1): 1 / 6, (1, 2): 1 / 6}
    assert shown.keys() == expected.keys()
    for pair, share in expected.items():
        assert shown[pair] / n_shown == pytest.approx(share, abs=0.02)


def test_equal_users_are_dealt_in_batches_of_one_size_that_follow_from_the_seed() -> None:
    epochs = PairBatches(16, pair_order="user-balanced")(some_data(), device=CPU)
    first, second, other = (list(epochs(np.random.default_rng(seed))) for seed in (1, 1, 2))
    assert {len(batch.users) for batch in first} == {epochs.batch_size}
    assert len(first) == epochs.n_steps
    assert all(are_equal(a, b) for a, b in zip(first, second, strict=True))
    assert not all(are_equal(a, b) for a, b in zip(first, other, strict=True))
    for batch in first:
        assert not (batch.negatives == batch.items.unsqueeze(1)).any()


def test_few_pairs_still_make_as_many_steps_as_asked_for() -> None:
    data = some_data()
    epochs = PairBatches(1000, min_steps_per_epoch=7)(data, device=CPU)
    assert epochs.n_steps == 7
    assert PairBatches(8, min_steps_per_epoch=7)(data, device=CPU).batch_size <= 8
    with pytest.raises(ConfigError, match=r"batches\.min_steps_per_epoch"):
        PairBatches(min_steps_per_epoch=0)
