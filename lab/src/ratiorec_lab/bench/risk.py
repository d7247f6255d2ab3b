"""The unlabelled term of one step, value and gradient, in every execution and as plain autograd."""

from __future__ import annotations

from contextlib import nullcontext
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ratiorec.batches.users import UserBatches
from ratiorec.errors import ConfigError
from ratiorec.kernels.backends import EXECUTIONS
from ratiorec.kernels.blocks import deterministic_threads
from ratiorec.kernels.pointwise import LEAST_SQUARES, SOFTPLUS
from ratiorec.kernels.unlabelled import UnlabelledTerm
from ratiorec.losses.density_ratio import inverse_inclusion
from ratiorec_lab.bench.case import Case, Measured, Size
from ratiorec_lab.bench.ceilings import Floor
from ratiorec_lab.bench.conditions import Conditions
from ratiorec_lab.bench.side_by_side import side_by_side
from ratiorec_lab.bench.timing import CPU, Way, once

DIMENSION = 64
USERS_IN_A_BATCH = 2500
REFERENCE, TILED, TRITON, RIVAL = "reference", "tiled", "triton", "dense PyTorch"
_SPREAD = 0.3  # of random factors, so that scores are those of a model half-way through training


class Inputs(NamedTuple):
    """Factors of a batch's users and candidates, the term, and a bound that stops no gradient."""

    users: Tensor
    items: Tensor
    term: UnlabelledTerm
    bound: Tensor


def measure(conditions: Conditions) -> Measured:
    """A batch of the data: as many candidates as its users have items, and their sampling."""
    device = conditions.device
    epochs = UserBatches(conditions.n_users or USERS_IN_A_BATCH)(
        conditions.dataset.train, device=device
    )
    batch = next(iter(epochs(np.random.default_rng(0))))
    size = {
        "users": len(batch.users),
        "items": len(batch.candidates),
        "dimension": DIMENSION,
    }
    inputs = _inputs(size, inverse_inclusion(batch), device)
    ways = {name: _way(name, inputs) for name in (REFERENCE, TILED, RIVAL)}
    left_out = {}
    if device.type == "cuda":
        try:
            EXECUTIONS[TRITON](*inputs)
            ways[TRITON] = _way(TRITON, inputs)
        except ConfigError as error:
            left_out[TRITON] = str(error)
    found = side_by_side("risk", ways, size, conditions)
    cases = [
        Case(
            "unlabelled term",
            execution,
            device.type,
            size,
            found.times[execution],
            floor_of_term(size),
            found.peaks[execution],
            is_reference=execution == REFERENCE,
            is_rival=execution == RIVAL,
        )
        for execution in ways
    ]
    return Measured("risk", cases, found.ceilings, left_out)


def alone(execution: str, size: Size) -> Way:
    """One execution on random candidates of this size."""
    return _way(execution, _inputs(size, torch.ones(size["items"]), CPU))


def floor_of_term(size: Size) -> Floor:
    """Three products (scores and both gradients); factors are read once, gradients written once."""
    n_users, n_items, dimension = size["users"], size["items"], size["dimension"]
    return Floor.of(
        n_operations=3 * 2 * n_users * n_items * dimension,
        n_bytes=2 * 4 * (n_users + n_items) * dimension,
    )


def _inputs(size: Size, candidates: Tensor, device: torch.device) -> Inputs:
    generator = torch.Generator().manual_seed(0)
    users, items = (
        (_SPREAD * torch.randn(size[axis], size["dimension"], generator=generator)).to(device)
        for axis in ("users", "items")
    )
    term = UnlabelledTerm(LEAST_SQUARES, SOFTPLUS, candidates.to(device), ratio_power=1.0)
    return Inputs(users, items, term, torch.zeros(len(users), device=device))


def _way(execution: str, inputs: Inputs) -> Way:
    device = inputs.users.device
    if execution == RIVAL:
        return Way(once(lambda: dense(inputs)), device=device)
    execute = EXECUTIONS[execution]
    # tiles have threads of their own; the others are not to wait for want of torch's
    around = deterministic_threads if execution == TILED and device.type == "cpu" else nullcontext
    return Way(once(lambda: execute(*inputs)), around, device)


def dense(inputs: Inputs) -> tuple[Tensor, Tensor]:
    """The term over whole matrices, its gradient left to autograd."""
    users, items = (table.detach().requires_grad_() for table in inputs[:2])
    term = inputs.term
    ratio = term.link.ratio(users @ items.T)
    weight = term.candidates * ratio.detach() ** term.ratio_power
    value = (weight * term.generator.unlabelled_loss(ratio)).sum(-1) / weight.sum(-1)
    corrected = inputs.bound + (value - inputs.bound).clamp_min(0)
    to_users, to_items = torch.autograd.grad(corrected.mean(), (users, items))
    return to_users, to_items
