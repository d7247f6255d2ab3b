"""Exact search over vectors that were read back, as a check of what was written."""

from __future__ import annotations

import numpy as np

from ratiorec.recommend import Exact
from ratiorec.scorers import FloatMatrix, Indices, InnerProduct


def exact_lists(users: FloatMatrix, items: FloatMatrix, k: int) -> Indices:
    """The k best items for each of these users [n, k]."""
    scorer = InnerProduct(np.ascontiguousarray(users), np.ascontiguousarray(items))
    return Exact(k, exclude_seen=False)(scorer, np.arange(len(users))).items
