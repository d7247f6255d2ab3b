from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

import reference.rivals as slow
from ratiorec.batches.pairs import PairBatch
from ratiorec.encoders.encoder import dropout
from ratiorec.encoders.ngcf import NGCFEncoder
from ratiorec.encoders.settings import NGCF
from ratiorec.errors import ConfigError
from ratiorec.kernels.blocks import deterministic_threads
from ratiorec.losses.bpr import BPR
from reference.descent import assert_equal_to_loops, assert_trains_like_loops, shaken
from reference.dual import Dual, total
from support.small_data import interactions, random_interactions

CPU = torch.device("cpu")

# a cube: with itself a corner has four neighbours, so that roots are exact in every precision
PAIRS = [(user, item) for user in range(4) for item in range(4) if user != item]
N_USERS, N_ITEMS, DIMENSION = 4, 5, 3  # the last item has no pair
CUBE = interactions(*zip(*PAIRS, strict=True), n_users=N_USERS, n_items=N_ITEMS)
GRAPH = slow.graph_of_means(PAIRS, N_USERS, N_ITEMS)
BATCH = PairBatch(
    users=torch.tensor([0, 1, 0, 3]),
    items=torch.tensor([2, 3, 3, 1]),
    negatives=torch.tensor([[4], [1], [4], [3]]),
)

# user 0 – item 0 – user 1 – item 1
PATH = interactions([0, 1, 1], [0, 0, 1], n_users=2, n_items=2)
NODES = ("user 0", "user 1", "item 0", "item 1")


def cube_encoder(n_layers: int = 2, share: float = 0.0) -> NGCFEncoder:
    built = NGCF(DIMENSION, n_layers, share)(CUBE, rng=np.random.default_rng(0), device=CPU)
    encoder = shaken(built)
    assert isinstance(encoder, NGCFEncoder)
    return encoder


def noise_of(seed: int, n_layers: int, share: float) -> list[list[list[float]]]:
    """What each layer is multiplied by when the noise has this seed."""
    source = torch.Generator().manual_seed(seed)
    ones = torch.ones(N_USERS + N_ITEMS, DIMENSION, dtype=torch.float64)
    return [dropout(ones, share, noise=source).tolist() for _ in range(n_layers)]


def slow_vectors(
    p: dict[str, Any], noise: Sequence[slow.Numbers] | None = None
) -> tuple[slow.Matrix, slow.Matrix]:
    """The embeddings of the batch's users and of all items."""
    vectors = slow.ngcf(p["table"], p["weights"], p["biases"], GRAPH, slope=0.2, noise=noise)
    return [vectors[u] for u in BATCH.users.tolist()], vectors[N_USERS:]


@pytest.mark.parametrize("share", [0.0, 0.4])
@pytest.mark.parametrize("n_layers", [0, 1, 3])
def test_the_embeddings_and_their_gradient_are_those_of_loops(n_layers: int, share: float) -> None:
    encoder = cube_encoder(n_layers, share)
    width = DIMENSION * (n_layers + 1)
    outer = torch.randn(9, width, generator=torch.Generator().manual_seed(1)).double()

    def weighed() -> torch.Tensor:
        encoder.noise = torch.Generator().manual_seed(5)
        users, items = encoder(BATCH)
        assert users.shape == (4, width)
        assert items.shape == (N_ITEMS, width)
        return (torch.cat([users, items]) * outer).sum()

    def loops(p: dict[str, Any]) -> Dual:
        users, items = slow_vectors(p, noise_of(5, n_layers, share) if share else None)
        rows = zip([*users, *items], outer.tolist(), strict=True)
        return total(x * w for row, ws in rows for x, w in zip(row, ws, strict=True))

    assert_equal_to_loops(weighed, loops, encoder)


@pytest.mark.parametrize("share", [0.0, 0.4])
def test_steps_of_training_are_those_of_loops(share: float) -> None:
    encoder = cube_encoder(2, share)

    def step(seed: int) -> Any:
        def loops(p: dict[str, Any]) -> Dual:
            users, items = slow_vectors(p, noise_of(seed, 2, share) if share else None)
            liked, others = BATCH.items.tolist(), BATCH.negatives[:, 0].tolist()
            groups = (
                [p["table"][u] for u in BATCH.users.tolist()],
                [p["table"][N_USERS + i] for i in liked],
                [p["table"][N_USERS + i] for i in others],
            )
            return slow.bpr(users, items, liked, others) + slow.half_squared_norms(groups) * 0.3

        return loops

    assert_trains_like_loops(encoder, BPR(), BATCH, [step(0), step(1), step(2)], l2=0.3)


def test_an_item_three_steps_away_arrives_at_the_third_layer_and_not_before() -> None:
    reached = []
    for n_layers in range(4):
        encoder = NGCF(8, n_layers)(PATH, rng=np.random.default_rng(0), device=CPU)
        vector = encoder.embeddings().users[0]
        to_nodes = torch.zeros(4)
        for share in vector:
            (gradient,) = torch.autograd.grad(share, encoder.table, retain_graph=True)
            to_nodes += gradient.abs().sum(-1)
        reached.append({name for name, size in zip(NODES, to_nodes, strict=True) if size > 0})
    assert reached == [
        {"user 0"},
        {"user 0", "item 0"},
        {"user 0", "item 0", "user 1"},
        {"user 0", "item 0", "user 1", "item 1"},
    ]


