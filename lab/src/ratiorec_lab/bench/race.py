"""Long runs beside one another: each works for a while and rests, with a clock of its own.

A contender is a preset with what is laid over it, in one word: `lightgcn:batches.n_pairs=2048`.
The automatic choice is one with its budget in seconds, `auto@30`, and a single turn.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from ratiorec.config import model_preset, read_toml, resolve
from ratiorec.data.interactions import Interactions
from ratiorec.data.synthetic import Synthetic
from ratiorec.errors import ConfigError, RatiorecError
from ratiorec.kernels.blocks import deterministic_threads
from ratiorec.machine import available_memory_mb
from ratiorec.presets import AUTO
from ratiorec.scorers import StoredScorer
from ratiorec.settings import AutoSettings, ModelSettings, SolverSettings
from ratiorec.solvers.settings import ImplicitALS, ItemKNN, PopularitySolver
from ratiorec.training.auto import AutoSession
from ratiorec.training.fit import FitOptions, FitResult
from ratiorec.training.runs import TrainingRun, start_run
from ratiorec_lab.bench.clock import CPU, Ceilings, Conditions, Gauge, synchronize

_FIRST_TURN = {"cpu": 1.0, "cuda": 0.05}  # seconds; a GPU is through in less than one
_GROWTH_OF_TURNS = 0.4
_TINY = Synthetic(n_users=40, n_items=30, mean_pairs=6)


def settings_of(contender: str) -> ModelSettings:
    """The settings of `PRESET[+FILE.toml][:SETTING=VALUE]…`.

    >>> settings_of("implicit-als:solver.dimension=128").solver.dimension
    128
    """
    named, *assignments = contender.split(":")
    name, _, file = named.partition("+")
    try:
        settings = model_preset(name)
    except ConfigError as error:
        raise ConfigError(
            error.what, where="--presets", found=error.found, wanted=error.wanted
        ) from None
    return resolve(settings, read_toml(Path(file)) if file else {}, assignments)


def budget_of(contender: str) -> float | None:
    """The seconds of an automatic choice; None for a preset.

    >>> budget_of("auto@30"), budget_of("ease")
    (30.0, None)
    """
    name, _, seconds = contender.partition("@")
    if name != AUTO:
        return None
    try:
        budget = float(seconds)
        if not 0 < budget < math.inf:
            raise ValueError
    except ValueError:
        raise ConfigError(
            "the automatic choice has no budget to be measured with",
            where="--presets",
            found=repr(contender),
            wanted="seconds above 0 behind the name, such as auto@30",
        ) from None
    return budget


def require_contenders(contenders: Sequence[str]) -> None:
    """Refuse a contender that cannot be read, or that comes twice."""
    for contender in contenders:
        if budget_of(contender) is None:
            settings_of(contender)
    if twice := sorted({name for name in contenders if contenders.count(name) > 1}):
        raise ConfigError(
            "a preset is listed twice",
            where="--presets",
            found=", ".join(twice),
            wanted="every preset once",
        )


class Contender:
    """A model in training and the seconds it has worked; building it counts, waiting does not.

    It ends at the step that `last_step` gives, or after `max_seconds`. What it raises is kept as
    `error`, so that the others may go on.
    """

    def __init__(
        self,
        name: str,
        settings: ModelSettings | AutoSettings,
        data: Interactions,
        *,
        device: torch.device,
        last_step: Callable[[TrainingRun], int] = lambda run: run.last_step,
        max_seconds: float = float("inf"),
    ) -> None:
        self.name = name
        self.settings = settings
        self.data = data
        self.device = CPU if _works_on_cpu(settings) else device
        self.seconds = 0.0
        self.error: str | None = None
        self._last_step = last_step
        self._max_seconds = max_seconds
        self._run: TrainingRun | None = None
        self._steps: Iterator[Any] = iter(())
        self._at_the_end = False

    @property
    def run(self) -> TrainingRun:
        """The model on its way."""
        assert self._run is not None, f"{self.name} has not begun, or has left"
        return self._run

    @property
    def step(self) -> int:
        """How many steps are behind it."""
        return self.run.step

    @property
    def ready(self) -> bool:
        """Whether there is a model to judge."""
        return self.run.ready

    def scorer(self) -> StoredScorer:
        """The model as it is now."""
        return self.run.scorer()

    @property
    def done(self) -> bool:
        """Whether it will not work again."""
        out_of_time = self.seconds >= self._max_seconds
        return self.error is not None or self._at_the_end or out_of_time

    @property
    def share(self) -> float:
        """How much of its way, in steps or in time, is behind it."""
        if self.done:
            return 1.0
        by_steps = 0.0 if self._run is None else self._run.step / self._last_step(self._run)
        return max(by_steps, self.seconds / self._max_seconds)

    def warm_up(self) -> None:
        """A step on next to nothing: libraries and kernels are loaded on nobody's clock."""
        data = _TINY(rng=np.random.default_rng(0)).dataset.train
        with self._telling_errors(), self._threads():
            run = self._start(data)
            next(iter(run.one_epoch(1)))

    def work(self, seconds: float) -> None:
        """Take steps for at least so long, and one at least."""
        with self._threads():
            synchronize(self.device)
            started = time.perf_counter()
            before, until = self.seconds, min(self.seconds + seconds, self._max_seconds)
            with self._telling_errors():
                if self._run is None:
                    self._run = self._start(self.data)
                    self._steps = _steps(self._run, self._last_step(self._run))
                for _ in self._steps:
                    if before + time.perf_counter() - started >= until:
                        break
                self._at_the_end = self._run.step >= self._last_step(self._run)
            synchronize(self.device)
            self.seconds = before + time.perf_counter() - started

    def leave(self) -> None:
        """Give its memory to the others; its name and its clock stay."""
        self._run, self._steps = None, iter(())

    def _start(self, data: Interactions) -> TrainingRun:
        assert not isinstance(self.settings, AutoSettings)
        return start_run(
            self.settings,
            data,
            rng=np.random.default_rng(0),
            device=self.device,
            memory_mb=available_memory_mb(str(self.device)),
        )

    def _threads(self) -> AbstractContextManager[None]:
        """Those of a fit: on the CPU blocks of a fixed size."""
        return deterministic_threads() if self.device.type == "cpu" else nullcontext()

    @contextmanager
    def _telling_errors(self) -> Iterator[None]:
        try:
            yield
        # torch tells by a RuntimeError that memory has run out
        except (RatiorecError, MemoryError, RuntimeError) as error:
            self.error = " ".join(str(error).split()) or type(error).__name__


