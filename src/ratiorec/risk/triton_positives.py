"""The work on positives with a program for each user, whose pairs lie side by side.

Gathering rows, multiplying them and adding them up are one kernel there, and where many pairs meet
in one user nothing is added by turns. Items are met by users in any order, so their gradient is
added atomically: its last digits differ from run to run.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
from torch import Tensor

from ratiorec.risk.positive_kernels import score_pairs, spread_scores, sum_by_user

PAIRS_AT_ONCE = 32
N_WARPS = 1


class PairScores(torch.autograd.Function):
    """s_p = e_uᵀe_i of the listed pairs; those in spare places have a score of 0."""

    @staticmethod
    def forward(ctx: Any, users: Tensor, items: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
        users, items, columns = users.contiguous(), items.contiguous(), columns.contiguous()
        bounds = places_of_users(rows, len(users))
        scores = users.new_zeros(len(rows))
        sizes = _sizes(users.shape[1])
        score_pairs[(len(users),)](users, items, bounds, columns, scores, **sizes)
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
            **_sizes(users.shape[1]),
        )
        return to_users, to_items, None, None


class UserSums(torch.autograd.Function):
    """Σ over the places of each user, column by column."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, rows: Tensor, n_users: int) -> Tensor:
        ctx.save_for_backward(rows)
        sums = values.new_empty(n_users, values.shape[1])
        bounds = places_of_users(rows, n_users)
        sum_by_user[(n_users,)](values.contiguous(), bounds, sums, **_sizes(values.shape[1]))
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


def _sizes(dimension: int) -> dict[str, int]:
    return {
        "D": dimension,
        "PADDED_D": triton.next_power_of_2(dimension),
        "PAIRS": PAIRS_AT_ONCE,
        "num_warps": N_WARPS,
    }
