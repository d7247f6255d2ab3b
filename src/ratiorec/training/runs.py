"""Training runs that are not plain gradient training: solvers, and two stages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Protocol, Unpack

import torch
from torch import Tensor

from ratiorec.data.interactions import Interactions
from ratiorec.encoders.encoder import TableEncoder
from ratiorec.losses import Loss
from ratiorec.losses.density_ratio import DensityRatio, FrozenWeights
from ratiorec.losses.unnormalised import WeightedDRE, WeightedPU
from ratiorec.scorers import StoredScorer
from ratiorec.settings import AnySettings, Settings, SolverSettings
from ratiorec.shapes import Embeddings
from ratiorec.solvers.settings import RunContext
from ratiorec.solvers.solver import Solution
from ratiorec.training.loop import GradientTraining


class TrainingRun(Protocol):
    """A model on its way; every step is a point at which it can be saved and continued."""

    @property
    def n_steps(self) -> int:
        """Steps in an epoch."""

    @property
    def last_step(self) -> int:
        """Where it ends if nothing stops it earlier."""

    @property
    def epoch(self) -> int:
        """Finished epochs."""

    @property
    def step_in_epoch(self) -> int:
        """Steps since the last finished epoch."""

    @property
    def step(self) -> int:
        """Steps taken since the beginning."""

    @property
    def ready(self) -> bool:
        """Whether the model as it stands may be chosen."""

    def one_epoch(self, until: int) -> Iterator[Sequence[float | None]]:
        """Take the rest of the epoch's steps, none after step `until`; gives their risks."""

    def scorer(self) -> StoredScorer:
        """The model as it stands."""

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """A copy of all that is needed to go on: tensors, and what fits into JSON."""

    def restore(self, tensors: dict[str, Tensor], position: dict[str, Any]) -> None:
        """Continue where `state` was taken."""


class SolverTraining:
    """A model that is solved in sweeps."""

    n_steps = 1
    step_in_epoch = 0
    ready = True

    def __init__(self, solution: Solution, n_sweeps: int) -> None:
        self.solution = solution
        self.last_step = n_sweeps
        self.epoch = 0

    @property
    def step(self) -> int:
        """Sweeps taken."""
        return self.epoch

    def one_epoch(self, until: int) -> Iterator[list[float | None]]:
        """One sweep."""
        del until  # a sweep is one step, and the caller asks for a step at a time
        objective = self.solution.sweep()
        self.epoch += 1
        yield [objective]

    def scorer(self) -> StoredScorer:
        """The model as it stands."""
        return self.solution.scorer()

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Where the solution stands."""
        return self.solution.state(), {"epoch": self.epoch}

    def restore(self, tensors: dict[str, Tensor], position: dict[str, Any]) -> None:
        """Continue where `state` was taken."""
        self.epoch = position["epoch"]
        if self.epoch:
            self.solution.restore(tensors)


class TwoStageTraining:
    """A first descent to its end, then the one that `begin_second` makes of its embeddings.

    Steps and epochs are counted through; both stages have equally many steps in an epoch.
    """

    def __init__(
        self,
        first: GradientTraining,
        begin_second: Callable[[Embeddings], GradientTraining],
        *,
        second_epochs: int,
    ) -> None:
        self.n_steps = first.n_steps
        self.last_step = first.last_step + second_epochs * first.n_steps
        self._n_first = first.settings.epochs
        self._begin_second = begin_second
        self._descent = first
        self._frozen: Embeddings | None = None

    @property
    def ready(self) -> bool:
        """Only the second model is ever chosen."""
        return self._frozen is not None

    @property
    def epoch(self) -> int:
        """Finished epochs of both stages."""
        return self._descent.epoch + (self._n_first if self.ready else 0)

    @property
    def step_in_epoch(self) -> int:
        """Steps since the last finished epoch."""
        return self._descent.step_in_epoch

    @property
    def step(self) -> int:
        """Steps taken in both stages."""
        return self.epoch * self.n_steps + self.step_in_epoch

    def one_epoch(self, until: int) -> Iterator[list[float]]:
        """Steps of whichever stage is due."""
        if not self.ready and self._descent.epoch == self._n_first:
            self._freeze(_embeddings(self._descent))
        n_before = self.step - self._descent.step
        yield from self._descent.one_epoch(until - n_before)

    def _freeze(self, embeddings: Embeddings) -> None:
        self._frozen = embeddings
        self._descent = self._begin_second(embeddings)

    def scorer(self) -> StoredScorer:
        """The model of the current stage."""
        return self._descent.scorer()

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """The state of the current stage, and in the second one what the first has left."""
        tensors, position = self._descent.state()
        if self._frozen is not None:
            tensors["first.users"] = self._frozen.users.cpu().clone()
            tensors["first.items"] = self._frozen.items.cpu().clone()
        return tensors, position

    def restore(self, tensors: dict[str, Tensor], position: dict[str, Any]) -> None:
        """Continue where `state` was taken."""
        if "first.users" in tensors:
            place = self._descent.device
            users, items = tensors["first.users"], tensors["first.items"]
            self._freeze(Embeddings(users.to(place), items.to(place)))
        self._descent.restore(tensors, position)


@torch.no_grad()
def _embeddings(descent: GradientTraining) -> Embeddings:
    descent.scorer()  # refuses a model that is not finite
    assert isinstance(descent.encoder, TableEncoder)
    users, items = descent.encoder.embeddings()
    return Embeddings(users.clone(), items.clone())


def start_run(
    settings: AnySettings, data: Interactions, **context: Unpack[RunContext]
) -> TrainingRun:
    """A run at its beginning; what would not fit into the memory is refused."""
    rng, device = context["rng"], context["device"]
    if isinstance(settings, SolverSettings):
        return SolverTraining(settings.solver.start(data, **context), settings.solver.n_sweeps)
    if isinstance(settings, Settings):
        return GradientTraining.start(data, settings, rng=rng, device=device)
    rng_of_first, rng_of_second = rng.spawn(2)
    second = settings.second

    def begin_second(first: Embeddings) -> GradientTraining:
        weighted = replace(second, risk=_with_frozen_weights(second.risk, first))
        return GradientTraining.start(data, weighted, rng=rng_of_second, device=device)

    return TwoStageTraining(
        GradientTraining.start(data, settings.first, rng=rng_of_first, device=device),
        begin_second,
        second_epochs=second.training.epochs,
    )


def _with_frozen_weights(loss: Loss, first: Embeddings) -> Loss:
    assert isinstance(loss, DensityRatio | WeightedDRE | WeightedPU)
    frozen: Any = FrozenWeights(first, loss.link)  # made by training, never by settings
    return replace(loss, weights=frozen)
