"""The paper's risk: a weighted Bregman divergence for implicit feedback, user by user (theory: R2).

Class weights, the correction for how candidates were sampled, and the loss itself, in the order
in which the paper builds it. The sum over unlabelled pairs is `ratiorec.kernels.unlabelled`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from ratiorec.errors import ConfigError, require_range
from ratiorec.losses import Loss
from ratiorec.losses.generators import PowerDivergence, RelativeRatio

if TYPE_CHECKING:
    from ratiorec.batches.users import Batch
    from ratiorec.kernels.pointwise import Generator
    from ratiorec.kernels.unlabelled import FirstModel
    from ratiorec.shapes import Embeddings, PerItem, PerPositive, PerUser, Scalar

GeneratorName = Literal["least-squares", "kullback-leibler", "logistic"]
LinkName = Literal["softplus", "exponential"]
CandidateCorrection = Literal["none", "inverse-propensity", "all-items"]
BackendName = Literal["auto", "reference", "tiled", "triton"]

# 1/r̂ must stay finite in float32 when a score is far below zero
SMALLEST_RATIO = 1e-30


AnyGenerator = GeneratorName | PowerDivergence | RelativeRatio


class UnlabelledWeight(NamedTuple):
    """w⁻ = c_i · r̂^γ · r̂₁ of a batch's users and candidates (theory: W5)."""

    candidates: PerItem  # c_i
    ratio_power: float = 0.0  # γ
    first: FirstModel | None = None

    def at_positives(self, batch: Batch, ratio: PerPositive) -> PerPositive:
        """Its values at the listed pairs."""
        from ratiorec.kernels.unlabelled import unlabelled_weight

        return unlabelled_weight(
            self.candidates[batch.columns],
            ratio,
            power=self.ratio_power,
            first=None if self.first is None else _at_positives(self.first, batch),
        )


# Class weights: w⁺ for positives and w⁻ for unlabelled pairs, up to a constant per user. They are
# given r̂ without its gradient, and carry none themselves.


@dataclass(frozen=True)
class HardSampleWeights:
    """w⁺ = 1/r̂, w⁻ = r̂ of the model being trained, at every step anew (theory: W3)."""

    name: ClassVar[str] = "hard-sample"

    def positive(self, batch: Batch, ratio: PerPositive) -> PerPositive:
        """w⁺ of every positive."""
        return 1 / ratio.clamp_min(SMALLEST_RATIO)

    def unlabelled(self, batch: Batch) -> UnlabelledWeight:
        """w⁻ of every user with every candidate."""
        return UnlabelledWeight(_ones(batch.popularity), ratio_power=1.0)


@dataclass(frozen=True)
class RatioPowerWeights:
    """w⁺ = r̂^−δ, w⁻ = r̂^γ: uniform for (0, 0), hard-sample for (1, 1) (theory: W8)."""

    name: ClassVar[str] = "ratio-power"

    positive_exponent: float = 1.0  # δ
    unlabelled_exponent: float = 1.0  # γ

    def __post_init__(self) -> None:
        for setting in ("positive_exponent", "unlabelled_exponent"):
            require_range(f"risk.weights.{setting}", getattr(self, setting), at_least=0)

    def positive(self, batch: Batch, ratio: PerPositive) -> PerPositive:
        """w⁺ of every positive."""
        smallest = SMALLEST_RATIO ** (1 / max(1, self.positive_exponent))
        return 1 / ratio.clamp_min(smallest).pow(self.positive_exponent)

    def unlabelled(self, batch: Batch) -> UnlabelledWeight:
        """w⁻ of every user with every candidate."""
        return UnlabelledWeight(_ones(batch.popularity), self.unlabelled_exponent)


@dataclass(frozen=True)
class UniformWeights:
    """w⁺ = w⁻ = 1 (theory: W1)."""

    name: ClassVar[str] = "uniform"

    def positive(self, batch: Batch, ratio: PerPositive) -> PerPositive:
        """w⁺ of every positive."""
        return _ones(ratio)

    def unlabelled(self, batch: Batch) -> UnlabelledWeight:
        """w⁻ of every user with every candidate."""
        return UnlabelledWeight(_ones(batch.popularity))


