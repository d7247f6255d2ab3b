"""What most users have: the yardstick of every recommender."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from ratiorec import scorers
from ratiorec.data.interactions import Interactions
from ratiorec.solvers.protocol import OneSweep


@dataclass(frozen=True)
class Popularity:
    """s(u,i) = |U_i⁺|, the same list for everyone but for what each has (theory: N1)."""

    @property
    def n_sweeps(self) -> int:
        return 1

    def start(
        self,
        data: Interactions,
        *,
        rng: np.random.Generator,
        device: torch.device,
        memory_mb: float,
    ) -> OneSweep:
        """Counting takes no more memory than the pairs do, so no budget is too small."""
        del rng, device, memory_mb
        return OneSweep(
            lambda: scorers.Popularity(data.item_degrees.astype(np.float32), data.n_users)
        )
