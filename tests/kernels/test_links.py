from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from ratiorec.kernels.pointwise import LINKS, SOFTPLUS, Link

every_link = pytest.mark.parametrize("link", LINKS.values(), ids=LINKS.keys())


def softplus_by_halves(score: float) -> float:
    """log(1 + eˢ), written so that neither half overflows or cancels."""
    return max(score, 0) + math.log1p(math.exp(-abs(score)))


@every_link
def test_the_slope_is_the_derivative_of_the_ratio(link: Link) -> None:
    score = torch.linspace(-60, 60, 481, dtype=torch.float64, requires_grad=True)
    ratio, slope = link.with_slope(score.detach())
    torch.testing.assert_close(ratio, link.ratio(score).detach(), rtol=1e-15, atol=0)
    (derivative,) = torch.autograd.grad(link.ratio(score).sum(), score)
    torch.testing.assert_close(slope, derivative, rtol=1e-13, atol=0)


@every_link
def test_a_higher_score_is_a_higher_ratio(link: Link) -> None:
    ratio = link.ratio(torch.linspace(-80, 80, 1001, dtype=torch.float64))
    assert (ratio > 0).all()
    assert (ratio.diff() > 0).all()


def test_softplus_keeps_its_digits_over_the_whole_range() -> None:
    # dense near 0 and near the threshold where torch turns to the identity
    scores = np.concatenate([np.linspace(-700, 700, 2801), np.linspace(45, 55, 101)])
    expected = torch.tensor([softplus_by_halves(s) for s in scores], dtype=torch.float64)
    found = SOFTPLUS.ratio(torch.from_numpy(scores))
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=0)


def test_softplus_is_finite_and_positive_in_single_precision() -> None:
    scores = torch.linspace(-80, 80, 3201)
    ratio, slope = SOFTPLUS.with_slope(scores)
    for values in (ratio, slope):
        assert values.isfinite().all()
        assert (values > 0).all()
    expected = torch.tensor([softplus_by_halves(s) for s in scores.tolist()])
    torch.testing.assert_close(ratio, expected, rtol=2e-6, atol=0)


def test_the_exponential_link_is_its_own_slope() -> None:
    score = torch.tensor([0.0, 1.0], dtype=torch.float64)
    ratio, slope = LINKS["exponential"].with_slope(score)
    assert ratio.tolist() == slope.tolist() == [1.0, math.e]
