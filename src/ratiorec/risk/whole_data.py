"""The squared loss over every item of a user, without ever listing them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ratiorec.data.batches import Batch
from ratiorec.errors import ConfigError
from ratiorec.risk.positives import pair_scores
from ratiorec.scores import Embeddings
from ratiorec.shapes import Scalar


@dataclass(frozen=True)
class WholeData:
    """Σ_{i ∈ I_u⁺} ((1 − c)s² − 2s) + c Σ_{i ∈ I} s², averaged over users (theory: R20).

    `unlabelled_weight` is c; a positive has weight 1.
    """

    unlabelled_weight: float = 0.05

    def __post_init__(self) -> None:
        if not 0 < self.unlabelled_weight < np.inf:
            raise ConfigError(
                "the weight of unlabelled pairs must be positive",
                where="risk.unlabelled_weight",
                found=str(self.unlabelled_weight),
                wanted="a finite number above 0",
            )

    def __call__(self, embeddings: Embeddings, batch: Batch) -> Scalar:
        users, items = embeddings
        scores = pair_scores(users, items, batch.rows, batch.candidates[batch.columns])
        labelled = ((1 - self.unlabelled_weight) * scores.square() - 2 * scores).sum()
        everywhere = squared_scores(embeddings)
        return (labelled + self.unlabelled_weight * everywhere) / len(users)


def squared_scores(embeddings: Embeddings) -> Scalar:
    """Σ_{u,i} s(u,i)² = Σ_{k,l} (UᵀU)_kl (QᵀQ)_kl, no score being computed (theory: R20)."""
    users, items = embeddings
    return ((users.T @ users) * (items.T @ items)).sum()
