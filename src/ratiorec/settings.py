"""What decides a model, apart from the data and the seed: three sorts of settings.

A model descends (`Settings`), is solved (`Solved`), or descends twice (`TwoStage`). Each starts a
run on a set of pairs; the fit does not ask which sort it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from ratiorec.data.batches import UserBatches
from ratiorec.data.interactions import Interactions
from ratiorec.data.pair_batches import PairBatches
from ratiorec.encoders.enmf import ENMF
from ratiorec.encoders.factorisation import Factorisation
from ratiorec.encoders.lightgcn import LightGCN
from ratiorec.encoders.ngcf import NGCF
from ratiorec.encoders.variational import Variational
from ratiorec.errors import ConfigError
from ratiorec.risk.density_ratio import DensityRatio
from ratiorec.risk.multinomial import Multinomial
from ratiorec.risk.pairwise import BPR
from ratiorec.risk.plain import WeightedDRE, WeightedPU
from ratiorec.risk.weights import Frozen
from ratiorec.risk.whole_data import WholeData
from ratiorec.runs import Run
from ratiorec.scores import Embeddings
from ratiorec.solvers.protocol import Solver
from ratiorec.solving import Solving, Stopping
from ratiorec.staging import TwoStages
from ratiorec.training import Descent, Training

AnyEncoder = LightGCN | Factorisation | NGCF | ENMF | Variational
AnyRisk = DensityRatio | WeightedDRE | WeightedPU | BPR | WholeData | Multinomial


@dataclass(frozen=True)
class Settings:
    """A model that descends: what is encoded, by which risk, on which batches, for how long."""

    encoder: AnyEncoder = field(default_factory=LightGCN)
    risk: AnyRisk = field(default_factory=DensityRatio)
    batches: UserBatches | PairBatches = field(default_factory=lambda: UserBatches(least_steps=10))
    training: Training = field(default_factory=Training)

    def __post_init__(self) -> None:
        in_pairs = isinstance(self.batches, PairBatches)
        if in_pairs != isinstance(self.risk, BPR):
            raise _misfit("risk", self.risk, "batches of pairs" if in_pairs else "batches of users")
        if in_pairs and isinstance(self.encoder, Variational):
            raise _misfit("encoder", self.encoder, "batches of pairs")

    @property
    def stopping(self) -> Training:
        """When to validate and when to stop."""
        return self.training

    def start(
        self,
        data: Interactions,
        *,
        rng: np.random.Generator,
        device: torch.device,
        memory_mb: float,
    ) -> Run:
        """A run at its beginning."""
        del memory_mb  # a step's memory is a matter of the batch
        return self.descent(data, rng=rng, device=device)

    def descent(
        self, data: Interactions, *, rng: np.random.Generator, device: torch.device
    ) -> Descent:
        """The run as what it is."""
        return Descent.start(
            data, self.encoder, self.risk, self.batches, self.training, rng=rng, device=device
        )


@dataclass(frozen=True)
class Solved:
    """A model that is solved, in one sweep or in several."""

    solver: Solver
    stopping: Stopping = field(default_factory=Stopping)

    def start(
        self,
        data: Interactions,
        *,
        rng: np.random.Generator,
        device: torch.device,
        memory_mb: float,
    ) -> Run:
        """A run at its beginning; what would not fit into the memory is refused."""
        return Solving.start(data, self.solver, rng=rng, device=device, memory_mb=memory_mb)


@dataclass(frozen=True)
class TwoStage:
    """Static weights: a first model, then a second whose weights are the first's for good.

    The first one runs for its `training.epochs`; the epoch of the second is chosen as usual.
    """

    first: Settings
    second: Settings

    def __post_init__(self) -> None:
        if not isinstance(self.second.risk, DensityRatio | WeightedDRE | WeightedPU):
            raise _misfit("second.risk", self.second.risk, "weights")
        if isinstance(self.first.encoder, Variational):
            raise _misfit("first.encoder", self.first.encoder, "frozen weights")
        if self.first.batches != self.second.batches:
            raise ConfigError(
                "the two stages take different batches",
                where="first.batches, second.batches",
                found=f"{self.first.batches} and {self.second.batches}",
                wanted="the same",
            )

    @property
    def stopping(self) -> Training:
        """When to validate and when to stop."""
        return self.second.training

    def start(
        self,
        data: Interactions,
        *,
        rng: np.random.Generator,
        device: torch.device,
        memory_mb: float,
    ) -> Run:
        """A run at its beginning."""
        del memory_mb
        rng_of_first, rng_of_second = rng.spawn(2)

        def begin_second(first: Embeddings) -> Descent:
            settings = _with_weights(self.second, Frozen(first))
            return settings.descent(data, rng=rng_of_second, device=device)

        return TwoStages(
            self.first.descent(data, rng=rng_of_first, device=device),
            begin_second,
            second_epochs=self.second.training.epochs,
        )


AnySettings = Settings | Solved | TwoStage


def _with_weights(settings: Settings, weights: Frozen) -> Settings:
    risk = settings.risk
    assert isinstance(risk, DensityRatio | WeightedDRE | WeightedPU)
    frozen = replace(weights, link=risk.link)
    return replace(settings, risk=replace(risk, weights=frozen))


def _misfit(where: str, part: Any, of: str) -> ConfigError:
    return ConfigError(
        "two parts do not go together",
        where=where,
        found=f"{type(part).__name__} with {of}",
        wanted="bpr with batches of kind pairs; every other risk, and the encoder variational, "
        "with batches of kind users",
    )
