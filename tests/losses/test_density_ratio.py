from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import reference.risk as slow
from ratiorec.batches.users import Batch
from ratiorec.errors import ConfigError
from ratiorec.kernels.pointwise import GENERATORS, LINKS, power_divergence
from ratiorec.losses.density_ratio import (
    DensityRatio,
    FrozenWeights,
    HardSampleWeights,
    PopularityWeights,
    RatioPowerWeights,
    UniformWeights,
    Weights,
)
from ratiorec.losses.generators import RelativeRatio
from ratiorec.settings import UserBatches
from ratiorec.shapes import Embeddings
from reference.comparison import (
    as_sample,
    assert_equal_to_reference,
    random_embeddings,
    value_and_gradient,
)
from support.small_data import (
    handmade_batch,
    in_double_precision,
    only_user,
    random_batch,
    random_interactions,
)

EVERY = {**GENERATORS, **{name: power_divergence(b) for name, b in slow.POWERS.items()}}
WEIGHTS = ("uniform", "popularity", "hard-sample", "ratio-power", "frozen")
SAMPLED = ("none", "inverse-propensity")
N_USERS, N_ITEMS = 6, 9


def both_weights(kind: str, link: str, rng: np.random.Generator) -> tuple[Weights, slow.WeightRule]:
    """The same weights as a part, and as a rule of the reference."""
    if kind == "uniform":
        return UniformWeights(), slow.uniform
    if kind == "popularity":
        return PopularityWeights(0.5), slow.popularity(0.5)
    if kind == "hard-sample":
        return HardSampleWeights(), slow.hard_sample
    if kind == "ratio-power":
        return RatioPowerWeights(0.5, 1.5), slow.ratio_power(0.5, 1.5)
    first = random_embeddings(rng, n_users=N_USERS, n_items=N_ITEMS, largest_score=4)
    return FrozenWeights(first, LINKS[link]), slow.frozen(
        first.users.tolist(), first.items.tolist(), link
    )


def assert_equal_to_loops(
    batch: Batch,
    embeddings: Embeddings,
    *,
    generator: str,
    link: str,
    weights: str,
    sampling: str,
    upper_bound: float,
    rng: np.random.Generator,
) -> None:
    part, rule = both_weights(weights, link, rng)
    risk = DensityRatio(EVERY[generator], LINKS[link], part, sampling, upper_bound)
    expected = slow.density_ratio(
        embeddings.users.tolist(),
        embeddings.items.tolist(),
        as_sample(batch),
        generator=generator,
        link=link,
        weights=rule,
        inverse_inclusion=sampling == "inverse-propensity",
        upper_bound=upper_bound,
    )
    assert_equal_to_reference(risk, expected, embeddings, batch)


@pytest.mark.parametrize("largest_score", [1.0, 5.0, 30.0])
@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("generator", EVERY)
def test_value_and_gradient_equal_the_plain_loops(
    generator: str, link: str, weights: str, largest_score: float
) -> None:
    rng = np.random.default_rng(len(generator) + 100 * len(weights) + int(largest_score))
    # a bound of 0.3 keeps the clamp busy, one of 70 seldom, none never
    for sampling, upper_bound in itertools.product(SAMPLED, (0.3, 70.0, math.inf)):
        assert_equal_to_loops(
            random_batch(rng, n_users=N_USERS, n_items=N_ITEMS),
            random_embeddings(rng, n_users=N_USERS, n_items=N_ITEMS, largest_score=largest_score),
            generator=generator,
            link=link,
            weights=weights,
            sampling=sampling,
            upper_bound=upper_bound,
            rng=rng,
        )


