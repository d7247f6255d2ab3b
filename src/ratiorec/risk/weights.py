"""Class weights w⁺ and w⁻: which pairs count how much. None of them carries a gradient.

w⁺ is a number for every positive. w⁻ is needed for every user with every candidate, too many to
list, and so it is data from which each execution makes its own part (theory: W5).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch

from ratiorec.data.batches import Batch
from ratiorec.errors import ConfigError
from ratiorec.risk.fused.term import FirstModel, unlabelled_weight
from ratiorec.risk.positives import pair_scores
from ratiorec.scores import SOFTPLUS, Embeddings, Link
from ratiorec.shapes import PerItem, PerPositive

# 1/r̂ must stay finite in float32 when a score is far below zero
SMALLEST_RATIO = 1e-30


class UnlabelledWeight(NamedTuple):
    """w⁻ = c_i · r̂^γ · r̂₁ of a batch's users and candidates (theory: W5)."""

    candidates: PerItem  # c_i
    ratio_power: float = 0.0  # γ
    first: FirstModel | None = None

    def at_positives(self, batch: Batch, ratio: PerPositive) -> PerPositive:
        """Its values at the listed pairs."""
        return unlabelled_weight(
            self.candidates[batch.columns],
            ratio,
            power=self.ratio_power,
            first=None if self.first is None else _at_positives(self.first, batch),
        )


class Weights(Protocol):
    """w⁺ for positives and w⁻ for unlabelled pairs, up to a constant per user."""

    def positive(self, batch: Batch, ratio: PerPositive) -> PerPositive:
        """w⁺ of every positive, whose r̂ is given without gradient."""

    def unlabelled(self, batch: Batch) -> UnlabelledWeight:
        """w⁻ of every user with every candidate."""


@dataclass(frozen=True)
class Uniform:
    """w⁺ = w⁻ = 1 (theory: W1)."""

    def positive(self, batch: Batch, ratio: PerPositive) -> PerPositive:
        return torch.ones_like(ratio)

    def unlabelled(self, batch: Batch) -> UnlabelledWeight:
        return UnlabelledWeight(torch.ones_like(batch.popularity))


@dataclass(frozen=True)
class Popularity:
    """w⁺ = 1, w⁻ ∝ |U_i⁺|^α; the constant falls away in a self-normalised mean (theory: W2)."""

    exponent: float = 0.5

    def positive(self, batch: Batch, ratio: PerPositive) -> PerPositive:
        return torch.ones_like(ratio)

    def unlabelled(self, batch: Batch) -> UnlabelledWeight:
        return UnlabelledWeight(batch.popularity**self.exponent)


@dataclass(frozen=True)
class Confident:
    """w⁺ = c⁺, w⁻ = 1; only in plain means does the constant count (theory: W6)."""

    positive_weight: float = 3000.0

    def __post_init__(self) -> None:
        if not 0 < self.positive_weight < math.inf:
            raise ConfigError(
                "the weight of positives must be positive",
                where="risk.weights.positive_weight",
                found=str(self.positive_weight),
                wanted="a finite number above 0",
            )

    def positive(self, batch: Batch, ratio: PerPositive) -> PerPositive:
        return torch.full_like(ratio, self.positive_weight)

    def unlabelled(self, batch: Batch) -> UnlabelledWeight:
        return UnlabelledWeight(torch.ones_like(batch.popularity))


@dataclass(frozen=True)
class HardSample:
    """w⁺ = 1/r̂, w⁻ = r̂ of the model being trained, at every step anew (theory: W3)."""

    def positive(self, batch: Batch, ratio: PerPositive) -> PerPositive:
        return 1 / ratio.clamp_min(SMALLEST_RATIO)

    def unlabelled(self, batch: Batch) -> UnlabelledWeight:
        return UnlabelledWeight(torch.ones_like(batch.popularity), ratio_power=1.0)


@dataclass(frozen=True, eq=False)
class Frozen:
    """The hard-sample weights of a finished first model, never changed (theory: W4)."""

    first: Embeddings
    link: Link = SOFTPLUS

    def positive(self, batch: Batch, ratio: PerPositive) -> PerPositive:
        return 1 / _at_positives(self._of(batch), batch).clamp_min(SMALLEST_RATIO)

    def unlabelled(self, batch: Batch) -> UnlabelledWeight:
        return UnlabelledWeight(torch.ones_like(batch.popularity), first=self._of(batch))

    def _of(self, batch: Batch) -> FirstModel:
        users, items = self.first
        return FirstModel(users[batch.users], items[batch.candidates], self.link)


def _at_positives(first: FirstModel, batch: Batch) -> PerPositive:
    """r̂₁ at the listed pairs."""
    return first.link.ratio(pair_scores(first.users, first.items, batch.rows, batch.columns))
