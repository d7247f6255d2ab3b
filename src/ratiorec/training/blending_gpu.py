"""A blend's weights judged on a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ratiorec.training.blending import CandidateScores, K, Weights

_USERS_AT_ONCE = 4096


@dataclass(frozen=True, eq=False)
class CandidateScoresOnGpu(CandidateScores):
    """The same, all of it in the memory of a GPU."""

    device: str = "cuda"

    @cached_property
    def _tensors(self) -> tuple[Tensor, Tensor]:
        scores, relevant = torch.from_numpy(self.scores), torch.from_numpy(self.relevant)
        return scores.to(self.device), relevant.to(self.device)

    def _hits(self, weights: Weights) -> NDArray[np.bool_]:
        (scores, relevant), used = self._tensors, np.flatnonzero(weights)
        parts = []
        for start in range(0, len(relevant), _USERS_AT_ONCE):
            rows = slice(start, start + _USERS_AT_ONCE)
            total = torch.zeros_like(scores[0, rows])
            for member in used:
                total.add_(scores[member, rows], alpha=float(weights[member]))
            places = total.topk(min(K, total.shape[1])).indices
            parts.append(relevant[rows].gather(1, places))
        return torch.cat(parts).cpu().numpy()
