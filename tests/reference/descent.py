"""Holds a few steps of an encoder's training against the same steps made of loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ratiorec.batches.users import AnyBatch
from ratiorec.encoders.encoder import Encoder
from ratiorec.shapes import Embeddings
from reference.dual import Dual
from reference.rivals import adam_steps, free

TOLERANCE = 1e-10


def parameters_of(encoder: Encoder) -> dict[str, Any]:
    return {name: parameter.tolist() for name, parameter in encoder.named_parameters()}


def shaken(encoder: Encoder, *, seed: int = 0) -> Encoder:
    """The encoder in double precision, none of its parameters at zero or one."""
    generator = torch.Generator().manual_seed(seed)
    encoder = encoder.double()
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter += torch.randn(parameter.shape, generator=generator).double() / 2
    return encoder


def assert_equal_to_loops(
    function: Callable[[], Tensor], loops: Callable[[dict[str, Any]], Dual], encoder: Encoder
) -> None:
    """Value, and derivative with respect to every number that `encoder` may learn."""
    parameters = parameters_of(encoder)
    expected = loops({name: free(name, values) for name, values in parameters.items()})
    value = function()
    assert abs(value.item() - expected.value) <= TOLERANCE * max(1, abs(expected.value))
    free_parameters = dict(encoder.named_parameters())
    gradients = torch.autograd.grad(
        value, list(free_parameters.values()), allow_unused=True, materialize_grads=True
    )
    for name, found in zip(free_parameters, gradients, strict=True):
        wanted = np.zeros(found.shape)
        for place in np.ndindex(found.shape):
            wanted[place] = expected.slopes.get((name, *place), 0.0)
        scale = max(1, np.abs(wanted).max(initial=0))
        np.testing.assert_allclose(
            found.numpy() / scale, wanted / scale, rtol=0, atol=TOLERANCE, err_msg=name
        )


def assert_trains_like_loops(
    encoder: Encoder,
    risk: Callable[[Embeddings, Any], Tensor],
    batch: AnyBatch,
    loops: Sequence[Callable[[dict[str, Any]], Dual]],
    *,
    l2: float,
) -> None:
    """Steps of Adam, step t with noise of seed t, against the same with the loops' derivatives."""
    expected = adam_steps(parameters_of(encoder), loops, learning_rate=0.01)
    optimiser = torch.optim.Adam(encoder.parameters(), lr=0.01, fused=True)
    for seed in range(len(loops)):
        encoder.noise = torch.Generator().manual_seed(seed)
        optimiser.zero_grad()
        value = risk(encoder(batch), batch)
        (value + l2 * encoder.penalty(batch)).backward()
        optimiser.step()
    for name, found in parameters_of(encoder).items():
        np.testing.assert_allclose(found, expected[name], rtol=0, atol=TOLERANCE, err_msg=name)
