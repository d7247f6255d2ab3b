"""What a measurement is given: data, device, effort, and who is told how far it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from ratiorec.data.interactions import Dataset

Tell = Callable[[str, float, float], None]
"""Told what goes on, how much of it is done, and of how much."""


@dataclass(frozen=True)
class Effort:
    """How thoroughly to measure.

    Every case runs in each of `repeats` rounds, and in a round again and again until
    `seconds_per_round` have passed. What the machine can do is found by a product of square
    matrices with `product_size` rows and by a copy of `copied_bytes`. A long run works for
    `slice_seconds` before it is another's turn, and for `max_seconds` in all. `is_quick` figures
    are to show only that everything works: even memory is measured in one process for all cases.
    """

    repeats: int = 7
    seconds_per_round: float = 0.1
    product_size: int = 2048
    copied_bytes: int = 2**28
    slice_seconds: float = 5.0
    max_seconds: float = 120.0
    is_quick: bool = False


USUAL = Effort()
QUICK = Effort(
    repeats=3,
    seconds_per_round=0.0,
    product_size=1024,
    copied_bytes=2**25,
    slice_seconds=0.1,
    max_seconds=1.0,
    is_quick=True,
)


def _silent(what: str, done: float, total: float) -> None:
    """Nobody watches."""


@dataclass(frozen=True, eq=False)
class Conditions:
    """Under what a target measures; a target that has no use for a part does not look at it.

    `n_users` are those of a batch, or those who are ranked for. `presets` are specifications as
    `contenders` reads them. `epochs` is how long to train, where that is not searched for.
    """

    dataset: Dataset
    device: torch.device
    effort: Effort = USUAL
    n_users: int | None = None
    presets: tuple[str, ...] | None = None
    epochs: int | None = None
    tell: Tell = _silent

    def chosen(self, usual: tuple[str, ...], quick: tuple[str, ...]) -> tuple[str, ...]:
        """The presets that were asked for, or those that a target takes by itself."""
        if self.presets is not None:
            return self.presets
        return quick if self.effort.is_quick else usual
