"""What every assembly of the density-ratio risk must satisfy, whatever its parts."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from ratiorec.batches.users import Batch
from ratiorec.kernels.pointwise import EXPONENTIAL, GENERATORS, LINKS, power_divergence
from ratiorec.kernels.unlabelled import FirstModel, UnlabelledTerm, reference
from ratiorec.losses.density_ratio import (
    DensityRatio,
    HardSampleWeights,
    PopularityWeights,
    RatioPowerWeights,
    UniformWeights,
    UnlabelledWeight,
    Weights,
    candidate_weights,
)
from ratiorec.losses.generators import RelativeRatio
from ratiorec.losses.softmax import Softmax
from ratiorec.shapes import Embeddings
from reference.comparison import of_batch, random_embeddings, value_and_gradient
from reference.risk import POWERS
from support.small_data import handmade_batch, only_user, random_batch

N_USERS, N_ITEMS = 6, 9

EVERY = {**GENERATORS, **{name: power_divergence(b) for name, b in POWERS.items()}}

seeds = st.integers(0, 2**32)
assemblies = st.builds(
    DensityRatio,
    generator=st.sampled_from(list(EVERY.values())),
    link=st.sampled_from(list(LINKS.values())),
    weights=st.sampled_from(
        [UniformWeights(), PopularityWeights(0.5), HardSampleWeights(), RatioPowerWeights(0.5, 1.5)]
    ),
    candidate_correction=st.sampled_from(["none", "inverse-propensity"]),
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


def population_risk(generator: Any, p: Tensor, q: Tensor) -> DensityRatio:
    return DensityRatio(
        EVERY.get(generator, generator),
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


@pytest.mark.parametrize("generator", EVERY)
@given(p=distributions, q=distributions, estimate=positive_vectors)
def test_excess_risk_is_the_expected_bregman_divergence(
    generator: str, p: Tensor, q: Tensor, estimate: Tensor
) -> None:
    risk, batch = population_risk(generator, p, q), whole_population(5)
    excess = risk(with_ratio(estimate), batch) - risk(with_ratio(p / q), batch)
    divergence = (q * EVERY[generator].divergence(p / q, estimate)).sum()
    torch.testing.assert_close(excess, divergence, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("generator", EVERY)
@given(p=distributions, q=distributions)
def test_the_gradient_vanishes_at_the_true_ratio(generator: str, p: Tensor, q: Tensor) -> None:
    risk, batch = population_risk(generator, p, q), whole_population(5)
    _, at_truth, _ = value_and_gradient(risk, with_ratio(p / q), batch)
    _, elsewhere, _ = value_and_gradient(risk, with_ratio(1.1 * p / q), batch)
    assert np.abs(at_truth).max() < 1e-12 * max(1, float((p / q).max()) ** 2)
    assert np.abs(elsewhere).max() > 1e-6


@pytest.mark.parametrize("generator", EVERY)
@pytest.mark.parametrize(("delta", "gamma"), [(1, 1), (0.5, 1.5), (0, 0.3), (1, 0)])
@given(p=distributions, q=distributions)
def test_weights_by_powers_of_the_ratio_settle_at_a_root_of_the_true_ratio(
    generator: str, delta: float, gamma: float, p: Tensor, q: Tensor
) -> None:
    weights = Scaled(RatioPowerWeights(delta, gamma), p.unsqueeze(0), q.unsqueeze(0))
    risk = dataclasses.replace(population_risk(generator, p, q), weights=weights)
    root = (p / q) ** (1 / (1 + gamma + delta))  # a cube root for hard-sample weights
    # r̂ = c·root with c such that E[r̂^(1 + γ)] = E[r̂^γ]
    settled = root * (q * root**gamma).sum() / (q * root ** (1 + gamma)).sum()
    _, there, _ = value_and_gradient(risk, with_ratio(settled), whole_population(5))
    assert np.abs(there).max() < 1e-12 * max(1, float(settled.max()) ** 4)
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


MIXINGS = [0.05, 0.3, 0.9]


@pytest.mark.parametrize("mixing", MIXINGS)
@pytest.mark.parametrize("exponent", [0, 0.4, 1, 2])
@given(p=distributions, q=distributions, estimate=positive_vectors)
def test_the_relative_ratio_is_a_ratio_to_a_mixture(
    exponent: float, mixing: float, p: Tensor, q: Tensor, estimate: Tensor
) -> None:
    risk, batch = population_risk(RelativeRatio(exponent, mixing), p, q), whole_population(5)
    mixture = mixing * p + (1 - mixing) * q
    true = p / mixture
    assert (true <= 1 / mixing).all()
    excess = risk(with_ratio(estimate), batch) - risk(with_ratio(true), batch)
    divergence = (mixture * power_divergence(exponent).divergence(true, estimate)).sum()
    torch.testing.assert_close(excess, divergence, rtol=1e-10, atol=1e-8)
    _, there, _ = value_and_gradient(risk, with_ratio(true), batch)
    assert np.abs(there).max() < 1e-12 * max(1, float(true.max()) ** 3)


@pytest.mark.parametrize("mixing", MIXINGS)
@pytest.mark.parametrize("exponent", [0, 0.4, 1, 2])
def test_a_positive_is_pulled_up_to_the_bound_of_a_relative_ratio_and_no_further(
    exponent: float, mixing: float
) -> None:
    """Whatever the weights: here an unlabelled pair, the second, has all of w⁻."""
    weights = Given(torch.tensor([[3.0, 0.0]]).double(), torch.tensor([[1e-30, 1.0]]).double())
    risk = DensityRatio(RelativeRatio(exponent, mixing), EXPONENTIAL, weights, "none", math.inf)
    batch = dataclasses.replace(
        whole_population(2), rows=torch.zeros(1).long(), columns=torch.zeros(1).long()
    )
    for factor, sign in ((0.99, -1), (1, 0), (1.01, 1)):
        ratio = torch.tensor([factor / mixing, 1.0], dtype=torch.float64)
        _, to_user, _ = value_and_gradient(risk, with_ratio(ratio), batch)
        assert np.sign(np.round(to_user[0, 0], 12)) == sign


@given(seed=seeds, risk=assemblies)
def test_no_mixing_and_exponents_of_one_change_no_bit(seed: int, risk: DensityRatio) -> None:
    _, embeddings, batch = draw(seed)
    usual = dataclasses.replace(risk, generator="least-squares", weights=HardSampleWeights())
    unmixed = dataclasses.replace(
        usual, generator=RelativeRatio(mixing=0), weights=RatioPowerWeights(1, 1)
    )
    for a, b in zip(
        value_and_gradient(unmixed, embeddings, batch),
        value_and_gradient(usual, embeddings, batch),
        strict=True,
    ):
        assert np.array_equal(a, b)


@given(seed=seeds, gamma=st.sampled_from([0, 0.5, 1]), exponent=st.sampled_from([0, 0.4, 1]))
def test_all_items_as_candidates_are_a_batch_in_which_every_item_came_up(
    seed: int, gamma: float, exponent: float
) -> None:
    _, embeddings, batch = draw(seed)
    others = np.setdiff1d(np.arange(N_ITEMS), batch.candidates.numpy())
    everything = torch.cat([batch.candidates, torch.from_numpy(others)])
    came_up = dataclasses.replace(
        batch,
        candidates=everything,
        popularity=torch.ones(N_ITEMS, dtype=torch.float64),
        inclusion=torch.ones(N_ITEMS, dtype=torch.float64),
    )
    risk = DensityRatio(power_divergence(exponent), weights=RatioPowerWeights(1, gamma))
    found = value_and_gradient(
        dataclasses.replace(risk, candidate_correction="all-items"), embeddings, batch
    )
    assert_same(found, value_and_gradient(risk, embeddings, came_up), tolerance=1e-12)


@given(
    seed=seeds,
    exponent=st.sampled_from([0, 0.4, 1, 2]),
    gamma=st.sampled_from([0.3, 1, 2]),
    link=st.sampled_from(list(LINKS.values())),
)
def test_the_weights_are_an_adaptive_sampler_with_endlessly_many_draws(
    seed: int, exponent: float, gamma: float, link: Any
) -> None:
    """Negatives drawn with q_u(j) ∝ c_j r̂^γ, each counting alike, have the gradient of W8."""
    rng = np.random.default_rng(seed)
    users, items = random_embeddings(rng, n_users=4, n_items=5, largest_score=3)
    c = torch.from_numpy(rng.uniform(0.1, 3, 5))
    q = c * link.ratio(users @ items.T) ** gamma
    q /= q.sum(1, keepdim=True)
    no_bound, n_users = torch.full((1,), -1.0, dtype=torch.float64), len(users)
    term = UnlabelledTerm(power_divergence(exponent), link, c, gamma)
    wanted = reference(users, items, term, no_bound.expand(n_users))
    to_users, to_items = torch.zeros_like(users), torch.zeros_like(items)
    for u in range(n_users):
        for j in range(len(items)):
            drawn = dataclasses.replace(term, candidates=torch.ones(1).double(), ratio_power=0.0)
            one = reference(users[[u]], items[[j]], drawn, no_bound)
            to_users[u] += q[u, j] * one.to_users[0] / n_users
            to_items[j] += q[u, j] * one.to_items[0] / n_users
    torch.testing.assert_close(to_users, wanted.to_users, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(to_items, wanted.to_items, rtol=1e-10, atol=1e-12)


@given(seed=seeds, b=st.floats(0.05, 3), temperature=st.floats(0.3, 2))
def test_the_normalised_power_divergence_is_a_softmax_of_two_temperatures(
    seed: int, b: float, temperature: float
) -> None:
    """−(1/b) log Ê₊[r^b] + 1/(1+b) log Ê[r^(1+b)] with r = exp(s/τ), over all items."""
    _, embeddings, batch = draw(seed)
    users, items = of_batch(embeddings, batch)
    ratio = (users @ items.T / temperature).exp()
    own = torch.zeros_like(ratio)
    own[batch.rows, batch.candidates[batch.columns]] = 1
    on_positives = ((own * ratio**b).sum(1) / own.sum(1)).log() / b
    wanted = ((ratio ** (1 + b)).mean(1).log() / (1 + b) - on_positives).mean()
    softmax = Softmax(temperature / (1 + b), "users", positive_temperature=temperature / b)
    found = softmax(Embeddings(users, items), batch) - math.log(N_ITEMS)
    torch.testing.assert_close(found, (1 + b) * wanted, rtol=1e-9, atol=1e-9)
