"""Target `softmax`: the log-sum-exp of a batch over all items, value and gradient (theory: R26)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import torch
from torch import Tensor
from torch.nn import functional

from ratiorec.errors import ConfigError
from ratiorec.kernels.blocks import deterministic_threads
from ratiorec.kernels.softmax import BACKENDS
from ratiorec_lab.bench.case import Measured, Size
from ratiorec_lab.bench.clock import CPU, Ceilings, Conditions, Way, once
from ratiorec_lab.bench.kernels import DENSE, TILED, TRITON, term_floor
from ratiorec_lab.bench.side_by_side import side_by_side

USERS_IN_A_BATCH = 2048
TEMPERATURE = 0.1
RECORDED = ", CUDA graph"

Inputs = tuple[Tensor, Tensor, Tensor]
"""Vectors of users and items, and the weights of users."""


def measure(conditions: Conditions) -> Measured:
    """Cosines over a temperature, of one dimension on a CPU and of two on a GPU.

    On a GPU the same is also timed as a recording, as training replays it.
    """
    device, cases = conditions.device, []
    ceilings: dict[str, Ceilings] = {}
    left_out: dict[str, str] = {}
    for dimension in (64, 512) if device.type == "cuda" else (64,):
        size = {
            "users": conditions.n_users or USERS_IN_A_BATCH,
            "items": conditions.dataset.train.n_items,
            "dimension": dimension,
        }
        ways, missing = _ways(inputs_of(size, device))
        recorded = {name + RECORDED: _recorded(way) for name, way in ways.items()}
        also = recorded if device.type == "cuda" else {}
        found = side_by_side("softmax", ways, size, conditions, also=also)
        cases += [
            found.case(
                key,
                f"log-sum-exp of {dimension} dimensions",
                key,
                size,
                term_floor(size),
                is_reference=key == (DENSE + RECORDED if also else DENSE),
                is_rival=key.startswith(DENSE),
            )
            for key in {**ways, **also}
        ]
        ceilings |= found.ceilings
        left_out |= missing
    return Measured("softmax", cases, ceilings, left_out)


def alone(backend: str, size: Size) -> Way:
    """One backend on random vectors of this size."""
    return _way(backend, inputs_of(size, CPU))


def inputs_of(size: Size, device: torch.device) -> Inputs:
    """Random directions, those of users over the temperature, the same at every call."""
    drawn = torch.Generator().manual_seed(0)
    shapes = ((size[axis], size["dimension"]) for axis in ("users", "items"))
    users, items = (functional.normalize(torch.randn(*s, generator=drawn)) for s in shapes)
    weights = torch.full((len(users),), 1 / len(users))
    return (users / TEMPERATURE).to(device), items.to(device), weights.to(device)


def _ways(inputs: Inputs) -> tuple[dict[str, Way], dict[str, str]]:
    names, left_out = [DENSE, TILED], {}
    if inputs[0].is_cuda:
        try:
            BACKENDS[TRITON](*inputs)
            names.append(TRITON)
        except ConfigError as error:
            left_out[TRITON] = str(error)
    return {name: _way(name, inputs) for name in names}, left_out


def _way(backend: str, inputs: Inputs) -> Way:
    device = inputs[0].device
    compute: Callable[..., object] = dense if backend == DENSE else BACKENDS[backend]
    # tiles have threads of their own; the others are not to wait for want of torch's
    around = deterministic_threads if backend == TILED and device.type == "cpu" else nullcontext
    return Way(once(lambda: compute(*inputs)), around, device)


def dense(users: Tensor, items: Tensor, weights: Tensor) -> tuple[Tensor, ...]:
    """Over whole matrices, the gradient left to autograd; on a GPU by products of 16 bits."""
    users, items = (table.detach().requires_grad_() for table in (users, items))
    short = torch.bfloat16 if users.is_cuda else users.dtype
    scores = (users.to(short) @ items.to(short).T).to(users.dtype)
    value = torch.dot(weights, torch.logsumexp(scores, -1))
    return torch.autograd.grad(value, (users, items))


def _recorded(way: Way) -> Way:
    """The same replayed as a CUDA graph, recorded at its first call."""
    graphs: list[torch.cuda.CUDAGraph] = []

    def replay() -> None:
        if not graphs:
            graphs.append(torch.cuda.CUDAGraph())
            with torch.cuda.graph(graphs[0]):
                way.work()
        graphs[0].replay()

    return Way(once(replay), way.around, way.device)
