"""Work in fixed blocks on several cores.

BLAS and torch cut an operation into as many pieces as there are threads, and the last few elements
of a piece take another instruction path, so the thread count shows in the last digit. Here the
pieces are blocks of a fixed size, each on one core from start to end: the same bits whatever the
number of threads.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ratiorec.machine import usable_cores

_workers: ContextVar[ThreadPoolExecutor | None] = ContextVar("workers", default=None)
_inside: ContextVar[bool] = ContextVar("inside", default=False)


@contextmanager
def deterministic_threads() -> Iterator[None]:
    """Inside, BLAS and torch use one thread and `for_each_block` uses all of them.

    The threads live as long as the context: starting them for every product would cost more than
    a small one takes. Inside another one it changes nothing. torch is left alone where nobody has
    imported it.
    """
    if _inside.get():
        yield
        return
    from threadpoolctl import threadpool_limits

    limits: Any = threadpool_limits
    torch = sys.modules.get("torch")
    n_threads = torch.get_num_threads() if torch else usable_cores()
    with (
        limits(1, "blas"),
        _one_thread_of_torch(),
        ThreadPoolExecutor(n_threads, initializer=_without_gradients) as pool,
    ):
        tokens = _workers.set(pool if n_threads > 1 else None), _inside.set(True)
        try:
            yield
        finally:
            _workers.reset(tokens[0])
            _inside.reset(tokens[1])


@contextmanager
def _one_thread_of_torch() -> Iterator[None]:
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(n_threads)


def _without_gradients() -> None:
    # both settings belong to a thread, and a new one starts with neither
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(1)
        torch.set_grad_enabled(False)


def cut(n: int, size: int) -> list[slice]:
    """0 … n in consecutive slices of `size`; the last one may be shorter."""
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def for_each_block(work: Callable[[slice], None], blocks: Sequence[slice]) -> None:
    """Run `work` on every block, without gradients; the blocks write to places of their own."""
    pool = _workers.get()
    if pool is not None and len(blocks) > 1:
        list(pool.map(work, blocks))
        return
    torch = sys.modules.get("torch")
    with torch.no_grad() if torch else nullcontext():
        for block in blocks:
            work(block)


def even_blocks(indptr: NDArray[np.int64], n_entries: int) -> list[slice]:
    """Consecutive rows with about so many entries together; a longer row stands alone."""
    starts = np.searchsorted(indptr, np.arange(0, int(indptr[-1]) + 1, n_entries), side="right") - 1
    bounds = np.unique(np.concatenate([[0], starts, [len(indptr) - 1]])).tolist()
    return [slice(a, b) for a, b in itertools.pairwise(bounds)]
