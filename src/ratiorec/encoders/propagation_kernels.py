"""The kernel behind `fused_layers`."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def next_layer(
    order,
    indptr,
    indices,
    scale,
    source,
    total,
    following,
    share,
    D: tl.constexpr,
    PADDED_D: tl.constexpr,
    NEIGHBOURS: tl.constexpr,
    IS_LAST: tl.constexpr,
):
    """One row: the sum over its neighbours, added to the total and scaled for the next layer."""
    row = tl.load(order + tl.program_id(0)).to(tl.int64)
    start, stop = tl.load(indptr + row), tl.load(indptr + row + 1)
    columns = tl.arange(0, PADDED_D)
    inside = columns < D
    sums = tl.zeros([NEIGHBOURS, PADDED_D], tl.float32)
    for first in range(start, stop, NEIGHBOURS):
        entries = first + tl.arange(0, NEIGHBOURS)
        present = entries < stop
        neighbours = tl.load(indices + entries, mask=present, other=0).to(tl.int64)
        places = source + neighbours[:, None] * D + columns[None, :]
        sums += tl.load(places, mask=present[:, None] & inside[None, :], other=0.0).to(tl.float32)
    own = tl.load(scale + row)
    layer = own * tl.sum(sums, 0)
    place = row * D + columns
    added = tl.load(total + place, mask=inside, other=0.0) + layer
    if IS_LAST:
        tl.store(total + place, added * share, mask=inside)
    else:
        tl.store(total + place, added, mask=inside)
        tl.store(following + place, (own * layer).to(tl.bfloat16), mask=inside)
