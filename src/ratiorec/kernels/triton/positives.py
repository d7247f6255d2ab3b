"""The positives on a GPU: one program for each user, whose pairs lie side by side."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor


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


PAIRS_AT_ONCE = 32
NUMBERS_PER_WARP = 2048  # of these pairs' vectors; with more the registers run out
MOST_WARPS = 4


class PairScores(torch.autograd.Function):
    """s_p = e_uᵀe_i of the listed pairs; those in spare places have a score of 0."""

    @staticmethod
    def forward(ctx: Any, users: Tensor, items: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
        users, items, columns = users.contiguous(), items.contiguous(), columns.contiguous()
        bounds = places_of_users(rows, len(users))
        scores = users.new_zeros(len(rows))
        score_pairs[(len(users),)](users, items, bounds, columns, scores, **sizes(users.shape[1]))
        ctx.save_for_backward(users, items, bounds, columns)
        return scores

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None, None]:
        users, items, bounds, columns = ctx.saved_tensors
        to_users, to_items = torch.empty_like(users), torch.zeros_like(items)
        spread_scores[(len(users),)](
            users,
            items,
            bounds,
            columns,
            gradient.contiguous(),
            to_users,
            to_items,
            **sizes(users.shape[1]),
        )
        return to_users, to_items, None, None


class UserSums(torch.autograd.Function):
    """Σ over the places of each user, column by column."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, rows: Tensor, n_users: int) -> Tensor:
        ctx.save_for_backward(rows)
        sums = values.new_empty(n_users, values.shape[1])
        bounds = places_of_users(rows, n_users)
        sum_by_user[(n_users,)](values.contiguous(), bounds, sums, **sizes(values.shape[1]))
        return sums

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (rows,) = ctx.saved_tensors
        with_nobody = torch.nn.functional.pad(gradient, (0, 0, 0, 1))
        return with_nobody.index_select(0, rows), None, None


def places_of_users(rows: Tensor, n_users: int) -> Tensor:
    """Where each user's places begin, and at the end where the last one's end."""
    users = torch.arange(n_users + 1, device=rows.device, dtype=rows.dtype)
    return torch.searchsorted(rows, users)


def sizes(dimension: int) -> dict[str, int]:
    """What the kernels are compiled for."""
    padded = triton.next_power_of_2(dimension)
    n_warps = min(MOST_WARPS, max(1, PAIRS_AT_ONCE * padded // NUMBERS_PER_WARP))
    pairs = max(1, min(PAIRS_AT_ONCE, n_warps * NUMBERS_PER_WARP // padded))
    return {"D": dimension, "PADDED_D": padded, "PAIRS": pairs, "num_warps": n_warps}
