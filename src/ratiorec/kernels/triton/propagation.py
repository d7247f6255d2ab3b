"""Graph propagation on a GPU: one kernel a layer, with nothing else in between."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor

from ratiorec.kernels.blocks import Adjacency


@triton.jit
def scale_rows(table, scale, scaled, n_entries, D: tl.constexpr, BLOCK: tl.constexpr):
    """Every row times its number, rounded to what `scaled` holds."""
    places = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = places < n_entries
    factor = tl.load(scale + places // D, mask=inside, other=0.0)
    values = tl.load(table + places, mask=inside, other=0.0) * factor
    tl.store(scaled + places, values.to(scaled.dtype.element_ty), mask=inside)


@triton.jit
def gathered(source, indices, entries, present, columns, D: tl.constexpr):
    """Rows of the table that the entries name, and zeros for those that are not there."""
    neighbours = tl.load(indices + entries, mask=present, other=0).to(tl.int64)
    places = source + tl.expand_dims(neighbours, -1) * D + columns
    there = tl.expand_dims(present, -1) & (columns < D)
    return tl.load(places, mask=there, other=0.0).to(tl.float32)


@triton.jit
def settle(
    rows,
    inside,
    sums,
    scale,
    before,
    total,
    following,
    share,
    columns,
    D: tl.constexpr,
    IS_LAST: tl.constexpr,
):
    """The layer's rows, added to the total and scaled for the next layer."""
    own = tl.load(scale + rows, mask=inside, other=0.0)
    layer = tl.expand_dims(own, -1) * sums
    places = tl.expand_dims(rows, -1) * D + columns
    there = tl.expand_dims(inside, -1) & (columns < D)
    added = tl.load(before + places, mask=there, other=0.0) + layer
    if IS_LAST:
        tl.store(total + places, added * share, mask=there)
    else:
        tl.store(total + places, added, mask=there)
        scaled = tl.expand_dims(own, -1) * layer
        tl.store(following + places, scaled.to(following.dtype.element_ty), mask=there)


@triton.jit
def sum_of_one_row(
    order,
    indptr,
    indices,
    source,
    program,
    D: tl.constexpr,
    PADDED_D: tl.constexpr,
    NEIGHBOURS: tl.constexpr,
):
    """A long row, many neighbours at once."""
    row = tl.load(order + program)
    stop = tl.load(indptr + row + 1)
    columns = tl.arange(0, PADDED_D)[None, :]
    sums = tl.zeros([NEIGHBOURS, PADDED_D], tl.float32)
    for first in range(tl.load(indptr + row), stop, NEIGHBOURS):
        entries = first + tl.arange(0, NEIGHBOURS)
        sums += gathered(source, indices, entries, entries < stop, columns, D)
    rows = tl.full([1], 0, tl.int64) + row
    return rows, rows >= 0, tl.expand_dims(tl.sum(sums, 0), 0)


@triton.jit
def sums_of_rows(
    order,
    indptr,
    indices,
    source,
    first_place,
    n_rows,
    D: tl.constexpr,
    PADDED_D: tl.constexpr,
    ROWS: tl.constexpr,
    NEIGHBOURS: tl.constexpr,
):
    """Short rows side by side, some neighbours of each at once."""
    places = first_place + tl.arange(0, ROWS)
    inside = places < n_rows
    rows = tl.load(order + places, mask=inside, other=0).to(tl.int64)
    start = tl.load(indptr + rows, mask=inside, other=0)
    stop = tl.load(indptr + rows + 1, mask=inside, other=0)
    columns = tl.arange(0, PADDED_D)[None, None, :]
    sums = tl.zeros([ROWS, NEIGHBOURS, PADDED_D], tl.float32)
    for first in range(0, tl.max(stop - start, 0), NEIGHBOURS):
        entries = (start + first)[:, None] + tl.arange(0, NEIGHBOURS)[None, :]
        sums += gathered(source, indices, entries, entries < stop[:, None], columns, D)
    return rows, inside, tl.sum(sums, 1)


