from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from ratiorec.errors import ConfigError
from ratiorec.kernels.pointwise import EXPONENTIAL, SOFTPLUS
from ratiorec.kernels.unlabelled import unlabelled_weight
from ratiorec.losses.density_ratio import (
    ConstantPositiveWeight,
    DensityRatio,
    FrozenWeights,
    HardSampleWeights,
    PopularityWeights,
    RatioPowerWeights,
    UniformWeights,
    UnlabelledWeight,
    Weights,
)
from ratiorec.shapes import Embeddings
from reference.comparison import random_embeddings
from support.small_data import handmade_batch, random_batch

BATCH = handmade_batch(
    [1, 0],
    [2, 0, 1],
    [[0, 2], [1]],
    prior=[0.5, 0.25],
    popularity=[4, 9, 16],
    inclusion=[0.5, 0.5, 1.0],
)
# of the pairs (user 1, item 2), (user 1, item 1) and (user 0, item 0)
RATIO = torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64)


def on_positives(weights: Weights, ratio: Tensor = RATIO) -> Tensor:
    return weights.unlabelled(BATCH).at_positives(BATCH, ratio)


def on_every_pair(weight: UnlabelledWeight, ratio: Tensor) -> Tensor:
    """w⁻ of all users and candidates, as backends make it."""
    first = weight.first
    return unlabelled_weight(
        weight.candidates,
        ratio,
        power=weight.ratio_power,
        first=None if first is None else first.link.ratio(first.users @ first.items.T),
    )


def test_uniform_weights_are_one() -> None:
    assert UniformWeights().positive(BATCH, RATIO).tolist() == [1, 1, 1]
    assert on_positives(UniformWeights()).tolist() == [1, 1, 1]


def test_popularity_weighs_unlabelled_pairs_by_a_power_of_the_items_degree() -> None:
    weights = PopularityWeights(exponent=0.5)
    assert weights.positive(BATCH, RATIO).tolist() == [1, 1, 1]
    assert on_positives(weights).tolist() == [4**0.5, 16**0.5, 9**0.5]
    assert on_positives(PopularityWeights(exponent=0)).tolist() == [1, 1, 1]


def test_a_confident_positive_counts_as_much_as_many_unlabelled_pairs() -> None:
    assert ConstantPositiveWeight(20).positive(BATCH, RATIO).tolist() == [20, 20, 20]
    assert on_positives(ConstantPositiveWeight(20)).tolist() == [1, 1, 1]


@pytest.mark.parametrize("weight", [0.0, -1.0, math.inf, math.nan])
def test_a_weight_of_positives_that_is_none_is_refused(weight: float) -> None:
    with pytest.raises(ConfigError, match="positive_weight") as refusal:
        ConstantPositiveWeight(weight)
    assert refusal.value.found == str(weight)


def test_where_means_are_normalised_confidence_falls_away() -> None:
    rng = np.random.default_rng(3)
    batch = random_batch(rng, n_users=5, n_items=8)
    embeddings = random_embeddings(rng, n_users=5, n_items=8, largest_score=3)
    uniform, confident = (
        DensityRatio(weights=w)(embeddings, batch)
        for w in (UniformWeights(), ConstantPositiveWeight(20))
    )
    torch.testing.assert_close(confident, uniform)


def test_hard_sample_weights_pull_low_positives_and_push_high_candidates() -> None:
    assert HardSampleWeights().positive(BATCH, RATIO).tolist() == [1 / 1, 1 / 2, 1 / 4]
    assert on_positives(HardSampleWeights()).tolist() == [1, 2, 4]


def test_the_weight_of_a_hopeless_positive_stays_finite_in_single_precision() -> None:
    vanished = torch.nn.functional.softplus(torch.tensor([-200.0, -80.0, -70.0]))
    weights = HardSampleWeights().positive(BATCH, vanished)
    assert weights.isfinite().all()
    assert weights.sum().isfinite()


def test_powers_of_the_ratio_make_weights_of_any_strength() -> None:
    weights = RatioPowerWeights(positive_exponent=0.5, unlabelled_exponent=2)
    assert weights.positive(BATCH, RATIO).tolist() == pytest.approx([1, 2**-0.5, 4**-0.5])
    assert on_positives(weights).tolist() == [1, 4, 16]
    none = RatioPowerWeights(0, 0)
    assert none.positive(BATCH, RATIO).tolist() == on_positives(none).tolist() == [1, 1, 1]


@pytest.mark.parametrize("exponent", [0.5, 1.0, 3.0])
def test_no_power_of_a_hopeless_ratio_is_infinite_in_single_precision(exponent: float) -> None:
    vanished = torch.nn.functional.softplus(torch.tensor([-200.0, -80.0, -70.0]))
    assert RatioPowerWeights(exponent).positive(BATCH, vanished).sum().isfinite()


@pytest.mark.parametrize("setting", ["positive_exponent", "unlabelled_exponent"])
def test_a_power_that_would_favour_easy_samples_is_refused(setting: str) -> None:
    with pytest.raises(ConfigError, match=rf"risk\.weights\.{setting}"):
        RatioPowerWeights(**{setting: -1})


def test_popularity_weights_need_the_candidates_of_the_batch() -> None:
    with pytest.raises(ConfigError, match="all-items with popularity weights"):
        DensityRatio(weights=PopularityWeights(), candidate_correction="all-items")


def test_frozen_weights_come_from_the_first_model_and_not_from_the_current_one() -> None:
    # ratios of the first model: user 0 gives 1, 2, 4 and user 1 gives 1, 4, 16
    first = Embeddings(
        torch.tensor([[1.0], [2.0]], dtype=torch.float64),
        torch.tensor([[1.0], [2.0], [4.0]], dtype=torch.float64).log(),
    )
    weights = FrozenWeights(first, EXPONENTIAL)
    torch.testing.assert_close(
        weights.positive(BATCH, RATIO), torch.tensor([1 / 16, 1 / 4, 1.0], dtype=torch.float64)
    )
    torch.testing.assert_close(
        on_positives(weights), torch.tensor([16, 4, 1.0], dtype=torch.float64)
    )
    assert torch.equal(weights.positive(BATCH, 7 * RATIO), weights.positive(BATCH, RATIO))
    assert torch.equal(on_positives(weights, 7 * RATIO), on_positives(weights))


@pytest.mark.parametrize("kind", ["uniform", "popularity", "hard-sample", "ratio-power", "frozen"])
def test_the_weights_at_positives_are_entries_of_those_of_every_pair(kind: str) -> None:
    rng = np.random.default_rng(4)
    batch = random_batch(rng, n_users=6, n_items=9)
    weights: dict[str, Weights] = {
        "uniform": UniformWeights(),
        "popularity": PopularityWeights(0.5),
        "hard-sample": HardSampleWeights(),
        "ratio-power": RatioPowerWeights(0.5, 1.5),
        "frozen": FrozenWeights(
            random_embeddings(rng, n_users=6, n_items=9, largest_score=3), SOFTPLUS
        ),
    }
    weight = weights[kind].unlabelled(batch)
    ratio = torch.from_numpy(rng.uniform(0.1, 5, (len(batch.users), len(batch.candidates))))
    listed = batch.rows, batch.columns
    torch.testing.assert_close(
        weight.at_positives(batch, ratio[listed]), on_every_pair(weight, ratio)[listed]
    )
