"""Kernels run by Triton's interpreter; with a GPU they also run on it, compiled:

python -m pytest --noconftest tests/kernels/test_triton_unlabelled.py
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from ratiorec.errors import ConfigError
from ratiorec.kernels.pointwise import (
    EXPONENTIAL,
    GENERATORS,
    KULLBACK_LEIBLER,
    LEAST_SQUARES,
    LINKS,
    LOGISTIC,
    SOFTPLUS,
    Generator,
    Link,
    power_divergence,
)
from ratiorec.kernels.triton.unlabelled import Tiles, Triton, knows
from ratiorec.kernels.unlabelled import FirstModel, Unlabelled, UnlabelledTerm, reference
from support.interpreted_kernels import Case, Interpreter, interpreter
from support.triton_marks import needs_a_gpu, needs_interpreter, needs_triton

__all__ = ["interpreter"]

N_USERS, N_ITEMS = 21, 37  # neither comes out even with the blocks below
SMALL = Tiles(n_rows=16, n_columns=32, n_warps=4, n_stages=2, n_resident=1)
EXACT = Triton("ieee", SMALL, SMALL)
SPREAD = {"softplus": 0.7, "exponential": 0.25}  # of the vectors; an exponential grows quickly
WEIGHTS = {
    "uniform": (0.0, None),
    "hard-sample": (1.0, None),
    "root": (0.5, None),
    "first": (0.0, SOFTPLUS),
    "hard-sample-first": (1.0, EXPONENTIAL),
}

EVERY = {
    **GENERATORS,
    "power-0.4": power_divergence(0.4),
    "power-2": power_divergence(2.0),
}
every_generator = pytest.mark.parametrize("generator", EVERY)
every_link = pytest.mark.parametrize("link", LINKS)


def normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def draw(
    generator: Generator = LEAST_SQUARES,
    link: Link = SOFTPLUS,
    weights: str = "hard-sample",
    *,
    n_users: int = N_USERS,
    n_items: int = N_ITEMS,
    dim: int = 9,
    spread: float = 0.7,
    divisor: float | None = None,
    device: str = "cpu",
) -> Case:
    """Normal vectors, and bounds that every third user stays below."""
    ratio_power, first_link = WEIGHTS[weights]
    candidates = normal(1, n_items).abs().to(device)
    candidates[::5] = 0
    candidates[0] = 1
    term = UnlabelledTerm(
        generator,
        link,
        candidates,
        ratio_power,
        first_link
        and FirstModel(
            0.4 * normal(2, n_users, 5).to(device),
            0.4 * normal(3, n_items, 5).to(device),
            first_link,
        ),
        divisor,
    )
    users = spread * normal(4, n_users, dim).to(device)
    items = spread * normal(5, n_items, dim).to(device)
    bound = torch.zeros(n_users, device=device)
    bound[::3] = 2 * expected((users, items, term, bound)).value[::3].float()
    return users, items, term, bound


def expected(case: Case) -> Unlabelled:
    """Whole matrices in double precision."""
    users, items, term, bound = case
    first = term.first
    exact = replace(
        term,
        candidates=term.candidates.double(),
        first=first and FirstModel(first.users.double(), first.items.double(), first.link),
    )
    return reference(users.double(), items.double(), exact, bound.double())


def largest_error(found: Unlabelled, wanted: Unlabelled) -> float:
    """Of value and gradients, each in proportion to its length."""
    return max(
        float((a.double() - b).norm() / b.norm()) for a, b in zip(found, wanted, strict=True)
    )


@needs_interpreter
@pytest.mark.parametrize("weights", WEIGHTS)
@every_link
@every_generator
def test_value_and_gradients_equal_those_of_whole_matrices(
    interpreter: Interpreter, generator: str, link: str, weights: str
) -> None:
    for divisor in (None, 7.0):
        case = draw(EVERY[generator], LINKS[link], weights, spread=SPREAD[link], divisor=divisor)
        assert largest_error(interpreter.unlabelled(EXACT, case), expected(case)) < 5e-6


@needs_interpreter
@pytest.mark.parametrize(
    ("products", "tolerance"), [("tf32", 1e-3), ("fp16", 3e-3), ("bf16", 5e-3)]
)
@every_link
@every_generator
def test_rounded_products_cost_so_many_digits_and_no_more(
    interpreter: Interpreter, generator: str, link: str, products: str, tolerance: float
) -> None:
    case = draw(EVERY[generator], LINKS[link], spread=SPREAD[link])
    error = largest_error(
        interpreter.unlabelled(Triton(products, SMALL, SMALL), case), expected(case)
    )
    assert 1e-5 < error < tolerance


def far_scores(generator: Generator, link: Link, ratio_power: float, at: list[float]) -> Case:
    """One user, of whom every item has one of these scores, exactly."""
    users, items = torch.zeros(1, 16), torch.zeros(len(at), 16)
    users[0, 0], items[:, 0] = 8, torch.tensor(at) / 8
    items[:, 1] = torch.linspace(0.5, 2, len(at))  # a gradient where none is asked for
    term = UnlabelledTerm(generator, link, torch.ones(len(at)), ratio_power)
    return users, items, term, torch.zeros(1)


@needs_interpreter
@pytest.mark.parametrize("at", [[80.0, -80.0, 40.0, -3.0], [-80.0, -79.0, -78.0], [80.0, 79.0]])
@pytest.mark.parametrize("generator", [KULLBACK_LEIBLER, LOGISTIC], ids=["kl", "logistic"])
@every_link
def test_far_scores_keep_their_digits(
    interpreter: Interpreter, generator: Generator, link: str, at: list[float]
) -> None:
    # without weights or losses that square r̂: e^±80 has no square in single precision
    case = far_scores(generator, LINKS[link], 0.0, at)
    assert largest_error(interpreter.unlabelled(EXACT, case), expected(case)) < 1e-5


@needs_interpreter
@pytest.mark.parametrize("weights", ["uniform", "hard-sample", "root"])
@every_generator
def test_far_scores_of_all_signs_keep_their_digits_under_every_weight(
    interpreter: Interpreter, generator: str, weights: str
) -> None:
    case = far_scores(
        EVERY[generator], SOFTPLUS, WEIGHTS[weights][0], [80.0, -80.0, 7.5, -7.5, 0.0, 0.125]
    )
    assert largest_error(interpreter.unlabelled(EXACT, case), expected(case)) < 1e-5


@needs_interpreter
@pytest.mark.parametrize("ratio_power", [0.0, 1.0, 0.5, -0.5, 2.0])
@every_link
@every_generator
def test_the_functions_of_every_score_are_right_to_five_digits(
    interpreter: Interpreter, generator: str, link: str, ratio_power: float
) -> None:
    # one item, so that every user has one score; r̂ to the power that is asked for is a number
    exponent = {"least-squares": 1, "power-0.4": 0.4, "power-2": 2}.get(generator, 0)
    most = abs(ratio_power) + 1 + exponent
    at = torch.linspace(-80 / most, 80 / most, 97)
    users, items = torch.zeros(len(at), 2), torch.tensor([[1.0, 0.0]])
    users[:, 0] = at
    term = UnlabelledTerm(EVERY[generator], LINKS[link], torch.ones(1), ratio_power, divisor=1.0)
    case = users, items, term, torch.zeros(len(at))
    high = SMALL._replace(n_rows=128)
    found, wanted = interpreter.unlabelled(Triton("ieee", high, SMALL), case), expected(case)
    torch.testing.assert_close(found.value.double(), wanted.value, rtol=1e-5, atol=0)
    torch.testing.assert_close(found.to_users.double(), wanted.to_users, rtol=1e-5, atol=0)


@needs_interpreter
@pytest.mark.parametrize(
    ("n_users", "n_items", "dim"),
    [(1, 1, 1), (1, 40, 16), (40, 1, 17), (16, 32, 32), (17, 33, 3), (15, 31, 64)],
)
def test_any_size_will_do(interpreter: Interpreter, n_users: int, n_items: int, dim: int) -> None:
    case = draw(weights="hard-sample-first", n_users=n_users, n_items=n_items, dim=dim, spread=0.3)
    case[3].zero_()
    found = interpreter.unlabelled(EXACT, case)
    assert [x.shape for x in found] == [(n_users,), (n_users, dim), (n_items, dim)]
    assert largest_error(found, expected(case)) < 5e-6


@needs_interpreter
@pytest.mark.parametrize("products", ["fp16", "bf16", "tf32", "ieee"])
def test_the_usual_tiles_give_the_same(interpreter: Interpreter, products: str) -> None:
    case = draw()
    found, wanted = interpreter.unlabelled(Triton(products), case), expected(case)
    assert largest_error(found, wanted) < (1e-5 if products == "ieee" else 5e-3)


@needs_interpreter
@pytest.mark.parametrize("n_resident", [1, 3, 1000], ids=["one share", "few", "a block each"])
@pytest.mark.parametrize("weights", ["uniform", "hard-sample-first"])
def test_shares_of_the_columns_add_up(
    interpreter: Interpreter, weights: str, n_resident: int
) -> None:
    case = draw(LOGISTIC, weights=weights, n_users=70, n_items=85)
    tiles = SMALL._replace(n_resident=n_resident)
    assert (
        largest_error(interpreter.unlabelled(Triton("ieee", tiles, tiles), case), expected(case))
        < 5e-6
    )


@needs_interpreter
def test_an_item_that_counts_nothing_has_no_gradient(interpreter: Interpreter) -> None:
    case = draw()
    found = interpreter.unlabelled(EXACT, case)
    left_out = case[2].candidates == 0
    assert left_out.any()
    assert not found.to_items[left_out].any()


@needs_interpreter
def test_a_user_below_the_bound_has_no_gradient(interpreter: Interpreter) -> None:
    found = interpreter.unlabelled(EXACT, draw())
    held = torch.arange(N_USERS) % 3 == 0
    assert not found.to_users[held].any()
    assert found.to_users[~held].any(1).all()


@needs_interpreter
def test_a_user_at_the_bound_has_no_gradient(interpreter: Interpreter) -> None:
    # one candidate: the term is the loss itself, r̂²/2 = e^0/2, and so is the bound
    term = UnlabelledTerm(LEAST_SQUARES, EXPONENTIAL, torch.ones(1))
    found = interpreter.unlabelled(
        EXACT, (torch.zeros(1, 2), torch.ones(1, 2), term, torch.tensor([0.5]))
    )
    assert found.value.tolist() == [0.5]
    assert not found.to_users.any()
    assert not found.to_items.any()


@needs_interpreter
@every_link
def test_weights_that_all_vanished_leave_numbers(interpreter: Interpreter, link: str) -> None:
    case = far_scores(LEAST_SQUARES, LINKS[link], 1.0, [-400.0, -300.0])
    found = interpreter.unlabelled(EXACT, case)
    assert not any(x.any() for x in found)


@needs_interpreter
def test_vectors_may_lie_in_memory_as_they_like(interpreter: Interpreter) -> None:
    users, items, term, bound = draw()
    turned = users.T.contiguous().T, items.repeat(1, 2)[:, : items.shape[1]], term, bound
    assert turned[0].stride() != users.stride() != turned[1].stride()
    for a, b in zip(
        interpreter.unlabelled(EXACT, turned),
        interpreter.unlabelled(EXACT, (users, items, term, bound)),
        strict=True,
    ):
        assert torch.equal(a, b)


@needs_triton
def test_all_generators_and_links_of_the_library_are_known() -> None:
    for generator in EVERY.values():
        for link in LINKS.values():
            assert knows(draw(generator, link)[2])


@needs_triton
def test_a_generator_or_a_link_of_ones_own_is_not_known() -> None:
    own = Generator(*LEAST_SQUARES[:3], unlabelled_slope=lambda t, out=None: 2 * t)
    other = Link(SOFTPLUS.ratio, lambda s, out=None: (s, s))
    assert not knows(UnlabelledTerm(own, SOFTPLUS, torch.ones(1)))
    assert not knows(UnlabelledTerm(own._replace(exponent=0.4), SOFTPLUS, torch.ones(1)))
    assert not knows(UnlabelledTerm(LEAST_SQUARES, other, torch.ones(1)))
    first = FirstModel(torch.ones(1, 1), torch.ones(1, 1), other)
    assert not knows(UnlabelledTerm(LEAST_SQUARES, SOFTPLUS, torch.ones(1), first=first))


def test_an_unknown_kind_of_products_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"wanted: fp16 \| bf16 \| tf32 \| ieee"):
        Triton("fp8")


@needs_a_gpu
@pytest.mark.parametrize("weights", WEIGHTS)
@every_link
@every_generator
def test_the_compiled_kernels_equal_whole_matrices(generator: str, link: str, weights: str) -> None:
    spread = {"softplus": 0.5, "exponential": 0.15}[link]
    case = draw(
        EVERY[generator],
        LINKS[link],
        weights,
        n_users=1_000,
        n_items=3_001,
        dim=64,
        spread=spread,
        device="cuda",
    )
    for products, tolerance in (("fp16", 5e-3), ("bf16", 5e-3), ("tf32", 5e-3), ("ieee", 1e-5)):
        assert largest_error(Triton(products)(*case), expected(case)) < tolerance


@needs_a_gpu
@pytest.mark.parametrize("dim", [1, 16, 20, 32, 128, 200, 256])
def test_the_compiled_kernels_take_any_dimension(dim: int) -> None:
    for weights in ("hard-sample", "hard-sample-first"):
        case = draw(
            LOGISTIC, weights=weights, n_users=77, n_items=301, dim=dim, spread=0.3, device="cuda"
        )
        for products, tolerance in (("fp16", 5e-3), ("bf16", 5e-3), ("tf32", 5e-3), ("ieee", 1e-5)):
            assert largest_error(Triton(products)(*case), expected(case)) < tolerance


@needs_a_gpu
@pytest.mark.parametrize("n_users", [2_500, 9_500])
def test_the_compiled_kernels_are_right_at_full_size(n_users: int) -> None:
    case = draw(n_users=n_users, n_items=40_981, dim=64, spread=0.5, device="cuda")
    assert largest_error(Triton()(*case), expected(case)) < 5e-3


@needs_a_gpu
def test_the_kernels_can_be_recorded_and_replayed() -> None:
    case = draw(n_users=300, n_items=500, dim=64, device="cuda")
    users = case[0]
    wanted = Triton()(*case)  # compiles, which cannot be recorded
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = Triton()(*case)
    before = users.clone()
    users.zero_()
    graph.replay()
    assert not torch.equal(found.value, wanted.value)
    users.copy_(before)
    graph.replay()
    assert all(torch.equal(a, b) for a, b in zip(found, wanted, strict=True))


@needs_a_gpu
def test_no_more_than_200_mib_are_taken_beside_the_vectors() -> None:
    users, items = normal(4, 29_858, 64).cuda() / 2, normal(5, 40_981, 64).cuda() / 2
    term = UnlabelledTerm(LEAST_SQUARES, SOFTPLUS, torch.ones(40_981, device="cuda"), 1.0)
    bound = torch.zeros(29_858, device="cuda")
    Triton()(users, items, term, bound)
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    Triton()(users, items, term, bound)
    assert torch.cuda.max_memory_allocated() - before < 200 * 2**20
