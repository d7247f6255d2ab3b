"""The normalised graph times a table of vectors, Â·X, once and for all layers (theory: E1, E3)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np
import torch
from torch import Tensor

from ratiorec.data.interactions import Interactions
from ratiorec.encoders.graph import Adjacency, Graph, normalised_adjacency
from ratiorec.kernels.blocks import deterministic_threads
from ratiorec_lab.bench.case import Case, Measured, Size
from ratiorec_lab.bench.ceilings import Floor
from ratiorec_lab.bench.conditions import Conditions
from ratiorec_lab.bench.side_by_side import side_by_side
from ratiorec_lab.bench.stand_in import random_pairs
from ratiorec_lab.bench.timing import Way, once

DIMENSION = 64
N_LAYERS = 3
PRODUCT, LAYERS = "product", "mean of layers"
OURS, REFERENCE, RIVALS = "ratiorec", "torch CSR", ("torch COO", "scipy")


def measure(conditions: Conditions) -> Measured:
    """As training does it, beside torch's and scipy's."""
    data, device = conditions.dataset.train, conditions.device
    size, ways = _size(data), _ways(data, device)
    found = side_by_side("propagation", ways, size, conditions)
    cases = [
        Case(
            name,
            execution,
            device.type,
            size,
            found.times[key],
            floor_of_products(size, 1 if name == PRODUCT else N_LAYERS),
            found.peaks[key],
            is_reference=execution == REFERENCE,
            is_rival=execution in RIVALS,
        )
        for key in ways
        for name, execution in [key.split(", ")]
    ]
    return Measured("propagation", cases, found.ceilings)


def alone(execution: str, size: Size) -> Way:
    """One execution on a random graph of this size."""
    data = random_pairs(size["users"], size["items"], size["pairs"])
    return _ways(data, torch.device("cpu"), size["dimension"])[execution]


def floor_of_products(size: Size, n_products: int) -> Floor:
    """Two operations for each entry and dimension; the matrix read once, both tables passed once.

    A value is the product of two numbers that belong to nodes, so an entry is its index alone. A
    vector is read again for each of its neighbours, but a cache large enough would spare that.
    """
    row_bytes = 4 * size["dimension"]
    one = Floor.of(
        n_operations=2 * size["entries"] * size["dimension"],
        n_bytes=4 * size["entries"] + size["nodes"] * (4 + 4 + 2 * row_bytes),
    )
    return one.times(n_products)


def graph_size(data: Interactions, *, self_loops: bool) -> dict[str, int]:
    """Nodes and entries of the matrix."""
    n_nodes = data.n_users + data.n_items
    return {"nodes": n_nodes, "entries": 2 * data.n_pairs + n_nodes * self_loops}


def _size(data: Interactions) -> dict[str, int]:
    return {
        "users": data.n_users,
        "items": data.n_items,
        "pairs": data.n_pairs,
        **graph_size(data, self_loops=True),
        "dimension": DIMENSION,
    }


def _ways(data: Interactions, device: torch.device, dimension: int = DIMENSION) -> dict[str, Way]:
    """By what is done and how."""
    generator = torch.Generator().manual_seed(0)
    table = torch.randn(data.n_users + data.n_items, dimension, generator=generator).to(device)
    graph = Graph(data, self_loops=True, device=device)
    around = _training_threads if device.type == "cpu" else torch.no_grad
    ways = {
        f"{PRODUCT}, {OURS}": Way(once(lambda: graph @ table), around, device),
        f"{LAYERS}, {OURS}": Way(
            once(lambda: graph.mean_of_layers(table, N_LAYERS)), around, device
        ),
    }
    for execution, multiply in _others(normalised_adjacency(data, self_loops=True), device).items():
        for name, work in ((PRODUCT, multiply), (LAYERS, partial(_mean_of_layers, multiply))):
            ways[f"{name}, {execution}"] = Way(once(partial(work, table)), torch.no_grad, device)
    return dict(sorted(ways.items(), key=lambda way: way[0].startswith(LAYERS)))


def _others(adjacency: Adjacency, device: torch.device) -> dict[str, Callable[[Tensor], Tensor]]:
    """The product with the same matrix in other forms."""
    with _without_warnings():
        by_rows, by_pairs = _csr(adjacency, device), _coo(adjacency, device)
    others: dict[str, Callable[[Tensor], Tensor]] = {
        REFERENCE: lambda table: by_rows @ table,
        "torch COO": lambda table: by_pairs @ table,
    }
    if device.type == "cpu":
        import scipy.sparse

        parts = (adjacency.values, adjacency.indices, adjacency.indptr)
        matrix = scipy.sparse.csr_array(parts, shape=tuple(by_rows.shape))
        others["scipy"] = lambda table: torch.from_numpy(matrix @ table.numpy())
    return others


def _mean_of_layers(multiply: Callable[[Tensor], Tensor], table: Tensor) -> Tensor:
    layer = total = table
    for _ in range(N_LAYERS):
        layer = multiply(layer)
        total = total + layer
    return total / (N_LAYERS + 1)


def _csr(adjacency: Adjacency, device: torch.device) -> Tensor:
    n_nodes = len(adjacency.scale)
    return torch.sparse_csr_tensor(
        torch.from_numpy(adjacency.indptr.astype(np.int32)),
        torch.from_numpy(adjacency.indices),
        torch.from_numpy(adjacency.values),
        size=(n_nodes, n_nodes),
        device=device,
        check_invariants=True,
    )


def _coo(adjacency: Adjacency, device: torch.device) -> Tensor:
    n_nodes = len(adjacency.scale)
    rows = np.repeat(np.arange(n_nodes), np.diff(adjacency.indptr))
    places = torch.from_numpy(np.stack([rows, adjacency.indices.astype(np.int64)])).to(device)
    values = torch.from_numpy(adjacency.values).to(device)
    matrix = torch.sparse_coo_tensor(places, values, (n_nodes, n_nodes), check_invariants=True)
    return matrix.coalesce()


@contextmanager
def _training_threads() -> Iterator[None]:
    with deterministic_threads(), torch.no_grad():
        yield


@contextmanager
def _without_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        # torch calls the compressed format a beta, and some releases misread the checks
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        warnings.filterwarnings("ignore", message="Sparse invariant checks are implicitly disabled")
        yield
