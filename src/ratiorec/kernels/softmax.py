"""The softmax over all items: log-likelihood of a user's positives, with its derivative."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from ratiorec.kernels.blocks import cut, for_each_block
from ratiorec.kernels.pointwise import user_sums
from ratiorec.shapes import ItemFactors, PerUser, PositiveIndex, UserFactors


class Tile(NamedTuple):
    """How many users and items are worked on at a time."""

    n_users: int
    n_items: int


# enough users to make a product worthwhile, and few enough to keep every core busy
ON_CPU = Tile(64, 1024)


def negative_log_likelihood(
    users: UserFactors, items: ItemFactors, rows: PositiveIndex, liked: PositiveIndex
) -> PerUser:
    """−Σ_{i ∈ I_u⁺} log softmax_i(s_u) of every user; `liked` are the items of the positives."""
    value: Tensor = _NegativeLogLikelihood.apply(users, items, rows, liked)  # type: ignore[no-untyped-call]
    return value


class _NegativeLogLikelihood(torch.autograd.Function):
    """Value and derivative together: ∂/∂s_ui = |I_u⁺|·softmax_i(s_u) − [i ∈ I_u⁺] (theory: R21).

    One matrix of |U_B|·|I| numbers is made: it holds the scores, then the derivative.
    """

    @staticmethod
    def forward(ctx: Any, users: Tensor, items: Tensor, rows: Tensor, liked: Tensor) -> Tensor:
        matrix = users.new_empty(len(users), len(items))
        log_total = users.new_empty(len(users))
        (n_positives,) = user_sums([users.new_ones(len(rows))], rows, len(users))
        tile = ON_CPU if users.device.type == "cpu" else Tile(*matrix.shape)

        def score(block: slice) -> None:
            torch.mm(users[block], items.T, out=matrix[block])

        def differentiate(block: slice) -> None:
            scores = matrix[block]
            largest = scores.amax(-1)
            total = scores.sub_(largest.unsqueeze(-1)).exp_().sum(-1)
            log_total[block] = largest + total.log()
            scores.mul_((n_positives[block] / total).unsqueeze(-1))

        blocks = cut(len(users), tile.n_users)
        for_each_block(score, blocks)
        positive = matrix[rows, liked]
        for_each_block(differentiate, blocks)
        matrix[rows, liked] -= 1
        ctx.save_for_backward(users, items, matrix)
        ctx.tile = tile
        (value,) = user_sums([log_total[rows] - positive], rows, len(users))
        return value

    @staticmethod
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor, Tensor, None, None]:
        users, items, matrix = ctx.saved_tensors
        scale = outer.unsqueeze(-1)
        scaled_users = scale * users
        to_users, to_items = torch.empty_like(users), torch.empty_like(items)

        def one_block_of_users(block: slice) -> None:
            to_users[block] = scale[block] * (matrix[block] @ items)

        def one_block_of_items(block: slice) -> None:
            to_items[block] = matrix[:, block].T @ scaled_users

        for_each_block(one_block_of_users, cut(len(users), ctx.tile.n_users))
        for_each_block(one_block_of_items, cut(len(items), ctx.tile.n_items))
        return to_users, to_items, None, None
