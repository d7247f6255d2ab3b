"""A step recorded once as a CUDA graph and replayed, started as one thing and not as hundreds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import torch
from torch import Tensor

# libraries allocate and choose their kernels in the first steps, which cannot be recorded
WARM_UP_STEPS = 3


class Captured:
    """Replays `step` for batches whose tensors always have the same sizes.

    The first steps run as they are. The step must not wait for the card, and `noise` is its only
    source of randomness.
    """

    def __init__(self, step: Callable[[Any], Tensor], *, noise: torch.Generator) -> None:
        self._step = step
        self._noise = noise
        self._n_taken = 0
        self._graph: torch.cuda.CUDAGraph | None = None
        self._batch: Any = None
        self._risk = torch.empty(0)

    def __call__(self, batch: Any) -> Tensor:
        if self._n_taken < WARM_UP_STEPS:
            self._n_taken += 1
            return self._aside(batch)
        if self._graph is None:
            self._graph = self._record(batch)
        for field in fields(batch):
            getattr(self._batch, field.name).copy_(getattr(batch, field.name))
        self._graph.replay()
        return self._risk.clone()

    def _aside(self, batch: Any) -> Tensor:
        """A step as it is, on a stream of its own, as recording asks for."""
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            risk = self._step(batch)
        torch.cuda.current_stream().wait_stream(stream)
        return risk

    def _record(self, batch: Any) -> torch.cuda.CUDAGraph:
        self._batch = type(batch)(*(getattr(batch, field.name).clone() for field in fields(batch)))
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(self._noise)
        with torch.cuda.graph(graph):
            self._risk = self._step(self._batch)
        return graph
