from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import reference.rivals as slow
from ratiorec.encoders.encoder import dropout
from ratiorec.encoders.enmf import ENMFEncoder
from ratiorec.encoders.settings import ENMF
from ratiorec.errors import ConfigError
from ratiorec.losses.whole_data import WholeData
from ratiorec.settings import UserBatches
from reference.comparison import as_sample
from reference.descent import assert_equal_to_loops, assert_trains_like_loops, shaken
from reference.dual import Dual, total
from support.small_data import random_interactions

CPU = torch.device("cpu")
N_USERS, N_ITEMS, DIMENSION = 6, 8, 3
DATA = random_interactions(np.random.default_rng(4), n_users=N_USERS, n_items=N_ITEMS, n_pairs=17)
BATCH = UserBatches()(DATA, device=CPU).batch(np.array([4, 1, 5, 2]))
SAMPLE = as_sample(BATCH)
POSITIVES = [[SAMPLE.candidates[place] for place in places] for places in SAMPLE.positives]


def small_encoder(share: float = 0.0) -> ENMFEncoder:
    built = ENMF(DIMENSION, share)(DATA, rng=np.random.default_rng(0), device=CPU)
    encoder = shaken(built)
    assert isinstance(encoder, ENMFEncoder)
    return encoder


def noise_of(seed: int, share: float) -> list[list[float]]:
    source = torch.Generator().manual_seed(seed)
    ones = torch.ones(len(BATCH.users), DIMENSION, dtype=torch.float64)
    rows: list[list[float]] = dropout(ones, share, noise=source).tolist()
    return rows


def slow_vectors(p: dict[str, Any], noise: list[list[float]]) -> tuple[slow.Matrix, slow.Matrix]:
    """(h ⊙ p_u) of the batch's users, p_u multiplied by its noise, and q_i of all items."""
    users = [
        [h * (x * m) for h, x, m in zip(p["dimension_weights"], p["table"][u], row, strict=True)]
        for u, row in zip(SAMPLE.users, noise, strict=True)
    ]
    return users, p["table"][N_USERS:]


@pytest.mark.parametrize("share", [0.0, 0.4])
def test_scores_and_their_gradient_are_those_of_loops(share: float) -> None:
    encoder = small_encoder(share)
    outer = torch.randn(4, N_ITEMS, generator=torch.Generator().manual_seed(1)).double()

    def weighed() -> torch.Tensor:
        encoder.noise = torch.Generator().manual_seed(5)
        users, items = encoder(BATCH)
        return (users @ items.T * outer).sum()

    def loops(p: dict[str, Any]) -> Dual:
        # hᵀ(p_u ⊙ q_i), the noise on p_u
        h, noise = p["dimension_weights"], noise_of(5, share)
        return total(
            h[d]
            * p["table"][u][d]
            * p["table"][N_USERS + i][d]
            * (noise[row][d] * float(outer[row, i]))
            for row, u in enumerate(SAMPLE.users)
            for i in range(N_ITEMS)
            for d in range(DIMENSION)
        )

    assert_equal_to_loops(weighed, loops, encoder)


@pytest.mark.parametrize("share", [0.0, 0.4])
def test_steps_of_training_are_those_of_loops(share: float) -> None:
    encoder = small_encoder(share)

    def step(seed: int) -> Any:
        def loops(p: dict[str, Any]) -> Dual:
            users, items = slow_vectors(p, noise_of(seed, share))
            groups = (
                [p["table"][u] for u in SAMPLE.users],
                [p["table"][N_USERS + i] for i in SAMPLE.candidates],
            )
            risk = slow.whole_data(users, items, POSITIVES, unlabelled_weight=0.1)
            return risk + slow.half_squared_norms(groups) * 0.3

        return loops

    steps = [step(0), step(1), step(2)]
    assert_trains_like_loops(encoder, WholeData(0.1), BATCH, steps, l2=0.3)


def test_every_dimension_starts_with_weight_one() -> None:
    encoder = ENMF(DIMENSION, dropout=0.0)(DATA, rng=np.random.default_rng(0), device=CPU)
    users, items = encoder(BATCH)
    assert torch.equal(users, encoder.base.users[BATCH.users])
    assert torch.equal(items, encoder.base.items)


def test_nothing_is_dropped_outside_training() -> None:
    encoder = ENMF(DIMENSION, dropout=0.5)(DATA, rng=np.random.default_rng(0), device=CPU)
    users, items = encoder.embeddings()
    assert not torch.equal(encoder(BATCH).users, users[BATCH.users])
    assert torch.equal(encoder(BATCH).items, items), "items are never dropped"
    assert torch.equal(encoder.eval()(BATCH).users, users[BATCH.users])


def test_the_scorer_weighs_the_dimensions() -> None:
    encoder = ENMF(DIMENSION, dropout=0.5)(DATA, rng=np.random.default_rng(0), device=CPU)
    with torch.no_grad():
        encoder.dimension_weights[:] = torch.tensor([1.0, -2.0, 3.0])
    users, items = (table.detach() for table in encoder.base)
    expected = users @ torch.diag(torch.tensor([1.0, -2.0, 3.0])) @ items.T
    scores = encoder.scorer(DATA).scores(np.arange(N_USERS))
    torch.testing.assert_close(torch.from_numpy(scores), expected)


def test_the_same_seed_of_the_noise_gives_the_same_embeddings() -> None:
    encoder = ENMF(DIMENSION, dropout=0.5)(DATA, rng=np.random.default_rng(0), device=CPU)
    results = []
    for seed in (1, 1, 2):
        encoder.noise = torch.Generator().manual_seed(seed)
        results.append(encoder(BATCH).users)
    assert torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])


def test_the_penalty_sees_the_free_vectors_of_the_batch() -> None:
    encoder = small_encoder()
    users, items = (table.detach() for table in encoder.base)
    expected = (
        sum(float(users[u].square().sum()) for u in SAMPLE.users) / len(SAMPLE.users)
        + sum(float(items[i].square().sum()) for i in SAMPLE.candidates) / len(SAMPLE.candidates)
    ) / 2
    assert float(encoder.penalty(BATCH).detach()) == pytest.approx(expected, rel=1e-12)


def test_a_dimension_below_one_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"where: encoder\.dimension"):
        ENMF(dimension=0)
