from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import spearmanr

from ratiorec.data.synthetic import (
    EMBEDDED_SEED,
    Synthetic,
    SyntheticData,
    draw_distinct,
    embedded,
    item_names,
)
from ratiorec.errors import ConfigError
from support.matrices import dense_matrix

SMALL = Synthetic(n_users=60, n_items=40, n_clusters=4, mean_pairs=6)


@pytest.fixture(scope="module")
def data() -> SyntheticData:
    return embedded()


def draw(settings: Synthetic, seed: int = 0) -> SyntheticData:
    return settings(rng=np.random.default_rng(seed))


def drawn_matrix(data: SyntheticData) -> NDArray[np.bool_]:
    """Which pairs were drawn, train and test together."""
    assert data.dataset.test is not None
    return dense_matrix(data.dataset.train) + dense_matrix(data.dataset.test) > 0


def test_the_ratio_is_positive_and_averages_one_over_the_items(data: SyntheticData) -> None:
    assert data.ratio.shape == (data.dataset.train.n_users, data.dataset.train.n_items)
    assert data.ratio.min() > 0
    np.testing.assert_allclose(data.ratio.mean(axis=1), 1)  # p(i|u,+) sums to one


def test_the_logarithm_of_the_ratio_has_rank_four() -> None:
    values = np.linalg.svd(np.log(draw(SMALL).ratio), compute_uv=False)
    assert values[3] > 1e-3 * values[0]
    assert values[4] < 1e-9 * values[0]


