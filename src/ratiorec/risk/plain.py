"""The two plain losses of the paper's ablation: no self-normalisation, no corrections."""

from __future__ import annotations

from dataclasses import dataclass, field

from ratiorec.data.batches import Batch
from ratiorec.risk.bregman import LEAST_SQUARES
from ratiorec.risk.correction import as_sampled
from ratiorec.risk.density_ratio import pointwise_terms
from ratiorec.risk.means import plain
from ratiorec.risk.pairs import ListedPairs
from ratiorec.risk.unlabelled import plain_unlabelled
from ratiorec.risk.weights import Uniform, Weights
from ratiorec.scores import SOFTPLUS, Embeddings, Link, pair_scores
from ratiorec.shapes import PerUser, Scalar


@dataclass(frozen=True)
class WeightedDRE:
    """Ê₊[π_u(w⁺ − w⁻)r̂² − 2w⁺r̂] + Ê[w⁻r̂²], plain means: row (b) (theory: R9)."""

    link: Link = SOFTPLUS
    weights: Weights = field(default_factory=Uniform)

    def __call__(self, embeddings: Embeddings, batch: Batch) -> Scalar:
        square, product, unlabelled = _plain_means(self.link, self.weights, embeddings, batch)
        return (batch.prior * square - 2 * product + unlabelled).mean()


@dataclass(frozen=True)
class WeightedPU:
    """π_u Ê₊[(w⁺ − w⁻)r̂² − 2w⁺r̂] + Ê[w⁻r̂²], plain means: row (a) (theory: R10).

    The class prior multiplies the gain of a positive, too: class probabilities are fitted,
    not ratios.
    """

    link: Link = SOFTPLUS
    weights: Weights = field(default_factory=Uniform)

    def __call__(self, embeddings: Embeddings, batch: Batch) -> Scalar:
        square, product, unlabelled = _plain_means(self.link, self.weights, embeddings, batch)
        return (batch.prior * (square - 2 * product) + unlabelled).mean()


def _plain_means(
    link: Link, weights: Weights, embeddings: Embeddings, batch: Batch
) -> tuple[PerUser, PerUser, PerUser]:
    """Ê₊[(w⁺ − w⁻)r̂²], Ê₊[w⁺r̂] and Ê[w⁻r̂²] for each user."""
    users, items = embeddings.users, embeddings.items[batch.candidates]
    ratio = link.ratio(pair_scores(users, items, batch.rows, batch.columns))
    pairs = ListedPairs(batch, ratio.detach())
    positive = weights.positive(pairs)
    difference = positive - weights.unlabelled(pairs)
    pointwise = pointwise_terms(LEAST_SQUARES, link, weights, as_sampled(batch), batch)
    return (
        plain(ratio.square(), difference, batch.rows, len(users)),
        plain(ratio, positive, batch.rows, len(users)),
        2 * plain_unlabelled(users, items, pointwise),
    )
