"""One whole training step of the presets that descend, and the parts of one of `dregn-cf`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch

from ratiorec import presets
from ratiorec.batches.users import AnyBatch, Epochs
from ratiorec.data.interactions import Interactions
from ratiorec.errors import ConfigError
from ratiorec.kernels.blocks import deterministic_threads
from ratiorec.settings import Settings
from ratiorec.training.loop import GradientTraining
from ratiorec_lab.bench.case import Case, Measured, Size
from ratiorec_lab.bench.ceilings import Floor
from ratiorec_lab.bench.conditions import Conditions
from ratiorec_lab.bench.contenders import settings_of
from ratiorec_lab.bench.side_by_side import side_by_side
from ratiorec_lab.bench.split_step import SplitStep
from ratiorec_lab.bench.stand_in import random_pairs
from ratiorec_lab.bench.step_floor import optimiser_floor, propagation_floor, risk_floor, step_floor
from ratiorec_lab.bench.timing import CPU, Way

IN_PARTS = "dregn-cf"
EAGER, RECORDED = "eager", "CUDA graph"
# with the batches of LightGCN's authors, where a step is hardly more than the propagation
SMALL_BATCHES = "lightgcn:batches.n_pairs=2048"
QUICK = ("dregn-cf", "dre-mf", "lightgcn")


def measure(conditions: Conditions) -> Measured:
    """Times are of real training: the dealing and copying of batches is in them."""
    data, device = conditions.dataset.train, conditions.device
    names = conditions.chosen(_descending(), QUICK)
    runs = {
        f"{name} {execution}": (name, execution, run)
        for name in names
        for execution, run in _runs(_settings(name), data, device).items()
    }
    ways = {key: _way(run) for key, (_, _, run) in runs.items()}
    split = SplitStep(_settings(IN_PARTS), data, device) if IN_PARTS in names else None
    also = {} if split is None else {f"{IN_PARTS} in parts": Way(split, _around(device), device)}
    size = {"users": data.n_users, "items": data.n_items, "pairs": data.n_pairs}
    found = side_by_side("step", ways, size, conditions, also=also)
    cases = [
        Case(
            name,
            execution,
            device.type,
            size | {"steps_per_epoch": run.n_steps},
            found.times[key],
            step_floor(_settings(name), data, _n_parameters(run)),
            # a replayed step allocates nothing: its memory was taken when it was recorded
            None if execution == RECORDED else found.peaks[key],
            is_reference=execution == EAGER,
        )
        for key, (name, execution, run) in runs.items()
    ]
    parts = [] if split is None else _part_cases(split, data, size, device)
    return Measured("step", cases + parts, found.ceilings)


def alone(execution: str, size: Size) -> Way:
    """Steps of one preset on random pairs of this size."""
    data = random_pairs(size["users"], size["items"], size["pairs"])
    name, how = execution.split(" ", 1)
    return _way(_runs(_settings(name), data, CPU)[how])


def _descending() -> tuple[str, ...]:
    names = (name for name, settings in presets.PRESETS.items() if isinstance(settings, Settings))
    return (*names, SMALL_BATCHES)


def _settings(name: str) -> Settings:
    settings = settings_of(name)
    if not isinstance(settings, Settings):
        raise ConfigError(
            "only a preset that descends has steps of equal length",
            where="--presets",
            found=name,
            wanted="some of " + ", ".join(_descending()),
        )
    return settings


def _runs(
    settings: Settings, data: Interactions, device: torch.device
) -> dict[str, GradientTraining]:
    """As a fit would do it, and where that records the steps, also without."""
    usual = settings.descent(data, rng=np.random.default_rng(0), device=device)
    if device.type == "cpu" or not usual.epochs.same_shape:
        return {EAGER: usual}
    eager = GradientTraining.start(
        data,
        settings.encoder,
        settings.risk,
        _Unrecorded(settings.batches),
        settings.training,
        rng=np.random.default_rng(0),
        device=device,
    )
    return {EAGER: eager, RECORDED: usual}


@dataclass(frozen=True)
class _Unrecorded:
    """Batches that do not tell that they all have the same shape."""

    batches: Any

    def __call__(self, data: Interactions, *, device: torch.device) -> _UnrecordedEpochs:
        return _UnrecordedEpochs(self.batches(data, device=device))


@dataclass(frozen=True, eq=False)
class _UnrecordedEpochs:
    epochs: Epochs

    same_shape: ClassVar[bool] = False

    @property
    def n_steps(self) -> int:
        return self.epochs.n_steps

    def __call__(self, rng: np.random.Generator) -> Iterator[Any]:
        return self.epochs(rng)

    def complete(self, dealt: Any) -> AnyBatch:
        return self.epochs.complete(dealt)


def _way(run: GradientTraining) -> Way:
    bursts = _bursts(run)
    return Way(lambda: next(bursts), _around(run.device), run.device)


def _bursts(run: GradientTraining) -> Iterator[int]:
    """Epoch after epoch; how many steps were taken each time."""
    while True:
        for risks in run.one_epoch(sys.maxsize):
            yield len(risks)


def _around(device: torch.device) -> Any:
    return deterministic_threads if device.type == "cpu" else nullcontext


def _n_parameters(run: GradientTraining) -> int:
    return sum(parameter.numel() for parameter in run.encoder.parameters())


def _part_cases(
    split: SplitStep, data: Interactions, size: Size, device: torch.device
) -> list[Case]:
    """Their ratio to the reference is their share of the whole step."""
    settings = _settings(IN_PARTS)
    products = propagation_floor(settings, data)
    floors: dict[str, Floor | None] = {
        "batch": None,
        "propagation": products,
        "risk": risk_floor(settings, data),
        "backward": products,
        "optimiser": optimiser_floor(split.n_parameters),
    }
    return [
        Case(IN_PARTS, f"{EAGER}: {part}", device.type, size, times, floors[part])
        for part, times in split.times().items()
    ]
