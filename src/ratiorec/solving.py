"""A solver as a run: an epoch is one sweep, and one sweep is one step."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ratiorec.data.interactions import Interactions
from ratiorec.errors import ConfigError
from ratiorec.scorers import StoredScorer
from ratiorec.solvers.protocol import Solution, Solver


@dataclass(frozen=True)
class Stopping:
    """When to look at the validation pairs between sweeps, and when to stop.

    After `patience` validations in a row without a gain of `min_gain`, as a share, and no sooner
    than `tail` times the best one's sweeps after it.
    """

    validate_every: int = 1
    patience: int = 3
    min_gain: float = 0.001
    tail: float = 0.0

    def __post_init__(self) -> None:
        for name, least in (("validate_every", 1), ("patience", 1), ("min_gain", 0), ("tail", 0)):
            value = getattr(self, name)
            if not least <= value < math.inf:
                raise ConfigError(
                    "a stopping setting is out of range",
                    where=f"stopping.{name}",
                    found=str(value),
                    wanted=f"{least} or more",
                )

    def validation_interval(self, steps_per_epoch: int) -> int:
        """Sweeps from one validation to the next."""
        del steps_per_epoch  # a sweep has one step
        return self.validate_every


class Solving:
    """A model that is solved in sweeps."""

    n_steps = 1
    step_in_epoch = 0
    ready = True

    def __init__(self, solution: Solution, n_sweeps: int) -> None:
        self.solution = solution
        self.last_step = n_sweeps
        self.epoch = 0

    @classmethod
    def start(
        cls,
        data: Interactions,
        solver: Solver,
        *,
        rng: np.random.Generator,
        device: torch.device,
        memory_mb: float,
    ) -> Solving:
        """A run at its beginning; what cannot fit into the memory is refused here."""
        solution = solver.start(data, rng=rng, device=device, memory_mb=memory_mb)
        return cls(solution, solver.n_sweeps)

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
