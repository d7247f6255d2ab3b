"""The multinomial log-likelihood of a user's positives: one softmax over all items (Mult-VAE)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ratiorec.losses import Loss

if TYPE_CHECKING:
    from ratiorec.batches.users import Batch
    from ratiorec.shapes import Embeddings, PerUser, Scalar


@dataclass(frozen=True)
class Multinomial(Loss):
    """−Σ_{i ∈ I_u⁺} log softmax_i(s_u), over all items, averaged over users (theory: R21)."""

    name: ClassVar[str] = "multinomial"

    def __call__(self, embeddings: Embeddings, batch: Batch) -> Scalar:
        return self.per_user(embeddings, batch).mean()

    def per_user(self, embeddings: Embeddings, batch: Batch) -> PerUser:
        """The term of every user of the batch."""
        from ratiorec.kernels.softmax import negative_log_likelihood

        liked = batch.candidates[batch.columns]
        return negative_log_likelihood(*embeddings, batch.rows, liked)
