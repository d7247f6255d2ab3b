from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import pytest
import torch

from ratiorec.batches.users import Batch
from ratiorec.data.interactions import Interactions
from ratiorec.distributed.ranks import Ranks
from ratiorec.distributed.shards import (
    Population,
    ShardedEncoder,
    SharedEpochs,
    initial_tables,
    require_shardable,
    start_shared,
)
from ratiorec.encoders.settings import Factorisation, ItemsOnly, LightGCN, Normal, Spectral, Xavier
from ratiorec.errors import ConfigError
from ratiorec.losses import Loss
from ratiorec.losses.bpr import BPR
from ratiorec.losses.density_ratio import DensityRatio, PopularityWeights
from ratiorec.losses.softmax import Softmax
from ratiorec.losses.unnormalised import WeightedDRE, WeightedPU
from ratiorec.presets import PRESETS
from ratiorec.settings import PairBatches, Settings, Training, UserBatches
from ratiorec.training.loop import GradientTraining
from support.rank_processes import on_ranks
from support.small_data import random_interactions

CPU = torch.device("cpu")
RNG = np.random.default_rng(0)
DATA = random_interactions(RNG, n_users=23, n_items=17, n_pairs=90)
WEIGHTED = replace(DATA, weights=RNG.uniform(0.5, 3, DATA.n_pairs).astype(np.float32))
RAISED = DensityRatio(upper_bound=1.5)  # a bound that holds some users back
LOSSES: dict[str, Loss] = {
    "density-ratio": RAISED,
    "popularity": DensityRatio(weights=PopularityWeights(0.5)),
    "dre": WeightedDRE(),
    "pu": WeightedPU(),
    "softmax": Softmax(),
    "softmax, users alike": Softmax(user_weighting="users", positive_temperature=0.5),
    "softmax, top 3": Softmax(top_k=3),
}


def part(data: Interactions, ranks: Ranks) -> Interactions:
    return data.of_users(ranks.rows(data.n_users))


def single(data: Interactions, settings: Settings) -> GradientTraining:
    return GradientTraining.start(data, settings, rng=np.random.default_rng(5), device=CPU)


def shared(data: Interactions, settings: Settings, ranks: Ranks) -> GradientTraining:
    return start_shared(part(data, ranks), settings, ranks, rng=np.random.default_rng(5))


def told(batch: Batch, first: int) -> tuple[list[Any], list[Any], list[Any]]:
    """What a batch says of users, of pairs and of candidates; users as everybody knows them."""
    users = (batch.users + first).tolist()
    assert batch.pair_weights is not None
    pairs = zip(
        [users[row] for row in batch.rows.tolist()],
        batch.columns.tolist(),
        batch.pair_weights.tolist(),
        strict=True,
    )
    candidates = batch.candidates, batch.popularity, batch.inclusion
    of_users = zip(users, batch.prior.tolist(), strict=True)
    return list(of_users), list(pairs), [values.tolist() for values in candidates]


@pytest.mark.parametrize("deal", ["even", "independent"])
@pytest.mark.parametrize(("n", "size"), [(1, 8), (2, 8), (4, 3)])
def test_the_ranks_together_list_the_batches_of_one_process(deal: Any, n: int, size: int) -> None:
    batches = UserBatches(size, deal=deal)

    def work(ranks: Ranks) -> object:
        population = Population.of(part(WEIGHTED, ranks), ranks)
        epochs = SharedEpochs(population, ranks, size, batches.dealing())
        dealt = list(epochs(np.random.default_rng(3)))
        assert {batch.n_sharing for batch in dealt} <= {size, size - 1}
        return [told(batch, population.users.start) for batch in dealt]

    found = on_ranks(n, work)
    expected = batches(WEIGHTED, device=CPU)(np.random.default_rng(3))
    for parts, batch in zip(zip(*found, strict=True), expected, strict=True):
        users, pairs, candidates = told(batch, 0)
        assert sorted(chain(*(own for own, _, _ in parts))) == sorted(users)
        assert sorted(chain(*(own for _, own, _ in parts))) == sorted(pairs)
        assert all(every == candidates for _, _, every in parts)


