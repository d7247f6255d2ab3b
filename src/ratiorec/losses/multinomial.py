"""The multinomial log-likelihood of a user's positives: one softmax over all items (Mult-VAE)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ratiorec.losses import Loss

if TYPE_CHECKING:
    from ratiorec.batches.users import Batch
    from ratiorec.shapes import Embeddings, Scalar


@dataclass(frozen=True)
class Multinomial(Loss):
    """−Σ_{i ∈ I_u⁺} log softmax_i(s_u), over all items, averaged over users (theory: R21)."""

    name: ClassVar[str] = "multinomial"
    uses_weights: ClassVar[bool] = True
    supports_cuda_graph: ClassVar[bool] = True

    def __call__(self, embeddings: Embeddings, batch: Batch) -> Scalar:
        from ratiorec.kernels.pointwise import pair_scores, user_sums
        from ratiorec.kernels.softmax import weighted_log_totals

        users, items = embeddings
        scores = pair_scores(users, items, batch.rows, batch.candidates[batch.columns])
        weights = batch.weighted(scores.new_ones(len(scores)))
        n_positives, gain = user_sums([weights, weights * scores], batch.rows, len(users))
        # an autoencoder's scores are far from 0, where products of 16 bits lose too much
        spread = weighted_log_totals(users, items, n_positives, backend="tiled")
        return (spread - gain.sum()) / len(users)