class Automatic(Contender):
    """The automatic choice within a budget: search, weighing and refits in one turn."""

    def __init__(
        self, name: str, budget: float, data: Interactions, *, device: torch.device
    ) -> None:
        super().__init__(name, AutoSettings(), data, device=device, max_seconds=budget)
        self.fitted: FitResult | None = None

    @property
    def step(self) -> int:
        return self.fitted.n_steps if self.fitted else 0

    @property
    def ready(self) -> bool:
        return self.fitted is not None

    def scorer(self) -> StoredScorer:
        assert self.fitted is not None, f"{self.name} has not worked"
        return self.fitted.scorer

    @property
    def share(self) -> float:
        return float(self.done)

    def warm_up(self) -> None:
        data = _TINY(rng=np.random.default_rng(0)).dataset.train
        with self._telling_errors():
            self._fit(data, min(1.0, self._max_seconds))

    def work(self, seconds: float) -> None:
        """All of it, whatever the length of a turn."""
        synchronize(self.device)
        started = time.perf_counter()
        with self._telling_errors():
            self.fitted = self._fit(self.data, self._max_seconds)
            self._at_the_end = True
        self.seconds = time.perf_counter() - started

    def leave(self) -> None:
        self.fitted = None

    def _fit(self, data: Interactions, max_seconds: float) -> FitResult:
        options = FitOptions(max_seconds=max_seconds)
        return AutoSession(data, AutoSettings(), options, seed=0, device=self.device)()


class Raced(NamedTuple):
    """The ceilings of each device, measured in the pauses, and who could not run and why."""

    ceilings: dict[str, Ceilings]
    left_out: dict[str, str]


def race(
    target: str,
    contenders: Sequence[Contender],
    conditions: Conditions,
    *,
    settle: Callable[[Contender], None],
    watch: Callable[[Contender], None] = lambda contender: None,
) -> Raced:
    """Let whoever has worked least work next, until all are done.

    `watch` is called after every turn, and `settle` when a contender has reached its end; after
    that its model is gone.
    """
    gauges = {one.device.type: Gauge(one.device, conditions.effort) for one in contenders}
    for gauge in gauges.values():
        gauge()
    for contender in contenders:
        contender.warm_up()
    while running := [one for one in contenders if not one.done]:
        contender = min(running, key=lambda one: one.seconds)
        # short turns at first: much happens in the beginning
        turn = max(_FIRST_TURN[contender.device.type], _GROWTH_OF_TURNS * contender.seconds)
        contender.work(min(conditions.effort.slice_seconds, turn))
        gauges[contender.device.type]()
        if contender.error is None:
            watch(contender)
        if contender.done and contender.error is None:
            settle(contender)
        if contender.done:
            contender.leave()
        n_done = sum(one.share for one in contenders)
        conditions.tell(f"{target}: {contender.name}", n_done, len(contenders))
    return Raced(
        {device: gauge.ceilings() for device, gauge in gauges.items()},
        {one.name: one.error for one in contenders if one.error is not None},
    )


def _works_on_cpu(settings: ModelSettings | AutoSettings) -> bool:
    """Some solvers have no other place, whatever the device."""
    solvers = ImplicitALS | ItemKNN | PopularitySolver
    return isinstance(settings, SolverSettings) and isinstance(settings.solver, solvers)


def _steps(run: TrainingRun, last_step: int) -> Iterator[Any]:
    while run.step < last_step:
        yield from run.one_epoch(last_step)
