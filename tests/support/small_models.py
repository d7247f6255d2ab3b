"""Models of a few users and items, random but always the same for a seed."""

from __future__ import annotations

import numpy as np

from ratiorec.data.vocabulary import Vocabulary
from ratiorec.model.artifact import Artifact
from ratiorec.scorers import InnerProduct
from ratiorec.scorers.scorer import UserItems
from support.small_scorers import random_rows


def small_model(seed: int = 0, *, n_users: int = 20, n_items: int = 30) -> Artifact:
    """Users user0 … and items item0 …, each item with a name; user0 has no items."""
    rng = np.random.default_rng(seed)
    items = Vocabulary(np.array([f"item{n}" for n in range(n_items)], object), "item")
    seen = random_rows(n_users, n_items)
    factors = [rng.standard_normal((n, 4), dtype=np.float32) for n in (n_users, n_items)]
    return Artifact(
        InnerProduct(*factors),
        Vocabulary(np.array([f"user{n}" for n in range(n_users)], object), "user"),
        items.with_names([f"The {n}th Thing" for n in range(n_items)]),
        seen,
        card={"metrics": {"recall@20": 0.5}, "seed": seed},
    )


def numbered_model(*, n_users: int = 5, n_items: int = 7) -> Artifact:
    """Users and items whose ids are whole numbers; nobody has seen anything."""
    rng = np.random.default_rng(1)
    factors = [rng.standard_normal((n, 3), dtype=np.float32) for n in (n_users, n_items)]
    nothing = UserItems(np.zeros(n_users + 1, np.int64), np.zeros(0, np.int32))
    users = Vocabulary(np.arange(n_users) + 100, "user")
    return Artifact(
        InnerProduct(*factors), users, Vocabulary(np.arange(n_items) + 7, "item"), nothing
    )
