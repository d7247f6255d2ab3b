"""Scores of the listed pairs and sums over each user's, in the form that suits the device.

Pairs are listed user by user. A pair in a spare place, whose row is beyond the last user, has some
score or other and is in no sum.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ratiorec.shapes import ItemFactors, PerPositive, PerUser, PositiveIndex, UserFactors


def pair_scores(
    users: UserFactors, items: ItemFactors, rows: PositiveIndex, columns: PositiveIndex
) -> PerPositive:
    """s(u,i) = e_uᵀe_i for listed pairs only (theory: S1)."""
    if _has_kernels(users):
        scores: Tensor = _kernels().PairScores.apply(users, items, rows, columns)
        return scores
    owners = rows.clamp_max(len(users) - 1)
    return (users.index_select(0, owners) * items.index_select(0, columns)).sum(-1)


def user_sums(
    values: Sequence[PerPositive], rows: PositiveIndex, n_users: int
) -> tuple[PerUser, ...]:
    """Σ over the positives of each user, of several values at once."""
    if _has_kernels(values[0]):
        sums: Tensor = _kernels().UserSums.apply(torch.stack(list(values), -1), rows, n_users)
        return sums.unbind(-1)
    return tuple(v.new_zeros(n_users + 1).index_add(0, rows, v)[:n_users] for v in values)


def _has_kernels(values: Tensor) -> bool:
    on_card = values.is_cuda and values.dtype == torch.float32
    return on_card and importlib.util.find_spec("triton") is not None


def _kernels() -> Any:
    # imported where it is needed: the package triton exists on few machines
    return importlib.import_module("ratiorec.risk.triton_positives")
