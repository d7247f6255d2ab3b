"""The weighted Bregman risk for implicit feedback, user by user (theory: R2)."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from ratiorec.data.batches import Batch
from ratiorec.errors import ConfigError
from ratiorec.risk.bregman import LEAST_SQUARES, Generator
from ratiorec.risk.correction import CandidateWeights, inverse_inclusion, non_negative
from ratiorec.risk.means import self_normalised
from ratiorec.risk.pairs import CrossedPairs, ListedPairs
from ratiorec.risk.unlabelled import Pointwise, PointwiseFunction, self_normalised_unlabelled
from ratiorec.risk.weights import HardSample, Weights
from ratiorec.scores import SOFTPLUS, Embeddings, Link, pair_scores
from ratiorec.shapes import PerPositive, PerUser, Scalar


@dataclass(frozen=True)
class DensityRatio:
    """R_u = Ê₊[π_u(w⁺ − w⁻)ℓ±(r̂) + w⁺ℓ₊(r̂)] + Ê[w⁻ℓ±(r̂)], averaged over users (theory: R5).

    `embeddings` are those of the batch's users, row by row, and of all items. Every mean is
    self-normalised. The defaults are the paper's ranking uLSIF with both
    corrections; `upper_bound` is D̄, and infinity turns the non-negative correction off.
    """

    generator: Generator = LEAST_SQUARES
    link: Link = SOFTPLUS
    weights: Weights = field(default_factory=HardSample)
    sampling: CandidateWeights = inverse_inclusion
    upper_bound: float = 70.0

    def __post_init__(self) -> None:
        if not self.upper_bound > 0:
            raise ConfigError(
                "the upper bound of the ratio must be positive",
                where="risk.upper_bound",
                found=str(self.upper_bound),
                wanted="a number above 0, or inf for no bound",
            )

    def __call__(self, embeddings: Embeddings, batch: Batch) -> Scalar:
        return self.per_user(embeddings, batch).mean()

    def per_user(self, embeddings: Embeddings, batch: Batch) -> PerUser:
        """R_u of every user of the batch, corrected."""
        users, items = embeddings.users, embeddings.items[batch.candidates]
        ratio = self.link.ratio(pair_scores(users, items, batch.rows, batch.columns))
        labelled, bounded = self._labelled(ratio, batch)
        pointwise = pointwise_terms(
            self.generator, self.link, self.weights, self.sampling(batch), batch
        )
        unlabelled = self_normalised_unlabelled(users, items, pointwise)
        return labelled + non_negative(unlabelled, bounded / self.upper_bound)

    def _labelled(self, ratio: PerPositive, batch: Batch) -> tuple[PerUser, PerUser]:
        """The terms over positives, and Ê₊[w⁺ℓ±] which the correction needs (theory: C3)."""
        pairs = ListedPairs(batch, ratio.detach())
        positive, unlabelled = self.weights.positive(pairs), self.weights.unlabelled(pairs)

        def mean(values: PerPositive, weights: Tensor) -> PerUser:
            return self_normalised(values, weights, batch.rows, len(batch.users))

        as_unlabelled = self.generator.unlabelled_loss(ratio)
        by_positive = mean(as_unlabelled, positive)
        by_unlabelled = mean(as_unlabelled, unlabelled)
        gain = mean(self.generator.positive_loss(ratio), positive)
        return batch.prior * (by_positive - by_unlabelled) + gain, by_positive


def pointwise_terms(
    generator: Generator, link: Link, weights: Weights, candidates: Tensor, batch: Batch
) -> PointwiseFunction:
    """The unlabelled term at a tile of scores: a_i w⁻, ℓ±(r̂) and its slope in the score."""

    def at(scores: Tensor, users: slice, items: slice) -> Pointwise:
        ratio, slope = link.with_slope(scores)
        weight = weights.unlabelled(CrossedPairs(batch, users, items, ratio)) * candidates[items]
        return Pointwise(
            weight, generator.unlabelled_loss(ratio), generator.unlabelled_slope(ratio) * slope
        )

    return at
