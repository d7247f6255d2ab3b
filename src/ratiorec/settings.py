"""Settings of a model: what decides it, apart from the data and the seed. Plain data, no torch.

A model is trained by gradients (`Settings`), solved (`SolverSettings`), or trained twice
(`TwoStageSettings`); `ratiorec.training` builds runs from them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, is_dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from ratiorec.encoders.settings import AnyEncoder, LightGCN, MultVAE
from ratiorec.errors import ConfigError, require_range
from ratiorec.losses import Loss, losses
from ratiorec.losses.density_ratio import DensityRatio
from ratiorec.losses.unnormalised import WeightedDRE, WeightedPU
from ratiorec.solvers.settings import AnySolver

if TYPE_CHECKING:
    import torch

    from ratiorec.batches.dealing import UserDeal
    from ratiorec.batches.pairs import Draw, PairEpochs
    from ratiorec.batches.users import UserEpochs
    from ratiorec.data.interactions import Interactions


@dataclass(frozen=True)
class UserBatches:
    """Users uniformly without replacement; an epoch shows every user once.

    The users are dealt evenly over the fewest batches that hold at most `n_users` each, but over
    `min_steps_per_epoch` at least, so that few users do not become one batch. An "independent" deal
    draws as many batches, each anew and of the full size, as the paper's algorithm has it.
    """

    name: ClassVar[str] = "users"

    n_users: int = 2500
    min_steps_per_epoch: int = 1
    deal: Literal["even", "independent"] = field(default="even", metadata={"added_later": True})

    def __post_init__(self) -> None:
        require_range("batches.n_users", self.n_users, at_least=1)
        require_range("batches.min_steps_per_epoch", self.min_steps_per_epoch, at_least=1)

    def batch_size(self, n_eligible: int) -> int:
        """Users in a batch, where so many have a positive."""
        return max(1, min(self.n_users, -(-n_eligible // self.min_steps_per_epoch)))

    def __call__(self, data: Interactions, *, device: torch.device) -> UserEpochs:
        from ratiorec.batches.users import UserEpochs

        del device  # dealt by numpy, and carried over batch by batch
        size = self.batch_size(int(np.count_nonzero(data.user_degrees)))
        return UserEpochs(data, size, self.dealing())

    def dealing(self) -> UserDeal:
        """Who is in which batch, as a part."""
        from ratiorec.batches.dealing import EvenDeal, IndependentDeal

        return IndependentDeal() if self.deal == "independent" else EvenDeal()


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
        from ratiorec.batches.pairs import PAIR_ORDERS, PairEpochs

        draw, order = self.sampler(data, device=device), PAIR_ORDERS[self.pair_order]
        n, least = self.n_pairs, self.min_steps_per_epoch
        return PairEpochs.of(data, draw, order, n_pairs=n, min_steps=least, device=device)


AnyBatches = UserBatches | PairBatches


@dataclass(frozen=True)
class ConstantRate:
    """A learning-rate schedule of 1 at every step."""

    name: ClassVar[str] = "constant"

    def __call__(self, step: int) -> float:
        return 1.0


@dataclass(frozen=True)
class InverseTimeDecay:
    """A learning-rate schedule of 1/(1 + t/τ) after t steps, half after τ steps (theory: R24).

    It does not ask how many steps there will be, so that a search may stop anywhere and a refit
    take the same ones.
    """

    name: ClassVar[str] = "inverse-time-decay"

    half_life_steps: float = 60.0

    def __post_init__(self) -> None:
        require_range("training.lr_schedule.half_life_steps", self.half_life_steps, above=0)

    def __call__(self, step: int) -> float:
        return 1 / (1 + step / self.half_life_steps)


@dataclass(frozen=True)
class EarlyStopping:
    """When to validate, and when to stop.

    Validation happens every `validate_every_epochs`. Training stops after `patience` validations
    in a row without a better nDCG@20, and no sooner than `extra_patience_fraction` times the best
    one's steps after it: a slow curve rests longer. Better means by a share of at least
    `min_relative_gain`, since smaller differences are noise.
    """

    validate_every_epochs: int = 1
    patience: int = 3
    min_relative_gain: float = 0.001
    extra_patience_fraction: float = 0.0

    def __post_init__(self) -> None:
        self._require("validate_every_epochs", at_least=1)
        self._require("patience", at_least=1)
        self._require("min_relative_gain", at_least=0)
        self._require("extra_patience_fraction", at_least=0)

    def _require(
        self, setting: str, *, at_least: float | None = None, above: float | None = None
    ) -> None:
        table = "training" if isinstance(self, Training) else "stopping"
        value = getattr(self, setting)
        require_range(f"{table}.{setting}", value, at_least=at_least, above=above)

    def validation_interval(self, steps_per_epoch: int) -> int:
        """Epochs from one validation to the next."""
        return self.validate_every_epochs


@dataclass(frozen=True)
class Training(EarlyStopping):
    """How to train by gradients, for how long, and when to stop (early stopping).

    The rate of a step is `learning_rate` times what the `lr_schedule` says, and `l2` is λ of the
    L2 regularisation (theory: R6). `epochs` is the most that will be run; without validation data
    it is exactly what will be run. Two validations are `min_steps_between_validations` apart at
    least: few users make short epochs, and a plateau of a few steps must not look like the end.
    """

    validate_every_epochs: int = 5
    patience: int = 4
    learning_rate: float = 0.01
    l2: float = 0.045
    epochs: int = 1000
    min_steps_between_validations: int = 50
    lr_schedule: ConstantRate | InverseTimeDecay = field(default_factory=ConstantRate)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require("learning_rate", above=0)
        self._require("l2", at_least=0)
        self._require("epochs", at_least=1)
        self._require("min_steps_between_validations", at_least=1)

    def validation_interval(self, steps_per_epoch: int) -> int:
        """Epochs from one validation to the next."""
        least = -(-self.min_steps_between_validations // steps_per_epoch)
        return max(self.validate_every_epochs, least)


@dataclass(frozen=True)
class Settings:
    """A model trained by gradients: which encoder, which loss, on which batches, for how long."""

    encoder: AnyEncoder = field(default_factory=LightGCN)
    risk: Loss = field(default_factory=DensityRatio)
    batches: AnyBatches = field(default_factory=lambda: UserBatches(min_steps_per_epoch=10))
    training: Training = field(default_factory=Training)

    def __post_init__(self) -> None:
        _require_name_of_its_own(self.risk)
        if self.risk.needs != self.batches.name:
            raise _misfit("risk", self.risk, f"batches of {self.batches.name}")
        if isinstance(self.encoder, MultVAE) and self.batches.name != "users":
            raise _misfit("encoder", self.encoder, f"batches of {self.batches.name}")

    @property
    def stopping(self) -> EarlyStopping:
        """When to validate and when to stop."""
        return self.training


@dataclass(frozen=True)
class SolverSettings:
    """A model that is solved, in one sweep or in several."""

    solver: AnySolver
    stopping: EarlyStopping = field(default_factory=EarlyStopping)


@dataclass(frozen=True)
class TwoStageSettings:
    """Static weights: a first model, then a second whose weights are the first's for good.

    The first one runs for its `training.epochs`; the epoch of the second is chosen as usual. The
    second starts afresh, or where the first has ended (`second_starts_from_first`).
    """

    first: Settings
    second: Settings
    second_starts_from_first: bool = field(default=False, metadata={"added_later": True})

    def __post_init__(self) -> None:
        if not isinstance(self.second.risk, DensityRatio | WeightedDRE | WeightedPU):
            raise _misfit("second.risk", self.second.risk, "weights")
        if isinstance(self.first.encoder, MultVAE):
            raise _misfit("first.encoder", self.first.encoder, "frozen weights")
        if self.second_starts_from_first and self.first.encoder != self.second.encoder:
            raise ConfigError(
                "a model cannot start from one of another kind",
                where="second_starts_from_first",
                found=f"{self.first.encoder} and {self.second.encoder}",
                wanted="the same encoder in both stages, or false",
            )
        if self.first.batches != self.second.batches:
            raise ConfigError(
                "the two stages take different batches",
                where="first.batches, second.batches",
                found=f"{self.first.batches} and {self.second.batches}",
                wanted="the same",
            )

    @property
    def stopping(self) -> EarlyStopping:
        """When to validate and when to stop."""
        return self.second.training


ModelSettings = Settings | SolverSettings | TwoStageSettings
"""Settings of one model."""


@dataclass(frozen=True)
class BlendMember:
    """A model in a blend: its weight, and the steps and the seed that it is trained with."""

    name: str
    weight: float
    steps: int
    seed: int
    settings: ModelSettings

    def __post_init__(self) -> None:
        require_range(f"members.{self.name}.weight", self.weight, above=0)
        require_range(f"members.{self.name}.steps", self.steps, at_least=1)


@dataclass(frozen=True)
class BlendSettings:
    """Models whose standardised scores are added with weights (theory: G1)."""

    members: tuple[BlendMember, ...]


@dataclass(frozen=True)
class AutoSettings:
    """A blend whose members and weights are chosen on held-out pairs, in a time budget."""


AnySettings = ModelSettings | BlendSettings | AutoSettings


def _require_name_of_its_own(loss: Loss) -> None:
    """A model folder knows a loss by its name: that of another would fold users in by another."""
    cls = type(loss)
    if cls.__module__.startswith("ratiorec.losses."):
        return
    name = getattr(cls, "name", None)
    if not isinstance(name, str) or not is_dataclass(cls) or name in losses():
        raise ConfigError(
            "a loss has no name of its own",
            where=f"risk, the class {cls.__name__}",
            found=f"name = {name!r}" + ("" if is_dataclass(cls) else ", and no dataclass"),
            wanted="a frozen dataclass with a name other than " + ", ".join(losses()),
        )


def _misfit(where: str, part: Any, of: str) -> ConfigError:
    needs = f"batches of kind {part.needs}" if isinstance(part, Loss) else "batches of kind users"
    return ConfigError(
        "two parts do not go together",
        where=where,
        found=f"{type(part).__name__} with {of}",
        wanted=f"{needs}, which {type(part).__name__} needs"
        if "batches" in of
        else "a density-ratio loss, and an encoder of vectors",
    )
