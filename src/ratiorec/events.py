"""What training tells whoever watches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class StepTaken:
    """Told after every step, or on a graphics card after a burst of steps.

    `risk` is the last step's, where it is known.
    """

    phase: str
    epoch: int
    step: int
    last_step: int
    risk: float | None


@dataclass(frozen=True)
class EpochFinished:
    """Told after every epoch; `record` is the line of the training log."""

    record: dict[str, Any]
    resumed: bool = False


Observer = Callable[[StepTaken | EpochFinished], None]
