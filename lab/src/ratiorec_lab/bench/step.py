"""Target `step`: one whole training step of the presets that are trained by gradients.

Of one preset also the parts of a step, and for all the least that a step must do.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch

from ratiorec import presets
from ratiorec.batches.users import AnyBatch, Epochs
from ratiorec.data.interactions import Interactions
from ratiorec.encoders.settings import NGCF, LightGCN, MultVAE
from ratiorec.errors import ConfigError
from ratiorec.losses.density_ratio import DensityRatio
from ratiorec.losses.unnormalised import WeightedDRE, WeightedPU
from ratiorec.scorers.scorer import UserItems
from ratiorec.settings import Settings, UserBatches
from ratiorec.training.loop import GradientTraining
from ratiorec_lab.bench.case import Case, Measured, Size
from ratiorec_lab.bench.clock import (
    CPU,
    Conditions,
    Floor,
    Times,
    Way,
    Work,
    synchronize,
    training_way,
)
from ratiorec_lab.bench.kernels import graph_size, products_floor, term_floor
from ratiorec_lab.bench.race import settings_of
from ratiorec_lab.bench.random_data import random_pairs
from ratiorec_lab.bench.side_by_side import side_by_side

IN_PARTS = "dregn-cf"
EAGER, RECORDED = "eager", "CUDA graph"
PARTS = ("batch", "propagation", "risk", "backward", "optimiser")
# with the batches of LightGCN's authors, where a step is hardly more than the propagation
SMALL_BATCHES = "lightgcn:batches.n_pairs=2048"
QUICK = ("dregn-cf", "dre-mf", "lightgcn")
_PASSES_OF_ADAM = 7  # parameter, gradient and two moments are read, all but the gradient written


def measure(conditions: Conditions) -> Measured:
    """Times are of real training: the dealing and copying of batches is in them."""
    data, device = conditions.dataset.train, conditions.device
    names = conditions.chosen(trained_presets(), QUICK)
    runs = {
        f"{name} {how}": (name, how, run)
        for name in names
        for how, run in training_runs(trained(name), data, device).items()
    }
    ways = {key: training_way(bursts(run), device) for key, (_, _, run) in runs.items()}
    # a replayed step allocates nothing: its memory was taken when it was recorded
    also = {key: ways.pop(key) for key in runs if key.endswith(RECORDED)}
    split = SplitStep(trained(IN_PARTS), data, device) if IN_PARTS in names else None
    if split is not None:
        also[f"{IN_PARTS} in parts"] = training_way(split, device)
    size = {"users": data.n_users, "items": data.n_items, "pairs": data.n_pairs}
    found = side_by_side("step", ways, size, conditions, also=also)
    cases = [
        found.case(
            key,
            name,
            how,
            size | {"steps_per_epoch": run.n_steps},
            step_floor(trained(name), data, n_parameters(run)),
            is_reference=how == EAGER,
        )
        for key, (name, how, run) in runs.items()
    ]
    parts = [] if split is None else _part_cases(split, data, size, device)
    return Measured("step", cases + parts, found.ceilings)


def alone(key: str, size: Size) -> Way:
    """Steps of one preset on random pairs of this size."""
    data = random_pairs(size["users"], size["items"], size["pairs"])
    name, how = key.split(" ", 1)
    return training_way(bursts(training_runs(trained(name), data, CPU)[how]), CPU)


def trained_presets() -> tuple[str, ...]:
    """All presets that are trained by gradients, and one of them with smaller batches."""
    names = (name for name, settings in presets.PRESETS.items() if isinstance(settings, Settings))
    return (*names, SMALL_BATCHES)


def trained(name: str) -> Settings:
    """The settings of a preset that is trained by gradients."""
    settings = settings_of(name)
    if not isinstance(settings, Settings):
        raise ConfigError(
            "only a preset that is trained by gradients has steps of equal length",
            where="--presets",
            found=name,
            wanted="some of " + ", ".join(trained_presets()),
        )
    return settings


def training_runs(
    settings: Settings, data: Interactions, device: torch.device
) -> dict[str, GradientTraining]:
    """As a fit would do it, and where that records the steps, also without."""
    rng = np.random.default_rng(0)
    usual = GradientTraining.start(data, settings, rng=rng, device=device)
    if device.type == "cpu" or not usual.epochs.same_shape:
        return {EAGER: usual}
    rng = np.random.default_rng(0)
    eager = GradientTraining(
        settings.encoder(data, rng=rng, device=device),
        settings.risk,
        Unrecorded(settings.batches(data, device=device)),
        settings.training,
        histories=UserItems.of(data),
        rng=rng,
        device=device,
    )
    return {EAGER: eager, RECORDED: usual}


@dataclass(frozen=True, eq=False)
class Unrecorded:
    """Batches that do not tell that they all have the same shape."""

    epochs: Epochs

    same_shape: ClassVar[bool] = False

    @property
    def n_steps(self) -> int:
        """Batches in an epoch."""
        return self.epochs.n_steps

    def __call__(self, rng: np.random.Generator) -> Iterator[Any]:
        return self.epochs(rng)

    def complete(self, dealt: Any) -> AnyBatch:
        """The batch as losses read it."""
        return self.epochs.complete(dealt)


def bursts(run: GradientTraining) -> Work:
    """Training, epoch after epoch, a burst at a call; says how many steps that was."""

    def steps() -> Iterator[int]:
        while True:
            for losses in run.one_epoch(sys.maxsize):
                yield len(losses)

    taken = steps()
    return lambda: next(taken)


def n_parameters(run: GradientTraining) -> int:
    """Numbers that the optimizer changes."""
    return sum(parameter.numel() for parameter in run.encoder.parameters())


class SplitStep:
    """Steps with a look at the clock after each part; a GPU is waited for after each."""

    def __init__(self, settings: Settings, data: Interactions, device: torch.device) -> None:
        rng = np.random.default_rng(0)
        self.run = GradientTraining.start(data, settings, rng=rng, device=device)
        self._l2 = settings.training.l2
        self._dealt = self._endless()
        self._optimizer = torch.optim.Adam(
            self.run.encoder.parameters(), lr=settings.training.learning_rate, fused=True
        )
        self._seconds: dict[str, list[float]] = {part: [] for part in PARTS}

    def __call__(self) -> int:
        """One step."""
        run, lap = self.run, self._laps()
        self._optimizer.zero_grad()
        batch = run.epochs.complete(next(self._dealt).to(run.device))
        lap("batch")
        embeddings = run.encoder(batch)
        lap("propagation")
        loss = run.loss(embeddings, batch) + self._l2 * run.encoder.penalty(batch)
        lap("risk")
        loss.backward()  # type: ignore[no-untyped-call]
        lap("backward")
        self._optimizer.step()
        lap("optimiser")
        return 1

    def times(self) -> dict[str, Times]:
        """Those of each part, without the first step, in which things are loaded and allocated."""
        return {part: Times(tuple(seconds[1:])) for part, seconds in self._seconds.items()}

    def _laps(self) -> Callable[[str], None]:
        synchronize(self.run.device)
        last = time.perf_counter()

        def lap(part: str) -> None:
            nonlocal last
            synchronize(self.run.device)
            now = time.perf_counter()
            self._seconds[part].append(now - last)
            last = now

        return lap

    def _endless(self) -> Iterator[Any]:
        rng = np.random.default_rng(0)
        while True:
            yield from self.run.epochs(rng)


def _part_cases(
    split: SplitStep, data: Interactions, size: Size, device: torch.device
) -> list[Case]:
    """Their ratio to the reference is their share of the whole step."""
    settings = trained(IN_PARTS)
    products = propagation_floor(settings, data)
    floors: dict[str, Floor | None] = {
        "batch": None,
        "propagation": products,
        "risk": loss_floor(settings, data),
        "backward": products,
        "optimiser": optimizer_floor(n_parameters(split.run)),
    }
    return [
        Case(IN_PARTS, f"{EAGER}: {part}", device.type, size, times, floors[part])
        for part, times in split.times().items()
    ]


# The least that one training step must do, part by part, as far as it is known.


def propagation_floor(settings: Settings, data: Interactions) -> Floor:
    """The products of the graph, forwards; backwards there are as many."""
    encoder = settings.encoder
    if not isinstance(encoder, LightGCN | NGCF):
        return Floor()
    loops = isinstance(encoder, LightGCN) and encoder.self_loops
    size = graph_size(data, self_loops=loops) | {"dimension": encoder.dimension}
    return products_floor(size, encoder.n_layers)


def loss_floor(settings: Settings, data: Interactions) -> Floor:
    """The unlabelled term of one batch, value and gradient."""
    encoder, batches = settings.encoder, settings.batches
    has_term = isinstance(settings.risk, DensityRatio | WeightedDRE | WeightedPU)
    if not has_term or isinstance(encoder, MultVAE) or not isinstance(batches, UserBatches):
        return Floor()
    batch = next(iter(batches(data, device=CPU)(np.random.default_rng(0))))
    n_users, n_items = len(batch.users), len(batch.candidates)
    return term_floor({"users": n_users, "items": n_items, "dimension": encoder.dimension})


def optimizer_floor(n_parameters: int) -> Floor:
    """Adam passes over its tables."""
    return Floor.of(n_bytes=4 * _PASSES_OF_ADAM * n_parameters)


def step_floor(settings: Settings, data: Interactions, n_parameters: int) -> Floor:
    """All of it; what else a step does is not counted, so the floor may lie too low."""
    products = propagation_floor(settings, data)
    forwards = products.then(loss_floor(settings, data))
    return forwards.then(products).then(optimizer_floor(n_parameters))
