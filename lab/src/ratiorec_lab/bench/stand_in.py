"""Random data of a given size, to stand in for real ones where only the size matters."""

from __future__ import annotations

import numpy as np

from ratiorec.data.interactions import Interactions
from ratiorec.data.vocabulary import Vocabulary
from ratiorec.scorers import FloatMatrix, InnerProduct


def random_pairs(n_users: int, n_items: int, n_pairs: int) -> Interactions:
    """About so many pairs, spread evenly over the users; every user and every item has one."""
    rng = np.random.default_rng(0)
    degree = max(1, min(n_items, round(n_pairs / n_users)))
    users = np.repeat(np.arange(n_users), degree)
    # neighbouring items, so that no user has one twice
    first = rng.integers(0, n_items, n_users).repeat(degree)
    items = (first + np.tile(np.arange(degree), n_users)) % n_items
    everyone = np.arange(max(n_users, n_items))
    return Interactions.from_indices(
        Vocabulary.dense(n_users, kind="user"),
        Vocabulary.dense(n_items, kind="item"),
        np.concatenate([users, everyone % n_users]),
        np.concatenate([items, everyone % n_items]),
    )


def random_model(n_users: int, n_items: int, dimension: int) -> InnerProduct:
    """Factors whose inner products are neither tied nor large."""
    rng = np.random.default_rng(1)
    return InnerProduct(_normal(rng, n_users, dimension), _normal(rng, n_items, dimension))


def _normal(rng: np.random.Generator, n: int, dimension: int) -> FloatMatrix:
    return rng.standard_normal((n, dimension), dtype=np.float32) / np.float32(dimension**0.5)
