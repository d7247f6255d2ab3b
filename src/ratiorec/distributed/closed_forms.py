"""Closed forms by several processes: what common users weigh is counted by whoever has the users.

The first process solves. Whenever it asks for rows of Xᵀ W X, every process sends those of its own
users, and they are added up: Gram matrices of parts of the users are parts of the Gram matrix.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

import numpy as np

from ratiorec.data.interactions import Interactions
from ratiorec.distributed.ranks import Ranks
from ratiorec.distributed.team import RankTeam
from ratiorec.machine import Device
from ratiorec.scorers import PopularityScorer, StoredScorer
from ratiorec.settings import ModelSettings, SolverSettings
from ratiorec.solvers.neighbours import CommonUsers
from ratiorec.solvers.settings import RunContext
from ratiorec.solvers.solver import State
from ratiorec.training.runs import SolverTraining, TrainingRun
from ratiorec.training.team import Metrics, evaluate_on_device

if TYPE_CHECKING:
    import scipy.sparse

T = TypeVar("T")


class SummedCommonUsers:
    """`CommonUsers` of all processes, for the first one."""

    def __init__(
        self,
        data: Interactions,
        activity_exponent: float = 0.0,
        *,
        weighted: bool = False,
        ranks: Ranks,
    ) -> None:
        self._ranks = ranks
        self._weighing = activity_exponent, weighted
        own = data.of_users(ranks.rows(data.n_users))
        self._own = CommonUsers(own, activity_exponent, weighted=weighted)
        self._one_at_a_time = Lock()

    def rows(self, items: slice) -> scipy.sparse.csr_array:
        """The rows of some items over all users."""
        with self._one_at_a_time:  # the others answer in the order in which they are asked
            self._ranks.from_first((self._weighing, items))
            parts = self._ranks.on_first(self._own.rows(items))
        assert parts is not None
        return sum(parts[1:], start=parts[0])


class Asking:
    """A run of the first process: a sweep, after which the others are told that it is over."""

    n_steps = 1
    step_in_epoch = 0
    ready = True

    def __init__(self, ranks: Ranks, solving: SolverTraining) -> None:
        self._ranks, self._solving = ranks, solving
        self.last_step = solving.last_step
        self.scorer, self.state, self.restore = solving.scorer, solving.state, solving.restore

    @property
    def epoch(self) -> int:
        """Sweeps taken."""
        return self._solving.epoch

    @property
    def step(self) -> int:
        """Sweeps taken."""
        return self.epoch

    def one_epoch(self, until: int) -> Iterator[list[float | None]]:
        """One sweep."""

        def sweep() -> list[float | None]:
            try:
                (values,) = self._solving.one_epoch(until)
                return values
            finally:
                self._ranks.from_first(_NOTHING)

        yield self._ranks.together(sweep)


class Answering:
    """A run of a process that is not the first: it counts what it is asked for."""

    n_steps = 1
    step_in_epoch = 0
    ready = True

    def __init__(self, ranks: Ranks, data: Interactions, n_sweeps: int) -> None:
        self._ranks, self._data = ranks, data
        self.last_step = n_sweeps
        self.epoch = 0

    @property
    def step(self) -> int:
        """Sweeps of the first process."""
        return self.epoch

    def one_epoch(self, until: int) -> Iterator[list[float | None]]:
        """Answer until the first process has finished its sweep."""
        del until
        known: dict[tuple[float, bool], CommonUsers] = {}
        while (asked := self._ranks.from_first(_NOTHING)) is not None:
            (exponent, weighted), items = asked
            if asked[0] not in known:
                known[asked[0]] = CommonUsers(self._data, exponent, weighted=weighted)
            self._ranks.on_first(known[asked[0]].rows(items))
        self._ranks.together(lambda: None)  # which tells what the first one met
        self.epoch += 1
        yield [None]

    def scorer(self) -> StoredScorer:
        """Nothing of use: the model is with the first process."""
        return PopularityScorer(np.zeros(self._data.n_items, np.float32), self._data.n_users)

    def state(self) -> tuple[State, dict[str, Any]]:
        """Nothing to keep."""
        return {}, {}

    def restore(self, state: State, position: dict[str, Any]) -> None:
        """Nothing to continue."""


_NOTHING: Any = None


class ClosedFormTeam(RankTeam):
    """Processes of which the first solves and judges, and the others count for their users."""

    def portion(self, data: Interactions) -> Interactions:
        """All pairs for the first process, which needs them for histories; else the own users'."""
        return data if self.is_first else data.of_users(self.ranks.rows(data.n_users))

    def start(
        self, settings: ModelSettings, data: Interactions, **context: Unpack[RunContext]
    ) -> TrainingRun:
        """A run at its beginning."""
        assert isinstance(settings, SolverSettings)
        solver = settings.solver

        def begin() -> TrainingRun:
            if not self.is_first:
                return Answering(self.ranks, data, solver.n_sweeps)
            context["common_users"] = partial(SummedCommonUsers, ranks=self.ranks)
            solution = solver.start(data, **context)
            return Asking(self.ranks, SolverTraining(solution, solver.n_sweeps))

        return self.ranks.together(begin)

    def judge(
        self, scorer: StoredScorer, train: Interactions, held_out: Interactions, *, device: Device
    ) -> Metrics:
        """The metrics as the first process finds them."""

        def judged() -> Metrics | None:
            if not self.is_first:
                return None
            return evaluate_on_device(scorer, train, held_out, device=device)

        return self.ranks.from_first(self.ranks.together(judged))

    def whole(self, scorer: StoredScorer, data: Interactions) -> StoredScorer:
        return scorer
