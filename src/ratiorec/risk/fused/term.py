"""What the unlabelled term is made of, as data that every execution reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from ratiorec.risk.bregman import Generator
from ratiorec.scores import Link
from ratiorec.shapes import ItemFactors, PerItem, PerUser, UserFactors


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
