"""A model of random vectors, of any size."""

from __future__ import annotations

import numpy as np

from ratiorec.data.vocabulary import Vocabulary
from ratiorec.model.artifact import Artifact
from ratiorec.scorers.scorer import UserItems
from ratiorec_lab.bench.random_data import random_model


def vector_model(n_users: int, n_items: int, dimension: int) -> Artifact:
    """Ids are text for users and numbers for items; nobody has seen anything."""
    return Artifact(
        random_model(n_users, n_items, dimension),
        Vocabulary(np.array([f"user {n}" for n in range(n_users)], object), "user"),
        Vocabulary(np.arange(n_items) + 1000, "item"),
        UserItems(np.zeros(n_users + 1, np.int64), np.zeros(0, np.int32)),
    )
