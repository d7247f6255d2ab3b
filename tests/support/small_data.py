"""Small sets of pairs and batches for tests, random or with a known right answer."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import scipy.sparse
import torch
from numpy.typing import NDArray

from ratiorec.batches.users import Batch
from ratiorec.data.interactions import Interactions
from ratiorec.data.vocabulary import Vocabulary


def interactions(
    users: Sequence[int] | NDArray[np.int64],
    items: Sequence[int] | NDArray[np.int64],
    *,
    n_users: int,
    n_items: int,
) -> Interactions:
    """Listed pairs over dense ids."""
    return Interactions.from_indices(
        Vocabulary.dense(n_users, kind="user"), Vocabulary.dense(n_items, kind="item"), users, items
    )


def random_interactions(
    rng: np.random.Generator, *, n_users: int, n_items: int, n_pairs: int
) -> Interactions:
    """Random pairs; every user has at least one."""
    users = np.concatenate([np.arange(n_users), rng.integers(0, n_users, n_pairs - n_users)])
    return interactions(
        users, rng.integers(0, n_items, len(users)), n_users=n_users, n_items=n_items
    )


def as_csr(data: Interactions) -> scipy.sparse.csr_matrix:
    """The pairs as a matrix of ones."""
    shape = (data.n_users, data.n_items)
    ones = np.ones(data.n_pairs, np.float32)
    return scipy.sparse.csr_matrix((ones, data.indices, data.indptr), shape=shape)


def checkerboard(n_users: int, n_items: int) -> Interactions:
    """User u likes item i exactly when their sum is even."""
    users, items = np.nonzero(np.add.outer(np.arange(n_users), np.arange(n_items)) % 2 == 0)
    return interactions(users, items, n_users=n_users, n_items=n_items)


def in_double_precision(batch: Batch) -> Batch:
    return dataclasses.replace(
        batch,
        prior=batch.prior.double(),
        popularity=batch.popularity.double(),
        inclusion=batch.inclusion.double(),
    )


def handmade_batch(
    users: Sequence[int],
    candidates: Sequence[int],
    positives: Sequence[Sequence[int]],
    *,
    prior: Sequence[float],
    popularity: Sequence[float],
    inclusion: Sequence[float],
) -> Batch:
    """A batch from lists, in double precision; `positives[u]` are places in `candidates`."""
    return Batch(
        users=torch.tensor(users),
        candidates=torch.tensor(candidates),
        rows=torch.tensor([row for row, liked in enumerate(positives) for _ in liked]),
        columns=torch.tensor([place for liked in positives for place in liked]),
        prior=torch.tensor(prior, dtype=torch.float64),
        popularity=torch.tensor(popularity, dtype=torch.float64),
        inclusion=torch.tensor(inclusion, dtype=torch.float64),
    )


def only_user(batch: Batch, row: int) -> Batch:
    """One user of a batch, with all its candidates."""
    own = batch.rows == row
    return dataclasses.replace(
        batch,
        users=batch.users[[row]],
        rows=torch.zeros_like(batch.rows[own]),
        columns=batch.columns[own],
        prior=batch.prior[[row]],
    )


def random_batch(rng: np.random.Generator, *, n_users: int, n_items: int) -> Batch:
    """A batch that no sampler made: some rows of larger tables, in any order."""
    n_drawn = int(rng.integers(2, n_users + 1))
    n_candidates = int(rng.integers(3, n_items + 1))
    positives = [
        sorted(rng.choice(n_candidates, size=int(n), replace=False).tolist())
        for n in rng.integers(1, n_candidates, size=n_drawn)
    ]
    return handmade_batch(
        rng.permutation(n_users)[:n_drawn].tolist(),
        rng.permutation(n_items)[:n_candidates].tolist(),
        positives,
        prior=rng.uniform(0.01, 0.9, n_drawn).tolist(),
        popularity=rng.integers(1, 50, n_candidates).astype(float).tolist(),
        inclusion=rng.uniform(0.05, 1.0, n_candidates).tolist(),
    )
