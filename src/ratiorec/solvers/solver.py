"""Solvers: what a fit asks of a model that is solved, and the checks they share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from numpy.typing import NDArray

from ratiorec.errors import MemoryBudgetError
from ratiorec.scorers import StoredScorer

State = dict[str, NDArray[Any]]
"""The arrays of a run that a checkpoint holds."""


def require_memory(
    n_bytes: float, *, memory_mb: float, solver: str, n_items: int, instead: str
) -> None:
    """Refuse a solver whose peak would exceed the budget.

    Raises:
        MemoryBudgetError: `n_bytes` are more than `memory_mb`.
    """
    if n_bytes > memory_mb * 2**20:
        raise MemoryBudgetError(
            f"{solver} would need {n_bytes / 2**30:,.1f} GiB of memory",
            where=f"solver {solver}",
            found=f"a budget of {memory_mb / 2**10:,.1f} GiB for {n_items:,} items",
            wanted=f"{n_bytes / 2**30:,.1f} GiB or more, or {instead}",
        )


class Solution(Protocol):
    """A model being solved, sweep by sweep."""

    def sweep(self) -> float | None:
        """One pass; the objective after it where it is known cheaply."""

    def scorer(self) -> StoredScorer:
        """The model as it stands; a later sweep does not change it."""

    def state(self) -> State:
        """A copy of what a checkpoint must hold."""

    def restore(self, state: State) -> None:
        """Continue where `state` was taken."""


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

    def state(self) -> State:
        """Nothing: a matrix over all pairs of items is solved faster than it is written."""
        return {}

    def restore(self, state: State) -> None:
        """Solve again, to the same bits."""
        del state
        self.sweep()
