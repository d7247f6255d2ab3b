"""The mean over unlabelled pairs, which holds nearly all the arithmetic of a step.

Value and gradient are computed together, tile by tile: the derivative with respect to the
score is known in closed form (theory: R4), so autograd need not keep a chain of matrices.
One matrix of |U_B|·|I_B| numbers is kept for the backward pass.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ratiorec.blocks import cut, for_each_block
from ratiorec.shapes import ItemFactors, PerUser, UserFactors


class Tile(NamedTuple):
    """How many users and candidates are worked on at a time."""

    n_users: int
    n_items: int


CACHE_SIZED = Tile(128, 1024)  # half a megabyte in float32: a processor's cache holds a few
LARGE = Tile(4096, 16384)  # a graphics card wants few, large tiles


class Pointwise(NamedTuple):
    """What a tile of scores turns into, each of the tile's shape."""

    weight: Tensor  # a_i w⁻
    loss: Tensor  # ℓ±(r̂)
    slope: Tensor  # ℓ±′(r̂)·link′(s)


PointwiseFunction = Callable[[Tensor, slice, slice], Pointwise]
Normaliser = Callable[[Tensor, int], Tensor]


def self_normalised_unlabelled(
    users: UserFactors, items: ItemFactors, pointwise: PointwiseFunction
) -> PerUser:
    """Ê[w⁻ ℓ±] = Σ_i a_i w⁻ ℓ±(r̂) / Σ_i a_i w⁻ for each user (theory: R3)."""
    value: Tensor = _UnlabelledMean.apply(users, items, pointwise, _by_weights)  # type: ignore[no-untyped-call]
    return value


def plain_unlabelled(
    users: UserFactors, items: ItemFactors, pointwise: PointwiseFunction
) -> PerUser:
    """Σ_i a_i w⁻ ℓ±(r̂) / |I_B| for each user (theory: R8)."""
    value: Tensor = _UnlabelledMean.apply(users, items, pointwise, _by_count)  # type: ignore[no-untyped-call]
    return value


def _by_weights(total_weight: Tensor, n_items: int) -> Tensor:
    return total_weight


def _by_count(total_weight: Tensor, n_items: int) -> Tensor:
    return torch.full_like(total_weight, n_items)


class _UnlabelledMean(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, users: Tensor, items: Tensor, pointwise: PointwiseFunction, normaliser: Normaliser
    ) -> Tensor:
        total_weight, total_loss = users.new_zeros(2, len(users))
        gradient = users.new_empty(len(users), len(items))  # Z_u ∂R_u/∂s_ui
        tile = CACHE_SIZED if users.device.type == "cpu" else LARGE
        columns = cut(len(items), tile.n_items)

        def one_block(block: slice) -> None:
            for candidates in columns:
                scores = users[block] @ items[candidates].T
                weight, loss, slope = pointwise(scores, block, candidates)
                total_weight[block] += weight.sum(-1)
                total_loss[block] += (weight * loss).sum(-1)
                torch.mul(weight, slope, out=gradient[block, candidates])

        for_each_block(one_block, cut(len(users), tile.n_users))
        n = normaliser(total_weight, len(items))
        ctx.save_for_backward(users, items, gradient, n)
        ctx.tile = tile
        value: Tensor = total_loss / n
        return value

    @staticmethod
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor, Tensor, None, None]:
        users, items, gradient, n = ctx.saved_tensors
        scale = (outer / n).unsqueeze(-1)
        scaled_users = scale * users
        to_users, to_items = torch.empty_like(users), torch.empty_like(items)

        def one_block_of_users(block: slice) -> None:
            to_users[block] = scale[block] * (gradient[block] @ items)

        def one_block_of_items(block: slice) -> None:
            to_items[block] = gradient[:, block].T @ scaled_users

        for_each_block(one_block_of_users, cut(len(users), ctx.tile.n_users))
        for_each_block(one_block_of_items, cut(len(items), ctx.tile.n_items))
        return to_users, to_items, None, None
