"""The two plain losses of the paper's ablation: no self-normalisation, no corrections."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from ratiorec.losses import Loss
from ratiorec.losses.density_ratio import (
    BackendName,
    LinkName,
    UniformWeights,
    Weights,
    candidate_weights,
    named,
)

if TYPE_CHECKING:
    from ratiorec.batches.users import Batch
    from ratiorec.shapes import Embeddings, PerUser, Scalar


@dataclass(frozen=True)
class WeightedDRE(Loss):
    """Ê₊[π_u(w⁺ − w⁻)r̂² − 2w⁺r̂] + Ê[w⁻r̂²], plain means: row (b) (theory: R9)."""

    name: ClassVar[str] = "weighted-dre"
    uses_weights: ClassVar[bool] = True
    supports_cuda_graph: ClassVar[bool] = True
    adds_up_over_users: ClassVar[bool] = True

    link: LinkName = "softplus"
    weights: Weights = field(default_factory=UniformWeights)
    backend: BackendName = "auto"

    def __call__(self, embeddings: Embeddings, batch: Batch) -> Scalar:
        square, product = _labelled(self, embeddings, batch)
        unlabelled = _unlabelled(self, embeddings, batch)
        return batch.mean(batch.prior * square - 2 * product, plus=unlabelled)


@dataclass(frozen=True)
class WeightedPU(Loss):
    """π_u Ê₊[(w⁺ − w⁻)r̂² − 2w⁺r̂] + Ê[w⁻r̂²], plain means: row (a) (theory: R10).

    The class prior multiplies the gain of a positive, too: class probabilities are fitted,
    not ratios.
    """

    name: ClassVar[str] = "weighted-pu"
    uses_weights: ClassVar[bool] = True
    supports_cuda_graph: ClassVar[bool] = True
    adds_up_over_users: ClassVar[bool] = True

    link: LinkName = "softplus"
    weights: Weights = field(default_factory=UniformWeights)
    backend: BackendName = "auto"

    def __call__(self, embeddings: Embeddings, batch: Batch) -> Scalar:
        square, product = _labelled(self, embeddings, batch)
        unlabelled = _unlabelled(self, embeddings, batch)
        return batch.mean(batch.prior * (square - 2 * product), plus=unlabelled)


def _labelled(
    loss: WeightedDRE | WeightedPU, embeddings: Embeddings, batch: Batch
) -> tuple[PerUser, PerUser]:
    """Ê₊[(w⁺ − w⁻)r̂²] and Ê₊[w⁺r̂] for each user (theory: R7)."""
    from ratiorec.kernels.pointwise import LINKS, pair_scores, plain

    users, items = embeddings.users, batch.of_candidates(embeddings.items)
    ratio = named(LINKS, loss.link).ratio(pair_scores(users, items, batch.rows, batch.columns))
    positive = loss.weights.positive(batch, ratio.detach())
    unlabelled = loss.weights.unlabelled(batch).at_positives(batch, ratio.detach())
    counts = batch.weighted(ratio.new_ones(len(ratio)))
    return (
        plain(ratio.square(), positive - unlabelled, counts, batch.rows, len(users)),
        plain(ratio, positive, counts, batch.rows, len(users)),
    )


def _unlabelled(loss: WeightedDRE | WeightedPU, embeddings: Embeddings, batch: Batch) -> Scalar:
    """The mean of Ê[w⁻r̂²] over users, in which no bound is at work (theory: R8)."""
    from ratiorec.kernels.pointwise import LEAST_SQUARES, LINKS
    from ratiorec.kernels.unlabelled import UnlabelledTerm, corrected_mean

    users, items = embeddings.users, batch.of_candidates(embeddings.items)
    weight, counted = loss.weights.unlabelled(batch), candidate_weights(batch, "none")
    term = UnlabelledTerm(
        LEAST_SQUARES,
        named(LINKS, loss.link),
        weight.candidates * counted / counted.sum(),
        weight.ratio_power,
        weight.first,
        divisor=1.0,
    )
    no_bound = users.new_zeros(len(users))
    return 2 * corrected_mean(users, items, term, no_bound, backend=loss.backend)
