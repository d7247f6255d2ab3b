"""The softmax loss over all items: the Kullback-Leibler member, normalised by itself."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from ratiorec.errors import require_range
from ratiorec.losses import Loss
from ratiorec.losses.density_ratio import BackendName

if TYPE_CHECKING:
    from ratiorec.batches.users import Batch
    from ratiorec.shapes import Embeddings, PerPositive, PerUser, PositiveIndex, Scalar


@dataclass(frozen=True)
class Softmax(Loss):
    """log Σ_{i ∈ I} exp(s/τ) − Ê₊[s/τ] for each user, s the score (theory: R25).

    All items are in the sum, whatever the batch. Users are weighted by their number of positives,
    so that "pairs" count equally, or "users" do. A finite `positive_temperature` τ⁺ puts the
    log-mean-exp of the positives in the place of their mean (theory: R27). With a `top_k` a
    positive counts σ((s − β_u)/w), β_u the user's own k-th best score of the step and w the
    `top_k_width` in units of the score: one that is nearly in the list counts more (theory: W7).
    The weights tell positives apart only as far as scores do, so the first steps need no other
    rule. The `backend` changes no more than rounding.
    """

    name: ClassVar[str] = "softmax"
    uses_weights: ClassVar[bool] = True
    supports_cuda_graph: ClassVar[bool] = True
    adds_up_over_users: ClassVar[bool] = True

    temperature: float = 0.1
    user_weighting: Literal["pairs", "users"] = "pairs"
    positive_temperature: float = math.inf
    top_k: int = 0
    top_k_width: float = 0.75
    backend: BackendName = "auto"

    def __post_init__(self) -> None:
        require_range("risk.temperature", self.temperature, above=0)
        require_range("risk.positive_temperature", self.positive_temperature, above=0, finite=False)
        require_range("risk.top_k", self.top_k, at_least=0)
        require_range("risk.top_k_width", self.top_k_width, above=0)

    def __call__(self, embeddings: Embeddings, batch: Batch) -> Scalar:
        import torch

        from ratiorec.kernels.pointwise import pair_scores, user_sums
        from ratiorec.kernels.softmax import weighted_log_totals

        users, items = embeddings
        scores = pair_scores(users, items, batch.rows, batch.candidates[batch.columns])
        weights = batch.weighted(self._weights(embeddings, scores.detach(), batch.rows))
        (total,) = user_sums([weights], batch.rows, len(users))
        shares = total if self.user_weighting == "pairs" else (total > 0).to(total.dtype)
        shares = shares / batch.total(shares.sum())
        gain = self._gain(scores, weights, batch.rows, len(users))
        backend = self.backend
        spread = weighted_log_totals(users / self.temperature, items, shares, backend=backend)
        return spread - torch.dot(shares, gain)

    def _weights(
        self, embeddings: Embeddings, scores: PerPositive, rows: PositiveIndex
    ) -> PerPositive:
        """w⁺ of every positive, without a gradient (theory: W7)."""
        import torch

        from ratiorec.kernels.softmax import kth_best_score

        if not self.top_k:
            return torch.ones_like(scores)
        bar = kth_best_score(*embeddings, self.top_k)
        owners = rows.clamp_max(len(bar) - 1)
        return torch.sigmoid((scores - bar[owners]) / self.top_k_width)

    def _gain(
        self, scores: PerPositive, weights: PerPositive, rows: PositiveIndex, n_users: int
    ) -> PerUser:
        """Ê₊[s/τ], or τ⁺/τ·log Ê₊[exp(s/τ⁺)]; 0 for a user without positives (theory: R27)."""
        import torch

        from ratiorec.kernels.pointwise import user_sums

        if math.isinf(self.positive_temperature):
            total, gain = user_sums([weights, weights * scores / self.temperature], rows, n_users)
            return gain / torch.where(total > 0, total, 1)
        scaled = scores / self.positive_temperature
        largest = scaled.detach().new_full((n_users + 1,), -torch.inf)
        largest = largest.scatter_reduce(0, rows, scaled.detach(), "amax")
        total, powers = user_sums(
            [weights, weights * (scaled - largest[rows]).exp()], rows, n_users
        )
        there = total > 0
        mean = torch.where(there, powers, 1) / torch.where(there, total, 1)
        gain = mean.log() + torch.where(there, largest[:n_users], 0)
        return self.positive_temperature / self.temperature * gain
