"""Positives: scores of the listed pairs, and weighted means over each user's."""

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
    return importlib.import_module("ratiorec.kernels.triton.positives")


def self_normalised(
    values: Sequence[PerPositive], weights: PerPositive, rows: PositiveIndex, n_users: int
) -> list[PerUser]:
    """Ê₊[w v] = Σ w v / Σ w for each user, of several v (theory: R1)."""
    total, *sums = user_sums([weights, *(weights * v for v in values)], rows, n_users)
    return [each / total for each in sums]


def plain(values: PerPositive, weights: PerPositive, rows: PositiveIndex, n_users: int) -> PerUser:
    """Σ w v / n for each user, n the number of positives (theory: R7)."""
    ones = weights.new_ones(len(weights))
    total, count = user_sums([weights * values, ones], rows, n_users)
    return total / count
