from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ratiorec.batches import static as static_batches
from ratiorec.batches.static import StaticEpochs
from ratiorec.data.interactions import Interactions
from ratiorec.settings import UserBatches
from support.small_data import interactions, random_interactions

CPU = torch.device("cpu")
seeds = st.integers(0, 2**32)


def draw(seed: int) -> tuple[Interactions, StaticEpochs, np.random.Generator]:
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
    dealt = UserBatches(int(rng.integers(1, 45)))(data, device=CPU)
    return data, StaticEpochs(dealt, CPU), rng


@given(seed=seeds)
def test_an_epoch_shows_every_user_with_a_pair_and_fills_up_from_its_first(seed: int) -> None:
    data, epochs, rng = draw(seed)
    shown = [user for dealt in epochs(rng) for user in dealt.users.tolist()]
    n_eligible = int((data.user_degrees > 0).sum())
    assert sorted(shown[:n_eligible]) == np.flatnonzero(data.user_degrees).tolist()
    assert shown[n_eligible:] == shown[: len(shown) - n_eligible]
    assert len(shown) == epochs.n_steps * epochs.batch_size


@given(seed=seeds)
def test_an_independent_deal_has_full_batches_of_different_users_on_every_device(seed: int) -> None:
    data, even, rng = draw(seed)
    size = even.dealt.batch_size
    dealt = UserBatches(size, deal="independent")(data, device=CPU)
    static = StaticEpochs(dealt, CPU)
    eligible = np.flatnonzero(data.user_degrees)
    state = rng.bit_generator.state
    listed = [batch.users.numpy() for batch in dealt(rng)]
    rng.bit_generator.state = state
    drawn = [batch.users.numpy() for batch in static(rng)]
    assert len(listed) == dealt.n_steps == -(-len(eligible) // size)
    for users, same in zip(listed, drawn, strict=True):
        assert users.tolist() == same.tolist()
        assert (
            len(users) == len(set(users.tolist())) == min(size, len(eligible)) == static.batch_size
        )
        assert set(users.tolist()) <= set(eligible.tolist())


@given(seed=seeds)
def test_a_completed_batch_says_what_a_listed_one_says(seed: int) -> None:
    data, epochs, rng = draw(seed)
    for dealt in epochs(rng):
        found, listed = epochs.complete(dealt), epochs.dealt.batch(dealt.users.numpy())
        n_users, n_positives = len(listed.users), len(listed.rows)
        assert torch.equal(found.rows[:n_positives], listed.rows)
        assert (found.rows[n_positives:] == n_users).all(), "spare places"
        items = found.candidates[found.columns]
        assert torch.equal(items[:n_positives], listed.candidates[listed.columns])
        assert torch.equal(found.candidates, torch.arange(data.n_items))
        assert torch.equal(found.prior, listed.prior)
        assert torch.equal(found.inclusion[listed.candidates], listed.inclusion)
        assert torch.equal(found.popularity[listed.candidates], listed.popularity)
        came_up = torch.zeros(data.n_items, dtype=torch.bool)
        came_up[listed.candidates] = True
        assert (found.inclusion[~came_up] == 0).all()


def test_all_batches_of_usual_data_have_the_same_number_of_places() -> None:
    data = random_interactions(np.random.default_rng(0), n_users=400, n_items=100, n_pairs=8000)
    epochs = StaticEpochs(UserBatches(60)(data, device=CPU), CPU)
    dealt = [batch for seed in range(5) for batch in epochs(np.random.default_rng(seed))]
    assert len({batch.n_places for batch in dealt}) == 1
    assert len({len(batch.users) for batch in dealt}) == 1


def test_a_batch_that_needs_more_room_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(static_batches, "PLACES_AT_A_TIME", 2)
    monkeypatch.setattr(static_batches, "DEVIATIONS_OF_ROOM", 0)
    data = interactions([0] * 9 + [1, 2, 3], [*range(9), 0, 1, 2], n_users=4, n_items=9)
    epochs = StaticEpochs(UserBatches(1)(data, device=CPU), CPU)
    places = {int(b.users): b.n_places for b in epochs(np.random.default_rng(0))}
    assert places == {0: 10, 1: 4, 2: 4, 3: 4}  # the mean is 3
