"""A step recorded once as a CUDA graph and replayed, started as one thing and not as hundreds."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any, NamedTuple

import torch
from torch import Tensor

# libraries allocate and choose their kernels in the first steps, which cannot be recorded
WARM_UP_STEPS = 3


class CudaGraphStep:
    """Replays `step` for batches whose tensors always have the same sizes.

    The first steps run as they are. The step must not wait for the GPU, and `noise` is its only
    source of randomness. What a batch holds beside tensors is part of the recording: another
    value of it is recorded anew.
    """

    def __init__(self, step: Callable[[Any], Tensor], *, noise: torch.Generator) -> None:
        self._step = step
        self._noise = noise
        self._n_taken = 0
        self._recordings: dict[Any, _Recording] = {}

    def __call__(self, batch: Any) -> Tensor:
        if self._n_taken < WARM_UP_STEPS:
            self._n_taken += 1
            return self._aside(batch)
        key = tuple(value for value in _values(batch) if not isinstance(value, Tensor))
        if key not in self._recordings:
            self._recordings[key] = self._record(batch)
        return self._recordings[key].replay(batch)

    def _aside(self, batch: Any) -> Tensor:
        """A step as it is, on a stream of its own, as recording asks for."""
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            risk = self._step(batch)
        torch.cuda.current_stream().wait_stream(stream)
        return risk

    def _record(self, batch: Any) -> _Recording:
        values = (v.clone() if isinstance(v, Tensor) else v for v in _values(batch))
        held = type(batch)(*values)
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(self._noise)
        with _no_collection(), torch.cuda.graph(graph):
            risk = self._step(held)
        return _Recording(graph, held, risk)


class _Recording(NamedTuple):
    graph: torch.cuda.CUDAGraph
    batch: Any  # whose tensors the graph reads
    risk: Tensor  # which the graph writes

    def replay(self, batch: Any) -> Tensor:
        for held, given in zip(_values(self.batch), _values(batch), strict=True):
            if isinstance(held, Tensor):
                held.copy_(given)
        self.graph.replay()
        return self.risk.clone()


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """Garbage waits: the recording of an earlier model, freed during this one, would spoil it."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _values(batch: Any) -> list[Any]:
    return [getattr(batch, field.name) for field in fields(batch)]
