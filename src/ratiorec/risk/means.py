"""Weighted means over a user's positives."""

from __future__ import annotations

from ratiorec.shapes import PerPositive, PerUser, PositiveIndex


def user_sums(values: PerPositive, rows: PositiveIndex, n_users: int) -> PerUser:
    """Σ over the positives of each user; those of no user, in spare places, are left out."""
    return values.new_zeros(n_users + 1).index_add(0, rows, values)[:n_users]


def self_normalised(
    values: PerPositive, weights: PerPositive, rows: PositiveIndex, n_users: int
) -> PerUser:
    """Ê₊[w v] = Σ w v / Σ w for each user (theory: R1)."""
    return user_sums(weights * values, rows, n_users) / user_sums(weights, rows, n_users)


def plain(values: PerPositive, weights: PerPositive, rows: PositiveIndex, n_users: int) -> PerUser:
    """Σ w v / n for each user, n the number of positives (theory: R7)."""
    counts = user_sums(weights.new_ones(len(weights)), rows, n_users)
    return user_sums(weights * values, rows, n_users) / counts