@triton.jit
def next_layer(
    order,
    indptr,
    indices,
    scale,
    source,
    before,
    total,
    following,
    share,
    n_rows,
    n_long,
    D: tl.constexpr,
    PADDED_D: tl.constexpr,
    ROWS: tl.constexpr,
    NEIGHBOURS: tl.constexpr,
    IS_LAST: tl.constexpr,
):
    """Sums over the neighbours of one long row, or of several short rows side by side.

    A short row is over in a few loads that wait for one another, and a multiprocessor holds only so
    many programs: with several rows each it has more loads on the way.
    """
    program = tl.program_id(0)
    columns = tl.arange(0, PADDED_D)[None, :]
    if program < n_long:
        one, here, sums = sum_of_one_row(
            order, indptr, indices, source, program, D, PADDED_D, ROWS * NEIGHBOURS
        )
        settle(one, here, sums, scale, before, total, following, share, columns, D, IS_LAST)
    else:
        first_place = n_long + (program - n_long) * ROWS
        rows, inside, several = sums_of_rows(
            order, indptr, indices, source, first_place, n_rows, D, PADDED_D, ROWS, NEIGHBOURS
        )
        settle(rows, inside, several, scale, before, total, following, share, columns, D, IS_LAST)


ROWS_AT_ONCE = 16  # of at most 64 numbers; of longer ones fewer, or the registers run out
NEIGHBOURS_AT_ONCE = 4  # of each of these rows
LONG = 96  # neighbours of a row that is summed alone, ROWS·NEIGHBOURS at once
N_WARPS = 4
ENTRIES_AT_ONCE = 2048  # of a table that is only scaled


class FusedLayers:
    """(X + ÂX + … + Â^L X)/(L + 1) by L kernels."""

    def __init__(self, adjacency: Adjacency, device: torch.device) -> None:
        def on_device(array: Any) -> Tensor:
            return torch.from_numpy(array).to(device)

        self._indptr = on_device(adjacency.indptr.astype(np.int32))
        self._indices = on_device(adjacency.indices)
        self._scale = on_device(adjacency.scale)
        # the longest rows first: a long one begun last would keep the GPU waiting, and rows
        # side by side should be equally long
        lengths = np.diff(adjacency.indptr)
        self._order = on_device(np.argsort(-lengths, kind="stable").astype(np.int32))
        self._n_long = int(np.count_nonzero(lengths > LONG))

    def mean(self, table: Tensor, n_layers: int) -> Tensor:
        """The mean of layers of a float32 table."""
        if n_layers == 0:
            return table.clone()
        n_rows, dimension = table.shape
        padded = triton.next_power_of_2(dimension)
        rows_at_once = max(1, ROWS_AT_ONCE * 64 // max(64, padded))
        n_programs = self._n_long + triton.cdiv(n_rows - self._n_long, rows_at_once)
        source = self._scaled(table)
        before, total = table, torch.empty_like(table)
        for layer in range(1, n_layers + 1):
            is_last = layer == n_layers
            following = source if is_last else torch.empty_like(source)
            next_layer[(n_programs,)](
                self._order,
                self._indptr,
                self._indices,
                self._scale,
                source,
                before,
                total,
                following,
                1 / (n_layers + 1),
                n_rows,
                self._n_long,
                D=dimension,
                PADDED_D=padded,
                ROWS=rows_at_once,
                NEIGHBOURS=NEIGHBOURS_AT_ONCE,
                IS_LAST=is_last,
                num_warps=N_WARPS,
            )
            source, before = following, total
        return total

    def _scaled(self, table: Tensor) -> Tensor:
        """D^-½ X in 16 bits."""
        scaled = torch.empty_like(table, dtype=torch.bfloat16)
        scale_rows[(triton.cdiv(table.numel(), ENTRIES_AT_ONCE),)](
            table, self._scale, scaled, table.numel(), D=table.shape[1], BLOCK=ENTRIES_AT_ONCE
        )
        return scaled