@pytest.mark.parametrize("init", [Xavier(), Normal(0.1)])
def test_the_parts_of_the_tables_are_those_that_one_process_draws(init: Any) -> None:
    settings = Factorisation(4, init=init)

    def work(ranks: Ranks) -> object:
        population = Population.of(part(DATA, ranks), ranks)
        tables = initial_tables(settings, population, ranks, rng=np.random.default_rng(2))
        return [table.numpy() for table in tables]

    expected = settings(DATA, rng=np.random.default_rng(2), device=CPU).embeddings()
    found = on_ranks(3, work)
    for kind, table in enumerate(expected):
        np.testing.assert_array_equal(np.concatenate([one[kind] for one in found]), table.detach())


@pytest.mark.parametrize(
    "encoder",
    [LightGCN(4), LightGCN(4, n_layers=2, self_loops=False, normalize=True), Factorisation(4)],
)
def test_a_step_has_the_loss_and_the_gradient_of_one_process(encoder: Any) -> None:
    def gradients(run: GradientTraining) -> list[tuple[float, list[Any]]]:
        found = []
        for dealt in run.epochs(np.random.default_rng(1)):
            batch = run.epochs.complete(dealt)
            loss = run.loss(run.encoder(batch), batch) + 0.3 * run.encoder.penalty(batch)
            tables = torch.autograd.grad(loss, list(run.encoder.parameters()))
            found.append((float(run._total(loss.detach())), [table.numpy() for table in tables]))
        return found

    batches = UserBatches(5)  # of 4 ranks some have no user in a batch
    settings = {
        name: Settings(encoder=encoder, risk=risk, batches=batches) for name, risk in LOSSES.items()
    }
    on_all = on_ranks(
        4, lambda ranks: [gradients(shared(WEIGHTED, one, ranks)) for one in settings.values()]
    )
    for place, (name, one) in enumerate(settings.items()):
        for step, (loss, (table,)) in enumerate(gradients(single(WEIGHTED, one))):
            found = [rank[place][step] for rank in on_all]
            assert [each for each, _ in found] == pytest.approx([loss] * 4, rel=2e-6), name
            whole = np.concatenate([own[kind] for kind in (0, 1) for _, own in found])
            scale = np.abs(table).max()
            np.testing.assert_allclose(whole, table, rtol=1e-4, atol=3e-6 * scale, err_msg=name)


def test_trained_together_the_model_is_that_of_one_process() -> None:
    settings = Settings(
        encoder=LightGCN(4, popularity_term=0.2),
        batches=UserBatches(8),
        training=Training(learning_rate=0.05),
    )

    def trained(run: GradientTraining) -> tuple[list[float], Any, Any]:
        risks = [risk for _ in range(3) for (risk,) in run.one_epoch(100)]
        scorer: Any = run.scorer()
        return risks, scorer.users, scorer.items

    risks, users, items = trained(single(DATA, settings))
    found = on_ranks(3, lambda ranks: trained(shared(DATA, settings, ranks)))
    np.testing.assert_allclose(np.concatenate([own for _, own, _ in found]), users, atol=1e-5)
    for rank_risks, _, every in found:
        np.testing.assert_allclose(rank_risks, risks, rtol=1e-5)
        np.testing.assert_allclose(every, items, atol=1e-5)


def test_tables_and_moments_fall_as_one_over_the_ranks() -> None:
    data = random_interactions(np.random.default_rng(1), n_users=40, n_items=24, n_pairs=99)
    settings = Settings(encoder=LightGCN(4))

    def held(ranks: Ranks) -> int:
        run = shared(data, settings, ranks)
        assert isinstance(run.encoder, ShardedEncoder)
        return sum(tensor.nbytes for tensor in run._tensors().values() if tensor.ndim)

    for n in (1, 2, 4):
        assert on_ranks(n, held) == [3 * (40 + 24) * 4 * 4 // n] * n


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        (Settings(encoder=LightGCN(init=Spectral())), "spectral"),
        (Settings(encoder=ItemsOnly(4)), "items-only"),
        (Settings(risk=BPR(), batches=PairBatches(4)), "bpr"),
        (PRESETS["enmf"], "enmf"),
        (PRESETS["mult-vae"], "mult-vae"),
    ],
)
def test_what_needs_all_in_one_place_is_refused_by_name(settings: Any, named: str) -> None:
    with pytest.raises(ConfigError, match=f"found: {named}"):
        require_shardable(settings)
