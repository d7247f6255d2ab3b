"""The log-sum-exp over all items on a GPU: products on tensor cores, no matrix of all pairs.

A first pass leaves one number for each user and block of items. The second computes the scores
anew, some items at a time, and turns them into probabilities on the way to memory; two products
make them into gradients. Vectors may have any dimension, since none is ever held whole.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from ratiorec.kernels.blocks import cut
from ratiorec.kernels.softmax import LogTotals
from ratiorec.shapes import ItemFactors, PerUser, UserFactors

BITS_PER_NAT = math.log2(math.e)


@triton.jit
def score_block(
    users,
    items,
    n_users,
    n_items,
    DIM: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    STEP: tl.constexpr,
):
    """The program's block of scores, in bits, with its rows and columns."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    place = tl.arange(0, STEP)
    # what lies beyond the last row is computed from the last one, and never stored
    own = users + tl.minimum(rows, n_users - 1)[:, None] * DIM + place[None, :]
    others = items + tl.minimum(columns, n_items - 1)[None, :] * DIM + place[:, None]
    bits = tl.zeros([ROWS, COLUMNS], tl.float32)
    for first in range(0, DIM, STEP):
        if DIM % STEP == 0:
            x, y = tl.load(own + first), tl.load(others + first)
        else:
            x = tl.load(own + first, mask=(first + place < DIM)[None, :], other=0.0)
            y = tl.load(others + first, mask=(first + place < DIM)[:, None], other=0.0)
        bits = tl.dot(x, y, bits)
    return bits, rows, columns


@triton.jit
def totals_of_blocks(
    users,
    items,
    totals,
    n_users,
    n_items,
    DIM: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    STEP: tl.constexpr,
):
    """log₂ Σ 2^bits over the program's items, for each of its users."""
    bits, rows, columns = score_block(users, items, n_users, n_items, DIM, ROWS, COLUMNS, STEP)
    bits = tl.where((columns < n_items)[None, :], bits, float("-inf"))
    largest = tl.max(bits, 1)
    total = largest + tl.log2(tl.sum(tl.exp2(bits - largest[:, None]), 1))
    tl.store(totals + tl.program_id(1) * n_users + rows, total, mask=rows < n_users)


@triton.jit
def probabilities(
    users,
    items,
    shifts,
    shares,
    width,
    n_users,
    n_items,
    DIM: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    STEP: tl.constexpr,
):
    """w_u/Z_u · exp(s) = 2^(bits − shift)."""
    bits, rows, columns = score_block(users, items, n_users, n_items, DIM, ROWS, COLUMNS, STEP)
    shift = tl.load(shifts + rows, mask=rows < n_users, other=0.0)
    share = tl.exp2(bits - shift[:, None]).to(shares.dtype.element_ty)
    known = (rows < n_users)[:, None] & (columns < n_items)[None, :]
    tl.store(shares + rows[:, None] * width + columns[None, :], share, mask=known)


class SoftmaxTiles(NamedTuple):
    """The block of scores of one program, and how it runs."""

    n_rows: int = 128
    n_columns: int = 128
    step: int = 64  # dimensions multiplied at a time
    n_warps: int = 8
    n_stages: int = 3

    def launch(self, dimension: int) -> dict[str, int]:
        """What the kernels are compiled for."""
        return {
            "DIM": dimension,
            "ROWS": self.n_rows,
            "COLUMNS": self.n_columns,
            "STEP": min(self.step, max(16, triton.next_power_of_2(dimension))),
            "num_warps": self.n_warps,
            "num_stages": self.n_stages,
        }


NUMBERS_AT_A_TIME = 2**23  # probabilities in memory; few enough for the L2 cache


def log_totals(
    users: UserFactors,
    items: ItemFactors,
    weights: PerUser,
    *,
    tiles: SoftmaxTiles | None = None,
    n_at_a_time: int = NUMBERS_AT_A_TIME,
) -> LogTotals:
    """log Z_u, and the gradient of Σ_u w_u log Z_u, by products of 16 bits (theory: R26)."""
    with torch.no_grad(), torch.cuda.device_of(users):  # type: ignore[no-untyped-call]
        work = _Work(users, items, tiles or SoftmaxTiles(), n_at_a_time)
        value = work.value()
        shifts = value * BITS_PER_NAT - weights.log2()
        to_users, to_items = torch.zeros_like(users), torch.empty_like(items)
        in_short = users.to(work.dtype)
        for chunk, vectors, shares in work.shares(shifts):
            to_users += shares @ vectors
            to_items[chunk] = (shares.T @ in_short).to(items.dtype)
    return LogTotals(value, to_users, to_items)


class _Work:
    """The tables that the kernels read; items are rounded some at a time, not kept."""

    def __init__(self, users: Tensor, items: Tensor, tiles: SoftmaxTiles, n_at_a_time: int) -> None:
        # without a GPU the kernels are interpreted, which cannot multiply 16 bits
        self.dtype = torch.bfloat16 if users.is_cuda else torch.float32
        self.users = (users * BITS_PER_NAT).to(self.dtype)
        self.items, self.tiles = items, tiles
        n_blocks = -(-len(items) // tiles.n_columns)
        n_chunks = max(1, round(len(users) * len(items) / n_at_a_time))
        self.width = -(-n_blocks // n_chunks) * tiles.n_columns
        self.chunks = cut(len(items), self.width)

    def value(self) -> Tensor:
        """log Z_u."""
        n_users = len(self.users)
        n_blocks = -(-len(self.items) // self.tiles.n_columns)
        totals = self.items.new_empty(n_blocks, n_users)  # in bits
        for chunk in self.chunks:
            vectors = self.items[chunk].to(self.dtype)
            to = totals[chunk.start // self.tiles.n_columns :]
            self._run(totals_of_blocks, vectors, to)
        return torch.logsumexp(totals / BITS_PER_NAT, 0)

    def shares(self, shifts: Tensor) -> Iterator[tuple[slice, Tensor, Tensor]]:
        """Some items at a time: which, their vectors, and w_u/Z_u·exp(s) [users, items]."""
        # rows of one width for all: products are slow where rows begin anywhere
        room = self.users.new_empty(len(self.users), self.width)
        for chunk in self.chunks:
            vectors = self.items[chunk].to(self.dtype)
            self._run(probabilities, vectors, shifts, room, self.width)
            yield chunk, vectors, room[:, : len(vectors)]

    def _run(self, kernel: Any, vectors: Tensor, *more: Tensor | int) -> None:
        n_users, dimension = self.users.shape
        # programs of one block of items run side by side, and read it from the cache
        grid = -(-n_users // self.tiles.n_rows), -(-len(vectors) // self.tiles.n_columns)
        launch = self.tiles.launch(dimension)
        kernel[grid](self.users, vectors, *more, n_users, len(vectors), **launch)