@given(
    seed=st.integers(0, 2**32),
    generator=st.sampled_from(sorted(EVERY)),
    link=st.sampled_from(sorted(LINKS)),
    weights=st.sampled_from(WEIGHTS),
    sampling=st.sampled_from(SAMPLED),
    # at a bound of 1 the bracket of a user with every candidate is 0, where a clamp has a kink
    upper_bound=st.floats(0.1, 0.99) | st.floats(1.01, 100),
    largest_score=st.floats(0.1, 30),
)
def test_sampled_batches_equal_the_plain_loops(
    seed: int,
    generator: str,
    link: str,
    weights: str,
    sampling: str,
    upper_bound: float,
    largest_score: float,
) -> None:
    rng = np.random.default_rng(seed)
    data = random_interactions(rng, n_users=N_USERS, n_items=N_ITEMS, n_pairs=20)
    batch = next(
        UserBatches(int(rng.integers(2, N_USERS + 1)))(data, device=torch.device("cpu"))(rng)
    )
    assert_equal_to_loops(
        in_double_precision(batch),
        random_embeddings(rng, n_users=N_USERS, n_items=N_ITEMS, largest_score=largest_score),
        generator=generator,
        link=link,
        weights=weights,
        sampling=sampling,
        upper_bound=upper_bound,
        rng=rng,
    )


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize(
    ("generator", "exponent"), [("least-squares", 1), ("kullback-leibler", 0), *slow.POWERS.items()]
)
def test_the_relative_ratio_equals_the_plain_loops(
    generator: str, exponent: float, weights: str
) -> None:
    rng = np.random.default_rng(6)
    for upper_bound in (0.3, 70.0, math.inf):
        batch = random_batch(rng, n_users=N_USERS, n_items=N_ITEMS)
        embeddings = random_embeddings(rng, n_users=N_USERS, n_items=N_ITEMS, largest_score=5)
        part, rule = both_weights(weights, "softplus", rng)
        relative = RelativeRatio(exponent, mixing=0.2)
        expected = slow.density_ratio(
            embeddings.users.tolist(),
            embeddings.items.tolist(),
            as_sample(batch),
            generator=generator,
            link="softplus",
            weights=rule,
            inverse_inclusion=True,
            upper_bound=upper_bound,
            mixing=0.2,
        )
        risk = DensityRatio(relative, weights=part, upper_bound=upper_bound)
        assert_equal_to_reference(risk, expected, embeddings, batch)


@pytest.mark.parametrize("upper_bound", [0.3, 70.0, math.inf])
@pytest.mark.parametrize("sampling", SAMPLED)
def test_the_ranking_ulsif_has_the_four_terms_of_the_paper(
    sampling: str, upper_bound: float
) -> None:
    rng = np.random.default_rng(5)
    for _ in range(5):
        batch = random_batch(rng, n_users=N_USERS, n_items=N_ITEMS)
        embeddings = random_embeddings(rng, n_users=N_USERS, n_items=N_ITEMS, largest_score=6)
        expected = slow.ranking_ulsif(
            embeddings.users.tolist(),
            embeddings.items.tolist(),
            as_sample(batch),
            weights=slow.hard_sample,
            inverse_inclusion=sampling == "inverse-propensity",
            upper_bound=upper_bound,
        )
        risk = DensityRatio(candidate_correction=sampling, upper_bound=upper_bound)
        assert_equal_to_reference(risk, expected, embeddings, batch)


# One user whose ratios of three candidates are 1, 2 and 4; the first two are positives.
# With one dimension and the exponential link, a score of log r makes a ratio of r.
RATIOS = (1.0, 2.0, 4.0)
PRIOR = 0.25


def hand_computed(risk: DensityRatio) -> float:
    embeddings = Embeddings(
        torch.ones(1, 1, dtype=torch.float64), torch.tensor(RATIOS).double().log().unsqueeze(1)
    )
    batch = handmade_batch(
        [0],
        [0, 1, 2],
        [[0, 1]],
        prior=[PRIOR],
        popularity=[1, 4, 9],
        inclusion=[1.0, 0.5, 0.25],
    )
    return float(risk(embeddings, batch))


def test_hard_sample_weights_by_hand() -> None:
    r1 = PRIOR / 2 * (1 / 1 * 1**2 + 1 / 2 * 2**2) / (1 / 1 + 1 / 2)
    r2 = PRIOR / 2 * (1 * 1**2 + 2 * 2**2) / (1 + 2)
    r3 = (1 / 1 * 1 + 1 / 2 * 2) / (1 / 1 + 1 / 2)
    unlabelled = (1 * 1**2 + 2 * 2**2 + 4 * 4**2) / (2 * (1 + 2 + 4))
    risk = DensityRatio(
        link=LINKS["exponential"], candidate_correction="none", upper_bound=math.inf
    )
    assert hand_computed(risk) == pytest.approx(r1 - r2 - r3 + unlabelled, rel=1e-14)


