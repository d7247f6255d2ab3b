"""How the learning rate changes from step to step: what it is multiplied by."""

from __future__ import annotations

from dataclasses import dataclass

from ratiorec.errors import ConfigError


@dataclass(frozen=True)
class Constant:
    """1 at every step."""

    def __call__(self, step: int) -> float:
        return 1.0


@dataclass(frozen=True)
class Falling:
    """1/(1 + t/τ) after t steps: half after τ, and never quite nothing (theory: R24).

    It does not ask how many steps there will be, so that a search may stop anywhere and a refit
    take the same ones.
    """

    halved_after: float = 60.0

    def __post_init__(self) -> None:
        if not 0 < self.halved_after < float("inf"):
            raise ConfigError(
                "a schedule setting is out of range",
                where="training.schedule.halved_after",
                found=str(self.halved_after),
                wanted="a finite number of steps above 0",
            )

    def __call__(self, step: int) -> float:
        return 1 / (1 + step / self.halved_after)


Schedule = Constant | Falling
