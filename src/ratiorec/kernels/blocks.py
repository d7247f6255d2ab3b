"""Work in fixed blocks on several cores, and the sparse product made of it.

BLAS and torch cut an operation into as many pieces as there are threads, and the last few elements
of a piece take another instruction path, so the thread count shows in the last digit. Here the
pieces are blocks of a fixed size, each on one core from start to end: the same bits whatever the
number of threads.
"""

from __future__ import annotations

import itertools
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ratiorec.machine import usable_cores

if TYPE_CHECKING:
    import torch
    from torch import Tensor

_workers: ContextVar[ThreadPoolExecutor | None] = ContextVar("workers", default=None)
_n_threads: ContextVar[int] = ContextVar("n_threads", default=0)  # 0 outside


@contextmanager
def deterministic_threads() -> Iterator[None]:
    """Inside, BLAS and torch use one thread and `for_each_block` uses all of them.

    The threads live as long as the context: starting them for every product would cost more than
    a small one takes. Inside another one it changes nothing. torch is left alone where nobody has
    imported it.
    """
    if _n_threads.get():
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
        tokens = _workers.set(pool if n_threads > 1 else None), _n_threads.set(n_threads)
        try:
            yield
        finally:
            _workers.reset(tokens[0])
            _n_threads.reset(tokens[1])


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


def n_at_a_time() -> int:
    """How many blocks `for_each_block` works on together."""
    return max(1, _n_threads.get())


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


class Adjacency(NamedTuple):
    """A sparse matrix in compressed rows; entry e of a row is `scale[row]·scale[indices[e]]`.

    Values are products of one number per node, so whoever multiplies may scale nodes instead.
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    scale: NDArray[np.float32]

    @property
    def values(self) -> NDArray[np.float32]:
        """Every entry written out."""
        values = self.scale[self.indices]
        values *= np.repeat(self.scale, np.diff(self.indptr))
        return values


# enough to be worth handing to another core, and few enough to share the work evenly
ENTRIES_PER_BLOCK = 2**15


class SparseRows(Protocol):
    """A sparse matrix that multiplies from the left."""

    def multiply(self, table: Tensor, *, total: Tensor | None = None) -> Tensor:
        """The product; it is also added to `total`, where there is one."""


def sparse_rows(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    values: NDArray[np.float32],
    *,
    n_columns: int,
    device: torch.device,
) -> SparseRows:
    """The matrix in the fastest form for the device."""
    if device.type == "cpu":
        return Bags(indptr, indices, values)
    return Matrix(indptr, indices, values, n_columns, device)


class Bags:
    """On a CPU: a row is a weighted sum of vectors, which torch calls a bag.

    It takes half the time of torch's product with a sparse matrix or less, as
    `ratiorec bench propagation` shows, and exists for every CPU. Rows are independent, so
    blocks of them run on several cores and the result does not depend on how many.
    """

    def __init__(
        self, indptr: NDArray[np.int64], indices: NDArray[np.int32], values: NDArray[np.float32]
    ) -> None:
        import torch

        self.n_rows = len(indptr) - 1
        self._rows = even_blocks(indptr, ENTRIES_PER_BLOCK)
        self._parts = {}
        for rows in self._rows:
            pairs = slice(int(indptr[rows.start]), int(indptr[rows.stop]))
            bags = (indptr[rows] - pairs.start).astype(np.int32)
            parts = indices[pairs], bags, values[pairs]
            self._parts[rows.start] = tuple(torch.from_numpy(part) for part in parts)

    def multiply(self, table: Tensor, *, total: Tensor | None = None) -> Tensor:
        from torch.nn import functional

        result = table.new_empty(self.n_rows, table.shape[1])

        def one_block(rows: slice) -> None:
            entries, bags, weights = self._parts[rows.start]
            result[rows] = functional.embedding_bag(
                entries, table, bags, mode="sum", per_sample_weights=weights.to(table.dtype)
            )
            if total is not None:
                total[rows] += result[rows]

        for_each_block(one_block, self._rows)
        return result


class Matrix:
    """On a GPU: the whole matrix in compressed form."""

    def __init__(
        self,
        indptr: NDArray[np.int64],
        indices: NDArray[np.int32],
        values: NDArray[np.float32],
        n_columns: int,
        device: torch.device,
    ) -> None:
        import torch

        with warnings.catch_warnings():
            # torch calls the whole format a beta; of it only this product is used, and tested
            warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
            # said by some releases even where the checks are asked for, as below
            warnings.filterwarnings("ignore", message="Sparse invariant checks are implicitly")
            self._matrix = torch.sparse_csr_tensor(
                torch.from_numpy(indptr.astype(np.int32)),
                torch.from_numpy(indices),
                torch.from_numpy(values),
                size=(len(indptr) - 1, n_columns),
                device=device,
                check_invariants=True,  # a wrong index would be a crash later, not an error
            )

    def multiply(self, table: Tensor, *, total: Tensor | None = None) -> Tensor:
        product = self._matrix.to(table.dtype) @ table
        if total is not None:
            total += product
        return product


def mean_of_powers(matrix: SparseRows, table: Tensor, n: int) -> Tensor:
    """(X + ÂX + … + ÂⁿX)/(n + 1)."""
    total = table.clone()
    for _ in range(n):
        table = matrix.multiply(table, total=total)
    return total.div_(n + 1)
