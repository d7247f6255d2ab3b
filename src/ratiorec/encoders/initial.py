"""First vectors, drawn by numpy so that every device starts from the same numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ratiorec.errors import ConfigError


@dataclass(frozen=True)
class Xavier:
    """Uniform in ±gain·√(6/(rows + columns)) (theory: E2)."""

    gain: float = 0.1

    def __post_init__(self) -> None:
        _require_positive("gain", self.gain)

    def __call__(
        self, n_rows: int, n_columns: int, *, rng: np.random.Generator
    ) -> NDArray[np.float32]:
        bound = self.gain * np.sqrt(6 / (n_rows + n_columns))
        return rng.uniform(-bound, bound, (n_rows, n_columns)).astype(np.float32)


@dataclass(frozen=True)
class Normal:
    """Normal with mean 0 (theory: E2)."""

    deviation: float = 0.1

    def __post_init__(self) -> None:
        _require_positive("deviation", self.deviation)

    def __call__(
        self, n_rows: int, n_columns: int, *, rng: np.random.Generator
    ) -> NDArray[np.float32]:
        return rng.normal(0, self.deviation, (n_rows, n_columns)).astype(np.float32)


Initial = Xavier | Normal


def _require_positive(name: str, value: float) -> None:
    if not 0 < value < np.inf:
        raise ConfigError(
            "an encoder setting is out of range",
            where=f"encoder.initial.{name}",
            found=str(value),
            wanted="a finite number above 0",
        )
