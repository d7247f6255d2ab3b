"""Training runs other than by gradients: solvers, and two stages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from ratiorec.encoders.encoder import TableEncoder
from ratiorec.scorers import StoredScorer
from ratiorec.shapes import Embeddings
from ratiorec.solvers.solver import Solution
from ratiorec.training.loop import GradientTraining


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
