"""The unlabelled term of a loss: what it is made of, its backends, and its gradient for autograd.

Three backends give the same value and gradient: the reference (whole matrices), the tiled one, and
Triton's kernels. Value and gradient come from one pass.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from ratiorec.kernels.blocks import FOR_A_GPU, TiledPass, TileSizes
from ratiorec.kernels.pointwise import Generator, Link, require_triton, triton_hindrance
from ratiorec.shapes import ItemFactors, PerItem, PerUser, Scalar, UserFactors


class FirstModel(NamedTuple):
    """A finished model, whose ratio r̂₁ = link(s₁) is a weight (theory: W4)."""

    users: UserFactors  # rows of the batch's users
    items: ItemFactors  # rows of the candidates
    link: Link


@dataclass(frozen=True, eq=False)
class UnlabelledTerm:
    """R±_u = Σ_i w⁻ ℓ±(r̂) / Z_u with w⁻ = c_i · r̂^γ · r̂₁ (theory: R3, R8, W5)."""

    generator: Generator
    link: Link
    candidates: PerItem  # c_i ≥ 0: all of w⁻ that the item alone decides; 0 leaves the item out
    ratio_power: float = 0.0  # γ
    first: FirstModel | None = None
    divisor: float | None = None  # Z_u; None for the sum of the weights

    def normaliser(self, total_weight: PerUser) -> PerUser:
        """Z_u; weights that all vanished make a term of 0, not 0/0."""
        if self.divisor is not None:
            return torch.full_like(total_weight, self.divisor)
        return total_weight.clamp_min(torch.finfo(total_weight.dtype).tiny)


def unlabelled_weight(
    candidates: Tensor,
    ratio: Tensor,
    *,
    power: float,
    first: Tensor | None,
    out: Tensor | None = None,
) -> Tensor:
    """w⁻ = c_i · r̂^γ · r̂₁, of pairs in any arrangement (theory: W5)."""
    weight = torch.pow(ratio, power, out=out).mul_(candidates)
    return weight if first is None else weight.mul_(first)


def non_negative(unlabelled: PerUser, lower_bound: PerUser) -> PerUser:
    """R^cor + max(R± − R^cor, 0) for each user (theory: C4).

    While the bracket is positive this is R± itself; when the model has pushed the unlabelled
    ratios below what the bound D̄ on the true ratio allows, their gradient stops.
    """
    return lower_bound + (unlabelled - lower_bound).relu()  # at 0 the bound has the gradient


class Unlabelled(NamedTuple):
    """The term of every user, and the gradient of Σ_u g_u R±_u (theory: R23).

    g_u is 1/|U_B| where R±_u is above its bound and 0 elsewhere: the clamp is known as soon as
    the value is, so value and gradient need not be two calls.
    """

    value: PerUser  # R±_u
    to_users: UserFactors
    to_items: ItemFactors


class Backend(Protocol):
    """A way to compute the term; none keeps anything for a backward pass."""

    def __call__(
        self, users: UserFactors, items: ItemFactors, term: UnlabelledTerm, bound: PerUser
    ) -> Unlabelled:
        """R±_u, and its gradient where it is above `bound`."""


@torch.enable_grad()
def reference(
    users: UserFactors, items: ItemFactors, term: UnlabelledTerm, bound: PerUser
) -> Unlabelled:
    """About ten matrices of |U_B|·|I_B| numbers: to compare with, and for what is small."""
    users, items = users.detach().requires_grad_(), items.detach().requires_grad_()
    ratio = term.link.ratio(users @ items.T)
    weight = unlabelled_weight(
        term.candidates,
        ratio.detach(),
        power=term.ratio_power,
        first=term.first and term.first.link.ratio(term.first.users @ term.first.items.T),
    )
    loss = (weight * term.generator.unlabelled_loss(ratio)).sum(-1)
    value = loss / term.normaliser(weight.sum(-1))
    corrected = non_negative(value, bound.detach()).mean()
    to_users, to_items = torch.autograd.grad(corrected, (users, items))
    return Unlabelled(value.detach(), to_users, to_items)


@dataclass(frozen=True)
class Tiled(TileSizes):
    """One pass over tiles of users and candidates."""

    @torch.no_grad()
    def __call__(
        self, users: UserFactors, items: ItemFactors, term: UnlabelledTerm, bound: PerUser
    ) -> Unlabelled:
        return Unlabelled(*_TermPass(self, users, items, term, bound).run())


class _TermPass(TiledPass):
    """The pass of one term."""

    def __init__(
        self,
        sizes: TileSizes,
        users: UserFactors,
        items: ItemFactors,
        term: UnlabelledTerm,
        bound: PerUser,
    ) -> None:
        super().__init__(sizes, users, items)
        self.term, self.bound = term, bound
        n_users, n_items = min(sizes.n_users, len(users)), min(sizes.n_items, len(items))
        self._rooms = users.new_empty(self.n_blocks, 3, n_items * n_users)

    def one_block_of_users(self, block: slice) -> None:
        """R±_u, its gradient by users, and by scores but for the factor g_u/Z_u."""
        users, gradient = self.users[block], self.matrix(block)
        total_weight, total_loss = users.new_zeros(2, len(users))
        to_users = torch.zeros_like(users)
        for tile in self.tiles:
            at_tile = self.multiply(self.items[tile], users.T, out=gradient[tile])
            weight, loss = self._differentiate(at_tile, block, tile)
            total_weight += weight
            total_loss += loss
            self.add_product(to_users, at_tile.T, self.items[tile])
        normaliser = self.term.normaliser(total_weight)
        value = torch.div(total_loss, normaliser, out=self.value[block])
        share = (value > self.bound[block]) / (len(self.users) * normaliser)  # g_u/Z_u
        torch.mul(to_users, share.unsqueeze(-1), out=self.to_users[block])
        torch.mul(users, share.unsqueeze(-1), out=self.scaled_users[block])

    def _differentiate(self, scores: Tensor, block: slice, tile: slice) -> tuple[Tensor, Tensor]:
        """Σ w⁻ and Σ w⁻ℓ± of the tile; w⁻ℓ±′link′ takes the place of the scores (theory: R4)."""
        term, rooms = self.term, self._rooms[self.waiting.index(block)]
        for_ratio, for_slope, spare = (room[: scores.numel()].view_as(scores) for room in rooms)
        ratio, slope = term.link.with_slope(scores, out=(for_ratio, for_slope))
        weight = unlabelled_weight(
            term.candidates[tile].unsqueeze(-1),
            ratio,
            power=term.ratio_power,
            first=self._first_ratio(block, tile, spare),
            out=scores,
        )
        total_weight = weight.sum(0)
        loss = term.generator.unlabelled_loss(ratio, out=spare)
        total_loss = torch.mul(weight, loss, out=spare).sum(0)
        weight.mul_(term.generator.unlabelled_slope(ratio, out=spare)).mul_(slope)
        return total_weight, total_loss

    def _first_ratio(self, block: slice, tile: slice, room: Tensor) -> Tensor | None:
        first = self.term.first
        if first is None:
            return None
        scores = self.multiply(first.items[tile], first.users[block].T, out=room)
        return first.link.ratio(scores, out=room)


CACHE_SIZED, LARGE = Tiled(), Tiled(*astuple(FOR_A_GPU))


def tiled(
    users: UserFactors, items: ItemFactors, term: UnlabelledTerm, bound: PerUser
) -> Unlabelled:
    """In tiles that suit the device."""
    suited = CACHE_SIZED if users.device.type == "cpu" else LARGE
    return suited(users, items, term, bound)


def automatic(
    users: UserFactors, items: ItemFactors, term: UnlabelledTerm, bound: PerUser
) -> Unlabelled:
    """Triton's kernels where they can run, and else tiles."""
    return suited(users.device, users.dtype, term)(users, items, term, bound)


