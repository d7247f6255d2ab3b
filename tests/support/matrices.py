"""Pairs as a plain matrix, for tests that compare with one."""

from __future__ import annotations

import numpy as np

from ratiorec.data.interactions import Interactions


def dense_matrix(data: Interactions) -> np.ndarray:
    """Users by items: the weight of each pair, or 1, and 0 elsewhere."""
    matrix = np.zeros((data.n_users, data.n_items), np.float32)
    matrix[data.pair_users, data.indices] = 1 if data.weights is None else data.weights
    return matrix
