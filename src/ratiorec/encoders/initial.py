"""First vectors, drawn by numpy so that every device starts from the same numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from ratiorec.data.interactions import Interactions
from ratiorec.encoders.spectral import Spectral
from ratiorec.errors import ConfigError
from ratiorec.shapes import NodeFactors


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
"""How to draw a matrix of any kind."""
FirstVectors = Xavier | Normal | Spectral
"""Where the vectors of users and items may start."""


def first_vectors(
    data: Interactions,
    dimension: int,
    initial: FirstVectors,
    *,
    rng: np.random.Generator,
    device: torch.device,
) -> NodeFactors:
    """A table of users and items; what is drawn is drawn for each by its own number of rows."""
    if isinstance(initial, Spectral):
        return initial.table(data, dimension, rng=rng, device=device)
    tables = [initial(n, dimension, rng=rng) for n in (data.n_users, data.n_items)]
    return torch.from_numpy(np.concatenate(tables)).to(device)


def _require_positive(name: str, value: float) -> None:
    if not 0 < value < np.inf:
        raise ConfigError(
            "an encoder setting is out of range",
            where=f"encoder.initial.{name}",
            found=str(value),
            wanted="a finite number above 0",
        )
