"""The squared loss over every item of a user, without ever listing them (ENMF)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ratiorec.errors import require_range
from ratiorec.losses import Loss

if TYPE_CHECKING:
    from ratiorec.batches.users import Batch
    from ratiorec.shapes import Embeddings, Scalar


@dataclass(frozen=True)
class WholeData(Loss):
    """Σ_{i ∈ I_u⁺} ((1 − c)s² − 2s) + c Σ_{i ∈ I} s², averaged over users (theory: R20).

    `unlabelled_weight` is c; a positive has weight 1, or that of the pair.
    """

    name: ClassVar[str] = "whole-data"
    uses_weights: ClassVar[bool] = True
    supports_cuda_graph: ClassVar[bool] = True

    unlabelled_weight: float = 0.05

    def __post_init__(self) -> None:
        require_range("risk.unlabelled_weight", self.unlabelled_weight, above=0)

    def __call__(self, embeddings: Embeddings, batch: Batch) -> Scalar:
        from ratiorec.kernels.pointwise import pair_scores, user_sums

        users, items = embeddings
        scores = pair_scores(users, items, batch.rows, batch.candidates[batch.columns])
        gain = batch.weighted(scores.square() - 2 * scores)
        gain = gain - self.unlabelled_weight * scores.square()
        (labelled,) = user_sums([gain], batch.rows, len(users))
        everywhere = squared_scores(embeddings)
        return (labelled.sum() + self.unlabelled_weight * everywhere) / len(users)


def squared_scores(embeddings: Embeddings) -> Scalar:
    """Σ_{u,i} s(u,i)² = Σ_{k,l} (UᵀU)_kl (QᵀQ)_kl, no score being computed (theory: R20)."""
    users, items = embeddings
    return ((users.T @ users) * (items.T @ items)).sum()
