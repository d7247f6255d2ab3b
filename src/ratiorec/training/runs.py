"""Training runs: what a fit asks of one, models that are solved, and which run settings make."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, Unpack

from ratiorec.data.interactions import Interactions
from ratiorec.errors import require_extra
from ratiorec.scorers import StoredScorer
from ratiorec.settings import ModelSettings, Settings, SolverSettings
from ratiorec.solvers.settings import RunContext
from ratiorec.solvers.solver import Solution, State


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

    def state(self) -> tuple[State, dict[str, Any]]:
        """A copy of all that is needed to go on: arrays, and what fits into JSON."""

    def restore(self, state: State, position: dict[str, Any]) -> None:
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

    def state(self) -> tuple[State, dict[str, Any]]:
        """Where the solution stands."""
        return self.solution.state(), {"epoch": self.epoch}

    def restore(self, state: State, position: dict[str, Any]) -> None:
        """Continue where `state` was taken."""
        self.epoch = position["epoch"]
        if self.epoch:
            self.solution.restore(state)


def require_parts(settings: ModelSettings) -> None:
    """Refuse settings that torch trains where there is none.

    Raises:
        MissingExtraError: torch is not installed.
    """
    if not isinstance(settings, SolverSettings):
        require_extra("torch", "torch", where="a model that is trained by gradients")


def start_run(
    settings: ModelSettings, data: Interactions, **context: Unpack[RunContext]
) -> TrainingRun:
    """A run at its beginning; what would not fit into the memory is refused."""
    if isinstance(settings, SolverSettings):
        return SolverTraining(settings.solver.start(data, **context), settings.solver.n_sweeps)
    import torch

    from ratiorec.training.loop import GradientTraining
    from ratiorec.training.two_stage import TwoStageTraining

    rng, device = context["rng"], torch.device(str(context["device"]))
    if isinstance(settings, Settings):
        return GradientTraining.start(data, settings, rng=rng, device=device)
    return TwoStageTraining.start(data, settings, rng=rng, device=device)
