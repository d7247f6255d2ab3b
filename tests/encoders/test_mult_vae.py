from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import reference.rivals as slow
from ratiorec.batches.pairs import PairBatch
from ratiorec.encoders.encoder import dropout
from ratiorec.encoders.mult_vae import MultVAEEncoder, from_standard_normal
from ratiorec.encoders.settings import MultVAE
from ratiorec.errors import ConfigError
from ratiorec.losses.multinomial import Multinomial
from ratiorec.settings import UserBatches
from reference.comparison import as_sample
from reference.descent import assert_equal_to_loops, assert_trains_like_loops, shaken
from reference.dual import Dual, total
from support.small_data import random_interactions

CPU = torch.device("cpu")
N_USERS, N_ITEMS, HIDDEN, LATENT = 6, 8, 3, 2
DATA = random_interactions(np.random.default_rng(4), n_users=N_USERS, n_items=N_ITEMS, n_pairs=20)
BATCH = UserBatches()(DATA, device=CPU).batch(np.array([4, 1, 5, 2]))
SAMPLE = as_sample(BATCH)
POSITIVES = [[SAMPLE.candidates[place] for place in places] for places in SAMPLE.positives]


def built(share: float = 0.0, anneal_steps: int = 10) -> MultVAEEncoder:
    part = MultVAE(HIDDEN, LATENT, share, anneal_steps)
    return part(DATA, rng=np.random.default_rng(0), device=CPU)


def in_double(share: float = 0.0) -> MultVAEEncoder:
    encoder = shaken(built(share))
    assert isinstance(encoder, MultVAEEncoder)
    return encoder


def noise_of(seed: int, share: float) -> tuple[list[list[float]], list[list[float]]]:
    """The entries of every user's input after dropout, and the normal part of his code."""
    source = torch.Generator().manual_seed(seed)
    ones = torch.ones(sum(map(len, POSITIVES)), dtype=torch.float64)
    left = iter(dropout(ones, share, noise=source).tolist())
    entries = [[x * next(left) for x in slow.unit_length(len(liked))] for liked in POSITIVES]
    return entries, torch.randn(len(POSITIVES), LATENT, generator=source).tolist()


def slow_outputs(
    p: dict[str, Any], seed: int, share: float
) -> tuple[slow.Matrix, slow.Matrix, Dual]:
    """The embeddings in training, and the divergence of the codes."""
    entries, normal = noise_of(seed, share)
    codes = [slow.code(liked, xs, p) for liked, xs in zip(POSITIVES, entries, strict=True)]
    latent = [slow.sampled(code, e) for code, e in zip(codes, normal, strict=True)]
    return [slow.decoded(z, p) for z in latent], p["item_out"], slow.divergence(codes)


@pytest.mark.parametrize("share", [0.0, 0.4])
def test_scores_and_their_gradient_are_those_of_loops(share: float) -> None:
    encoder = in_double(share)
    outer = torch.randn(4, N_ITEMS, generator=torch.Generator().manual_seed(1)).double()

    def weighed() -> torch.Tensor:
        encoder.noise = torch.Generator().manual_seed(5)
        users, items = encoder(BATCH)
        return (users @ items.T * outer).sum()

    def loops(p: dict[str, Any]) -> Dual:
        users, items, _ = slow_outputs(p, 5, share)
        return total(
            total(x * y for x, y in zip(user, item, strict=True)) * float(outer[row, i])
            for row, user in enumerate(users)
            for i, item in enumerate(items)
        )

    assert_equal_to_loops(weighed, loops, encoder)


def test_without_noise_the_code_is_its_mean() -> None:
    encoder = in_double(share=0.4).eval()

    def weighed() -> torch.Tensor:
        return encoder(BATCH).users.sum()

    def loops(p: dict[str, Any]) -> Dual:
        codes = [slow.code(liked, slow.unit_length(len(liked)), p) for liked in POSITIVES]
        return total(x for code in codes for x in slow.decoded(code.mean, p))

    assert_equal_to_loops(weighed, loops, encoder)


def test_the_divergence_and_its_gradient_are_those_of_loops() -> None:
    encoder = in_double(share=0.4)

    def divergence() -> torch.Tensor:
        encoder.noise = torch.Generator().manual_seed(5)
        encoder.n_steps.fill_(9)  # the next is the tenth of ten: it counts in full
        encoder(BATCH)
        return encoder.penalty(BATCH)

    assert_equal_to_loops(divergence, lambda p: slow_outputs(p, 5, 0.4)[2], encoder)


