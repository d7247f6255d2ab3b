"""Work in fixed blocks on several cores; what is made of it: tiled passes and sparse products.

BLAS and torch cut an operation into as many pieces as there are threads, and the last few elements
of a piece take another instruction path, so the thread count shows in the last digit. Here the
pieces are blocks of a fixed size, each on one core from start to end: the same bits whatever the
number of threads.
"""

from __future__ import annotations

import itertools
import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
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


@dataclass(frozen=True)
class TileSizes:
    """How many users make a block, items a tile, and how many blocks wait together at least.

    With more threads a block for each waits, as far as memory goes. The sums depend on neither:
    blocks and tiles are cut by size alone, and an item's gradient is added up by one thread at a
    time, block after block. As they stand they suit the cache of a CPU.
    """

    n_users: int = 96
    n_items: int = 2048
    n_blocks: int = 2


_MOST_WAITING = 2**28  # numbers: a GiB of them
FOR_A_GPU = TileSizes(n_users=1024, n_items=16384, n_blocks=1)  # few and large


class TiledPass(ABC):
    """A pass over users × items in tiles, which makes no matrix of that size.

    Blocks of users are scored against tile after tile of items. A block's gradient by scores
    waits until the block's total over all items is known, and then goes into the gradient by
    items. A few blocks wait at a time, in buffers that are used again: nothing else is larger than
    the vectors. Matrices have a row for every item and a column for every user, so that a tile's
    rows lie together for both products with the gradient.
    """

    def __init__(self, sizes: TileSizes, users: Tensor, items: Tensor) -> None:
        self.users, self.items = users.detach(), items.detach()
        self.sizes = sizes
        self.tiles = cut(len(items), sizes.n_items)
        self.waiting: list[slice] = []
        self.value = users.new_empty(len(users))
        self.to_users, self.to_items = users.new_empty(users.shape), items.new_zeros(items.shape)
        self.scaled_users = users.new_empty(users.shape)  # by which a gradient is multiplied
        entries = len(items) * min(sizes.n_users, len(users))  # of a waiting block
        n_blocks = max(sizes.n_blocks, min(_n_threads.get(), _MOST_WAITING // max(entries, 1)))
        self.n_blocks = min(n_blocks, -(-len(users) // sizes.n_users))
        self._room = users.new_empty(self.n_blocks, entries)

    def run(self) -> tuple[Tensor, Tensor, Tensor]:
        """Every user's value, and the gradients by users and by items."""
        blocks = cut(len(self.users), self.sizes.n_users)
        for start in range(0, len(blocks), max(1, self.n_blocks)):
            self.waiting = blocks[start : start + self.n_blocks]
            for_each_block(self.one_block_of_users, self.waiting)
            for_each_block(self._one_tile_of_items, self.tiles)
        return self.value, self.to_users, self.to_items

    @abstractmethod
    def one_block_of_users(self, block: slice) -> None:
        """Fill the block's rows of `value`, `to_users` and `scaled_users`, and its `matrix`."""

    def matrix(self, block: slice) -> Tensor:
        """Of a waiting block: its scores, then their gradient but for the factor of each user."""
        room, n_users = self._room[self.waiting.index(block)], block.stop - block.start
        return room[: len(self.items) * n_users].view(len(self.items), n_users)

    def _one_tile_of_items(self, tile: slice) -> None:
        """What the waiting blocks add to the gradient by these items."""
        for block in self.waiting:
            self.add_product(
                self.to_items[tile], self.matrix(block)[tile], self.scaled_users[block]
            )

    # On a CPU numpy's BLAS multiplies: torch's own uses half the width of an AMD processor's
    # registers and takes twice the time; elsewhere they are alike.

    @staticmethod
    def multiply(left: Tensor, right: Tensor, *, out: Tensor) -> Tensor:
        """`out` = left·right."""
        if out.device.type != "cpu":
            return out.addmm_(left, right, beta=0)
        with np.errstate(all="ignore"):  # what is not finite is told by the loss, not by a product
            np.dot(left.numpy(), right.numpy(), out=out.numpy())
        return out

    @staticmethod
    def add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
        """`total` += left·right."""
        if total.device.type != "cpu":
            total.addmm_(left, right)
            return
        with np.errstate(all="ignore"):
            total.numpy()[...] += left.numpy() @ right.numpy()


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
