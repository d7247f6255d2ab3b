from __future__ import annotations

import itertools
from contextlib import AbstractContextManager, nullcontext

import pytest
import torch
from torch import Tensor

from ratiorec.blocks import fixed_blocks
from ratiorec.risk import unlabelled
from ratiorec.risk.bregman import LEAST_SQUARES, LOGISTIC
from ratiorec.risk.density_ratio import pointwise_terms
from ratiorec.risk.unlabelled import (
    CACHE_SIZED,
    PointwiseFunction,
    Tile,
    plain_unlabelled,
    self_normalised_unlabelled,
)
from ratiorec.risk.weights import HardSample
from ratiorec.scores import SOFTPLUS
from small_data import handmade_batch

DIMENSION = 3
BESIDE_THE_BORDERS = list(
    itertools.product(
        (CACHE_SIZED.n_users - 1, CACHE_SIZED.n_users, CACHE_SIZED.n_users + 1),
        (CACHE_SIZED.n_items - 1, CACHE_SIZED.n_items, CACHE_SIZED.n_items + 1),
    )
)


def factors(n_users: int, n_items: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(n_users * n_items)
    users = torch.randn(n_users, DIMENSION, generator=generator, dtype=torch.float64)
    items = torch.randn(n_items, DIMENSION, generator=generator, dtype=torch.float64)
    return users.to(dtype).requires_grad_(), items.to(dtype).requires_grad_()


def inclusion(n_items: int, dtype: torch.dtype) -> Tensor:
    return torch.linspace(0.1, 1, n_items, dtype=torch.float64).to(dtype)


def tiled(n_items: int, dtype: torch.dtype) -> PointwiseFunction:
    """The logistic loss under hard-sample weights and the sampling correction."""
    no_batch = handmade_batch([0], [0], [[0]], prior=[1], popularity=[1], inclusion=[1])
    return pointwise_terms(
        LOGISTIC, SOFTPLUS, HardSample(), 1 / inclusion(n_items, dtype), no_batch
    )


def dense(users: Tensor, items: Tensor, *, normalised: bool) -> Tensor:
    """The same mean from one matrix, differentiated by autograd."""
    scores = users @ items.T
    weight = SOFTPLUS.ratio(scores).detach() / inclusion(len(items), users.dtype)
    total = (weight * SOFTPLUS.ratio(scores).log1p()).sum(-1)
    return total / (weight.sum(-1) if normalised else len(items))


def gradients(value: Tensor, users: Tensor, items: Tensor) -> tuple[Tensor, Tensor]:
    # a different outer gradient for every user, so that rows cannot be mixed up unseen
    outer = torch.linspace(-1, 2, len(value), dtype=value.dtype)
    to_users, to_items = torch.autograd.grad(value, (users, items), outer)
    return to_users, to_items


@pytest.mark.parametrize("context", [nullcontext, fixed_blocks], ids=["plain", "fixed-blocks"])
@pytest.mark.parametrize(("dtype", "rtol"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
@pytest.mark.parametrize(("n_users", "n_items"), [*BESIDE_THE_BORDERS, (1, 1), (300, 2050)])
def test_value_and_gradient_equal_those_of_one_dense_matrix(
    n_users: int,
    n_items: int,
    dtype: torch.dtype,
    rtol: float,
    context: type[AbstractContextManager[None]],
) -> None:
    users, items = factors(n_users, n_items, dtype)
    for mean, normalised in ((self_normalised_unlabelled, True), (plain_unlabelled, False)):
        expected = dense(users, items, normalised=normalised)
        with context():
            found = mean(users, items, tiled(n_items, dtype))
            found_gradients = gradients(found, users, items)
        torch.testing.assert_close(found, expected, rtol=rtol, atol=0)
        expected_gradients = gradients(expected, users, items)
        for a, b in zip(found_gradients, expected_gradients, strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=rtol * float(b.abs().max()))


def test_the_size_of_a_tile_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    users, items = factors(7, 11, torch.float64)
    whole = self_normalised_unlabelled(users, items, tiled(11, torch.float64))
    to_users, to_items = gradients(whole, users, items)
    monkeypatch.setattr(unlabelled, "CACHE_SIZED", Tile(2, 3))
    cut = self_normalised_unlabelled(users, items, tiled(11, torch.float64))
    torch.testing.assert_close(cut, whole, rtol=1e-13, atol=0)
    for a, b in zip(gradients(cut, users, items), (to_users, to_items), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-14)


def test_the_gradient_agrees_with_finite_differences() -> None:
    users, items = factors(3, 4, torch.float64)
    no_batch = handmade_batch([0], [0], [[0]], prior=[1], popularity=[1], inclusion=[1])

    class Constant:
        """Weights that do not follow the scores, as differences would otherwise see them."""

        def positive(self, pairs: object) -> Tensor:
            raise AssertionError("no positives here")

        def unlabelled(self, pairs: object) -> Tensor:
            return torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64).expand(3, 4)

    terms = pointwise_terms(LEAST_SQUARES, SOFTPLUS, Constant(), torch.ones(4).double(), no_batch)
    assert torch.autograd.gradcheck(
        lambda u, i: self_normalised_unlabelled(u, i, terms), (users, items)
    )
