"""Dropout with a source of noise of its own, so that a run can be repeated step by step."""

from __future__ import annotations

import torch
from torch import Tensor

from ratiorec.errors import ConfigError


def dropout(values: Tensor, share: float, *, noise: torch.Generator | None) -> Tensor:
    """m ⊙ v / (1 − p), m zero with probability p = `share` and else one (theory: E7)."""
    if share == 0:
        return values
    # in single precision whatever `values` are, so that every precision drops the same
    uniform = torch.rand(values.shape, generator=noise, device=values.device, dtype=torch.float32)
    kept = (uniform >= share).to(values.dtype)
    return values * kept.div_(1 - share)


def require_dropout(share: float) -> None:
    """Refuse a share that keeps nothing or is none."""
    if not 0 <= share < 1:
        raise ConfigError(
            "an encoder setting is out of range",
            where="encoder.dropout",
            found=str(share),
            wanted="0 or more, and below 1",
        )
