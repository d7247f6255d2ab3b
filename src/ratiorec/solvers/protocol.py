"""What a fit asks of a model that is solved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from ratiorec.data.interactions import Interactions
from ratiorec.scorers import StoredScorer


class Solution(Protocol):
    """A model being solved, sweep by sweep."""

    def sweep(self) -> float | None:
        """One pass; the objective after it where it is known cheaply."""

    def scorer(self) -> StoredScorer:
        """The model as it stands; a later sweep does not change it."""

    def state(self) -> dict[str, Tensor]:
        """A copy of what a checkpoint must hold."""

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Continue where `state` was taken."""


class Solver(Protocol):
    """Settings of a model that is solved; `n_sweeps` is the most it takes, 1 for a closed form."""

    @property
    def n_sweeps(self) -> int: ...

    def start(
        self,
        data: Interactions,
        *,
        rng: np.random.Generator,
        device: torch.device,
        memory_mb: float,
    ) -> Solution:
        """A solution before its first sweep.

        Raises:
            MemoryBudgetError: It would need more than `memory_mb`, of which nothing is taken yet.
        """


class OneSweep:
    """A closed form: solved in one sweep, and again where a checkpoint would hold the result."""

    def __init__(self, solve: Callable[[], StoredScorer]) -> None:
        self._solve = solve
        self._solved: StoredScorer | None = None

    def sweep(self) -> None:
        """Solve."""
        self._solved = None  # or two of them would be in memory at once
        self._solved = self._solve()

    def scorer(self) -> StoredScorer:
        """The model, solved now if it was not before."""
        if self._solved is None:
            self.sweep()
        assert self._solved is not None
        return self._solved

    def state(self) -> dict[str, Tensor]:
        """Nothing: a matrix over all pairs of items is solved faster than it is written."""
        return {}

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Solve again, to the same bits."""
        del tensors
        self.sweep()
