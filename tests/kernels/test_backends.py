"""Every backend gives the value and the gradients of plain loops, for every kind of term."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from torch import Tensor

import reference.risk as slow
from ratiorec.kernels.pointwise import (
    EXPONENTIAL,
    GENERATORS,
    LINKS,
    SOFTPLUS,
    power_divergence,
)
from ratiorec.kernels.unlabelled import (
    LARGE,
    Backend,
    FirstModel,
    Tiled,
    Unlabelled,
    UnlabelledTerm,
    reference,
    tiled,
)
from reference.dual import Dual

# sizes that 7 users and 11 candidates do not come out even with, and sizes beyond them
BACKENDS: dict[str, Backend] = {
    "reference": reference,
    "tiled": tiled,
    "large": LARGE,
    "tiles-3-4": Tiled(n_users=3, n_items=4, n_blocks=2),
    "tiles-1-1": Tiled(n_users=1, n_items=1, n_blocks=1),
    "tiles-7-11": Tiled(n_users=7, n_items=11, n_blocks=3),
}
WEIGHTS = ("uniform", "candidates", "hard-sample", "root", "first", "hard-sample-first")
DIVISORS = (None, 5.0)
N_USERS, N_ITEMS = 7, 11

every_backend = pytest.mark.parametrize("backend", BACKENDS.values(), ids=BACKENDS.keys())
EVERY = {**GENERATORS, **{name: power_divergence(b) for name, b in slow.POWERS.items()}}
every_generator = pytest.mark.parametrize("generator", EVERY)
every_link = pytest.mark.parametrize("link", LINKS)


@dataclass(frozen=True)
class Case:
    """A term, the vectors it is computed from, and the names that the loops know it by."""

    users: Tensor
    items: Tensor
    term: UnlabelledTerm
    generator: str
    link: str

    def single(self) -> Case:
        first = self.term.first
        term = replace(
            self.term,
            candidates=self.term.candidates.float(),
            first=first and FirstModel(first.users.float(), first.items.float(), first.link),
        )
        return replace(self, users=self.users.float(), items=self.items.float(), term=term)

    def loops(self) -> list[Dual]:
        first = self.term.first
        return slow.unlabelled_term(
            self.users.tolist(),
            self.items.tolist(),
            generator=self.generator,
            link=self.link,
            candidates=self.term.candidates.tolist(),
            ratio_power=self.term.ratio_power,
            first=first and first.link.ratio(first.users @ first.items.T).tolist(),
            divisor=self.term.divisor,
        )


def eighths(rng: np.random.Generator, *shape: int, largest: float) -> Tensor:
    """Numbers whose products and sums are exact in single precision, so that scores are, too."""
    return torch.from_numpy(rng.integers(-8 * largest, 8 * largest, shape, endpoint=True) / 8)


def draw(
    generator: str,
    link: str,
    weights: str,
    divisor: float | None,
    *,
    n_users: int = N_USERS,
    n_items: int = N_ITEMS,
    lowest: float = -4.0,
    highest: float = 4.0,
) -> Case:
    """Vectors whose scores lie between the two numbers, one of them near either end."""
    rng = np.random.default_rng(len(generator) + 7 * len(link) + 31 * len(weights))
    middle, half = (highest + lowest) / 2, (highest - lowest) / 2
    users = torch.ones(n_users, 3, dtype=torch.float64)
    users[:, :2] = eighths(rng, n_users, 2, largest=2)
    items = torch.full((n_items, 3), middle, dtype=torch.float64)
    items[:, :2] = eighths(rng, n_items, 2, largest=half / 4)
    users[0, :2], items[0, :2], items[-1, :2] = 2, half / 4, -half / 4
    candidates = torch.from_numpy(rng.uniform(0.5, 20, n_items)).float().double()
    first = FirstModel(
        eighths(rng, n_users, 2, largest=1), eighths(rng, n_items, 2, largest=1), SOFTPLUS
    )
    term = UnlabelledTerm(
        EVERY[generator],
        LINKS[link],
        torch.ones_like(candidates) if weights == "uniform" else candidates,
        {"hard-sample": 1.0, "hard-sample-first": 1.0, "root": 0.5}.get(weights, 0.0),
        first if weights.endswith("first") else None,
        divisor,
    )
    return Case(users, items, term, generator, link)


def some_held(terms: list[Dual]) -> Tensor:
    """Bounds above the term of every other user, and below that of the rest."""
    factors = itertools.cycle([0.5, 2.0])
    return torch.tensor(
        [term.value * f for term, f in zip(terms, factors, strict=False)], dtype=torch.float64
    )


def assert_equal_to_loops(
    found: Unlabelled, terms: list[Dual], bound: Tensor, *, tolerance: float
) -> None:
    """Each value within a share of itself, each gradient within a share of its length."""
    values = torch.tensor([term.value for term in terms], dtype=torch.float64)
    torch.testing.assert_close(found.value.double(), values, rtol=tolerance, atol=1e-37)
    slopes = slow.corrected_mean(terms, bound.tolist()).slopes
    for kind, gradient in (("user", found.to_users), ("item", found.to_items)):
        wanted = torch.tensor(
            [
                [slopes.get((kind, row, column), 0.0) for column in range(gradient.shape[1])]
                for row in range(gradient.shape[0])
            ],
            dtype=torch.float64,
        )
        assert wanted.norm() > 0
        assert (gradient.double() - wanted).norm() <= tolerance * wanted.norm()


@pytest.mark.parametrize("weights", WEIGHTS)
@every_link
@every_generator
@every_backend
def test_value_and_gradients_equal_the_plain_loops(
    backend: Backend, generator: str, link: str, weights: str
) -> None:
    for divisor in DIVISORS:
        case = draw(generator, link, weights, divisor)
        terms = case.loops()
        bound = some_held(terms)
        found = backend(case.users, case.items, case.term, bound)
        assert_equal_to_loops(found, terms, bound, tolerance=1e-12)


@pytest.mark.parametrize("weights", WEIGHTS)
@every_link
@every_generator
@every_backend
def test_single_precision_keeps_its_digits_at_far_scores(
    backend: Backend, generator: str, link: str, weights: str
) -> None:
    # r̂⁴ must be a number: of the exponential link this is so up to a score of 22
    highest = 80.0 if link == "softplus" else 20.0
    for divisor in DIVISORS:
        case = draw(generator, link, weights, divisor, lowest=-80.0, highest=highest).single()
        terms = case.loops()
        bound = some_held(terms)
        found = backend(case.users, case.items, case.term, bound.float())
        assert_equal_to_loops(found, terms, bound, tolerance=1e-5)


@pytest.mark.parametrize("weights", ["uniform", "first"])
@pytest.mark.parametrize("generator", ["kullback-leibler", "logistic"])
@every_link
@every_backend
def test_ratios_that_are_all_far_below_one_keep_their_digits(
    backend: Backend, link: str, generator: str, weights: str
) -> None:
    # not with a loss or a weight that squares them: e⁻⁸⁰ has no square in single precision
    case = draw(generator, link, weights, None, lowest=-80.0, highest=-36.0).single()
    terms, bound = case.loops(), torch.zeros(N_USERS)
    found = backend(case.users, case.items, case.term, bound)
    assert_equal_to_loops(found, terms, bound, tolerance=1e-5)


@pytest.mark.parametrize(("n_users", "n_items"), [(1, 1), (1, 9), (6, 1), (3, 4), (4, 8), (5, 9)])
@every_backend
def test_any_number_of_users_and_candidates_will_do(
    backend: Backend, n_users: int, n_items: int
) -> None:
    case = draw("logistic", "softplus", "hard-sample-first", None, n_users=n_users, n_items=n_items)
    terms, bound = case.loops(), torch.zeros(n_users, dtype=torch.float64)
    found = backend(case.users, case.items, case.term, bound)
    assert_equal_to_loops(found, terms, bound, tolerance=1e-12)


@pytest.mark.parametrize("weights", ["candidates", "hard-sample-first"])
@every_generator
@every_backend
def test_a_candidate_that_counts_nothing_is_as_good_as_absent(
    backend: Backend, generator: str, weights: str
) -> None:
    case = draw(generator, "softplus", weights, None)
    kept = torch.tensor([i % 3 != 1 for i in range(N_ITEMS)])
    first = case.term.first
    present = replace(
        case.term,
        candidates=case.term.candidates[kept],
        first=first and first._replace(items=first.items[kept]),
    )
    left_out = replace(case.term, candidates=case.term.candidates * kept)
    bound = torch.zeros(N_USERS, dtype=torch.float64)
    wanted = backend(case.users, case.items[kept], present, bound)
    found = backend(case.users, case.items, left_out, bound)
    torch.testing.assert_close(found.value, wanted.value, rtol=1e-13, atol=0)
    torch.testing.assert_close(found.to_users, wanted.to_users, rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(found.to_items[kept], wanted.to_items, rtol=1e-12, atol=1e-14)
    assert not found.to_items[~kept].any()


@every_backend
def test_a_user_at_the_bound_has_no_gradient(backend: Backend) -> None:
    # one candidate: the term is the loss itself, r̂²/2 = e^0/2, and so is the bound
    term = UnlabelledTerm(GENERATORS["least-squares"], EXPONENTIAL, torch.ones(1))
    found = backend(torch.zeros(1, 2), torch.ones(1, 2), term, torch.tensor([0.5]))
    assert found.value.tolist() == [0.5]
    assert not found.to_users.any()
    assert not found.to_items.any()


@every_link
@every_backend
def test_weights_that_all_vanished_leave_numbers(backend: Backend, link: str) -> None:
    case = draw("least-squares", link, "hard-sample", None, lowest=-400.0, highest=-300.0).single()
    found = backend(case.users, case.items, case.term, torch.zeros(N_USERS))
    assert not found.value.any()
    assert not found.to_users.any()
    assert not found.to_items.any()


@every_backend
def test_what_it_is_given_stays_as_it_was(backend: Backend) -> None:
    case = draw("logistic", "softplus", "hard-sample-first", None)
    bound = torch.ones(N_USERS, dtype=torch.float64)
    assert case.term.first is not None
    given = [case.users, case.items, case.term.candidates, *case.term.first[:2], bound]
    before = [x.clone() for x in given]
    backend(case.users.requires_grad_(), case.items.requires_grad_(), case.term, bound)
    assert all(torch.equal(a, b) for a, b in zip(before, given, strict=True))
