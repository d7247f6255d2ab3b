"""Matrix factorisation: every user and item has a free vector."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from ratiorec.data.interactions import Interactions
from ratiorec.errors import ConfigError
from ratiorec.scores import Embeddings


class Encoder(nn.Module):
    """What training sees: `forward` gives the embeddings, `base` the free vectors (layer 0)."""

    def __init__(self, table: Tensor, n_users: int) -> None:
        super().__init__()
        self.table = nn.Parameter(table)
        self.n_users = n_users

    @property
    def base(self) -> Embeddings:
        """The free vectors before any propagation; the penalty is on these."""
        return Embeddings(self.table[: self.n_users], self.table[self.n_users :])

    def forward(self) -> Embeddings:
        """The embeddings that are scored."""
        return self.base


@dataclass(frozen=True)
class Factorisation:
    """e_u and e_i are the parameters themselves."""

    dimension: int = 64
    initial_gain: float = 0.1

    def __post_init__(self) -> None:
        require_shape(self.dimension, self.initial_gain)

    def __call__(
        self, data: Interactions, *, rng: np.random.Generator, device: torch.device
    ) -> Encoder:
        table = initial_table(data, self.dimension, self.initial_gain, rng=rng)
        return Encoder(table.to(device), data.n_users)


def require_shape(dimension: int, initial_gain: float, n_layers: int = 0) -> None:
    """Refuse an encoder that cannot be built or could not learn."""
    for name, value, holds, wanted in (
        ("dimension", dimension, dimension >= 1, "1 or more"),
        ("initial_gain", initial_gain, 0 < initial_gain < np.inf, "a finite number above 0"),
        ("n_layers", n_layers, n_layers >= 0, "0 or more"),
    ):
        if not holds:
            raise ConfigError(
                "an encoder setting is out of range",
                where=f"encoder.{name}",
                found=str(value),
                wanted=wanted,
            )


def initial_table(
    data: Interactions, dimension: int, gain: float, *, rng: np.random.Generator
) -> Tensor:
    """Uniform in ±gain·√(6/(n + d)), users and items each by their own n (theory: E2).

    Drawn by numpy, so that every device starts from the same numbers.
    """

    def draw(n: int) -> np.ndarray:
        bound = gain * np.sqrt(6 / (n + dimension))
        return rng.uniform(-bound, bound, (n, dimension))

    table = np.concatenate([draw(data.n_users), draw(data.n_items)])
    return torch.from_numpy(table.astype(np.float32))