@pytest.mark.parametrize("share", [0.0, 0.4])
def test_steps_of_training_are_those_of_loops(share: float) -> None:
    encoder = in_double(share)

    def step(seed: int) -> Any:
        def loops(p: dict[str, Any]) -> Dual:
            users, items, divergence = slow_outputs(p, seed, share)
            annealed = divergence * (0.3 * (seed + 1) / 10)
            return slow.multinomial(users, items, POSITIVES) + annealed

        return loops

    steps = [step(0), step(1), step(2)]
    assert_trains_like_loops(encoder, Multinomial(), BATCH, steps, l2=0.3)


def test_the_divergence_of_a_standard_normal_is_zero() -> None:
    zeros = torch.zeros(3, 5, dtype=torch.float64)
    assert float(from_standard_normal(zeros, zeros)) == 0
    # ½(μ² + σ² − log σ² − 1) in each of five dimensions
    moved = from_standard_normal(zeros + 2, zeros + float(np.log(3)))
    assert float(moved) == pytest.approx(5 * (2**2 + 3 - np.log(3) - 1) / 2, rel=1e-14)


def test_the_divergence_is_let_in_step_by_step() -> None:
    encoder = built(anneal_steps=4)
    shares = []
    for _ in range(6):
        encoder.noise = torch.Generator().manual_seed(0)
        encoder(BATCH)
        shares.append(float(encoder.penalty(BATCH).detach()))
    whole = shares[-1]
    assert whole > 0
    assert shares == pytest.approx([whole * share for share in (1 / 4, 2 / 4, 3 / 4, 1, 1, 1)])


def test_the_count_of_steps_is_kept_with_the_parameters() -> None:
    encoder, other = built(), built()
    for _ in range(3):
        encoder(BATCH)
    other.load_state_dict(encoder.state_dict())
    for one in (encoder, other):
        one.noise = torch.Generator().manual_seed(0)
        one(BATCH)
    assert int(other.n_steps) == 4
    assert torch.equal(encoder.penalty(BATCH), other.penalty(BATCH))


def test_outside_training_no_step_is_counted() -> None:
    encoder = built().eval()
    encoder(BATCH)
    assert int(encoder.n_steps) == 0


def test_the_same_seed_of_the_noise_gives_the_same_embeddings() -> None:
    encoder = built(share=0.5)
    results = []
    for seed in (1, 1, 2):
        encoder.noise = torch.Generator().manual_seed(seed)
        results.append(encoder(BATCH).users)
    assert torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])


def test_the_scorer_is_the_network_without_noise() -> None:
    encoder = built(share=0.5)
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter += (
                torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)) / 2
            )
    batch = UserBatches()(DATA, device=CPU).batch(np.arange(N_USERS))
    scores = encoder.scorer(DATA).scores(np.arange(N_USERS))
    users, items = encoder.eval()(batch)
    torch.testing.assert_close(torch.from_numpy(scores), (users @ items.T).detach())


def test_the_scorer_is_a_copy_of_what_training_goes_on_to_change() -> None:
    encoder = built()
    scorer = encoder.scorer(DATA)
    before = {name: array.copy() for name, array in scorer.arrays().items()}
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter += 1
    for name, array in scorer.arrays().items():
        assert (array == before[name]).all(), name
        assert array.flags.c_contiguous, name


def test_a_batch_without_whole_users_is_refused() -> None:
    batch = PairBatch(torch.tensor([0]), torch.tensor([0]), torch.tensor([[1]]))
    with pytest.raises(ConfigError, match=r"where: batches"):
        built()(batch)


def test_the_first_weights_follow_from_the_seed_and_biases_are_zero() -> None:
    first, again = built().state_dict(), built().state_dict()
    for name, tensor in first.items():
        assert torch.equal(tensor, again[name]), name
        if name.startswith("bias"):
            assert not tensor.any(), name
    assert not first["item_out"][:, -1].any(), "the biases of items"
    assert first["item_out"][:, :-1].all()
    assert float(first["item_in"].abs().max()) <= (6 / (N_ITEMS + HIDDEN)) ** 0.5


@pytest.mark.parametrize("name", ["hidden", "latent", "anneal_steps"])
def test_a_size_below_one_is_refused_by_name(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"where: encoder\.{name}"):
        MultVAE(**{name: 0})