@dataclass(frozen=True)
class PopularityWeights(UniformWeights):
    """w⁺ = 1, w⁻ ∝ |U_i⁺|^α; the constant falls away in a self-normalised mean (theory: W2)."""

    name: ClassVar[str] = "popularity"

    exponent: float = 0.5

    def unlabelled(self, batch: Batch) -> UnlabelledWeight:
        """w⁻ of every user with every candidate."""
        return UnlabelledWeight(batch.popularity**self.exponent)


@dataclass(frozen=True)
class ConstantPositiveWeight(UniformWeights):
    """w⁺ = c⁺, w⁻ = 1; only in plain means does the constant count (theory: W6)."""

    name: ClassVar[str] = "constant-positive"

    positive_weight: float = 3000.0

    def __post_init__(self) -> None:
        require_range("risk.weights.positive_weight", self.positive_weight, above=0)

    def positive(self, batch: Batch, ratio: PerPositive) -> PerPositive:
        """w⁺ of every positive."""
        return self.positive_weight * _ones(ratio)


@dataclass(frozen=True, eq=False)
class FrozenWeights:
    """The hard-sample weights of a finished first model, never changed (theory: W4)."""

    name: ClassVar[str] = "frozen"

    first: Embeddings
    link: LinkName = "softplus"

    def positive(self, batch: Batch, ratio: PerPositive) -> PerPositive:
        """w⁺ of every positive."""
        return 1 / _at_positives(self._of(batch), batch).clamp_min(SMALLEST_RATIO)

    def unlabelled(self, batch: Batch) -> UnlabelledWeight:
        """w⁻ of every user with every candidate."""
        return UnlabelledWeight(_ones(batch.popularity), first=self._of(batch))

    def _of(self, batch: Batch) -> FirstModel:
        from ratiorec.kernels.pointwise import LINKS
        from ratiorec.kernels.unlabelled import FirstModel

        users, items = self.first
        return FirstModel(users[batch.users], items[batch.candidates], named(LINKS, self.link))


Weights = (
    HardSampleWeights
    | RatioPowerWeights
    | UniformWeights
    | PopularityWeights
    | ConstantPositiveWeight
)
AnyWeights = Weights | FrozenWeights


def named(choices: Mapping[str, Any], name: Any) -> Any:
    """What a name stands for, or what code has put in its place."""
    return choices.get(name, name)


def _at_positives(first: FirstModel, batch: Batch) -> PerPositive:
    """r̂₁ at the listed pairs."""
    from ratiorec.kernels.pointwise import pair_scores

    return first.link.ratio(pair_scores(first.users, first.items, batch.rows, batch.columns))


def _ones(like: PerItem | PerPositive) -> PerItem | PerPositive:
    return like.new_ones(like.shape)


def candidate_weights(batch: Batch, correction: CandidateCorrection) -> PerItem:
    """a_i of the candidates, 0 for those listed without having come up.

    "none": a_i = 1; popular items come up more often, and count for it (theory: C1).
    "inverse-propensity": a_i = 1/s(i); every item counts as if drawn uniformly (theory: C2).
    "all-items": a_i = 1 in a batch made by `with_all_items` (theory: C5).
    """
    came_up = batch.inclusion > 0
    if correction == "inverse-propensity":
        return (1 / batch.inclusion).where(came_up, 0)
    return came_up.to(batch.inclusion.dtype)


def with_all_items(batch: Batch, n_items: int) -> Batch:
    """The same users and positives with every item a candidate (theory: C5).

    What it says of items is 1 for all: popularity is not known of those that did not come up.
    """
    import torch

    ones = batch.inclusion.new_ones(n_items)
    return replace(
        batch,
        candidates=torch.arange(n_items, device=ones.device),
        columns=batch.candidates[batch.columns],
        popularity=ones,
        inclusion=ones,
        lists_all_items=True,
    )


