from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor

from ratiorec.kernels.pointwise import (
    GENERATORS,
    KULLBACK_LEIBLER,
    LEAST_SQUARES,
    LOGISTIC,
    Generator,
    power_divergence,
)
from reference.risk import POWERS

positive = st.floats(1e-3, 1e3)
positive_vectors = st.lists(positive, min_size=4, max_size=4).map(
    lambda values: torch.tensor(values, dtype=torch.float64)
)
# fifteen decades, evenly in the logarithm
ratios = torch.logspace(-9, 6, 61, dtype=torch.float64)

EVERY = {**GENERATORS, **{name: power_divergence(b) for name, b in POWERS.items()}}
every_generator = pytest.mark.parametrize("generator", EVERY.values(), ids=EVERY.keys())


def derivative(function: Callable[[Tensor], Tensor], at: Tensor, *, order: int = 1) -> Tensor:
    at = at.clone().requires_grad_()
    value = function(at)
    for _ in range(order):
        (value,) = torch.autograd.grad(value.sum(), at, create_graph=True)
    return value.detach()


def population_risk(generator: Generator, p: Tensor, q: Tensor, ratio: Tensor) -> Tensor:
    """E_q[ℓ±(r̂)] + E_p[ℓ₊(r̂)] over finitely many items."""
    return (q * generator.unlabelled_loss(ratio) + p * generator.positive_loss(ratio)).sum()


@every_generator
@given(p=positive_vectors, q=positive_vectors, estimate=positive_vectors)
def test_excess_risk_is_the_expected_bregman_divergence(
    generator: Generator, p: Tensor, q: Tensor, estimate: Tensor
) -> None:
    p, q = p / p.sum(), q / q.sum()
    at_estimate = population_risk(generator, p, q, estimate)
    at_truth = population_risk(generator, p, q, p / q)
    expected = (q * generator.divergence(p / q, estimate)).sum()
    torch.testing.assert_close(
        at_estimate - at_truth, expected, rtol=1e-9, atol=1e-12 * float(at_estimate.abs() + 1)
    )


@every_generator
@given(p=positive_vectors, q=positive_vectors)
def test_the_population_risk_is_stationary_at_the_true_ratio(
    generator: Generator, p: Tensor, q: Tensor
) -> None:
    p, q = p / p.sum(), q / q.sum()
    slope = derivative(lambda ratio: population_risk(generator, p, q, ratio), p / q)
    # each item's slope is the sum of two that cancel; compare with their size
    size = derivative(lambda ratio: (p * generator.positive_loss(ratio)).sum(), p / q)
    torch.testing.assert_close(
        slope, torch.zeros_like(slope), rtol=0, atol=1e-9 * float(size.abs().max())
    )


@every_generator
@given(true=positive, estimate=positive)
def test_the_divergence_is_positive_unless_the_ratios_agree(
    generator: Generator, true: float, estimate: float
) -> None:
    assume(abs(true - estimate) > 1e-3 * max(true, estimate))
    r, r_hat = torch.tensor([true, estimate], dtype=torch.float64)
    assert float(generator.divergence(r, r_hat)) > 0
    assert float(generator.divergence(r, r)) == 0


@every_generator
@given(a=positive, b=positive)
def test_f_is_strictly_convex(generator: Generator, a: float, b: float) -> None:
    assume(abs(a - b) > 1e-2 * max(a, b))
    left, right = torch.tensor([a, b], dtype=torch.float64)
    middle = generator.f((left + right) / 2)
    assert float(middle) < float((generator.f(left) + generator.f(right)) / 2)


@every_generator
def test_df_is_the_derivative_of_f(generator: Generator) -> None:
    torch.testing.assert_close(
        generator.df(ratios), derivative(generator.f, ratios), rtol=1e-9, atol=1e-12
    )


@every_generator
def test_the_slope_of_the_unlabelled_loss_is_the_ratio_times_the_second_derivative_of_f(
    generator: Generator,
) -> None:
    torch.testing.assert_close(
        generator.unlabelled_slope(ratios),
        ratios * derivative(generator.df, ratios),
        rtol=1e-9,
        atol=0,
    )


@every_generator
def test_the_slope_of_the_unlabelled_loss_is_its_derivative(generator: Generator) -> None:
    torch.testing.assert_close(
        generator.unlabelled_slope(ratios),
        derivative(generator.unlabelled_loss, ratios),
        rtol=1e-9,
        atol=0,
    )


@every_generator
def test_the_unlabelled_loss_follows_from_f(generator: Generator) -> None:
    moderate = ratios[ratios < 1e3]
    torch.testing.assert_close(
        generator.unlabelled_loss(moderate),
        generator.df(moderate) * moderate - generator.f(moderate),
        rtol=1e-9,
        atol=1e-12,
    )


