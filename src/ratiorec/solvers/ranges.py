"""Settings that a solver cannot work with."""

from __future__ import annotations

import math

from ratiorec.errors import ConfigError


def require_at_least(least: float, **settings: float) -> None:
    """Refuse settings below `least`, infinite ones and NaN."""
    for name, value in settings.items():
        if not least <= value < math.inf:
            raise ConfigError(
                "a solver setting is out of range",
                where=f"solver.{name}",
                found=str(value),
                wanted=f"{least:g} or more",
            )


def require_above_zero(**settings: float) -> None:
    """Refuse settings that are 0 or below, infinite ones and NaN."""
    for name, value in settings.items():
        if not 0 < value < math.inf:
            raise ConfigError(
                "a solver setting is out of range",
                where=f"solver.{name}",
                found=str(value),
                wanted="a finite number above 0",
            )
