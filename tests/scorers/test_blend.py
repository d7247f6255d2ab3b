from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratiorec.errors import ConfigError, ModelError
from ratiorec.scorers import Blend, Factored, InnerProduct, PopularityScorer, StoredScorer
from ratiorec.scorers.blend import Narrowing, standardise
from support.small_scorers import (
    blend,
    inner_product,
    item_factors,
    item_weights,
    neighbours,
    popularity,
    random_floats,
    random_rows,
    rows_of,
)

HISTORIES = random_rows(30, 40)
USERS = np.arange(30)


def by_definition(members: list[StoredScorer], weights: list[float]) -> np.ndarray:
    """Σ_m w_m (s_m − μ)/σ in double precision."""
    total = np.zeros((30, 40))
    for member, weight in zip(members, weights, strict=True):
        scores = member.scores(USERS).astype(np.float64)
        sigma = scores.std(1, keepdims=True)
        centred = scores - scores.mean(1, keepdims=True)
        total += weight * np.divide(centred, sigma, out=np.zeros_like(centred), where=sigma > 1e-9)
    return total


@pytest.mark.parametrize(
    "makers",
    [
        [inner_product, item_factors],  # joined into one product
        [neighbours, item_weights],
        [inner_product, neighbours, item_factors, popularity],
    ],
)
def test_the_score_is_the_weighted_sum_of_standardised_scores(makers: list) -> None:
    members = [make(HISTORIES, 40) for make in makers]
    weights = [0.5, 0.2, 0.2, 0.1][: len(members)]
    found = Blend(tuple(members), np.array(weights, np.float32)).scores(USERS)
    np.testing.assert_allclose(found, by_definition(members, weights), atol=2e-5)


def test_a_member_that_scores_all_items_alike_says_nothing() -> None:
    flat = PopularityScorer(np.full(40, 7, np.float32), 30)
    member = neighbours(HISTORIES, 40)
    both = Blend((member, flat), np.array([1, 5], np.float32))
    alone = Blend((member,), np.array([1], np.float32))
    np.testing.assert_array_equal(both.scores(USERS), alone.scores(USERS))


@given(st.floats(1e-3, 1e3), st.integers(0, 2**16))
def test_the_scale_of_a_member_does_not_matter(scale: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    users, items = (
        rng.standard_normal((30, 5), np.float32),
        rng.standard_normal((40, 5), np.float32),
    )
    weights, other = np.array([0.7, 0.3], np.float32), neighbours(HISTORIES, 40)
    plain = Blend((InnerProduct(users, items), other), weights)
    scaled = Blend((InnerProduct(users * np.float32(scale), items), other), weights)
    np.testing.assert_allclose(scaled.scores(USERS), plain.scores(USERS), atol=1e-4)


def test_narrowed_vectors_are_mapped_before_the_product() -> None:
    members = (inner_product(HISTORIES, 40), item_factors(HISTORIES, 40))
    wide = Blend(members, np.array([0.6, 0.4], np.float32))
    maps = Narrowing(random_floats(21, 4), random_floats(21, 4))
    narrow = Blend(members, wide.weights, maps)
    users, items = wide.joined_users(USERS).astype(np.float64), wide.joined_items
    expected = (users @ maps.users) @ (items @ maps.items).T
    np.testing.assert_allclose(narrow.scores(USERS), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [(20, 4), (21, 5), (21,)])
def test_a_narrowing_of_another_shape_is_refused(shape: tuple[int, ...]) -> None:
    members = (inner_product(HISTORIES, 40), item_factors(HISTORIES, 40))
    maps = Narrowing(random_floats(21, 4), random_floats(*shape))
    with pytest.raises(ModelError, match="narrow_items"):
        Blend(members, np.ones(2, np.float32), maps)


def test_a_row_does_not_depend_on_the_other_users() -> None:
    model = blend(HISTORIES, 40)
    together = model.scores(USERS)
    for user in (0, 7, 29):
        np.testing.assert_array_equal(model.scores(np.array([user]))[0], together[user])


def test_it_is_no_inner_product_to_others() -> None:
    """Its users' vectors alone would leave out what the other members say."""
    assert not isinstance(blend(HISTORIES, 40), Factored)


def test_the_map_shows_the_vectors_of_all_joined_members() -> None:
    vectors = blend(HISTORIES, 40).item_vectors
    assert vectors is not None
    assert vectors.shape == (40, 12 + 9)
    assert Blend((neighbours(HISTORIES, 40),), np.ones(1, np.float32)).item_vectors is None


def test_similar_items_are_those_of_the_members_that_compare_items() -> None:
    members = (inner_product(HISTORIES, 40), popularity(HISTORIES, 40))
    similar = Blend(members, np.array([0.5, 0.5], np.float32)).similarity()
    expected = standardise(members[0].similarity().scores(np.arange(40)), 0.5)
    np.testing.assert_allclose(similar.scores(np.arange(40)), expected, atol=1e-5)
    with pytest.raises(ConfigError, match="no similarity"):
        Blend(members[1:], np.ones(1, np.float32)).similarity()


def test_its_arrays_make_the_same_blend_of_more_than_ten_members() -> None:
    """Members are numbered, and text would put the eleventh before the third."""
    members = tuple(InnerProduct(random_floats(30, d), random_floats(40, d)) for d in range(1, 13))
    model = Blend(members, np.arange(1, 13, dtype=np.float32))
    again = Blend.from_arrays(model.arrays(), HISTORIES)
    np.testing.assert_array_equal(again.scores(USERS), model.scores(USERS))


@pytest.mark.parametrize("weights", [[1, 0], [1, -1], [1, np.nan], [1]])
def test_weights_that_are_none_are_refused(weights: list[float]) -> None:
    members = (inner_product(HISTORIES, 40), neighbours(HISTORIES, 40))
    with pytest.raises(ModelError, match="weights"):
        Blend(members, np.array(weights, np.float32))


def test_members_of_other_users_or_items_are_refused() -> None:
    for other in (inner_product(rows_of([[0]]), 40), inner_product(HISTORIES, 41)):
        with pytest.raises(ModelError, match="of a member"):
            Blend((inner_product(HISTORIES, 40), other), np.ones(2, np.float32))