@given(
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=8),
    seed=st.integers(0, 100),
)
def test_each_user_draws_exactly_as_many_distinct_items_as_asked(
    sizes: list[int], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    share = rng.uniform(1, 2, (len(sizes), 15))  # at most 2/16 each, so 6 can be drawn
    share /= share.sum(axis=1, keepdims=True)
    drawn = draw_distinct(share, np.array(sizes), rng=rng)
    assert drawn.sum(axis=1).tolist() == sizes


def test_an_item_is_drawn_with_exactly_its_probability() -> None:
    n_draws, n_pairs = 20_000, 4
    share = np.array([0.24, 0.2, 0.16, 0.12, 0.1, 0.08, 0.06, 0.04])  # 4 · 0.24 is nearly one
    drawn = draw_distinct(
        np.tile(share, (n_draws, 1)), np.full(n_draws, n_pairs), rng=np.random.default_rng(0)
    )
    probability = n_pairs * share
    deviation = np.sqrt(probability * (1 - probability) / n_draws)
    assert (np.abs(drawn.mean(axis=0) - probability) < 5 * deviation).all()


def test_any_two_items_may_be_drawn_together() -> None:
    n_draws = 3000
    drawn = draw_distinct(
        np.full((n_draws, 4), 1 / 4), np.full(n_draws, 2), rng=np.random.default_rng(0)
    )
    together = drawn.T.astype(int) @ drawn  # in one fixed order, items 0 and 1 never are
    assert together[np.triu_indices(4, k=1)].min() > n_draws / 6 / 2  # six couples


def test_shares_that_do_not_quite_add_up_still_give_every_user_all_pairs() -> None:
    share = np.full((20_000, 10), 0.0999)  # rounding, exaggerated
    drawn = draw_distinct(share, np.full(20_000, 4), rng=np.random.default_rng(0))
    assert (drawn.sum(axis=1) == 4).all()


def test_the_ratio_ranks_pairs_as_often_as_they_are_drawn(data: SyntheticData) -> None:
    drawn = drawn_matrix(data)
    groups = np.array_split(np.argsort(data.ratio, axis=None), 200)  # pairs of like ratio
    frequency = [drawn.ravel()[group].mean() for group in groups]
    ratio = [data.ratio.ravel()[group].mean() for group in groups]
    assert spearmanr(ratio, frequency).statistic > 0.99
    np.testing.assert_allclose(
        np.divide(frequency, ratio).mean(), drawn.mean(), rtol=0.02
    )  # inclusion is the ratio times |I_u⁺|/|I|, with no saturation at the top
    assert frequency[-1] / ratio[-1] == pytest.approx(drawn.mean(), rel=0.06)


def test_popularity_follows_a_power_law() -> None:
    settings = Synthetic(n_users=200, taste_strength=0.0, popularity_exponent=1.5)
    popularity = np.sort(draw(settings).ratio[0])[::-1]
    ranks = np.arange(1, settings.n_items + 1) + settings.n_items / 5
    slope = np.diff(np.log(popularity)) / np.diff(np.log(ranks))
    np.testing.assert_allclose(slope, -1.5)


def test_without_taste_all_users_are_alike_and_with_it_they_are_not() -> None:
    alike = draw(Synthetic(n_users=50, taste_strength=0.0)).ratio
    np.testing.assert_allclose(alike, np.broadcast_to(alike[0], alike.shape))
    assert draw(Synthetic(n_users=50)).ratio.std(axis=0).mean() > 0.2


def test_users_prefer_the_items_of_one_theme(data: SyntheticData) -> None:
    names = data.dataset.train.items.names
    assert names is not None
    at_sea = np.array([name.split()[1] in ("Harbour", "Tide", "Lighthouse") for name in names])
    liking = data.ratio[:, at_sea].mean(axis=1) / data.ratio.mean(axis=1)
    assert np.quantile(liking, 0.95) > 3 * np.quantile(liking, 0.05)


def test_a_fifth_of_each_users_pairs_is_the_test_part(data: SyntheticData) -> None:
    train, test = data.dataset.train, data.dataset.test
    assert test is not None
    n_pairs = train.user_degrees + test.user_degrees
    np.testing.assert_array_equal(test.user_degrees, np.floor(0.2 * n_pairs + 0.5))


def test_sizes_lie_around_the_mean(data: SyntheticData) -> None:
    n_pairs = drawn_matrix(data).sum(axis=1)
    assert n_pairs.max() <= 1.25 * 70 + 1
    assert n_pairs.mean() == pytest.approx(70, rel=0.05)


@given(
    settings=st.builds(
        Synthetic,
        n_users=st.integers(2, 20),
        n_items=st.integers(10, 40),
        n_clusters=st.integers(1, 9),
        popularity_exponent=st.floats(0, 2),
        taste_strength=st.floats(0, 2),
        mean_pairs=st.integers(2, 10),
    ),
    seed=st.integers(0, 10),
)
def test_no_probability_is_above_one_whatever_the_settings(settings: Synthetic, seed: int) -> None:
    try:
        data = draw(settings, seed)
    except ConfigError:
        return  # too concentrated to draw two items, which has its own test
    n_pairs = drawn_matrix(data).sum(axis=1)
    assert (n_pairs >= 2).all()
    assert (n_pairs * data.ratio.max(axis=1) / settings.n_items <= 1 + 1e-9).all()


def test_the_same_seed_gives_the_same_data_and_another_seed_another() -> None:
    first, second, third = draw(SMALL, 1), draw(SMALL, 1), draw(SMALL, 2)
    assert first.dataset.train.sha256 == second.dataset.train.sha256
    np.testing.assert_array_equal(first.ratio, second.ratio)
    assert first.dataset.train.sha256 != third.dataset.train.sha256


def test_the_embedded_data_are_the_default_settings_at_the_documented_seed(
    data: SyntheticData,
) -> None:
    assert draw(Synthetic(), EMBEDDED_SEED).dataset.train.sha256 == data.dataset.train.sha256


def test_ids_are_readable_and_names_are_unique(data: SyntheticData) -> None:
    train = data.dataset.train
    assert train.users.ids[:2].tolist() == ["Ada-0000", "Bela-0001"]
    assert train.items.ids[17] == "item-017"
    assert train.items.names is not None
    assert len(set(train.items.names)) == train.n_items
    assert all(len(name.split()) == 2 for name in train.items.names)


def test_names_stay_unique_beyond_the_word_lists() -> None:
    names = item_names(np.zeros(300, np.int64))
    assert len(set(names)) == 300
    assert names[144] == "Quiet Harbour 2"  # 12 adjectives · 12 nouns are used up


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("n_users", 1),
        ("n_items", 1),
        ("n_clusters", 0),
        ("mean_pairs", 1),
        ("mean_pairs", 501),
        ("popularity_exponent", -0.1),
        ("taste_strength", float("nan")),
    ],
)
def test_an_impossible_setting_is_refused_by_name(setting: str, value: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        Synthetic(**{setting: value})
    assert caught.value.where == f"Synthetic.{setting}"
    assert caught.value.found == str(value)


def test_an_impossible_test_part_is_refused() -> None:
    with pytest.raises(ConfigError, match="not a share"):
        Synthetic(test_fraction=1.0)


def test_tastes_too_narrow_to_draw_two_items_are_refused() -> None:
    with pytest.raises(ConfigError, match="hardly any item but one"):
        draw(Synthetic(n_users=10, n_items=10, mean_pairs=4, popularity_exponent=20.0))
