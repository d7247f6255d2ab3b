from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ratiorec.kernels import blocks
from ratiorec.kernels import unlabelled as module
from ratiorec.kernels.blocks import deterministic_threads
from ratiorec.kernels.pointwise import LEAST_SQUARES, SOFTPLUS
from ratiorec.kernels.unlabelled import (
    CACHE_SIZED,
    FirstModel,
    Tiled,
    Unlabelled,
    UnlabelledTerm,
    corrected_mean,
    reference,
    tiled,
)

Problem = tuple[torch.Tensor, torch.Tensor, UnlabelledTerm, torch.Tensor]


@pytest.fixture(autouse=True)
def _threads_as_they_were() -> Iterator[None]:
    n_threads = torch.get_num_threads()
    yield
    torch.set_num_threads(n_threads)


def problem(n_users: int, n_items: int, *, dimension: int = 5) -> Problem:
    generator = torch.Generator().manual_seed(n_users * n_items)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator)

    first = FirstModel(normal(n_users, 4), normal(n_items, 4), SOFTPLUS)
    candidates = torch.rand(n_items, generator=generator)
    term = UnlabelledTerm(LEAST_SQUARES, SOFTPLUS, candidates, 1.0, first)
    # about the middle of the terms, so that some users are held and some are not
    bound = torch.full((n_users,), 0.5 * dimension)
    return normal(n_users, dimension), normal(n_items, dimension), term, bound


def with_threads(n_threads: int, backend: Tiled, given: Problem) -> Unlabelled:
    torch.set_num_threads(n_threads)
    with deterministic_threads():
        return backend(*given)


@pytest.mark.parametrize(
    ("backend", "n_users", "n_items"),
    [(CACHE_SIZED, 333, 4500), (Tiled(16, 64, 3), 101, 517), (Tiled(5, 7, 2), 23, 50)],
)
def test_the_number_of_threads_changes_no_bit(backend: Tiled, n_users: int, n_items: int) -> None:
    given = problem(n_users, n_items, dimension=19)
    one, *others = (with_threads(n, backend, given) for n in (1, 2, 3, 6))
    assert 0 < (one.to_users.abs().sum(-1) > 0).sum() < n_users, "some users must be held"
    for other in others:
        assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize(
    ("n_users", "n_items"),
    list(
        itertools.product(
            (CACHE_SIZED.n_users * CACHE_SIZED.n_blocks + shift for shift in (-1, 0, 1)),
            (CACHE_SIZED.n_items + shift for shift in (-1, 0, 1)),
        )
    ),
)
def test_sizes_beside_the_borders_of_its_tiles_equal_whole_matrices(
    n_users: int, n_items: int
) -> None:
    given = problem(n_users, n_items, dimension=3)
    for found, wanted in zip(tiled(*given), reference(*given), strict=True):
        assert (found - wanted).norm() <= 1e-5 * wanted.norm()


@pytest.mark.parametrize(
    ("n_threads", "most_waiting", "wanted"), [(1, 2**28, 2), (6, 2**28, 6), (6, 5 * 96 * 90, 5)]
)
def test_every_thread_has_a_block_as_far_as_memory_goes(
    n_threads: int, most_waiting: int, wanted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "_MOST_WAITING", most_waiting)
    at_a_time: list[int] = []
    monkeypatch.setattr(blocks, "for_each_block", lambda _, some: at_a_time.append(len(some)))
    with_threads(n_threads, CACHE_SIZED, problem(96 * 60, 90))
    assert at_a_time[0] == wanted


class LargestStorage(TorchDispatchMode):
    """Notes how many numbers the largest piece of memory made inside holds."""

    size = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        result = function(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple) else (result,):
            if isinstance(tensor, torch.Tensor):
                held = tensor.untyped_storage().nbytes() // tensor.element_size()
                self.size = max(self.size, held)
        return result


def test_no_matrix_of_users_and_candidates_is_ever_made() -> None:
    users, items, term, bound = problem(60, 90, dimension=3)
    users, items = users.requires_grad_(), items.requires_grad_()
    with LargestStorage() as largest:
        backend = Tiled(n_users=4, n_items=16, n_blocks=2)
        corrected_mean(users, items, term, bound, backend=backend).backward()
    # the gradients of two blocks of four users wait together
    assert largest.size == 2 * 4 * 90 < 60 * 90


def test_a_pass_takes_little_memory_of_a_large_batch() -> None:
    """A twentieth of what autograd holds: five matrices of a batch of 2,500 users."""
    users, candidates = 2500, 28_000
    waiting = CACHE_SIZED.n_blocks * CACHE_SIZED.n_users * candidates
    rooms = 3 * CACHE_SIZED.n_blocks * CACHE_SIZED.n_users * CACHE_SIZED.n_items
    assert waiting + rooms <= 5 * users * candidates / 20


def test_another_device_takes_larger_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[str] = []
    for name in ("CACHE_SIZED", "LARGE"):
        monkeypatch.setattr(module, name, lambda *given, name=name: note(name, given))

    def note(name: str, given: Problem) -> Unlabelled:
        taken.append(name)
        users, items, _, bound = given
        return Unlabelled(bound, users, items)

    for device in ("cpu", "meta"):
        users, items, term, bound = problem(2, 3)
        tiled(users.to(device), items.to(device), term, bound.to(device))
    assert taken == ["CACHE_SIZED", "LARGE"]
