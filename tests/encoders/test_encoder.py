from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ratiorec.batches.users import AnyBatch
from ratiorec.encoders.encoder import half_squared_norms
from ratiorec.shapes import Embeddings
from reference import risk as slow
from reference.comparison import (
    as_sample,
    assert_tables_equal_to_reference,
    random_embeddings,
)
from support.small_data import handmade_batch, random_batch


def on_tables(tables: Embeddings, batch: AnyBatch) -> Tensor:
    return half_squared_norms(torch.cat(tables), len(tables.users), batch)


def test_the_penalty_equals_the_plain_loops() -> None:
    rng = np.random.default_rng(9)
    for _ in range(5):
        batch = random_batch(rng, n_users=6, n_items=9)
        embeddings = random_embeddings(rng, n_users=6, n_items=9, largest_score=3)
        expected = slow.half_squared_norms(
            embeddings.users.tolist(), embeddings.items.tolist(), as_sample(batch)
        )
        assert_tables_equal_to_reference(on_tables, expected, embeddings, batch)


def test_the_penalty_is_half_a_mean_of_squared_norms() -> None:
    base = Embeddings(
        torch.tensor([[3.0, 4.0], [100.0, 0.0], [0.0, 1.0]]).double(),
        torch.tensor([[1.0, 1.0], [50.0, 0.0]]).double(),
    )
    batch = handmade_batch(
        [0, 2], [0], [[0], [0]], prior=[0.5, 0.5], popularity=[2], inclusion=[1.0]
    )
    assert float(on_tables(base, batch)) == (3**2 + 4**2 + 1**2) / 2 / 2 + (1 + 1) / 2