def suited(device: torch.device, dtype: torch.dtype, term: UnlabelledTerm) -> Backend:
    """The quickest backend for such vectors and such a term."""
    return tiled if _hindrance(device, dtype, term) else _kernels().Triton()


def triton(
    users: UserFactors, items: ItemFactors, term: UnlabelledTerm, bound: PerUser
) -> Unlabelled:
    """Triton's kernels, refused where they cannot run."""
    require_triton(_hindrance(users.device, users.dtype, term))
    result: Unlabelled = _kernels().Triton()(users, items, term, bound)
    return result


def _hindrance(device: torch.device, dtype: torch.dtype, term: UnlabelledTerm) -> str | None:
    if hindrance := triton_hindrance(device, dtype):
        return hindrance
    return None if _kernels().knows(term) else "a generator or a link that it does not know"


def _kernels() -> Any:
    # imported where it is needed: the package triton exists on few machines
    return importlib.import_module("ratiorec.kernels.triton.unlabelled")


BACKENDS: Mapping[str, Backend] = MappingProxyType(
    {"auto": automatic, "reference": reference, "tiled": tiled, "triton": triton}
)


def corrected_mean(
    users: UserFactors,
    items: ItemFactors,
    term: UnlabelledTerm,
    bound: PerUser,
    *,
    backend: str | Backend = "auto",
) -> Scalar:
    """1/|U_B| · Σ_u ( bound_u + max(R±_u − bound_u, 0) ) (theory: C4, R23)."""
    compute = BACKENDS[backend] if isinstance(backend, str) else backend
    value: Tensor = _CorrectedMean.apply(users, items, bound, term, compute)  # type: ignore[no-untyped-call]
    return value


class _CorrectedMean(torch.autograd.Function):
    """Both gradients are known with the value; the backward pass only scales them."""

    @staticmethod
    def forward(
        ctx: Any,
        users: Tensor,
        items: Tensor,
        bound: Tensor,
        term: UnlabelledTerm,
        compute: Backend,
    ) -> Tensor:
        value, to_users, to_items = compute(users, items, term, bound)
        ctx.save_for_backward(to_users, to_items, value <= bound)
        return non_negative(value, bound).sum() / max(1, len(value))  # 0 of no users

    @staticmethod
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        to_users, to_items, held = ctx.saved_tensors
        return outer * to_users, outer * to_items, outer / len(held) * held, None, None
