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
from ratiorec.encoders.propagation_kernels import next_layer

NEIGHBOURS_AT_ONCE = 32  # about the mean of the usual data sets; a shorter row idles the rest
N_WARPS = 2


class FusedLayers:
    """(X + ÂX + … + Â^L X)/(L + 1) by L kernels."""

    def __init__(self, adjacency: Adjacency, device: torch.device) -> None:
        def on_device(array: Any) -> Tensor:
            return torch.from_numpy(array).to(device)

        self._indptr = on_device(adjacency.indptr.astype(np.int32))
        self._indices = on_device(adjacency.indices)
        self._scale = on_device(adjacency.scale)
        # the longest rows first: a long one begun last would keep the card waiting
        self._order = on_device(
            np.argsort(-np.diff(adjacency.indptr), kind="stable").astype(np.int32)
        )

    def mean(self, table: Tensor, n_layers: int) -> Tensor:
        """The mean of layers of a float32 table."""
        if n_layers == 0:
            return table.clone()
        total = table.clone()
        source = (table * self._scale.unsqueeze(-1)).bfloat16()
        for layer in range(1, n_layers + 1):
            is_last = layer == n_layers
            following = source if is_last else torch.empty_like(source)
            next_layer[(len(self._order),)](
                self._order,
                self._indptr,
                self._indices,
                self._scale,
                source,
                total,
                following,
                1 / (n_layers + 1),
                D=table.shape[1],
                PADDED_D=triton.next_power_of_2(table.shape[1]),
                NEIGHBOURS=NEIGHBOURS_AT_ONCE,
                IS_LAST=is_last,
                num_warps=N_WARPS,
            )
            source = following
        return total