@every_generator
def test_the_unlabelled_loss_starts_at_zero_and_rises(generator: Generator) -> None:
    small = torch.tensor([1e-300, 1e-30, 1e-10], dtype=torch.float64)
    assert (generator.unlabelled_loss(small) <= 1.01 * small).all()
    assert (generator.unlabelled_loss(ratios) > 0).all()
    assert (generator.unlabelled_loss(ratios).diff() > 0).all()


@pytest.mark.parametrize(
    ("generator", "unlabelled", "positive_loss"),
    [
        (LEAST_SQUARES, lambda r: r**2 / 2, lambda r: -r),
        (KULLBACK_LEIBLER, lambda r: r, lambda r: -r.log()),
        (LOGISTIC, lambda r: (1 + r).log(), lambda r: (1 + 1 / r).log()),
    ],
    ids=GENERATORS.keys(),
)
def test_the_losses_have_their_closed_forms(
    generator: Generator,
    unlabelled: Callable[[Tensor], Tensor],
    positive_loss: Callable[[Tensor], Tensor],
) -> None:
    moderate = torch.logspace(-3, 3, 25, dtype=torch.float64)
    torch.testing.assert_close(
        generator.unlabelled_loss(moderate), unlabelled(moderate), rtol=1e-11, atol=0
    )
    torch.testing.assert_close(
        generator.positive_loss(moderate), positive_loss(moderate), rtol=1e-11, atol=1e-14
    )


def test_the_logistic_loss_keeps_its_digits_where_the_ratio_is_large() -> None:
    large = torch.tensor([1e6, 1e9, 1e13], dtype=torch.float64)
    torch.testing.assert_close(LOGISTIC.unlabelled_loss(large), large.log1p(), rtol=1e-12, atol=0)
    torch.testing.assert_close(
        LOGISTIC.unlabelled_loss(large.float()), large.log1p().float(), rtol=1e-5, atol=0
    )


@every_generator
def test_a_ratio_that_vanished_in_single_precision_gives_a_finite_slope(
    generator: Generator,
) -> None:
    assert generator.unlabelled_slope(torch.zeros(1)).isfinite().all()
    assert float(generator.unlabelled_loss(torch.zeros(1))) == 0


@pytest.mark.parametrize("generator", [*GENERATORS.values(), power_divergence(0.4)])
def test_the_gain_of_a_hopeless_positive_has_a_finite_slope_in_single_precision(
    generator: Generator,
) -> None:
    score = torch.tensor([-80.0, -60.0, -45.0, 0.0], requires_grad=True)
    gain = generator.positive_loss(torch.nn.functional.softplus(score))
    (slope,) = torch.autograd.grad(gain.sum(), score)
    assert slope.isfinite().all()
    assert (slope < 0).all()


@pytest.mark.parametrize(
    ("exponent", "limit", "constant"), [(1e-7, KULLBACK_LEIBLER, 0), (1 + 1e-7, LEAST_SQUARES, 1)]
)
def test_the_power_divergence_tends_to_its_two_named_members(
    exponent: float, limit: Generator, constant: float
) -> None:
    near, moderate = power_divergence(exponent), torch.logspace(-3, 3, 25, dtype=torch.float64)
    for found, wanted in (
        (near.unlabelled_loss(moderate), limit.unlabelled_loss(moderate)),
        (near.unlabelled_slope(moderate), limit.unlabelled_slope(moderate)),
        (near.positive_loss(moderate), limit.positive_loss(moderate) + constant),
    ):
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
    assert power_divergence(round(exponent)) is limit


@given(b=st.floats(0.05, 3))
def test_the_power_divergence_is_a_multiple_of_the_usual_one(b: float) -> None:
    """(t^(1+b) − t)/b, over 1 + b and less an affine part, which no divergence sees."""
    r, estimate = torch.tensor([[0.2, 1.0, 3.0], [0.5, 0.9, 7.0]], dtype=torch.float64)

    def usual(t: Tensor) -> Tensor:
        return (t ** (1 + b) - t) / b

    slope = derivative(usual, estimate)
    torch.testing.assert_close(
        (1 + b) * power_divergence(b).divergence(r, estimate),
        usual(r) - usual(estimate) - slope * (r - estimate),
    )


def test_a_cube_pulls_as_a_square_with_the_ratio_as_its_weight() -> None:
    """With b = 2 and uniform weights: the hard-sample shape, as a true gradient."""
    torch.testing.assert_close(
        power_divergence(2.0).unlabelled_slope(ratios),
        ratios * LEAST_SQUARES.unlabelled_slope(ratios),
    )
