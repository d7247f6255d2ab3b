"""Most of it needs a GPU: python -m pytest --noconftest tests/kernels/test_cuda_graph.py"""

from __future__ import annotations

import contextlib
import gc
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor

from ratiorec.encoders.settings import ENMF, NGCF, AnyEncoder, LightGCN, MultVAE, Normal
from ratiorec.kernels.cuda_graph import WARM_UP_STEPS, CudaGraphStep
from ratiorec.losses import Loss
from ratiorec.losses.bpr import BPR
from ratiorec.losses.density_ratio import DensityRatio
from ratiorec.losses.multinomial import Multinomial
from ratiorec.losses.unnormalised import WeightedDRE, WeightedPU
from ratiorec.losses.whole_data import WholeData
from ratiorec.settings import (
    AnySampler,
    PairBatches,
    Settings,
    Training,
    UniformSampler,
    UserBatches,
)
from ratiorec.training.loop import GradientTraining
from support.small_data import random_interactions

on_a_gpu = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="there is no GPU to record steps on"
)
DATA = random_interactions(np.random.default_rng(0), n_users=200, n_items=150, n_pairs=3000)


def run(encoder: LightGCN | NGCF, sampler: AnySampler) -> GradientTraining:
    return GradientTraining.start(
        DATA,
        Settings(encoder, BPR(hardest=True), PairBatches(256, sampler), Training(l2=1e-3)),
        rng=np.random.default_rng(1),
        device=torch.device("cuda"),
    )


def run_of_users(encoder: AnyEncoder, risk: Loss) -> GradientTraining:
    return GradientTraining.start(
        DATA,
        Settings(encoder, risk, UserBatches(60)),
        rng=np.random.default_rng(1),
        device=torch.device("cuda"),
    )


def risks(descent: GradientTraining, n_epochs: int) -> list[float]:
    return [risk for _ in range(n_epochs) for told in descent.one_epoch(10**9) for risk in told]


@on_a_gpu
@pytest.mark.parametrize("sampler", [UniformSampler(), UniformSampler(4)], ids=["one", "four"])
@pytest.mark.parametrize("encoder", [LightGCN(8), NGCF(8, dropout=0)], ids=["lightgcn", "ngcf"])
def test_replayed_batches_of_pairs_equal_those_taken_one_by_one(
    encoder: LightGCN | NGCF, sampler: AnySampler
) -> None:
    replayed, plain = run(encoder, sampler), run(encoder, sampler)
    assert isinstance(replayed._take_step, CudaGraphStep)
    plain._take_step = plain._eager_step
    found, expected = risks(replayed, 1), risks(plain, 1)
    assert len(found) == replayed.n_steps > 2 * WARM_UP_STEPS
    # sums on a card have no fixed order, and NGCF multiplies their differences by a thousand in
    # twenty steps: only what comes before tells a wrong recording from that
    np.testing.assert_allclose(found, expected, rtol=1e-4)


GRAPH = LightGCN(16, init=Normal(0.1))


@on_a_gpu
@pytest.mark.parametrize(
    ("encoder", "risk"),
    [
        (GRAPH, DensityRatio()),
        (GRAPH, WeightedDRE()),
        (GRAPH, WeightedPU()),
        (ENMF(16, dropout=0), WholeData(0.1)),
        (MultVAE(hidden=16, latent=8, dropout=0), Multinomial()),
    ],
    ids=["density-ratio", "dre", "pu", "enmf", "mult-vae"],
)
def test_replayed_batches_of_users_equal_those_taken_one_by_one(
    encoder: AnyEncoder, risk: Loss
) -> None:
    replayed, plain = run_of_users(encoder, risk), run_of_users(encoder, risk)
    assert isinstance(replayed._take_step, CudaGraphStep)
    plain._take_step = plain._eager_step
    found, expected = risks(replayed, 3), risks(plain, 3)
    assert len(found) == 3 * replayed.n_steps > WARM_UP_STEPS
    np.testing.assert_allclose(found, expected, rtol=1e-3)


@on_a_gpu
def test_replayed_noise_is_new_at_every_step() -> None:
    descent = run(NGCF(8, dropout=0.5), UniformSampler())
    batch = next(descent.epochs(np.random.default_rng(0)))
    for _ in range(WARM_UP_STEPS + 1):
        descent._take_step(batch)
    # nothing but the noise differs between these
    descent._optimizer.rate.fill_(0.0)
    assert len({float(descent._take_step(batch)) for _ in range(5)}) > 1


@on_a_gpu
def test_a_run_restored_on_the_card_goes_on() -> None:
    whole, first = run(LightGCN(8), UniformSampler()), run(LightGCN(8), UniformSampler())
    expected = risks(whole, 3)
    risks(first, 1)
    again = run(LightGCN(8), UniformSampler())
    again.restore(*first.state())
    np.testing.assert_allclose(risks(again, 2), expected[whole.n_steps :], rtol=1e-3)


@dataclass(frozen=True)
class OneTensor:
    values: Tensor


class NoGraph:
    """Stands in for a card's recording."""

    def register_generator_state(self, noise: torch.Generator) -> None:
        pass


@pytest.mark.parametrize("was_on", [True, False])
def test_nothing_is_collected_while_a_step_is_recorded(
    was_on: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "CUDAGraph", NoGraph)
    monkeypatch.setattr(torch.cuda, "graph", contextlib.nullcontext)
    found = []

    def step(batch: OneTensor) -> Tensor:
        found.append(gc.isenabled())
        if len(found) == 2:
            raise ValueError("a step that fails")
        return batch.values

    captured = CudaGraphStep(step, noise=torch.Generator())
    before = gc.isenabled()
    (gc.enable if was_on else gc.disable)()
    try:
        captured._record(OneTensor(torch.ones(1)))
        after = [gc.isenabled()]
        with pytest.raises(ValueError, match="a step that fails"):
            captured._record(OneTensor(torch.ones(1)))
        after.append(gc.isenabled())
    finally:
        (gc.enable if before else gc.disable)()
    assert found == [False, False]
    assert after == [was_on, was_on]