def test_the_sampling_correction_by_hand() -> None:
    r1 = PRIOR / 2 * (1 / 1 * 1**2 + 1 / 2 * 2**2) / (1 / 1 + 1 / 2)
    r2 = PRIOR / 2 * (1 * 1**2 + 2 * 2**2) / (1 + 2)
    r3 = (1 / 1 * 1 + 1 / 2 * 2) / (1 / 1 + 1 / 2)
    # the items came up with probability 1, 1/2 and 1/4
    unlabelled = (1 * 1**2 + 2 * 2 * 2**2 + 4 * 4 * 4**2) / (2 * (1 + 2 * 2 + 4 * 4))
    risk = DensityRatio(link=LINKS["exponential"], upper_bound=math.inf)
    assert hand_computed(risk) == pytest.approx(r1 - r2 - r3 + unlabelled, rel=1e-14)


def test_the_non_negative_correction_by_hand() -> None:
    r1 = PRIOR / 2 * (1 / 1 * 1**2 + 1 / 2 * 2**2) / (1 / 1 + 1 / 2)
    r2 = PRIOR / 2 * (1 * 1**2 + 2 * 2**2) / (1 + 2)
    r3 = (1 / 1 * 1 + 1 / 2 * 2) / (1 / 1 + 1 / 2)
    correction = (1 / 1 * 1**2 + 1 / 2 * 2**2) / (2 * 0.125 * (1 / 1 + 1 / 2))
    unlabelled = (1 * 1**2 + 2 * 2**2 + 4 * 4**2) / (2 * (1 + 2 + 4))
    assert correction > unlabelled, "the clamp must be at work"
    risk = DensityRatio(link=LINKS["exponential"], candidate_correction="none", upper_bound=0.125)
    assert hand_computed(risk) == pytest.approx(r1 - r2 - r3 + correction, rel=1e-14)


def test_popularity_weights_by_hand() -> None:
    r1 = PRIOR / 2 * (1**2 + 2**2) / 2
    r2 = PRIOR / 2 * (1 * 1**2 + 2 * 2**2) / (1 + 2)  # √1 and √4
    r3 = (1 + 2) / 2
    unlabelled = (1 * 1**2 + 2 * 2**2 + 3 * 4**2) / (2 * (1 + 2 + 3))
    risk = DensityRatio(
        link=LINKS["exponential"],
        weights=PopularityWeights(0.5),
        candidate_correction="none",
        upper_bound=math.inf,
    )
    assert hand_computed(risk) == pytest.approx(r1 - r2 - r3 + unlabelled, rel=1e-14)


def test_users_count_equally_however_many_positives_they_have() -> None:
    rng = np.random.default_rng(0)
    batch = handmade_batch(
        [0, 1],
        [0, 1, 2, 3],
        [[0], [0, 1, 2]],
        prior=[0.1, 0.3],
        popularity=[2, 1, 1, 1],
        inclusion=[1, 0.5, 0.5, 0.5],
    )
    embeddings = random_embeddings(rng, n_users=2, n_items=4, largest_score=3)
    first, second = (
        float(DensityRatio()(Embeddings(embeddings.users[[row]], embeddings.items), alone))
        for row, alone in enumerate([only_user(batch, 0), only_user(batch, 1)])
    )
    assert float(DensityRatio()(embeddings, batch)) == pytest.approx((first + second) / 2)


@pytest.mark.parametrize("upper_bound", [0.0, -1.0, math.nan])
def test_an_upper_bound_that_is_not_positive_is_refused(upper_bound: float) -> None:
    with pytest.raises(ConfigError, match=r"risk\.upper_bound"):
        DensityRatio(upper_bound=upper_bound)


@pytest.mark.parametrize("generator", GENERATORS)
@pytest.mark.parametrize("link", LINKS)
def test_single_precision_stays_near_double_precision(generator: str, link: str) -> None:
    rng = np.random.default_rng(3)
    batch = random_batch(rng, n_users=N_USERS, n_items=N_ITEMS)
    embeddings = random_embeddings(rng, n_users=N_USERS, n_items=N_ITEMS, largest_score=8)
    risk = DensityRatio(GENERATORS[generator], LINKS[link])
    value, to_users, to_items = value_and_gradient(risk, embeddings, batch)
    single = dataclasses.replace(
        batch,
        prior=batch.prior.float(),
        popularity=batch.popularity.float(),
        inclusion=batch.inclusion.float(),
    )
    narrow = value_and_gradient(
        risk, Embeddings(embeddings.users.float(), embeddings.items.float()), single
    )
    assert narrow[0] == pytest.approx(value, rel=1e-4)
    np.testing.assert_allclose(narrow[1], to_users, rtol=0, atol=1e-4 * np.abs(to_users).max())
    np.testing.assert_allclose(narrow[2], to_items, rtol=0, atol=1e-4 * np.abs(to_items).max())
