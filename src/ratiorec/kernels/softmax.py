"""The softmax over all items: each user's log-sum-exp with its gradient, and the k-th best score.

Three backends give the same value and gradient: the reference (whole matrices), the tiled one, and
Triton's kernels. In a tile the probabilities take the place of the scores, and go into both
gradients.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from ratiorec.kernels.blocks import FOR_A_GPU, TiledPass, TileSizes, cut, for_each_block
from ratiorec.kernels.pointwise import require_triton, triton_hindrance
from ratiorec.shapes import ItemFactors, PerUser, Scalar, UserFactors


class LogTotals(NamedTuple):
    """log Z_u = log Σ_i exp(s_ui), and the gradient of Σ_u w_u log Z_u (theory: R26)."""

    value: PerUser  # log Z_u
    to_users: UserFactors
    to_items: ItemFactors


class SoftmaxBackend(Protocol):
    """A way to compute the totals; none keeps anything for a backward pass."""

    def __call__(self, users: UserFactors, items: ItemFactors, weights: PerUser) -> LogTotals:
        """log Z_u of every user, and the gradient of their sum with these weights."""


@torch.enable_grad()
def reference(users: UserFactors, items: ItemFactors, weights: PerUser) -> LogTotals:
    """Some matrices of |U_B|·|I| numbers: to compare with, and for what is small."""
    users, items = users.detach().requires_grad_(), items.detach().requires_grad_()
    value = torch.logsumexp(users @ items.T, -1)
    to_users, to_items = torch.autograd.grad(torch.dot(weights, value), (users, items))
    return LogTotals(value.detach(), to_users, to_items)


@dataclass(frozen=True)
class TiledSoftmax(TileSizes):
    """One pass over tiles of users and items."""

    @torch.no_grad()
    def __call__(self, users: UserFactors, items: ItemFactors, weights: PerUser) -> LogTotals:
        return LogTotals(*_SoftmaxPass(self, users, items, weights).run())


class _SoftmaxPass(TiledPass):
    """The pass of the totals."""

    def __init__(
        self, sizes: TileSizes, users: UserFactors, items: ItemFactors, weights: PerUser
    ) -> None:
        super().__init__(sizes, users, items)
        self.weights = weights

    def one_block_of_users(self, block: slice) -> None:
        """log Z_u, its gradient by users, and exp(s − max) in the place of the scores."""
        users, matrix = self.users[block], self.matrix(block)
        largest = users.new_full((len(users),), -torch.inf)
        for tile in self.tiles:
            scores = self.multiply(self.items[tile], users.T, out=matrix[tile])
            largest = torch.maximum(largest, scores.amax(0))
        total, to_users = users.new_zeros(len(users)), torch.zeros_like(users)
        for tile in self.tiles:
            at_tile = matrix[tile].sub_(largest).exp_()
            total += at_tile.sum(0)
            self.add_product(to_users, at_tile.T, self.items[tile])
        torch.add(largest, total.log(), out=self.value[block])
        share = (self.weights[block] / total).unsqueeze(-1)  # w_u/Z_u
        torch.mul(to_users, share, out=self.to_users[block])
        torch.mul(users, share, out=self.scaled_users[block])


CACHE_SIZED, LARGE = TiledSoftmax(), TiledSoftmax(*astuple(FOR_A_GPU))


def tiled(users: UserFactors, items: ItemFactors, weights: PerUser) -> LogTotals:
    """In tiles that suit the device."""
    return (CACHE_SIZED if users.device.type == "cpu" else LARGE)(users, items, weights)


def automatic(users: UserFactors, items: ItemFactors, weights: PerUser) -> LogTotals:
    """Triton's kernels where they can run, and else tiles."""
    run = tiled if triton_hindrance(users.device, users.dtype) else _kernels().log_totals
    result: LogTotals = run(users, items, weights)
    return result


def triton(users: UserFactors, items: ItemFactors, weights: PerUser) -> LogTotals:
    """Triton's kernels, refused where they cannot run."""
    require_triton(triton_hindrance(users.device, users.dtype))
    result: LogTotals = _kernels().log_totals(users, items, weights)
    return result


def _kernels() -> Any:
    # imported where it is needed: the package triton exists on few machines
    return importlib.import_module("ratiorec.kernels.triton.softmax")


BACKENDS: Mapping[str, SoftmaxBackend] = MappingProxyType(
    {"auto": automatic, "reference": reference, "tiled": tiled, "triton": triton}
)


def weighted_log_totals(
    users: UserFactors,
    items: ItemFactors,
    weights: PerUser,
    *,
    backend: str | SoftmaxBackend = "auto",
) -> Scalar:
    """Σ_u w_u log Σ_i exp(e_uᵀe_i); the weights carry no gradient (theory: R26)."""
    compute = BACKENDS[backend] if isinstance(backend, str) else backend
    value: Tensor = _WeightedLogTotals.apply(users, items, weights.detach(), compute)  # type: ignore[no-untyped-call]
    return value


class _WeightedLogTotals(torch.autograd.Function):
    """Both gradients are known with the value; the backward pass only scales them."""

    @staticmethod
    def forward(
        ctx: Any, users: Tensor, items: Tensor, weights: Tensor, compute: SoftmaxBackend
    ) -> Tensor:
        value, to_users, to_items = compute(users, items, weights)
        ctx.save_for_backward(to_users, to_items)
        return torch.dot(weights, value)

    @staticmethod
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor, Tensor, None, None]:
        to_users, to_items = ctx.saved_tensors
        return outer * to_users, outer * to_items, None, None


@torch.no_grad()
def kth_best_score(users: UserFactors, items: ItemFactors, k: int) -> PerUser:
    """The k-th largest score of every user over all items; the least one where there are fewer."""
    best = users.new_empty(len(users))
    sizes = CACHE_SIZED if users.device.type == "cpu" else LARGE

    def one_block(block: slice) -> None:
        kept = users.new_empty(block.stop - block.start, 0)
        for tile in cut(len(items), sizes.n_items):
            listed = torch.cat([kept, users[block] @ items[tile].T], -1)
            kept = listed.topk(min(k, listed.shape[-1]), sorted=False).values
        best[block] = kept.amin(-1)

    for_each_block(one_block, cut(len(users), sizes.n_users))
    return best
