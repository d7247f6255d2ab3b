from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ratiorec.batches.pairs import (
    TOTAL_WEIGHT,
    UniformDraw,
    WeightedDraw,
    whole_weights,
)
from ratiorec.data.interactions import Interactions
from ratiorec.errors import ConfigError
from ratiorec.settings import AnySampler, PopularitySampler, UniformSampler
from reference.pairwise import missing
from support.small_data import interactions

CPU = torch.device("cpu")
SAMPLERS = (
    UniformSampler(),
    PopularitySampler(),
    PopularitySampler(0.0),
    PopularitySampler(40.0),
    UniformSampler(3),
)
seeds = st.integers(0, 2**32)


def random_data(seed: int) -> Interactions:
    """Users with nothing, with everything and with anything between."""
    rng = np.random.default_rng(seed)
    n_users, n_items = int(rng.integers(3, 10)), int(rng.integers(2, 12))
    share = rng.permutation([0.0, 1.0, *rng.choice([0.0, 0.3, 0.9, 1.0], size=n_users - 2)])
    users, items = np.nonzero(rng.random((n_users, n_items)) < share[:, np.newaxis])
    return interactions(users, items, n_users=n_users, n_items=n_items)


def lacked_by(data: Interactions, user: int) -> list[int]:
    return missing(set(data.positives(user).tolist()), data.n_items)


def many(user: int, n: int) -> torch.Tensor:
    return torch.full((n,), user)


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@given(seed=seeds)
def test_every_rank_is_another_item_that_the_user_lacks(seed: int) -> None:
    data = random_data(seed)
    draw = UniformDraw.of(data, n_drawn=1, device=CPU)
    for user in range(data.n_users):
        lacked = lacked_by(data, user)
        ranks = torch.arange(len(lacked)).unsqueeze(1)
        assert draw.missing(many(user, len(lacked)), ranks).squeeze(1).tolist() == lacked


@given(seed=seeds)
def test_every_item_that_the_user_lacks_is_as_long_as_its_weight(seed: int) -> None:
    data = random_data(seed)
    weights = np.random.default_rng(seed).integers(1, 4, data.n_items)
    draw = WeightedDraw.of(data, weights, device=CPU)
    for user in range(data.n_users):
        expected = [item for item in lacked_by(data, user) for _ in range(weights[item])]
        assert draw.lengths[user] == len(expected)
        places = torch.arange(len(expected)).unsqueeze(1)
        assert draw.items_at(many(user, len(expected)), places).squeeze(1).tolist() == expected


def test_long_items_begin_and_end_where_their_weights_say() -> None:
    rng = np.random.default_rng(3)
    data = interactions(rng.integers(0, 50, 400), rng.integers(0, 90, 400), n_users=50, n_items=90)
    weights = whole_weights(data, 0.75)
    draw = WeightedDraw.of(data, weights, device=CPU)
    for user in range(data.n_users):
        lacked = lacked_by(data, user)
        bounds = [0, *np.cumsum(weights[lacked]).tolist()]
        ends = torch.tensor([[begin, end - 1] for begin, end in pairwise(bounds)])
        assert draw.lengths[user] == bounds[-1]
        found = draw.items_at(many(user, len(lacked)), ends).tolist()
        assert found == [[item, item] for item in lacked]


@given(seed=seeds, sampler=st.sampled_from(SAMPLERS))
def test_no_draw_is_a_positive_of_its_user(seed: int, sampler: AnySampler) -> None:
    data = random_data(seed)
    eligible = [user for user in range(data.n_users) if lacked_by(data, user)]
    draw = sampler(data, device=CPU)
    users = torch.tensor(eligible).repeat(20)
    found = draw(users, rng=generator(seed))
    for user, items in zip(users.tolist(), found.tolist(), strict=True):
        assert set(items) <= set(lacked_by(data, user))


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_user_who_lacks_a_single_item_always_gets_it(sampler: AnySampler) -> None:
    users, items = [0] * 9 + [1], [0, 1, 2, 3, 4, 5, 6, 8, 9, 4]
    data = interactions(users, items, n_users=2, n_items=10)
    found = sampler(data, device=CPU)(many(0, 50), rng=generator(0))
    assert set(found.flatten().tolist()) == {7}


