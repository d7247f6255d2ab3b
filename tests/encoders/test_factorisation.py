from __future__ import annotations

import numpy as np
import pytest
import torch

from ratiorec.encoders.encoder import initial_table
from ratiorec.encoders.settings import Factorisation, LightGCN, Xavier
from support.small_data import random_interactions

CPU = torch.device("cpu")
DATA = random_interactions(np.random.default_rng(2), n_users=300, n_items=100, n_pairs=900)


def test_the_embeddings_are_the_parameters_themselves() -> None:
    encoder = Factorisation(5)(DATA, rng=np.random.default_rng(0), device=CPU)
    users, items = encoder.embeddings()
    assert torch.equal(torch.cat([users, items]), encoder.table)
    assert users.shape == (300, 5)
    assert items.shape == (100, 5)
    assert all(torch.equal(a, b) for a, b in zip(encoder.embeddings(), encoder.base, strict=True))


def test_the_gradient_reaches_users_and_items() -> None:
    encoder = Factorisation(5)(DATA, rng=np.random.default_rng(0), device=CPU)
    users, items = encoder.embeddings()
    (2 * users.sum() + 3 * items.sum()).backward()
    expected = torch.cat([torch.full((300, 5), 2.0), torch.full((100, 5), 3.0)])
    assert torch.equal(encoder.table.grad, expected)  # type: ignore[arg-type]


def test_the_first_vectors_are_uniform_within_xaviers_bounds() -> None:
    table = initial_table(
        DATA, 50, Xavier(0.1), rng=np.random.default_rng(0), device=torch.device("cpu")
    )
    for part, n in ((table[:300], 300), (table[300:], 100)):
        bound = 0.1 * (6 / (n + 50)) ** 0.5
        assert float(part.abs().max()) <= bound
        assert float(part.abs().max()) > 0.99 * bound
        assert float(part.mean()) == pytest.approx(0, abs=0.03 * bound)
        assert float(part.std()) == pytest.approx(bound / 3**0.5, rel=0.03)


def test_the_first_vectors_follow_from_the_seed_alone() -> None:
    tables = [
        encoder(DATA, rng=np.random.default_rng(seed), device=CPU).table
        for encoder, seed in ((Factorisation(4), 1), (LightGCN(4), 1), (Factorisation(4), 2))
    ]
    assert torch.equal(tables[0], tables[1])
    assert not torch.equal(tables[0], tables[2])
