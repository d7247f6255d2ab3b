"""Holds a risk made of tensors against a reference made of loops."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ratiorec.batches.users import Batch
from ratiorec.shapes import Embeddings
from reference.dual import Dual
from reference.risk import Sample

TOLERANCE = 1e-10


def of_batch(embeddings: Embeddings, batch: Batch) -> Embeddings:
    """What a risk is given: the vectors of the batch's users, row by row, and of all items."""
    return Embeddings(embeddings.users[batch.users], embeddings.items)


def as_sample(batch: Batch) -> Sample:
    rows, columns = batch.rows.tolist(), batch.columns.tolist()
    n_users = len(batch.users)
    return Sample(
        users=batch.users.tolist(),
        candidates=batch.candidates.tolist(),
        positives=[
            [c for r, c in zip(rows, columns, strict=True) if r == user] for user in range(n_users)
        ],
        prior=batch.prior.tolist(),
        popularity=batch.popularity.tolist(),
        inclusion=batch.inclusion.tolist(),
    )


def random_embeddings(
    rng: np.random.Generator, *, n_users: int, n_items: int, largest_score: float
) -> Embeddings:
    """Vectors in double precision; the largest score, positive or negative, is as given."""
    dimension = int(rng.integers(2, 5))
    users = rng.normal(size=(n_users, dimension))
    items = rng.normal(size=(n_items, dimension))
    items *= largest_score / np.abs(users @ items.T).max()
    return Embeddings(torch.from_numpy(users), torch.from_numpy(items))


def value_and_gradient(
    risk: Callable[[Embeddings, Batch], Tensor], embeddings: Embeddings, batch: Batch
) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]:
    """The risk, and its derivative with respect to every user and every item vector."""
    return _on_tables(lambda tables, batch: risk(of_batch(tables, batch), batch), embeddings, batch)


def _on_tables(
    function: Callable[[Embeddings, Batch], Tensor], embeddings: Embeddings, batch: Batch
) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]:
    users, items = (table.clone().requires_grad_() for table in embeddings)
    value = function(Embeddings(users, items), batch)
    to_users, to_items = torch.autograd.grad(value, (users, items))
    return value.item(), to_users.numpy(), to_items.numpy()


def assert_equal_to_reference(
    risk: Callable[[Embeddings, Batch], Tensor],
    expected: Dual,
    embeddings: Embeddings,
    batch: Batch,
) -> None:
    """For a risk, which sees the rows of the batch's users."""

    def on_rows(tables: Embeddings, batch: Batch) -> Tensor:
        return risk(of_batch(tables, batch), batch)

    assert_tables_equal_to_reference(on_rows, expected, embeddings, batch)


def assert_tables_equal_to_reference(
    function: Callable[[Embeddings, Batch], Tensor],
    expected: Dual,
    embeddings: Embeddings,
    batch: Batch,
) -> None:
    """For a function of all vectors."""
    value, to_users, to_items = _on_tables(function, embeddings, batch)
    assert abs(value - expected.value) <= TOLERANCE * max(1, abs(expected.value))
    for kind, found in (("user", to_users), ("item", to_items)):
        wanted = np.array(
            [
                [expected.slopes.get((kind, row, column), 0.0) for column in range(found.shape[1])]
                for row in range(found.shape[0])
            ]
        )
        scale = max(1, np.abs(wanted).max())
        np.testing.assert_allclose(found / scale, wanted / scale, rtol=0, atol=TOLERANCE)