@pytest.mark.parametrize("sampler", [UniformSampler(), UniformSampler(4)])
def test_all_items_that_the_user_lacks_are_equally_likely(sampler: AnySampler) -> None:
    data = interactions([0, 0, 0, 1], [1, 2, 9, 0], n_users=3, n_items=10)
    draw = sampler(data, device=CPU)
    for user in range(3):
        drawn = draw(many(user, 20_000 // draw.n_drawn), rng=generator(user)).flatten()
        counts = np.bincount(drawn.numpy(), minlength=10)[lacked_by(data, user)]
        assert counts.sum() == 20_000
        assert stats.chisquare(counts).pvalue > 0.01


@pytest.mark.parametrize("exponent", [0.5, 0.75, 1.0])
def test_items_come_up_in_proportion_to_a_power_of_their_popularity(exponent: float) -> None:
    # item i has i users besides user 0; user 0 has items 3 and 7
    pairs = [(user, item) for item in range(10) for user in range(1, item + 1)] + [(0, 3), (0, 7)]
    data = interactions(*zip(*pairs, strict=True), n_users=10, n_items=10)
    lacked = [item for item in lacked_by(data, 0) if item]
    drawn = PopularitySampler(exponent)(data, device=CPU)(many(0, 20_000), rng=generator(1))
    counts = np.bincount(drawn.flatten().numpy(), minlength=10)
    assert counts[0] == 0, "nobody has item 0"
    weights = np.array([item**exponent for item in lacked])
    assert stats.chisquare(counts[lacked], 20_000 * weights / weights.sum()).pvalue > 0.01
    # the draws are many enough to tell one exponent from the next
    other = np.array([item ** (exponent + 0.25) for item in lacked])
    assert stats.chisquare(counts[lacked], 20_000 * other / other.sum()).pvalue < 1e-6


def test_whole_weights_are_powers_of_the_popularity() -> None:
    users, items = [0, 1, 2, 3, 0, 1, 0], [0, 0, 0, 0, 1, 1, 2]
    data = interactions(users, items, n_users=4, n_items=4)
    weights = whole_weights(data, 0.5)
    parts = np.array([math.sqrt(4), math.sqrt(2), math.sqrt(1), 0])
    np.testing.assert_allclose(weights, parts / parts.sum() * TOTAL_WEIGHT, rtol=1e-10, atol=1)
    assert weights[3] == 1
    assert weights.sum() <= TOTAL_WEIGHT


def test_somebody_who_has_every_item_of_anybody_gets_one_of_the_others() -> None:
    data = interactions([0, 0, 1], [0, 1, 1], n_users=2, n_items=5)
    drawn = PopularitySampler()(data, device=CPU)(many(0, 6_000), rng=generator(0)).flatten()
    counts = np.bincount(drawn.numpy(), minlength=5)
    assert counts[:2].tolist() == [0, 0]
    assert stats.chisquare(counts[2:]).pvalue > 0.01


def test_an_exponent_beyond_any_measure_leaves_the_most_popular_item() -> None:
    data = interactions([0, 1, 1, 2, 3], [2, 2, 0, 2, 1], n_users=4, n_items=4)
    drawn = PopularitySampler(5_000.0)(data, device=CPU)(many(3, 100), rng=generator(0))
    assert set(drawn.flatten().tolist()) == {2}


def test_a_hundred_million_items_are_not_too_many() -> None:
    n_items = 10**8
    # the pairs of two users, the second of whom has the last item
    draw = UniformDraw(
        n_items,
        1,
        starts=torch.tensor([0, 2]),
        n_missing=torch.tensor([n_items - 2, n_items - 1]),
        keys=torch.tensor([0, 5 - 1, n_items + n_items - 1]),
    )
    users = torch.tensor([0, 0, 0, 0, 1, 1])
    ranks = torch.tensor([[0], [3], [4], [n_items - 3], [0], [n_items - 2]])
    expected = [1, 4, 6, n_items - 1, 0, n_items - 2]
    assert draw.missing(users, ranks).flatten().tolist() == expected
    n = 400_000
    drawn = draw(many(1, n), rng=generator(0)).flatten()
    assert 0 <= int(drawn.min()) <= int(drawn.max()) < n_items - 1
    assert stats.kstest(drawn.numpy() / n_items, "uniform").pvalue > 0.01
    # n²/2 pairs of draws; single precision, with 2²⁴ numbers, would have six times the repeats
    n_repeats = n - drawn.unique().numel()
    assert n_repeats == pytest.approx(n**2 / 2 / n_items, rel=0.2)


@pytest.mark.parametrize(
    ("sampler", "n_drawn"),
    [(UniformSampler(), 1), (PopularitySampler(), 1), (UniformSampler(5), 5)],
)
def test_a_user_gets_as_many_items_as_the_sampler_says(sampler: AnySampler, n_drawn: int) -> None:
    draw = sampler(interactions([0], [0], n_users=1, n_items=3), device=CPU)
    assert draw.n_drawn == n_drawn
    assert draw(many(0, 4), rng=generator(0)).shape == (4, n_drawn)


def test_one_candidate_is_the_uniform_draw() -> None:
    data = random_data(5)
    eligible = torch.tensor([u for u in range(data.n_users) if lacked_by(data, u)]).repeat(9)
    found = [
        part(data, device=CPU)(eligible, rng=generator(2))
        for part in (UniformSampler(), UniformSampler(1))
    ]
    assert torch.equal(*found)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_the_same_generator_draws_the_same_items(sampler: AnySampler) -> None:
    data = interactions([0, 1, 1, 2], [0, 0, 5, 7], n_users=3, n_items=40)
    users = torch.tensor([0, 1, 2]).repeat(30)
    draw = sampler(data, device=CPU)
    first, second = (draw(users, rng=generator(4)) for _ in range(2))
    assert torch.equal(first, second)


def test_another_generator_draws_others() -> None:
    data = interactions([0, 1, 1, 2], [0, 0, 5, 7], n_users=3, n_items=40)
    draw = UniformSampler()(data, device=CPU)
    first, second = (draw(many(0, 30), rng=generator(seed)) for seed in (4, 5))
    assert not torch.equal(first, second)


def test_arrays_that_must_not_be_written_to_are_welcome() -> None:
    data = interactions([0, 1], [0, 1], n_users=2, n_items=3)
    data.indptr.flags.writeable = False
    data.indices.flags.writeable = False
    for sampler in SAMPLERS:
        drawn = sampler(data, device=CPU)(torch.tensor([0]), rng=generator(0))
        assert (drawn > 0).all()  # user 0 has item 0


@pytest.mark.parametrize("exponent", [-0.1, math.inf, math.nan])
def test_an_exponent_that_makes_no_probability_is_refused(exponent: float) -> None:
    with pytest.raises(ConfigError, match=r"batches\.sampler\.exponent"):
        PopularitySampler(exponent)


@pytest.mark.parametrize("sampler", [UniformSampler, PopularitySampler])
def test_a_draw_of_no_negatives_is_refused(sampler: type[AnySampler]) -> None:
    with pytest.raises(ConfigError, match=r"batches\.sampler\.n_negatives"):
        sampler(n_negatives=0)
