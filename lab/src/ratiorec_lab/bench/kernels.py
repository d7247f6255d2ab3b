"""Targets `risk` and `propagation`: the two kernels of a step beside other ways to compute them.

`risk` is the unlabelled term of one batch, value and gradient, in every backend and as plain
autograd. `propagation` is the normalised graph times a table of vectors, Â·X, once and for all
layers (theory: E1, E3).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ratiorec.data.interactions import Interactions
from ratiorec.encoders.encoder import Graph, normalised_adjacency
from ratiorec.errors import ConfigError
from ratiorec.kernels.blocks import Adjacency, deterministic_threads
from ratiorec.kernels.pointwise import LEAST_SQUARES, SOFTPLUS
from ratiorec.kernels.unlabelled import BACKENDS, UnlabelledTerm
from ratiorec.losses.density_ratio import candidate_weights
from ratiorec.settings import UserBatches
from ratiorec_lab.bench.case import Measured, Size
from ratiorec_lab.bench.clock import CPU, Conditions, Floor, Way, once
from ratiorec_lab.bench.random_data import random_pairs
from ratiorec_lab.bench.side_by_side import side_by_side

DIMENSION = 64

# The unlabelled term.

USERS_IN_A_BATCH = 2500
REFERENCE, TILED, TRITON, DENSE = "reference", "tiled", "triton", "dense PyTorch"
_SPREAD = 0.3  # of random factors, so that scores are those of a model half-way through training


class TermInputs(NamedTuple):
    """Factors of a batch's users and candidates, the term, and a bound that stops no gradient."""

    users: Tensor
    items: Tensor
    term: UnlabelledTerm
    bound: Tensor


def measure_risk(conditions: Conditions) -> Measured:
    """A batch of the data: as many candidates as its users have items, and their sampling."""
    device = conditions.device
    batches = UserBatches(conditions.n_users or USERS_IN_A_BATCH)
    epochs = batches(conditions.dataset.train, device=device)
    batch = next(iter(epochs(np.random.default_rng(0))))
    size = {"users": len(batch.users), "items": len(batch.candidates), "dimension": DIMENSION}
    inputs = term_inputs(size, candidate_weights(batch, "inverse-propensity"), device)
    ways = {name: _term_way(name, inputs) for name in (REFERENCE, TILED, DENSE)}
    left_out = {}
    if device.type == "cuda":
        try:
            BACKENDS[TRITON](*inputs)
            ways[TRITON] = _term_way(TRITON, inputs)
        except ConfigError as error:
            left_out[TRITON] = str(error)
    found = side_by_side("risk", ways, size, conditions)
    cases = [
        found.case(
            backend,
            "unlabelled term",
            backend,
            size,
            term_floor(size),
            is_reference=backend == REFERENCE,
            is_rival=backend == DENSE,
        )
        for backend in ways
    ]
    return Measured("risk", cases, found.ceilings, left_out)


def risk_alone(backend: str, size: Size) -> Way:
    """One backend on random candidates of this size."""
    return _term_way(backend, term_inputs(size, torch.ones(size["items"]), CPU))


def term_floor(size: Size) -> Floor:
    """Three products (scores and both gradients); factors are read once, gradients written once."""
    n_users, n_items, dimension = size["users"], size["items"], size["dimension"]
    return Floor.of(
        n_operations=3 * 2 * n_users * n_items * dimension,
        n_bytes=2 * 4 * (n_users + n_items) * dimension,
    )


def term_inputs(size: Size, candidates: Tensor, device: torch.device) -> TermInputs:
    """Random factors of this size, the same at every call."""
    generator = torch.Generator().manual_seed(0)
    users, items = (
        (_SPREAD * torch.randn(size[axis], size["dimension"], generator=generator)).to(device)
        for axis in ("users", "items")
    )
    term = UnlabelledTerm(LEAST_SQUARES, SOFTPLUS, candidates.to(device), ratio_power=1.0)
    return TermInputs(users, items, term, torch.zeros(len(users), device=device))


def _term_way(backend: str, inputs: TermInputs) -> Way:
    device = inputs.users.device
    if backend == DENSE:
        return Way(once(lambda: dense(inputs)), device=device)
    compute = BACKENDS[backend]
    # tiles have threads of their own; the others are not to wait for want of torch's
    around = deterministic_threads if backend == TILED and device.type == "cpu" else nullcontext
    return Way(once(lambda: compute(*inputs)), around, device)


def dense(inputs: TermInputs) -> tuple[Tensor, Tensor]:
    """The term over whole matrices, its gradient left to autograd."""
    users, items = (table.detach().requires_grad_() for table in inputs[:2])
    term = inputs.term
    ratio = term.link.ratio(users @ items.T)
    weight = term.candidates * ratio.detach() ** term.ratio_power
    value = (weight * term.generator.unlabelled_loss(ratio)).sum(-1) / weight.sum(-1)
    corrected = inputs.bound + (value - inputs.bound).clamp_min(0)
    to_users, to_items = torch.autograd.grad(corrected.mean(), (users, items))
    return to_users, to_items


# The graph.

N_LAYERS = 3
PRODUCT, LAYERS = "product", "mean of layers"
OURS, TORCH_CSR, RIVALS = "ratiorec", "torch CSR", ("torch COO", "scipy")


def measure_propagation(conditions: Conditions) -> Measured:
    """As training does it, beside torch's and scipy's."""
    data, device = conditions.dataset.train, conditions.device
    size = {
        "users": data.n_users,
        "items": data.n_items,
        "pairs": data.n_pairs,
        **graph_size(data, self_loops=True),
        "dimension": DIMENSION,
    }
    ways = propagation_ways(data, device)
    found = side_by_side("propagation", ways, size, conditions)
    cases = [
        found.case(
            key,
            name,
            backend,
            size,
            products_floor(size, 1 if name == PRODUCT else N_LAYERS),
            is_reference=backend == TORCH_CSR,
            is_rival=backend in RIVALS,
        )
        for key in ways
        for name, backend in [key.split(", ")]
    ]
    return Measured("propagation", cases, found.ceilings)


def propagation_alone(key: str, size: Size) -> Way:
    """One backend on a random graph of this size."""
    data = random_pairs(size["users"], size["items"], size["pairs"])
    return propagation_ways(data, CPU, size["dimension"])[key]


def products_floor(size: Size, n_products: int) -> Floor:
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


def propagation_ways(
    data: Interactions, device: torch.device, dimension: int = DIMENSION
) -> dict[str, Way]:
    """What is done and by which backend, in one key."""
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
    others = _other_products(normalised_adjacency(data, self_loops=True), device)
    for backend, multiply in others.items():
        for name, work in ((PRODUCT, multiply), (LAYERS, partial(_mean_of_layers, multiply))):
            ways[f"{name}, {backend}"] = Way(once(partial(work, table)), torch.no_grad, device)
    return dict(sorted(ways.items(), key=lambda way: way[0].startswith(LAYERS)))


def _other_products(
    adjacency: Adjacency, device: torch.device
) -> dict[str, Callable[[Tensor], Tensor]]:
    """The product with the same matrix in other forms."""
    with _without_warnings():
        by_rows, by_pairs = _csr(adjacency, device), _coo(adjacency, device)
    others: dict[str, Callable[[Tensor], Tensor]] = {
        TORCH_CSR: lambda table: by_rows @ table,
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
