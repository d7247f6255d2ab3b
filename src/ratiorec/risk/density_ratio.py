"""The weighted Bregman risk for implicit feedback, user by user (theory: R2)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from ratiorec.data.batches import Batch
from ratiorec.errors import ConfigError
from ratiorec.risk.bregman import LEAST_SQUARES, Generator
from ratiorec.risk.correction import CandidateWeights, inverse_inclusion
from ratiorec.risk.fused.choice import automatic
from ratiorec.risk.fused.execution import Execution
from ratiorec.risk.fused.mean import corrected_mean
from ratiorec.risk.fused.term import UnlabelledTerm
from ratiorec.risk.means import self_normalised
from ratiorec.risk.positives import pair_scores
from ratiorec.risk.weights import HardSample, UnlabelledWeight, Weights
from ratiorec.scores import SOFTPLUS, Embeddings, Link
from ratiorec.shapes import PerPositive, PerUser, Scalar


@dataclass(frozen=True)
class DensityRatio:
    """R_u = Ê₊[π_u(w⁺ − w⁻)ℓ±(r̂) + w⁺ℓ₊(r̂)] + Ê[w⁻ℓ±(r̂)], averaged over users (theory: R5).

    `embeddings` are those of the batch's users, row by row, and of all items. Every mean is
    self-normalised. The defaults are the paper's ranking uLSIF with both
    corrections; `upper_bound` is D̄, and infinity turns the non-negative correction off. The
    `execution` of the term over unlabelled pairs changes no more than rounding.
    """

    generator: Generator = LEAST_SQUARES
    link: Link = SOFTPLUS
    weights: Weights = field(default_factory=HardSample)
    sampling: CandidateWeights = inverse_inclusion
    upper_bound: float = 70.0
    execution: Execution = automatic

    leaves_spare_places_out: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.upper_bound > 0:
            raise ConfigError(
                "the upper bound of the ratio must be positive",
                where="risk.upper_bound",
                found=str(self.upper_bound),
                wanted="a number above 0, or inf for no bound",
            )

    def __call__(self, embeddings: Embeddings, batch: Batch) -> Scalar:
        users, items = embeddings.users, batch.of_candidates(embeddings.items)
        weight = self.weights.unlabelled(batch)
        ratio = self.link.ratio(pair_scores(users, items, batch.rows, batch.columns))
        labelled, bounded = self._labelled(ratio, weight, batch)
        term = UnlabelledTerm(
            self.generator,
            self.link,
            self.sampling(batch) * weight.candidates,
            weight.ratio_power,
            weight.first,
        )
        bound = bounded / self.upper_bound
        unlabelled = corrected_mean(users, items, term, bound, execution=self.execution)
        return labelled.mean() + unlabelled

    def _labelled(
        self, ratio: PerPositive, weight: UnlabelledWeight, batch: Batch
    ) -> tuple[PerUser, PerUser]:
        """The terms over positives, and Ê₊[w⁺ℓ±] which the correction needs (theory: C3)."""
        positive = self.weights.positive(batch, ratio.detach())
        unlabelled = weight.at_positives(batch, ratio.detach())

        def means(values: list[PerPositive], weights: PerPositive) -> list[PerUser]:
            return self_normalised(values, weights, batch.rows, len(batch.users))

        as_unlabelled = self.generator.unlabelled_loss(ratio)
        as_positive = self.generator.positive_loss(ratio)
        by_positive, gain = means([as_unlabelled, as_positive], positive)
        (by_unlabelled,) = means([as_unlabelled], unlabelled)
        return batch.prior * (by_positive - by_unlabelled) + gain, by_positive