@dataclass(frozen=True)
class DensityRatio(Loss):
    """R_u = Ê₊[π_u(w⁺ − w⁻)ℓ±(r̂) + w⁺ℓ₊(r̂)] + Ê[w⁻ℓ±(r̂)], averaged over users (theory: R5).

    Every mean is self-normalised. The defaults are the paper's ranking uLSIF with both
    corrections: for how candidates were sampled, and the non-negative one, whose `upper_bound` is
    D̄ (infinity turns it off). With "all-items" nothing is sampled and every item is a candidate.
    `generator` is f of the Bregman divergence, `link` turns a score into a ratio; from Python
    either may also be an object of `ratiorec.kernels.pointwise`. The `backend` of the sum over
    unlabelled pairs changes no more than rounding.
    """

    name: ClassVar[str] = "density-ratio"
    uses_weights: ClassVar[bool] = True
    supports_cuda_graph: ClassVar[bool] = True
    adds_up_over_users: ClassVar[bool] = True

    generator: AnyGenerator = "least-squares"
    link: LinkName = "softplus"
    weights: Weights = field(default_factory=HardSampleWeights)
    candidate_correction: CandidateCorrection = "inverse-propensity"
    upper_bound: float = 70.0
    backend: BackendName = "auto"

    def __post_init__(self) -> None:
        require_range("risk.upper_bound", self.upper_bound, above=0, finite=False)
        if self.candidate_correction == "all-items" and isinstance(self.weights, PopularityWeights):
            raise ConfigError(
                "two parts do not go together",
                where="risk.candidate_correction",
                found="all-items with popularity weights",
                wanted="other weights: a batch knows the popularity of its own items alone",
            )

    def __call__(self, embeddings: Embeddings, batch: Batch) -> Scalar:
        from ratiorec.kernels.pointwise import LINKS, pair_scores
        from ratiorec.kernels.unlabelled import UnlabelledTerm, corrected_mean

        if self.candidate_correction == "all-items":
            batch = with_all_items(batch, len(embeddings.items))
        users, items = embeddings.users, batch.of_candidates(embeddings.items)
        f, mixing = self._divergence()
        to_ratio = named(LINKS, self.link)
        weight = self.weights.unlabelled(batch)
        ratio = to_ratio.ratio(pair_scores(users, items, batch.rows, batch.columns))
        as_unlabelled, as_positive = f.unlabelled_loss(ratio), f.positive_loss(ratio)
        if mixing:
            as_positive = as_positive + mixing * as_unlabelled
        split, gain, bounded = self._labelled(
            as_unlabelled, as_positive, ratio.detach(), weight, batch
        )
        candidates = candidate_weights(batch, self.candidate_correction) * weight.candidates
        term = UnlabelledTerm(f, to_ratio, candidates, weight.ratio_power, weight.first)
        bound = bounded / self.upper_bound
        unlabelled = corrected_mean(users, items, term, bound, backend=self.backend)
        if mixing:
            split, unlabelled = (1 - mixing) * split, (1 - mixing) * unlabelled
        return batch.mean(split + gain, plus=unlabelled)

    def _divergence(self) -> tuple[Generator, float]:
        """f, and the share α of positives in the denominator of the ratio (theory: B7)."""
        from ratiorec.kernels.pointwise import GENERATORS

        part = self.generator
        if isinstance(part, PowerDivergence):
            return part(), part.mixing if isinstance(part, RelativeRatio) else 0.0
        return named(GENERATORS, part), 0.0

    def _labelled(
        self,
        as_unlabelled: PerPositive,  # ℓ±(r̂)
        as_positive: PerPositive,  # ℓ₊(r̂), or ℓ₊(r̂) + αℓ±(r̂)
        ratio: PerPositive,
        weight: UnlabelledWeight,
        batch: Batch,
    ) -> tuple[PerUser, PerUser, PerUser]:
        """The two terms over positives, and Ê₊[w⁺ℓ±] which the correction needs (theory: C3)."""
        from ratiorec.kernels.pointwise import self_normalised

        n_users, rows = len(batch.users), batch.rows
        w_plus = batch.weighted(self.weights.positive(batch, ratio))
        w_minus = batch.weighted(weight.at_positives(batch, ratio))
        by_positive, gain = self_normalised([as_unlabelled, as_positive], w_plus, rows, n_users)
        (by_unlabelled,) = self_normalised([as_unlabelled], w_minus, rows, n_users)
        return batch.prior * (by_positive - by_unlabelled), gain, by_positive
