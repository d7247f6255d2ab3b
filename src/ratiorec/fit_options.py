"""Options of one fit, apart from the settings of what is fitted."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from ratiorec.checkpoint import Checkpoints
from ratiorec.errors import ConfigError


@dataclass(frozen=True)
class FitOptions:
    """What a run may vary without changing what is learnt from the same pairs.

    `validation` is the share of each user's pairs that chooses the stopping step; 0 trains
    for the configured epochs. A checkpoint is written every `checkpoint_seconds` into
    `checkpoints`, and every epoch as a line of JSON to `log`, where given. A model that would need
    more than `memory_mb` is refused; without it the limit is what the machine has left.
    """

    validation: float = 0.1
    refit: bool = True
    max_seconds: float = math.inf
    checkpoints: Checkpoints | None = None
    checkpoint_seconds: float = 30.0
    resume: bool = False
    log: Path | None = None
    memory_mb: float | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.validation < 1:
            raise ConfigError(
                "the validation share is out of range",
                where="--validation",
                found=str(self.validation),
                wanted="0, or a share below 1 such as 0.1",
            )
        if not self.max_seconds > 0:
            raise ConfigError(
                "the time budget is out of range",
                where="--max-seconds",
                found=str(self.max_seconds),
                wanted="a number of seconds above 0",
            )
        if not self.checkpoint_seconds >= 0:
            raise ConfigError(
                "the time between checkpoints is out of range",
                where="--checkpoint-seconds",
                found=str(self.checkpoint_seconds),
                wanted="a number of seconds, 0 for a checkpoint after every step",
            )
        if self.memory_mb is not None and not self.memory_mb > 0:
            raise ConfigError(
                "the memory budget is out of range",
                where="--memory-mb",
                found=str(self.memory_mb),
                wanted="a number of megabytes above 0",
            )
