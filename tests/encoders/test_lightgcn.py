from __future__ import annotations

import numpy as np
import pytest
import torch

from ratiorec.encoders.encoder import LightGCNEncoder
from ratiorec.encoders.settings import LightGCN
from support.small_data import interactions, random_interactions

CPU = torch.device("cpu")

# user 0 – item 0 – user 1 – item 1
PATH = interactions([0, 1, 1], [0, 0, 1], n_users=2, n_items=2)
NODES = {"user 0": 0, "user 1": 1, "item 0": 2, "item 1": 3}


def influence_on_user_0(n_layers: int, *, self_loops: bool) -> dict[str, float]:
    """How much of each node's free vector is in the embedding of user 0."""
    encoder = LightGCN(4, n_layers, self_loops)(PATH, rng=np.random.default_rng(0), device=CPU)
    encoder.load_state_dict({"table": torch.eye(4)})
    with torch.no_grad():
        vector = encoder.embeddings().users[0]
    return {name: float(vector[node]) for name, node in NODES.items()}


@pytest.mark.parametrize("self_loops", [True, False])
def test_an_item_three_steps_away_arrives_at_the_third_layer_and_not_before(
    self_loops: bool,
) -> None:
    reached = [
        {name for name, share in influence_on_user_0(n, self_loops=self_loops).items() if share > 0}
        for n in range(4)
    ]
    assert reached == [
        {"user 0"},
        {"user 0", "item 0"},
        {"user 0", "item 0", "user 1"},
        {"user 0", "item 0", "user 1", "item 1"},
    ]


def test_layers_are_averaged() -> None:
    # without self loops: layer 0 is the node itself, layer 1 its neighbour times 1/√(1·2)
    shares = influence_on_user_0(1, self_loops=False)
    assert shares["user 0"] == pytest.approx(1 / 2)
    assert shares["item 0"] == pytest.approx(1 / (2 * 2**0.5))


@pytest.mark.parametrize("n_layers", [0, 1, 3])
@pytest.mark.parametrize("self_loops", [True, False])
def test_the_embeddings_and_their_gradient_are_those_of_matrix_powers(
    n_layers: int, self_loops: bool
) -> None:
    data = random_interactions(np.random.default_rng(2), n_users=9, n_items=7, n_pairs=20)
    encoder = LightGCN(3, n_layers, self_loops)(data, rng=np.random.default_rng(0), device=CPU)
    encoder = encoder.double()
    assert isinstance(encoder, LightGCNEncoder)
    matrix = encoder.graph @ torch.eye(16, dtype=torch.float64)
    free = encoder.table.detach().clone().requires_grad_()
    powers = [torch.linalg.matrix_power(matrix, k) @ free for k in range(n_layers + 1)]
    expected = torch.stack(powers).mean(0)
    found = encoder.embeddings()
    torch.testing.assert_close(torch.cat(found), expected)
    outer = torch.randn(16, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    (wanted,) = torch.autograd.grad(expected, free, outer)
    (gradient,) = torch.autograd.grad(torch.cat(found), encoder.table, outer)
    torch.testing.assert_close(gradient, wanted)


def test_the_penalty_sees_the_vectors_before_propagation() -> None:
    encoder = LightGCN(3)(PATH, rng=np.random.default_rng(0), device=CPU)
    assert torch.equal(torch.cat(encoder.base), encoder.table)
    assert not torch.equal(torch.cat(encoder.embeddings()), encoder.table)


def test_no_layers_are_matrix_factorisation() -> None:
    encoder = LightGCN(3, n_layers=0)(PATH, rng=np.random.default_rng(0), device=CPU)
    assert torch.equal(torch.cat(encoder.embeddings()), encoder.table)


def test_users_and_items_without_pairs_keep_a_finite_vector() -> None:
    data = interactions([0, 1], [0, 1], n_users=4, n_items=5)
    for self_loops in (True, False):
        encoder = LightGCN(3, self_loops=self_loops)(data, rng=np.random.default_rng(0), device=CPU)
        vectors = torch.cat(encoder.embeddings())
        assert vectors.isfinite().all()
        assert (vectors.abs().sum(-1) > 0).all()
