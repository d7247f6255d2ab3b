from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from ratiorec.data.interactions import Interactions
from ratiorec.encoders.encoder import Graph, normalised_adjacency
from ratiorec.kernels import blocks as sparse_rows
from ratiorec.kernels.blocks import deterministic_threads
from support.small_data import interactions, random_interactions

CPU = torch.device("cpu")
N_NODES = 30


def pairs_both_ways(data: Interactions) -> NDArray[np.float64]:
    """A over users and items, users first, as a whole matrix."""
    pairs = np.zeros((data.n_users, data.n_items))
    for user in range(data.n_users):
        pairs[user, data.positives(user)] = 1
    return np.block(
        [
            [np.zeros((data.n_users, data.n_users)), pairs],
            [pairs.T, np.zeros((data.n_items, data.n_items))],
        ]
    )


def normalised(data: Interactions, *, self_loops: bool) -> NDArray[np.float64]:
    """D^-½ (A [+ I]) D^-½; a node without neighbours has a row of zeros."""
    matrix = pairs_both_ways(data) + self_loops * np.eye(data.n_users + data.n_items)
    degrees = matrix.sum(axis=1)
    scale = np.array([d**-0.5 if d > 0 else 0.0 for d in degrees])
    return np.asarray(scale[:, None] * matrix * scale[None, :])


def example() -> Interactions:
    """Thirteen users and seventeen items; the last user and the last item have no pair."""
    rng = np.random.default_rng(0)
    return interactions(rng.integers(0, 12, 50), rng.integers(0, 16, 50), n_users=13, n_items=17)


with_and_without_loops = pytest.mark.parametrize("self_loops", [True, False])


