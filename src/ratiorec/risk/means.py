"""Weighted means over a user's positives."""

from __future__ import annotations

from collections.abc import Sequence

from ratiorec.risk.positives import user_sums
from ratiorec.shapes import PerPositive, PerUser, PositiveIndex


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
