"""A pair of weight n counts like n pairs (theory: W9)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from ratiorec.batches.pairs import PairBatch
from ratiorec.batches.users import Batch
from ratiorec.losses import Loss, losses
from ratiorec.losses.bpr import BPR
from ratiorec.losses.density_ratio import DensityRatio, PopularityWeights, UniformWeights
from ratiorec.losses.multinomial import Multinomial
from ratiorec.losses.softmax import Softmax
from ratiorec.losses.unnormalised import WeightedDRE, WeightedPU
from ratiorec.losses.whole_data import WholeData
from ratiorec.shapes import Embeddings
from reference.comparison import of_batch, random_embeddings
from support.small_data import random_batch

N_USERS, N_ITEMS = 6, 9
ON_USERS: list[Loss] = [
    DensityRatio(),
    DensityRatio(weights=UniformWeights(), upper_bound=np.inf),
    DensityRatio("kullback-leibler", "exponential", PopularityWeights(0.5)),
    Softmax(temperature=0.5),
    Softmax(temperature=0.5, user_weighting="users", top_k=2),
    Softmax(temperature=0.5, positive_temperature=0.3),
    WeightedDRE(),
    WeightedPU(),
    Multinomial(),
]
seeds = st.integers(0, 2**32)


def repeated(batch: Batch, counts: Tensor) -> Batch:
    """The batch in which each positive stands so many times."""
    return replace(
        batch,
        rows=batch.rows.repeat_interleave(counts),
        columns=batch.columns.repeat_interleave(counts),
    )


def value_and_gradients(loss: Loss, embeddings: Embeddings, batch: Any) -> list[Tensor]:
    tables = Embeddings(*(table.clone().requires_grad_() for table in embeddings))
    value = loss(tables, batch)
    value.backward()
    return [value.detach(), *(table.grad for table in tables if table.grad is not None)]


@pytest.mark.parametrize("loss", ON_USERS, ids=repr)
@given(seed=seeds)
def test_weighted_positives_are_repeated_ones(loss: Loss, seed: int) -> None:
    rng = np.random.default_rng(seed)
    everyone = random_embeddings(rng, n_users=N_USERS, n_items=N_ITEMS, largest_score=1)
    batch = random_batch(rng, n_users=N_USERS, n_items=N_ITEMS)
    embeddings = of_batch(everyone, batch)
    counts = torch.from_numpy(rng.integers(1, 5, len(batch.rows)))
    weights = counts.to(embeddings.users.dtype)
    weighted = value_and_gradients(loss, embeddings, replace(batch, pair_weights=weights))
    expected = value_and_gradients(loss, embeddings, repeated(batch, counts))
    torch.testing.assert_close(weighted, expected)


@given(seed=seeds)
def test_the_squared_loss_is_that_of_weighted_regression(seed: int) -> None:
    """Σ_+ w(1 − s)² + c Σ_{i ∉ I_u⁺} s², but for Σ w."""
    rng = np.random.default_rng(seed)
    everyone = random_embeddings(rng, n_users=N_USERS, n_items=N_ITEMS, largest_score=1)
    batch = random_batch(rng, n_users=N_USERS, n_items=N_ITEMS)
    embeddings = of_batch(everyone, batch)
    weights = torch.from_numpy(rng.uniform(0.1, 5, len(batch.rows))).to(embeddings.users.dtype)
    found = WholeData(0.05)(embeddings, replace(batch, pair_weights=weights))
    scores = embeddings.users @ embeddings.items.T
    confidence, target = torch.full_like(scores, 0.05), torch.zeros_like(scores)
    at = batch.rows, batch.candidates[batch.columns]
    confidence[at], target[at] = weights, 1.0
    regression = (confidence * (target - scores).square()).sum() - weights.sum()
    torch.testing.assert_close(found, regression / len(scores), rtol=1e-4, atol=1e-4)


@given(seed=seeds)
def test_weighted_pairs_are_repeated_ones(seed: int) -> None:
    rng = np.random.default_rng(seed)
    users, items = (torch.from_numpy(rng.standard_normal((n, 3))) for n in (5, N_ITEMS))
    positives, negatives = (torch.from_numpy(rng.integers(0, N_ITEMS, s)) for s in (5, (5, 2)))
    counts = torch.from_numpy(rng.integers(1, 5, 5))
    batch = PairBatch(torch.arange(5), positives, negatives, counts.double())
    repeats = PairBatch(*(part.repeat_interleave(counts, 0) for part in (*_parts(batch),)))
    loss = BPR(hardest=bool(seed % 2))
    again = Embeddings(users.repeat_interleave(counts, 0), items)
    torch.testing.assert_close(loss(Embeddings(users, items), batch), loss(again, repeats))


def _parts(batch: PairBatch) -> tuple[Tensor, Tensor, Tensor]:
    return batch.users, batch.items, batch.negatives


def test_every_loss_of_the_library_uses_weights() -> None:
    assert all(loss.uses_weights for loss in losses().values())
    assert not Loss.uses_weights  # one's own says so
