"""What every assembly of the density-ratio risk must satisfy, whatever its parts."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import get_args

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from ratiorec.batches.users import Batch
from ratiorec.kernels.pointwise import EXPONENTIAL, GENERATORS, LINKS
from ratiorec.kernels.unlabelled import FirstModel
from ratiorec.losses.density_ratio import (
    CandidateCorrection,
    DensityRatio,
    HardSampleWeights,
    PopularityWeights,
    UniformWeights,
    UnlabelledWeight,
    Weights,
    candidate_weights,
)
from ratiorec.shapes import Embeddings
from reference.comparison import of_batch, random_embeddings, value_and_gradient
from support.small_data import handmade_batch, only_user, random_batch

N_USERS, N_ITEMS = 6, 9

seeds = st.integers(0, 2**32)
assemblies = st.builds(
    DensityRatio,
    generator=st.sampled_from(list(GENERATORS.values())),
    link=st.sampled_from(list(LINKS.values())),
    weights=st.sampled_from([UniformWeights(), PopularityWeights(0.5), HardSampleWeights()]),
    candidate_correction=st.sampled_from(get_args(CandidateCorrection)),
    upper_bound=st.sampled_from([0.3, 70.0, math.inf]),
)


def written_down(matrix: Tensor) -> FirstModel:
    """A model whose ratios are given: items are unit vectors, scores are logarithms."""
    return FirstModel(matrix.log(), torch.eye(matrix.shape[1], dtype=matrix.dtype), EXPONENTIAL)


@dataclass(frozen=True, eq=False)
class Given:
    """Weights that were written down beforehand, for every user and candidate."""

    of_positives: Tensor
    of_unlabelled: Tensor

    def positive(self, batch: Batch, ratio: Tensor) -> Tensor:
        return self.of_positives[batch.rows, batch.columns]

    def unlabelled(self, batch: Batch) -> UnlabelledWeight:
        ones = torch.ones_like(batch.popularity)
        return UnlabelledWeight(ones, first=written_down(self.of_unlabelled))


@dataclass(frozen=True, eq=False)
class Scaled:
    """Other weights, each times a number, one for w⁺ and one for w⁻."""

    inner: Weights
    of_positives: Tensor
    of_unlabelled: Tensor

    def positive(self, batch: Batch, ratio: Tensor) -> Tensor:
        return self.of_positives[batch.rows, batch.columns] * self.inner.positive(batch, ratio)

    def unlabelled(self, batch: Batch) -> UnlabelledWeight:
        inner = self.inner.unlabelled(batch)
        assert inner.first is None, "its place is taken by the numbers"
        return inner._replace(first=written_down(self.of_unlabelled))


def of_every_pair(weights: Weights, batch: Batch, ratio: Tensor) -> Given:
    """w⁺, which is 0 where there is no positive, and w⁻ of every user with every candidate."""
    positive = torch.zeros_like(ratio)
    positive[batch.rows, batch.columns] = weights.positive(batch, ratio[batch.rows, batch.columns])
    weight = weights.unlabelled(batch)
    assert weight.first is None
    return Given(positive, weight.candidates * ratio**weight.ratio_power)


def per_user(risk: DensityRatio, embeddings: Embeddings, batch: Batch) -> Tensor:
    """R_u of every user, each from a batch of his own with the same candidates."""
    alone = [only_user(batch, row) for row in range(len(batch.users))]
    return torch.stack([risk(of_batch(embeddings, one), one) for one in alone])


def draw(seed: int) -> tuple[np.random.Generator, Embeddings, Batch]:
    rng = np.random.default_rng(seed)
    embeddings = random_embeddings(
        rng, n_users=N_USERS, n_items=N_ITEMS, largest_score=float(rng.choice([1, 5, 20]))
    )
    return rng, embeddings, random_batch(rng, n_users=N_USERS, n_items=N_ITEMS)


def assert_same(
    first: tuple[float, np.ndarray, np.ndarray],
    second: tuple[float, np.ndarray, np.ndarray],
    *,
    tolerance: float,
) -> None:
    """Equal value and equal gradients, relative to the largest number in each."""
    assert first[0] == pytest.approx(second[0], rel=tolerance, abs=tolerance)
    for a, b in zip(first[1:], second[1:], strict=True):
        scale = max(1, np.abs(b).max())
        np.testing.assert_allclose(a / scale, b / scale, rtol=0, atol=tolerance)


def whole_population(n_items: int) -> Batch:
    """One user, every item both a candidate and a positive, and no class prior.

    With w⁺ = p and w⁻ = q the risk is E_p[ℓ₊] + E_q[ℓ±], without any sampling.
    """
    everything = list(range(n_items))
    return handmade_batch(
        [0],
        everything,
        [everything],
        prior=[0.0],
        popularity=[1.0] * n_items,
        inclusion=[1.0] * n_items,
    )


def population_risk(generator: str, p: Tensor, q: Tensor) -> DensityRatio:
    return DensityRatio(
        GENERATORS[generator],
        EXPONENTIAL,
        Given(p.unsqueeze(0), q.unsqueeze(0)),
        "none",
        math.inf,
    )


def with_ratio(ratio: Tensor) -> Embeddings:
    """One user whose ratios are given: items are unit vectors, scores are logarithms."""
    return Embeddings(ratio.log().unsqueeze(0), torch.eye(len(ratio), dtype=ratio.dtype))


distributions = st.lists(st.floats(0.01, 1), min_size=5, max_size=5).map(
    lambda x: torch.tensor(x, dtype=torch.float64) / sum(x)
)
positive_vectors = st.lists(st.floats(0.02, 50), min_size=5, max_size=5).map(
    lambda x: torch.tensor(x, dtype=torch.float64)
)


@pytest.mark.parametrize("generator", GENERATORS)
@given(p=distributions, q=distributions, estimate=positive_vectors)
def test_excess_risk_is_the_expected_bregman_divergence(
    generator: str, p: Tensor, q: Tensor, estimate: Tensor
) -> None:
    risk, batch = population_risk(generator, p, q), whole_population(5)
    excess = risk(with_ratio(estimate), batch) - risk(with_ratio(p / q), batch)
    divergence = (q * GENERATORS[generator].divergence(p / q, estimate)).sum()
    torch.testing.assert_close(excess, divergence, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("generator", GENERATORS)
@given(p=distributions, q=distributions)
def test_the_gradient_vanishes_at_the_true_ratio(generator: str, p: Tensor, q: Tensor) -> None:
    risk, batch = population_risk(generator, p, q), whole_population(5)
    _, at_truth, _ = value_and_gradient(risk, with_ratio(p / q), batch)
    _, elsewhere, _ = value_and_gradient(risk, with_ratio(1.1 * p / q), batch)
    assert np.abs(at_truth).max() < 1e-12 * max(1, float((p / q).max()) ** 2)
    assert np.abs(elsewhere).max() > 1e-6


@pytest.mark.parametrize("generator", GENERATORS)
@given(p=distributions, q=distributions)
def test_hard_sample_weights_settle_at_a_cube_root_of_the_true_ratio(
    generator: str, p: Tensor, q: Tensor
) -> None:
    weights = Scaled(HardSampleWeights(), p.unsqueeze(0), q.unsqueeze(0))
    risk = dataclasses.replace(population_risk(generator, p, q), weights=weights)
    root = (p / q) ** (1 / 3)
    settled = root * (q * root).sum() / (q * root.square()).sum()
    _, there, _ = value_and_gradient(risk, with_ratio(settled), whole_population(5))
    assert np.abs(there).max() < 1e-12 * max(1, float(settled.max()) ** 2)
    _, elsewhere, _ = value_and_gradient(risk, with_ratio(1.1 * settled), whole_population(5))
    assert np.abs(elsewhere).max() > 1e-6


@given(seed=seeds, risk=assemblies)
def test_the_correction_adds_what_the_bracket_lacks_and_nothing_else(
    seed: int, risk: DensityRatio
) -> None:
    _, embeddings, batch = draw(seed)
    corrected = per_user(dataclasses.replace(risk, upper_bound=0.7), embeddings, batch)
    plain = per_user(dataclasses.replace(risk, upper_bound=math.inf), embeddings, batch)
    bracket = unlabelled_bracket(risk, embeddings, batch, upper_bound=0.7)
    scale = plain.abs() + bracket.abs() + 1
    torch.testing.assert_close(
        (corrected - plain) / scale, (-bracket).clamp_min(0) / scale, rtol=0, atol=1e-12
    )


def unlabelled_bracket(
    risk: DensityRatio, embeddings: Embeddings, batch: Batch, *, upper_bound: float
) -> Tensor:
    """R± − R^cor of each user, from whole matrices."""
    scores = embeddings.users[batch.users] @ embeddings.items[batch.candidates].T
    ratio = risk.link.ratio(scores)
    loss = risk.generator.unlabelled_loss(ratio)
    weights = of_every_pair(risk.weights, batch, ratio)
    on_all, on_positives = (
        weights.of_unlabelled * candidate_weights(batch, risk.candidate_correction),
        weights.of_positives,
    )
    unlabelled = (on_all * loss).sum(-1) / on_all.sum(-1)
    return unlabelled - (on_positives * loss).sum(-1) / on_positives.sum(-1) / upper_bound


@given(seed=seeds, risk=assemblies)
def test_the_correction_never_lowers_the_risk(seed: int, risk: DensityRatio) -> None:
    _, embeddings, batch = draw(seed)
    plain = per_user(dataclasses.replace(risk, upper_bound=math.inf), embeddings, batch)
    corrected = per_user(dataclasses.replace(risk, upper_bound=0.5), embeddings, batch)
    assert (corrected >= plain - 1e-12 * (plain.abs() + corrected.abs())).all()


@given(seed=seeds, risk=assemblies)
def test_a_bound_without_limit_is_no_bound(seed: int, risk: DensityRatio) -> None:
    _, embeddings, batch = draw(seed)
    unbounded = dataclasses.replace(risk, upper_bound=math.inf)
    assert_same(
        value_and_gradient(dataclasses.replace(risk, upper_bound=1e100), embeddings, batch),
        value_and_gradient(unbounded, embeddings, batch),
        tolerance=1e-12,
    )


def test_a_small_bound_stops_the_gradient_of_unlabelled_pairs() -> None:
    rng, _, batch = draw(3)
    embeddings = random_embeddings(rng, n_users=N_USERS, n_items=N_ITEMS, largest_score=1)
    batch = dataclasses.replace(
        batch,
        rows=torch.arange(len(batch.users)),
        columns=torch.zeros(len(batch.users), dtype=torch.int64),
    )
    _, _, to_items = value_and_gradient(DensityRatio(upper_bound=1e-9), embeddings, batch)
    positive_item = int(batch.candidates[0])
    assert np.abs(to_items[positive_item]).max() > 0
    assert np.abs(np.delete(to_items, positive_item, axis=0)).max() == 0


@given(seed=seeds, risk=assemblies)
def test_weights_are_free_of_scale(seed: int, risk: DensityRatio) -> None:
    rng, embeddings, batch = draw(seed)
    constants = torch.from_numpy(rng.uniform(0.01, 100, (2, len(batch.users), 1)))
    of_positives, of_unlabelled = constants.expand(2, -1, len(batch.candidates))
    scaled = Scaled(risk.weights, of_positives, of_unlabelled)
    assert_same(
        value_and_gradient(dataclasses.replace(risk, weights=scaled), embeddings, batch),
        value_and_gradient(risk, embeddings, batch),
        tolerance=1e-12,
    )


@given(seed=seeds, risk=assemblies)
def test_the_order_of_users_and_candidates_changes_nothing(seed: int, risk: DensityRatio) -> None:
    rng, embeddings, batch = draw(seed)
    assert_same(
        value_and_gradient(risk, embeddings, reordered(batch, rng)),
        value_and_gradient(risk, embeddings, batch),
        tolerance=1e-12,
    )


def reordered(batch: Batch, rng: np.random.Generator) -> Batch:
    users = torch.from_numpy(rng.permutation(len(batch.users)))
    candidates = torch.from_numpy(rng.permutation(len(batch.candidates)))
    rows, columns = users.argsort()[batch.rows], candidates.argsort()[batch.columns]
    order = rows.argsort(stable=True)
    return Batch(
        users=batch.users[users],
        candidates=batch.candidates[candidates],
        rows=rows[order],
        columns=columns[order],
        prior=batch.prior[users],
        popularity=batch.popularity[candidates],
        inclusion=batch.inclusion[candidates],
    )


@given(seed=seeds, risk=assemblies)
def test_weights_given_as_constants_have_the_same_gradient(seed: int, risk: DensityRatio) -> None:
    _, embeddings, batch = draw(seed)
    scores = embeddings.users[batch.users] @ embeddings.items[batch.candidates].T
    constants = of_every_pair(risk.weights, batch, risk.link.ratio(scores))
    assert_same(
        value_and_gradient(dataclasses.replace(risk, weights=constants), embeddings, batch),
        value_and_gradient(risk, embeddings, batch),
        tolerance=1e-11,
    )


@given(seed=seeds, risk=assemblies)
def test_a_user_or_item_outside_the_batch_feels_nothing(seed: int, risk: DensityRatio) -> None:
    _, embeddings, batch = draw(seed)
    _, to_users, to_items = value_and_gradient(risk, embeddings, batch)
    assert np.abs(np.delete(to_users, batch.users.numpy(), axis=0)).sum() == 0
    assert np.abs(np.delete(to_items, batch.candidates.numpy(), axis=0)).sum() == 0
