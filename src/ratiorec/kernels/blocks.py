"""Fixed blocks on several cores: the same bits whatever the number of threads.

torch cuts an element-wise operation into as many pieces as there are threads, and the last
few elements of a piece take another instruction path, so the thread count shows in the last
digit. Here the pieces are blocks of a fixed size; each runs on one core from start to end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar

import torch

_workers: ContextVar[ThreadPoolExecutor | None] = ContextVar("workers", default=None)


@contextmanager
def deterministic_threads() -> Iterator[None]:
    """Inside, torch itself uses one thread and `for_each_block` uses all of them.

    The threads live as long as the context: starting them for every product would cost more than
    a small one takes.
    """
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with ThreadPoolExecutor(n_threads, initializer=_one_thread_without_gradients) as pool:
        token = _workers.set(pool if n_threads > 1 else None)
        try:
            yield
        finally:
            torch.set_num_threads(n_threads)
            _workers.reset(token)


def cut(n: int, size: int) -> list[slice]:
    """0 … n in consecutive slices of `size`; the last one may be shorter."""
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def for_each_block(work: Callable[[slice], None], blocks: Sequence[slice]) -> None:
    """Run `work` on every block; the blocks must write to places of their own."""
    pool = _workers.get()
    if pool is not None and len(blocks) > 1:
        list(pool.map(work, blocks))
        return
    with torch.no_grad():
        for block in blocks:
            work(block)


def _one_thread_without_gradients() -> None:
    # both settings belong to a thread, and a new one starts with neither
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
