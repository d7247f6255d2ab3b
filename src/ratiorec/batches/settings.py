"""Settings of batches, samplers and pair orders; torch objects are built from them by a call."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from ratiorec.errors import require_range

if TYPE_CHECKING:
    import torch

    from ratiorec.batches.pairs import Draw, PairEpochs
    from ratiorec.batches.users import UserEpochs
    from ratiorec.data.interactions import Interactions


@dataclass(frozen=True)
class UserBatches:
    """Users uniformly without replacement; an epoch shows every user once.

    The users are dealt evenly over the fewest batches that hold at most `n_users` each, but over
    `min_steps_per_epoch` at least, so that few users do not become one batch.
    """

    name: ClassVar[str] = "users"

    n_users: int = 2500
    min_steps_per_epoch: int = 1

    def __post_init__(self) -> None:
        require_range("batches.n_users", self.n_users, at_least=1)
        require_range("batches.min_steps_per_epoch", self.min_steps_per_epoch, at_least=1)

    def batch_size(self, n_eligible: int) -> int:
        """Users in a batch, where so many have a positive."""
        return max(1, min(self.n_users, -(-n_eligible // self.min_steps_per_epoch)))

    def __call__(self, data: Interactions, *, device: torch.device) -> UserEpochs:
        from ratiorec.batches.users import UserEpochs

        del device  # dealt by numpy, and carried over batch by batch
        return UserEpochs(data, self.batch_size(int(np.count_nonzero(data.user_degrees))))


@dataclass(frozen=True)
class UniformSampler:
    """Negatives drawn uniformly from the user's unlabelled items (theory: P4)."""

    name: ClassVar[str] = "uniform"

    n_negatives: int = 1

    def __post_init__(self) -> None:
        require_range("batches.sampler.n_negatives", self.n_negatives, at_least=1)

    def __call__(self, data: Interactions, *, device: torch.device) -> Draw:
        from ratiorec.batches.pairs import UniformDraw

        return UniformDraw.of(data, n_drawn=self.n_negatives, device=device)


@dataclass(frozen=True)
class PopularitySampler:
    """Negatives with p(i|u) ∝ |U_i⁺|^α from the user's unlabelled items (theory: P5).

    The weights are rounded to whole numbers, see `whole_weights`; apart from that nothing is
    approximated.
    """

    name: ClassVar[str] = "popularity"

    exponent: float = 0.75
    n_negatives: int = 1

    def __post_init__(self) -> None:
        require_range("batches.sampler.exponent", self.exponent, at_least=0)
        require_range("batches.sampler.n_negatives", self.n_negatives, at_least=1)

    def __call__(self, data: Interactions, *, device: torch.device) -> Draw:
        from ratiorec.batches.pairs import WeightedDraw, whole_weights

        weights = whole_weights(data, self.exponent)
        return WeightedDraw.of(data, weights, n_drawn=self.n_negatives, device=device)


AnySampler = UniformSampler | PopularitySampler


@dataclass(frozen=True)
class PairBatches:
    """Pairs, each with sampled negatives; an epoch shows as many as there are (theory: P3).

    They are spread over the fewest batches that hold at most `n_pairs` each, but over
    `min_steps_per_epoch` at least, so that few pairs do not become one batch. In "shuffled" order
    every pair comes once (theory: P3); "user-balanced" draws a user uniformly, then one of the
    user's pairs (theory: P7). Pairs of users who have every item are left out: they have no
    negatives.
    """

    name: ClassVar[str] = "pairs"

    n_pairs: int = 2048
    sampler: AnySampler = field(default_factory=UniformSampler)
    pair_order: Literal["shuffled", "user-balanced"] = "shuffled"
    min_steps_per_epoch: int = 1

    def __post_init__(self) -> None:
        require_range("batches.n_pairs", self.n_pairs, at_least=1)
        require_range("batches.min_steps_per_epoch", self.min_steps_per_epoch, at_least=1)

    def __call__(self, data: Interactions, *, device: torch.device) -> PairEpochs:
        from ratiorec.batches.pairs import PairEpochs

        return PairEpochs.of(data, self, device=device)


AnyBatches = UserBatches | PairBatches


def inclusion_probability(
    item_degrees: NDArray[np.int64], *, n_users: int, n_drawn: int
) -> NDArray[np.float64]:
    """s(i) = 1 − C(n_i⁻, |U_B|) / C(|U|, |U_B|), n_i⁻ the users without item i (theory: P1).

    An item that some drawn user must have is certain: n_i⁻ < |U_B| gives 1.

    >>> inclusion_probability(np.array([0, 1, 3]), n_users=4, n_drawn=2).round(6).tolist()
    [0.0, 0.5, 1.0]
    """
    from scipy.special import gammaln

    others = (n_users - np.asarray(item_degrees)).astype(np.float64)
    certain = others < n_drawn
    others = np.where(certain, n_drawn, others)
    log_missed = (
        gammaln(others + 1)
        - gammaln(others - n_drawn + 1)
        - gammaln(n_users + 1)
        + gammaln(n_users - n_drawn + 1)
    )
    return np.where(certain, 1.0, np.clip(-np.expm1(log_missed), 0.0, 1.0))
