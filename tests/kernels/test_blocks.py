from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import torch

from ratiorec.kernels.blocks import cut, deterministic_threads, for_each_block


@pytest.fixture(autouse=True)
def _threads_as_they_were() -> Iterator[None]:
    n_threads = torch.get_num_threads()
    yield
    torch.set_num_threads(n_threads)


@pytest.mark.parametrize(("n", "size"), [(0, 4), (1, 4), (3, 4), (4, 4), (5, 4), (12, 4), (7, 1)])
def test_blocks_follow_one_another_and_cover_everything(n: int, size: int) -> None:
    blocks = cut(n, size)
    assert [i for block in blocks for i in range(block.start, block.stop)] == list(range(n))
    assert all(block.stop - block.start == size for block in blocks[:-1])


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_every_block_is_worked_on_once(n_threads: int) -> None:
    torch.set_num_threads(n_threads)
    visits = torch.zeros(23, dtype=torch.int64)

    def work(block: slice) -> None:
        visits[block] += 1

    with deterministic_threads():
        for_each_block(work, cut(23, 4))
    assert visits.tolist() == [1] * 23


def test_no_block_is_no_work() -> None:
    worked_on: list[slice] = []
    with deterministic_threads():
        for_each_block(worked_on.append, [])
    assert worked_on == []


@pytest.mark.parametrize("n_threads", [1, 3])
def test_a_block_runs_on_one_thread_and_without_gradients(n_threads: int) -> None:
    torch.set_num_threads(n_threads)
    seen: list[tuple[int, bool]] = []
    with deterministic_threads():
        for_each_block(
            lambda block: seen.append((torch.get_num_threads(), torch.is_grad_enabled())),
            cut(6, 1),
        )
    assert seen == [(1, False)] * 6
    assert torch.is_grad_enabled()


def test_several_threads_share_the_blocks() -> None:
    torch.set_num_threads(2)
    both_at_work = threading.Barrier(2, timeout=20)
    with deterministic_threads():
        for_each_block(lambda block: void(both_at_work.wait()), cut(2, 1))
    assert not both_at_work.broken


def void(value: object) -> None:
    """Callables of blocks return nothing."""


def test_outside_the_blocks_run_one_after_another_in_the_callers_thread() -> None:
    torch.set_num_threads(2)
    threads: list[int] = []
    for_each_block(lambda block: threads.append(threading.get_ident()), cut(4, 1))
    assert threads == [threading.get_ident()] * 4


def test_threads_are_given_back_even_after_an_error() -> None:
    torch.set_num_threads(3)
    with pytest.raises(ZeroDivisionError), deterministic_threads():
        for_each_block(lambda block: void(1 // block.start), cut(4, 1))
    assert torch.get_num_threads() == 3
    threads: list[int] = []
    for_each_block(lambda block: threads.append(threading.get_ident()), cut(4, 1))
    assert threads == [threading.get_ident()] * 4


def test_element_wise_work_in_blocks_has_the_same_bits_for_any_number_of_threads() -> None:
    # sizes that leave a tail in every block, where a vectorised loop takes its other path
    x = torch.randn(100_003, generator=torch.Generator().manual_seed(0))
    results = []
    for n_threads in (1, 2, 3, 5):
        torch.set_num_threads(n_threads)
        result = torch.empty_like(x)

        def work(block: slice, result: torch.Tensor = result) -> None:
            result[block] = torch.nn.functional.softplus(x[block])

        with deterministic_threads():
            for_each_block(work, cut(len(x), 997))
        results.append(result)
    assert all(torch.equal(result, results[0]) for result in results)
