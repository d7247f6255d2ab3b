"""What a fit drives: a model on its way, whether it descends, is solved, or takes two stages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from torch import Tensor

from ratiorec.scorers import StoredScorer


class Run(Protocol):
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