def test_layers_stand_beside_the_free_vectors_with_length_one() -> None:
    encoder = cube_encoder(2)
    users, items = encoder.embeddings()
    vectors = torch.cat([users, items])
    assert torch.equal(vectors[:, :DIMENSION], encoder.table)
    for layer in vectors[:, DIMENSION:].split(DIMENSION, dim=1):
        torch.testing.assert_close(layer.norm(dim=1), torch.ones(9, dtype=torch.float64))


def test_nothing_is_dropped_outside_training() -> None:
    encoder = NGCF(DIMENSION, dropout=0.5)(CUBE, rng=np.random.default_rng(0), device=CPU)
    without = NGCF(DIMENSION, dropout=0.0)(CUBE, rng=np.random.default_rng(0), device=CPU)
    in_training = torch.cat(encoder(BATCH))
    assert not torch.equal(in_training, torch.cat(without(BATCH)))
    assert torch.equal(torch.cat(encoder.embeddings()), torch.cat(without.embeddings()))
    assert torch.equal(torch.cat(encoder.eval()(BATCH)), torch.cat(without(BATCH)))


def test_the_scorer_ranks_by_the_inner_product_of_what_is_not_dropped() -> None:
    encoder = NGCF(DIMENSION, dropout=0.5)(CUBE, rng=np.random.default_rng(0), device=CPU)
    users, items = encoder.embeddings()
    scores = encoder.scorer(CUBE).scores(np.arange(N_USERS))
    torch.testing.assert_close(torch.from_numpy(scores), (users @ items.T).detach())


def test_the_same_seed_of_the_noise_gives_the_same_embeddings() -> None:
    encoder = NGCF(DIMENSION, dropout=0.5)(CUBE, rng=np.random.default_rng(0), device=CPU)
    results = []
    for seed in (1, 1, 2):
        encoder.noise = torch.Generator().manual_seed(seed)
        results.append(torch.cat(encoder(BATCH)))
    assert torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])


def test_the_penalty_sees_the_free_vectors_of_the_batch() -> None:
    encoder = cube_encoder(2)
    users, items = (table.detach() for table in encoder.base)
    expected = (
        sum(float(users[u].square().sum()) for u in (0, 1, 0, 3)) / 4
        + sum(float(items[i].square().sum()) for i in (2, 3, 3, 1)) / 4
        + sum(float(items[j].square().sum()) for j in (4, 1, 4, 3)) / 4
    ) / 2
    assert float(encoder.penalty(BATCH).detach()) == pytest.approx(expected, rel=1e-12)


def test_no_layers_are_matrix_factorisation() -> None:
    encoder = NGCF(DIMENSION, n_layers=0)(CUBE, rng=np.random.default_rng(0), device=CPU)
    assert torch.equal(torch.cat(encoder.embeddings()), encoder.table)


def test_a_row_of_zeros_has_a_finite_derivative() -> None:
    encoder = NGCF(DIMENSION)(CUBE, rng=np.random.default_rng(0), device=CPU)
    with torch.no_grad():
        encoder.table[-1] = 0  # the item without pairs: nothing reaches it
    (gradient,) = torch.autograd.grad(torch.cat(encoder.embeddings()).sum(), encoder.table)
    assert gradient.isfinite().all()


def test_the_first_matrices_follow_from_the_seed_and_differ() -> None:
    first, again, other = (
        NGCF(DIMENSION)(CUBE, rng=np.random.default_rng(seed), device=CPU).weights
        for seed in (0, 0, 1)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert len({tuple(matrix.flatten().tolist()) for matrix in first.flatten(0, 1)}) == 6
    assert float(first.detach().abs().max()) <= (6 / (2 * DIMENSION)) ** 0.5


@pytest.mark.parametrize("slope", [-0.1, 1.1, float("nan")])
def test_a_slope_outside_zero_to_one_is_refused(slope: float) -> None:
    with pytest.raises(ConfigError, match=r"where: encoder\.slope"):
        NGCF(slope=slope)


@pytest.mark.parametrize(("name", "value"), [("dimension", 0), ("n_layers", -1)])
def test_a_shape_that_cannot_be_is_refused(name: str, value: int) -> None:
    with pytest.raises(ConfigError, match=rf"where: encoder\.{name}"):
        NGCF(**{name: value})


def test_the_number_of_threads_changes_no_bit() -> None:
    data = random_interactions(np.random.default_rng(0), n_users=1500, n_items=700, n_pairs=5000)
    batch = PairBatch(torch.arange(100), torch.arange(100), torch.arange(100, 200).unsqueeze(1))
    results = []
    for n_threads in (1, 3):
        encoder = NGCF(33)(data, rng=np.random.default_rng(0), device=CPU)
        encoder.noise = torch.Generator().manual_seed(0)
        before = torch.get_num_threads()
        torch.set_num_threads(n_threads)
        try:
            with deterministic_threads():
                BPR()(encoder(batch), batch).backward()
        finally:
            torch.set_num_threads(before)
        results.append([parameter.grad for parameter in encoder.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))
