"""Matrix factorisation: every user and item has a free vector."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch

from ratiorec.data.interactions import Interactions
from ratiorec.encoders.encoder import TableEncoder, require_shape
from ratiorec.encoders.initial import FirstVectors, Xavier, first_vectors


@dataclass(frozen=True)
class Factorisation:
    """e_u and e_i are the parameters themselves."""

    dimension: int = 64
    initial: FirstVectors = field(default_factory=Xavier)

    def __post_init__(self) -> None:
        require_shape(self.dimension)

    def __call__(
        self, data: Interactions, *, rng: np.random.Generator, device: torch.device
    ) -> TableEncoder:
        table = first_vectors(data, self.dimension, self.initial, rng=rng, device=device)
        return TableEncoder(table, data.n_users)
