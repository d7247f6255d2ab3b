"""A training step with a look at the clock after each of its parts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from ratiorec.batches.users import Epochs
from ratiorec.data.interactions import Interactions
from ratiorec.settings import Settings
from ratiorec_lab.bench.timing import Times, synchronise

PARTS = ("batch", "propagation", "risk", "backward", "optimiser")


class SplitStep:
    """Takes the steps of a descent part by part; a graphics card is waited for after each."""

    def __init__(self, settings: Settings, data: Interactions, device: torch.device) -> None:
        run = settings.descent(data, rng=np.random.default_rng(0), device=device)
        self._encoder, self._risk = run.encoder, run.risk
        self._penalty = settings.training.penalty
        self._epochs = run.epochs
        self._dealt = _endless(run.epochs)
        self._device = device
        self._optimizer = torch.optim.Adam(
            run.encoder.parameters(), lr=settings.training.learning_rate, fused=True
        )
        self._seconds: dict[str, list[float]] = {part: [] for part in PARTS}

    def __call__(self) -> int:
        """One step."""
        lap = self._laps()
        self._optimizer.zero_grad()
        batch = self._epochs.complete(next(self._dealt).to(self._device))
        lap("batch")
        embeddings = self._encoder(batch)
        lap("propagation")
        risk = self._risk(embeddings, batch) + self._penalty * self._encoder.penalty(batch)
        lap("risk")
        risk.backward()  # type: ignore[no-untyped-call]
        lap("backward")
        self._optimizer.step()
        lap("optimiser")
        return 1

    @property
    def n_parameters(self) -> int:
        return sum(parameter.numel() for parameter in self._encoder.parameters())

    def times(self) -> dict[str, Times]:
        """Those of each part, without the first step, in which things are loaded and allocated."""
        return {part: Times(tuple(seconds[1:])) for part, seconds in self._seconds.items()}

    def _laps(self) -> Callable[[str], None]:
        synchronise(self._device)
        last = time.perf_counter()

        def lap(part: str) -> None:
            nonlocal last
            synchronise(self._device)
            now = time.perf_counter()
            self._seconds[part].append(now - last)
            last = now

        return lap


def _endless(epochs: Epochs) -> Iterator[Any]:
    rng = np.random.default_rng(0)
    while True:
        yield from epochs(rng)
