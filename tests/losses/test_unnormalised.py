from __future__ import annotations

import numpy as np
import pytest
import torch

import reference.risk as slow
from ratiorec.kernels.pointwise import EXPONENTIAL, LINKS
from ratiorec.losses.density_ratio import (
    ConstantPositiveWeight,
    HardSampleWeights,
    PopularityWeights,
    UniformWeights,
    Weights,
)
from ratiorec.losses.unnormalised import WeightedDRE, WeightedPU
from ratiorec.shapes import Embeddings
from reference.comparison import as_sample, assert_equal_to_reference, random_embeddings
from support.small_data import handmade_batch, random_batch

WEIGHTS: dict[str, tuple[Weights, slow.WeightRule]] = {
    "uniform": (UniformWeights(), slow.uniform),
    "popularity": (PopularityWeights(0.75), slow.popularity(0.75)),
    "hard-sample": (HardSampleWeights(), slow.hard_sample),
    "constant-positive": (ConstantPositiveWeight(20), slow.confident(20)),
}


@pytest.mark.parametrize("largest_score", [1.0, 5.0, 30.0])
@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("weights", WEIGHTS)
def test_both_plain_losses_equal_the_plain_loops(
    weights: str, link: str, largest_score: float
) -> None:
    rng = np.random.default_rng(7)
    part, rule = WEIGHTS[weights]
    for _ in range(3):
        batch = random_batch(rng, n_users=5, n_items=8)
        embeddings = random_embeddings(rng, n_users=5, n_items=8, largest_score=largest_score)
        tables = embeddings.users.tolist(), embeddings.items.tolist(), as_sample(batch)
        for risk, reference in (
            (WeightedDRE(LINKS[link], part), slow.weighted_dre),
            (WeightedPU(LINKS[link], part), slow.weighted_pu),
        ):
            expected = reference(*tables, link=link, weights=rule)
            assert_equal_to_reference(risk, expected, embeddings, batch)


def test_both_plain_losses_by_hand() -> None:
    # ratios 1, 2 and 4 for one user, of which 1 and 2 are positives
    embeddings = Embeddings(
        torch.ones(1, 1, dtype=torch.float64),
        torch.tensor([[1.0], [2.0], [4.0]], dtype=torch.float64).log(),
    )
    batch = handmade_batch(
        [0], [0, 1, 2], [[0, 1]], prior=[0.25], popularity=[1, 4, 9], inclusion=[1, 1, 1]
    )
    # uniform weights: w⁺ − w⁻ = 0
    gain, unlabelled = 2 * (1 + 2) / 2, (1**2 + 2**2 + 4**2) / 3
    assert float(WeightedDRE(EXPONENTIAL)(embeddings, batch)) == pytest.approx(unlabelled - gain)
    assert float(WeightedPU(EXPONENTIAL)(embeddings, batch)) == pytest.approx(
        unlabelled - 0.25 * gain
    )
    # hard-sample weights: w⁺ = 1/r̂ and w⁻ = r̂
    square = ((1 / 1 - 1) * 1**2 + (1 / 2 - 2) * 2**2) / 2
    gain, unlabelled = 2 * (1 / 1 * 1 + 1 / 2 * 2) / 2, (1 * 1**2 + 2 * 2**2 + 4 * 4**2) / 3
    hard = WeightedDRE(EXPONENTIAL, HardSampleWeights())(embeddings, batch)
    assert float(hard) == pytest.approx(0.25 * square - gain + unlabelled)
    hard = WeightedPU(EXPONENTIAL, HardSampleWeights())(embeddings, batch)
    assert float(hard) == pytest.approx(0.25 * (square - gain) + unlabelled)


def test_candidates_count_as_they_were_sampled() -> None:
    rng = np.random.default_rng(1)
    embeddings = random_embeddings(rng, n_users=2, n_items=3, largest_score=2)

    def with_inclusion(inclusion: list[float]) -> float:
        batch = handmade_batch(
            [0, 1], [0, 1, 2], [[0], [1]], prior=[0.3, 0.3], popularity=[1] * 3, inclusion=inclusion
        )
        return float(WeightedDRE()(embeddings, batch))

    assert with_inclusion([0.1, 0.2, 0.3]) == with_inclusion([1.0, 1.0, 1.0])
