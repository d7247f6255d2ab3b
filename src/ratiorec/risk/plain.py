"""The two plain losses of the paper's ablation: no self-normalisation, no corrections."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import torch

from ratiorec.data.batches import Batch
from ratiorec.risk.bregman import LEAST_SQUARES
from ratiorec.risk.correction import as_sampled
from ratiorec.risk.fused.choice import automatic
from ratiorec.risk.fused.execution import Execution
from ratiorec.risk.fused.mean import corrected_mean
from ratiorec.risk.fused.term import UnlabelledTerm
from ratiorec.risk.means import plain
from ratiorec.risk.positives import pair_scores
from ratiorec.risk.weights import Uniform, Weights
from ratiorec.scores import SOFTPLUS, Embeddings, Link
from ratiorec.shapes import PerUser, Scalar


@dataclass(frozen=True)
class WeightedDRE:
    """Ê₊[π_u(w⁺ − w⁻)r̂² − 2w⁺r̂] + Ê[w⁻r̂²], plain means: row (b) (theory: R9)."""

    link: Link = SOFTPLUS
    weights: Weights = field(default_factory=Uniform)
    execution: Execution = automatic

    leaves_spare_places_out: ClassVar[bool] = True

    def __call__(self, embeddings: Embeddings, batch: Batch) -> Scalar:
        square, product = _labelled(self, embeddings, batch)
        return (batch.prior * square - 2 * product).mean() + _unlabelled(self, embeddings, batch)


@dataclass(frozen=True)
class WeightedPU:
    """π_u Ê₊[(w⁺ − w⁻)r̂² − 2w⁺r̂] + Ê[w⁻r̂²], plain means: row (a) (theory: R10).

    The class prior multiplies the gain of a positive, too: class probabilities are fitted,
    not ratios.
    """

    link: Link = SOFTPLUS
    weights: Weights = field(default_factory=Uniform)
    execution: Execution = automatic

    leaves_spare_places_out: ClassVar[bool] = True

    def __call__(self, embeddings: Embeddings, batch: Batch) -> Scalar:
        square, product = _labelled(self, embeddings, batch)
        return (batch.prior * (square - 2 * product)).mean() + _unlabelled(self, embeddings, batch)


def _labelled(
    risk: WeightedDRE | WeightedPU, embeddings: Embeddings, batch: Batch
) -> tuple[PerUser, PerUser]:
    """Ê₊[(w⁺ − w⁻)r̂²] and Ê₊[w⁺r̂] for each user (theory: R7)."""
    users, items = embeddings.users, batch.of_candidates(embeddings.items)
    ratio = risk.link.ratio(pair_scores(users, items, batch.rows, batch.columns))
    positive = risk.weights.positive(batch, ratio.detach())
    unlabelled = risk.weights.unlabelled(batch).at_positives(batch, ratio.detach())
    return (
        plain(ratio.square(), positive - unlabelled, batch.rows, len(users)),
        plain(ratio, positive, batch.rows, len(users)),
    )


def _unlabelled(risk: WeightedDRE | WeightedPU, embeddings: Embeddings, batch: Batch) -> Scalar:
    """The mean of Ê[w⁻r̂²] over users, in which no bound is at work (theory: R8)."""
    users, items = embeddings.users, batch.of_candidates(embeddings.items)
    weight, counted = risk.weights.unlabelled(batch), as_sampled(batch)
    term = UnlabelledTerm(
        LEAST_SQUARES,
        risk.link,
        weight.candidates * counted / counted.sum(),
        weight.ratio_power,
        weight.first,
        divisor=1.0,
    )
    no_bound = torch.zeros_like(users[:, 0])
    return 2 * corrected_mean(users, items, term, no_bound, execution=risk.execution)
