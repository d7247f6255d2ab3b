"""Batches of one size have spare places and items that did not come up; both count for nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from ratiorec.batches.static import StaticEpochs
from ratiorec.encoders.encoder import half_squared_norms
from ratiorec.encoders.settings import MultVAE
from ratiorec.losses import losses
from ratiorec.losses.density_ratio import (
    DensityRatio,
    FrozenWeights,
    HardSampleWeights,
    PopularityWeights,
    RatioPowerWeights,
)
from ratiorec.losses.generators import RelativeRatio
from ratiorec.losses.multinomial import Multinomial
from ratiorec.losses.softmax import Softmax
from ratiorec.losses.unnormalised import WeightedDRE, WeightedPU
from ratiorec.losses.whole_data import WholeData
from ratiorec.settings import UserBatches
from ratiorec.shapes import Embeddings
from support.small_data import random_interactions

CPU = torch.device("cpu")
DATA = random_interactions(np.random.default_rng(0), n_users=30, n_items=40, n_pairs=150)
EPOCHS = StaticEpochs(UserBatches(8)(DATA, device=CPU), CPU)


def factors(n: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, 5, dtype=torch.float64, generator=generator)


FIRST = Embeddings(factors(30, 5).float(), factors(40, 6).float())
RISKS = {
    "density ratio": DensityRatio(),
    "as sampled": DensityRatio(candidate_correction="none", upper_bound=0.01),
    "popularity": DensityRatio(
        weights=PopularityWeights(0.5), candidate_correction="inverse-propensity"
    ),
    "frozen": DensityRatio(weights=FrozenWeights(FIRST)),
    "all items, relative": DensityRatio(
        RelativeRatio(0.4), weights=RatioPowerWeights(0.5), candidate_correction="all-items"
    ),
    "softmax": Softmax(1.0),
    "softmax of users, in the list": Softmax(
        0.5, user_weighting="users", positive_temperature=2.0, top_k=3
    ),
    "dre": WeightedDRE(),
    "pu": WeightedPU(weights=HardSampleWeights()),
    "whole data": WholeData(0.2),
    "multinomial": Multinomial(),
}


def value_and_gradients(risk: Any, batch: Any, users: Tensor, items: Tensor) -> list[Tensor]:
    users, items = users.clone().requires_grad_(), items.clone().requires_grad_()
    value = risk(Embeddings(users, items), batch)
    return [value.detach(), *torch.autograd.grad(value, (users, items))]


@pytest.mark.parametrize("name", RISKS)
def test_a_risk_is_the_same_for_a_batch_with_spare_places(name: str) -> None:
    items = factors(40, 1).float()
    for dealt in EPOCHS(np.random.default_rng(3)):
        users = factors(len(dealt.users), 2).float()
        static, listed = EPOCHS.complete(dealt), EPOCHS.dealt.batch(dealt.users.numpy())
        assert len(static.rows) > len(listed.rows)
        assert len(static.candidates) > len(listed.candidates)
        found = value_and_gradients(RISKS[name], static, users, items)
        expected = value_and_gradients(RISKS[name], listed, users, items)
        for a, b in zip(found, expected, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


def test_the_penalty_is_the_same_for_a_batch_with_spare_places() -> None:
    table = factors(70, 4)
    for dealt in EPOCHS(np.random.default_rng(3)):
        found, expected = (
            half_squared_norms(table, 30, batch)
            for batch in (EPOCHS.complete(dealt), EPOCHS.dealt.batch(dealt.users.numpy()))
        )
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=0)


def test_an_autoencoder_reads_the_same_in_a_batch_with_spare_places() -> None:
    rng = np.random.default_rng(0)
    encoder = MultVAE(hidden=6, latent=3, dropout=0)(DATA, rng=rng, device=CPU).eval()
    for dealt in EPOCHS(np.random.default_rng(3)):
        static, listed = EPOCHS.complete(dealt), EPOCHS.dealt.batch(dealt.users.numpy())
        torch.testing.assert_close(encoder(static).users, encoder(listed).users)


def test_every_loss_that_a_gpu_replays_is_held_to_this() -> None:
    of_users = [cls for cls in losses().values() if cls.needs == "users"]
    replayed = {cls for cls in of_users if cls.supports_cuda_graph}
    assert replayed <= {type(risk) for risk in RISKS.values()}
