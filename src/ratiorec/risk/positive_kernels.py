"""The kernels behind `triton_positives`: a program has one user, and some pairs at once."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def own_places(bounds):
    """The program's user, and where its places begin and end."""
    user = tl.program_id(0).to(tl.int64)
    return user, tl.load(bounds + user), tl.load(bounds + user + 1)


@triton.jit
def score_pairs(
    users,
    items,
    bounds,
    columns,
    scores,
    D: tl.constexpr,
    PADDED_D: tl.constexpr,
    PAIRS: tl.constexpr,
):
    """The inner products of a user with its items."""
    user, start, stop = own_places(bounds)
    place = tl.arange(0, PADDED_D)
    own = tl.load(users + user * D + place, mask=place < D, other=0.0)
    for first in range(start, stop, PAIRS):
        pairs = first + tl.arange(0, PAIRS)
        there = pairs < stop
        item = tl.load(columns + pairs, mask=there, other=0)
        known = there[:, None] & (place < D)[None, :]
        vectors = tl.load(items + item[:, None] * D + place[None, :], mask=known, other=0.0)
        tl.store(scores + pairs, tl.sum(vectors * own[None, :], 1), mask=there)


@triton.jit
def spread_scores(
    users,
    items,
    bounds,
    columns,
    slopes,
    to_users,
    to_items,
    D: tl.constexpr,
    PADDED_D: tl.constexpr,
    PAIRS: tl.constexpr,
):
    """Σ g_p e_i for the user, and g_p e_u added to every item's sum."""
    user, start, stop = own_places(bounds)
    place = tl.arange(0, PADDED_D)
    own = tl.load(users + user * D + place, mask=place < D, other=0.0)
    sums = tl.zeros([PAIRS, PADDED_D], tl.float32)
    for first in range(start, stop, PAIRS):
        pairs = first + tl.arange(0, PAIRS)
        there = pairs < stop
        item = tl.load(columns + pairs, mask=there, other=0)
        slope = tl.load(slopes + pairs, mask=there, other=0.0)[:, None]
        known = there[:, None] & (place < D)[None, :]
        places = item[:, None] * D + place[None, :]
        sums += slope * tl.load(items + places, mask=known, other=0.0)
        tl.atomic_add(to_items + places, slope * own[None, :], mask=known, sem="relaxed")
    tl.store(to_users + user * D + place, tl.sum(sums, 0), mask=place < D)


@triton.jit
def sum_by_user(
    values,
    bounds,
    sums,
    D: tl.constexpr,
    PADDED_D: tl.constexpr,
    PAIRS: tl.constexpr,
):
    """Σ of the rows of a user's places."""
    user, start, stop = own_places(bounds)
    place = tl.arange(0, PADDED_D)
    total = tl.zeros([PAIRS, PADDED_D], tl.float32)
    for first in range(start, stop, PAIRS):
        pairs = first + tl.arange(0, PAIRS)
        known = (pairs < stop)[:, None] & (place < D)[None, :]
        total += tl.load(values + pairs[:, None] * D + place[None, :], mask=known, other=0.0)
    tl.store(sums + user * D + place, tl.sum(total, 0), mask=place < D)
