"""The mean of layers on a graphics card: one kernel a layer, with nothing else in between.

The entries of Â are products of one number per node, so the kernel sums plain rows of a table
that was scaled before and needs no entries. What is gathered, and that is nearly all that is
moved, is held in 16 bits; sums are in single precision.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import triton
from torch import Tensor

from ratiorec.encoders.adjacency import Adjacency
from ratiorec.encoders.propagation_kernels import next_layer, scale_rows

ROWS_AT_ONCE = 16
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
        # the longest rows first: a long one begun last would keep the card waiting, and rows
        # side by side should be equally long
        lengths = np.diff(adjacency.indptr)
        self._order = on_device(np.argsort(-lengths, kind="stable").astype(np.int32))
        self._n_long = int(np.count_nonzero(lengths > LONG))

    def mean(self, table: Tensor, n_layers: int) -> Tensor:
        """The mean of layers of a float32 table."""
        if n_layers == 0:
            return table.clone()
        n_rows, dimension = table.shape
        n_programs = self._n_long + triton.cdiv(n_rows - self._n_long, ROWS_AT_ONCE)
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
                PADDED_D=triton.next_power_of_2(dimension),
                ROWS=ROWS_AT_ONCE,
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
