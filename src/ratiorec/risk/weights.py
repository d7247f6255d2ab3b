"""Class weights w⁺ and w⁻: which pairs count how much. None of them carries a gradient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from ratiorec.risk.pairs import Pairs
from ratiorec.scores import SOFTPLUS, Embeddings, Link

# 1/r̂ must stay finite in float32 when a score is far below zero
SMALLEST_RATIO = 1e-30


class Weights(Protocol):
    """w⁺ for positives and w⁻ for unlabelled pairs, up to a constant per user."""

    def positive(self, pairs: Pairs) -> Tensor:
        """w⁺ of every pair."""

    def unlabelled(self, pairs: Pairs) -> Tensor:
        """w⁻ of every pair; may broadcast to the pairs."""


@dataclass(frozen=True)
class Uniform:
    """w⁺ = w⁻ = 1 (theory: W1)."""

    def positive(self, pairs: Pairs) -> Tensor:
        return torch.ones_like(pairs.ratio)

    def unlabelled(self, pairs: Pairs) -> Tensor:
        return torch.ones_like(pairs.ratio)


@dataclass(frozen=True)
class Popularity:
    """w⁺ = 1, w⁻ ∝ |U_i⁺|^α; the constant falls away in a self-normalised mean (theory: W2)."""

    exponent: float = 0.5

    def positive(self, pairs: Pairs) -> Tensor:
        return torch.ones_like(pairs.ratio)

    def unlabelled(self, pairs: Pairs) -> Tensor:
        return (pairs.popularity**self.exponent).expand_as(pairs.ratio)


@dataclass(frozen=True)
class HardSample:
    """w⁺ = 1/r̂, w⁻ = r̂ of the model being trained, at every step anew (theory: W3)."""

    def positive(self, pairs: Pairs) -> Tensor:
        return 1 / pairs.ratio.clamp_min(SMALLEST_RATIO)

    def unlabelled(self, pairs: Pairs) -> Tensor:
        return pairs.ratio


@dataclass(frozen=True, eq=False)
class Frozen:
    """The hard-sample weights of a finished first model, never changed (theory: W4)."""

    first: Embeddings
    link: Link = SOFTPLUS

    def positive(self, pairs: Pairs) -> Tensor:
        return 1 / self.link.ratio(pairs.scores(self.first)).clamp_min(SMALLEST_RATIO)

    def unlabelled(self, pairs: Pairs) -> Tensor:
        return self.link.ratio(pairs.scores(self.first))