@pytest.fixture(params=["processor", "card"])
def _product(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both products: that of a processor, and the one for GPUs, which runs here too."""
    if request.param == "card":
        monkeypatch.setattr(
            sparse_rows, "Bags", lambda *parts: sparse_rows.Matrix(*parts, N_NODES, CPU)
        )


@with_and_without_loops
def test_the_adjacency_is_the_dense_formula(self_loops: bool) -> None:
    data = example()
    adjacency = normalised_adjacency(data, self_loops=self_loops)
    indptr, indices, values = adjacency.indptr, adjacency.indices, adjacency.values
    dense = np.zeros((30, 30))
    for row in range(30):
        entries = slice(indptr[row], indptr[row + 1])
        assert (np.diff(indices[entries]) > 0).all(), "columns are sorted and unique"
        dense[row, indices[entries]] = values[entries]
    np.testing.assert_allclose(dense, normalised(data, self_loops=self_loops), atol=1e-7)
    assert (dense == dense.T).all(), "symmetric to the last bit"
    assert indices.dtype == np.int32


@pytest.mark.usefixtures("_product")
@with_and_without_loops
@pytest.mark.parametrize(("dtype", "atol"), [(torch.float32, 1e-6), (torch.float64, 1e-6)])
def test_the_product_is_the_dense_one_forwards_and_backwards(
    self_loops: bool, dtype: torch.dtype, atol: float
) -> None:
    data = example()
    table = torch.randn(30, 5, dtype=dtype, generator=torch.Generator().manual_seed(1))
    outer = torch.randn(30, 5, dtype=dtype, generator=torch.Generator().manual_seed(2))
    dense = torch.from_numpy(normalised(data, self_loops=self_loops)).to(dtype)
    graph = Graph(data, self_loops=self_loops, device=CPU)

    def value_and_gradient(
        product: Callable[[torch.Tensor], torch.Tensor],
    ) -> tuple[torch.Tensor, torch.Tensor]:
        free = table.clone().requires_grad_()
        value = product(product(free))
        (gradient,) = torch.autograd.grad(value, free, outer)
        return value.detach(), gradient

    found, expected = (
        value_and_gradient(lambda x: graph @ x),
        value_and_gradient(lambda x: dense @ x),
    )
    assert found[0].dtype == dtype
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=atol)


@pytest.mark.usefixtures("_product")
@with_and_without_loops
@pytest.mark.parametrize("n_layers", [0, 1, 3])
def test_the_mean_of_layers_is_the_dense_polynomial_forwards_and_backwards(
    self_loops: bool, n_layers: int
) -> None:
    data = example()
    generator = torch.Generator().manual_seed(1)
    table, outer = torch.randn(2, 30, 5, dtype=torch.float64, generator=generator)
    dense = torch.from_numpy(normalised(data, self_loops=self_loops))
    powers = [torch.linalg.matrix_power(dense, k) for k in range(n_layers + 1)]
    polynomial = torch.stack(powers).mean(0)
    free = table.clone().requires_grad_()
    value = Graph(data, self_loops=self_loops, device=CPU).mean_of_layers(free, n_layers)
    (gradient,) = torch.autograd.grad(value, free, outer)
    # the matrix itself is held in single precision
    torch.testing.assert_close(value.detach(), polynomial @ table, rtol=0, atol=1e-6)
    torch.testing.assert_close(gradient, polynomial @ outer, rtol=0, atol=1e-6)
    assert torch.equal(free.detach(), table), "the vectors themselves are left alone"


@pytest.mark.usefixtures("_product")
@pytest.mark.parametrize("entries_per_block", [1, 7, 29, 1000])
def test_several_blocks_of_rows_equal_one(
    entries_per_block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = example()
    table = torch.randn(30, 5, generator=torch.Generator().manual_seed(1))
    whole = Graph(data, self_loops=True, device=CPU) @ table
    monkeypatch.setattr(sparse_rows, "ENTRIES_PER_BLOCK", entries_per_block)
    cut = Graph(data, self_loops=True, device=CPU)
    torch.testing.assert_close(cut @ table, whole, rtol=0, atol=1e-7)
    with deterministic_threads():
        torch.testing.assert_close(cut @ table, whole, rtol=0, atol=1e-7)


@pytest.mark.usefixtures("_product")
@with_and_without_loops
def test_users_and_items_without_pairs_give_no_nan(self_loops: bool) -> None:
    graph = Graph(example(), self_loops=self_loops, device=CPU)
    table = torch.ones(30, 2, requires_grad=True)
    product = graph @ table
    (gradient,) = torch.autograd.grad(product.sum(), table)
    assert product.isfinite().all()
    assert gradient.isfinite().all()
    # an isolated node keeps its own vector with a self loop and has nothing without
    assert product[12].tolist() == product[29].tolist() == [float(self_loops)] * 2


def test_both_directions_of_a_pair_are_there() -> None:
    data = interactions([0], [1], n_users=2, n_items=2)
    table = torch.eye(4)
    product = Graph(data, self_loops=False, device=CPU) @ table
    expected = torch.zeros(4, 4)
    expected[0, 3] = expected[3, 0] = 1
    assert torch.equal(product, expected)


def test_a_self_loop_counts_among_the_neighbours() -> None:
    data = interactions([0], [0], n_users=1, n_items=1)
    product = Graph(data, self_loops=True, device=CPU) @ torch.eye(2)
    torch.testing.assert_close(product, torch.full((2, 2), 1 / 2))


def test_the_graph_of_many_pairs_is_symmetric() -> None:
    data = random_interactions(np.random.default_rng(3), n_users=300, n_items=200, n_pairs=2000)
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(2, 500, 3, dtype=torch.float64, generator=generator)
    graph = Graph(data, self_loops=True, device=CPU)
    torch.testing.assert_close((y * (graph @ x)).sum(), (x * (graph @ y)).sum())


def test_blocks_hold_about_equally_many_entries_and_every_row_once() -> None:
    degrees = np.array([0, 3, 9, 1, 1, 1, 0, 50, 2, 2, 0])
    indptr = np.concatenate([[0], np.cumsum(degrees)])
    blocks = sparse_rows.even_blocks(indptr, 10)
    assert [row for block in blocks for row in range(block.start, block.stop)] == list(range(11))
    for block in blocks:
        longest = degrees[block].max()
        assert degrees[block].sum() < 10 + longest


def test_a_graph_without_pairs_has_one_block() -> None:
    assert sparse_rows.even_blocks(np.zeros(5, np.int64), 10) == [slice(0, 4)]
