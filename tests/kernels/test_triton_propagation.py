"""The kernel runs in Triton's interpreter; with a GPU it also runs on it, compiled:

python -m pytest --noconftest tests/kernels/test_triton_propagation.py
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from ratiorec.data.interactions import Interactions
from ratiorec.encoders.encoder import Graph, normalised_adjacency
from support.interpreted_kernels import Interpreter, interpreter
from support.small_data import interactions, random_interactions
from support.triton_marks import needs_a_gpu, needs_interpreter

__all__ = ["interpreter"]

CPU = torch.device("cpu")
LONG = 18  # rows with more neighbours are summed alone
# rows longer and shorter than what is summed at once, and a user and an item without pairs
DATA = random_interactions(np.random.default_rng(0), n_users=60, n_items=50, n_pairs=900)
SPARSE = interactions([0, 0, 1, 2], [0, 1, 1, 2], n_users=4, n_items=4)


def relative_error(found: Tensor, expected: Tensor) -> float:
    return float((found - expected).norm() / expected.norm())


@needs_interpreter
@pytest.mark.parametrize(
    ("data", "self_loops", "dimension", "n_layers"),
    [
        (DATA, True, 64, 3),
        (DATA, False, 5, 2),
        (SPARSE, False, 7, 1),
        (DATA, True, 3, 0),
    ],
    ids=["usual", "odd dimension", "isolated nodes", "no layers"],
)
def test_the_kernel_gives_the_mean_of_layers(
    data: Interactions,
    self_loops: bool,
    dimension: int,
    n_layers: int,
    interpreter: Interpreter,
) -> None:
    n_nodes = data.n_users + data.n_items
    table = torch.randn(n_nodes, dimension, generator=torch.Generator().manual_seed(1))
    expected = Graph(data, self_loops=self_loops, device=CPU).mean_of_layers(table, n_layers)
    adjacency = normalised_adjacency(data, self_loops=self_loops)
    lengths = np.diff(adjacency.indptr)
    assert data is SPARSE or 0 < np.count_nonzero(lengths > LONG) < n_nodes  # both ways are gone
    found = interpreter.mean_of_layers(adjacency, table, n_layers, long=LONG)
    # what is gathered has 8 bits behind the point
    assert relative_error(found, expected) < 2**-8
    assert found.isfinite().all()


@needs_interpreter
def test_what_16_bits_hold_exactly_comes_out_exactly(interpreter: Interpreter) -> None:
    # every node has degree 4, so that all scales are powers of two
    users, items = np.divmod(np.arange(16), 4)
    data = interactions(users, items, n_users=4, n_items=4)
    table = torch.arange(8 * 16).reshape(8, 16).remainder(7).float()
    adjacency = normalised_adjacency(data, self_loops=False)
    found = interpreter.mean_of_layers(adjacency, table, 1, long=LONG)
    expected = table.clone()
    expected[:4] += table[4:].mean(0)
    expected[4:] += table[:4].mean(0)
    torch.testing.assert_close(found, expected / 2, rtol=1e-6, atol=0)


@needs_a_gpu
def test_the_compiled_kernel_gives_the_mean_of_layers_and_its_gradient() -> None:
    rng = np.random.default_rng(2)
    data = random_interactions(rng, n_users=3000, n_items=2000, n_pairs=60_000)
    table = torch.randn(5000, 64, generator=torch.Generator().manual_seed(1))
    results = []
    for device in (torch.device("cuda"), CPU):
        free = table.to(device).requires_grad_()
        mean = Graph(data, self_loops=True, device=device).mean_of_layers(free, 3)
        (gradient,) = torch.autograd.grad(mean.square().sum(), free)
        results.append((mean.detach().cpu(), gradient.cpu()))
    for found, expected in zip(*results, strict=True):
        assert relative_error(found, expected) < 5e-3
