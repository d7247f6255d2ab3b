"""Teams of several processes: they train by gradients together, or solve a closed form."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar, Unpack

import numpy as np

from ratiorec.data.interactions import Interactions
from ratiorec.distributed.checkpoint import SharedCheckpoints
from ratiorec.distributed.ranks import Ranks
from ratiorec.distributed.shards import start_shared
from ratiorec.errors import ConfigError
from ratiorec.evaluation.intervals import mean
from ratiorec.machine import Device
from ratiorec.scorers import InnerProduct, StoredScorer
from ratiorec.settings import ModelSettings, Settings
from ratiorec.solvers.settings import RunContext
from ratiorec.training.runs import TrainingRun
from ratiorec.training.team import JUDGED_BY, Metrics, report_on_device

T = TypeVar("T")
_COPIES = 3  # of every table: itself and the two moments of Adam


@dataclass(frozen=True)
class RankTeam:
    """What teams of several processes have in common."""

    ranks: Ranks

    @property
    def is_first(self) -> bool:
        return self.ranks.is_first

    @property
    def card(self) -> dict[str, Any]:
        """What a model's card says of the processes."""
        return {"processes": self.ranks.facts()}

    def agreed(self, *flags: bool) -> tuple[bool, ...]:
        return self.ranks.agreed(*flags)

    def together(self, work: Callable[[], T]) -> T:
        return self.ranks.together(work)


@dataclass(frozen=True)
class GradientTeam(RankTeam):
    """Processes that share the users, the tables and the batches of one training."""

    checkpoints: SharedCheckpoints | None = None

    def portion(self, data: Interactions) -> Interactions:
        """The pairs of this rank's users."""
        if data.n_users < self.ranks.size:
            raise ConfigError(
                "there are fewer users than processes",
                where="--workers",
                found=f"{self.ranks.size} processes for {data.n_users} users",
                wanted=f"{data.n_users} or fewer",
            )
        return data.of_users(self.ranks.rows(data.n_users))

    def start(
        self, settings: ModelSettings, data: Interactions, **context: Unpack[RunContext]
    ) -> TrainingRun:
        """A run at its beginning, once there is a place for its checkpoints."""
        assert isinstance(settings, Settings)
        run = start_shared(data, settings, self.ranks, rng=context["rng"])
        if self.checkpoints is not None:
            n_numbers = sum(table.numel() for table in run.encoder.parameters())
            self.checkpoints.require_place(4 * _COPIES * self.ranks.size * n_numbers)
        return run

    def judge(
        self, scorer: StoredScorer, train: Interactions, held_out: Interactions, *, device: Device
    ) -> Metrics:
        """The metrics over all users, each judged by the rank that has it.

        The values of single users are put together in the order of the users, so that the mean
        does not depend on how many ranks there are.
        """
        values = {name: np.empty(0) for name in JUDGED_BY}
        if held_out.n_pairs:
            values |= report_on_device(scorer, train, held_out, device=device).per_user
        return {name: mean(self.ranks.joined(values[name])) for name in JUDGED_BY}

    def whole(self, scorer: StoredScorer, data: Interactions) -> StoredScorer:
        """The model of all users on the first rank, and of its own users on the others."""
        assert isinstance(scorer, InnerProduct)
        parts = self.ranks.on_first(scorer.users)
        return scorer if parts is None else InnerProduct(np.concatenate(parts), scorer.items)

    def with_checkpoints(self, folder: Path, data: Interactions) -> GradientTeam:
        """The same, which keeps its checkpoints in a folder."""
        kept = SharedCheckpoints(folder, self.ranks, data.n_users, data.n_items)
        return replace(self, checkpoints=kept)
