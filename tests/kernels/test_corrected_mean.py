from __future__ import annotations

import pytest
import torch
from torch import Tensor

from ratiorec.kernels.pointwise import GENERATORS, LINKS, SOFTPLUS
from ratiorec.kernels.unlabelled import (
    Backend,
    FirstModel,
    Tiled,
    UnlabelledTerm,
    corrected_mean,
    reference,
    tiled,
)

BACKENDS: dict[str, Backend] = {
    "reference": reference,
    "tiled": tiled,
    "tiles-2-3": Tiled(n_users=2, n_items=3, n_blocks=1),
}
every_backend = pytest.mark.parametrize("backend", BACKENDS.values(), ids=BACKENDS.keys())


def normal(n_rows: int, n_columns: int, *, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n_rows, n_columns, generator=generator, dtype=torch.float64)


def constant_weights(generator: str, link: str) -> UnlabelledTerm:
    """Weights that do not follow the scores, as differences would otherwise see them."""
    return UnlabelledTerm(
        GENERATORS[generator],
        LINKS[link],
        torch.arange(1.0, 5.0, dtype=torch.float64),
        first=FirstModel(normal(5, 2, seed=3), normal(4, 2, seed=4), SOFTPLUS),
    )


def near_the_terms(term: UnlabelledTerm, users: Tensor, items: Tensor) -> Tensor:
    """Bounds that hold every other user."""
    value = reference(users, items, term, users.new_zeros(len(users))).value
    return value * torch.tensor([0.7, 1.3, 0.7, 1.3, 0.7], dtype=torch.float64)


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("generator", GENERATORS)
@every_backend
def test_all_gradients_agree_with_finite_differences(
    backend: Backend, generator: str, link: str
) -> None:
    users, items = normal(5, 3, seed=0), normal(4, 3, seed=1)
    term = constant_weights(generator, link)
    bound = near_the_terms(term, users, items)
    given = tuple(x.requires_grad_() for x in (users, items, bound))
    assert torch.autograd.gradcheck(
        lambda u, i, b: corrected_mean(u, i, term, b, backend=backend), given
    )


@every_backend
def test_a_held_user_counts_with_his_bound_and_any_other_with_his_term(
    backend: Backend,
) -> None:
    users, items = normal(5, 3, seed=0), normal(4, 3, seed=1)
    term = constant_weights("least-squares", "softplus")
    bound = near_the_terms(term, users, items).requires_grad_()
    mean = corrected_mean(users, items, term, bound, backend=backend)
    terms = reference(users, items, term, bound).value
    held = [1, 3]
    expected = sum(bound[u] if u in held else terms[u] for u in range(5)) / 5
    torch.testing.assert_close(mean, expected)
    (to_bound,) = torch.autograd.grad(mean, bound)
    assert to_bound.tolist() == [1 / 5 if u in held else 0 for u in range(5)]


@every_backend
def test_the_gradients_are_those_of_what_is_made_of_the_mean(backend: Backend) -> None:
    users, items = normal(5, 3, seed=0).requires_grad_(), normal(4, 3, seed=1).requires_grad_()
    term = constant_weights("logistic", "softplus")
    bound = near_the_terms(term, users.detach(), items.detach()).requires_grad_()
    mean = corrected_mean(users, items, term, bound, backend=backend)
    once = torch.autograd.grad(mean, (users, items, bound), retain_graph=True)
    cubed = torch.autograd.grad(mean**3, (users, items, bound))
    for a, b in zip(cubed, once, strict=True):
        torch.testing.assert_close(a, 3 * mean.detach() ** 2 * b)


def test_only_the_gradients_and_who_is_held_are_kept_for_the_backward_pass() -> None:
    kept: list[Tensor] = []

    def pack(tensor: Tensor) -> Tensor:
        kept.append(tensor)
        return tensor

    users, items = normal(5, 3, seed=0).requires_grad_(), normal(4, 3, seed=1).requires_grad_()
    term = constant_weights("logistic", "softplus")
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        corrected_mean(users, items, term, users.new_zeros(5), backend=tiled)
    assert sorted(tuple(tensor.shape) for tensor in kept) == [(4, 3), (5,), (5, 3)]
