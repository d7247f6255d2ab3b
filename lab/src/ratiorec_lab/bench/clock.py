"""The clock: ways of doing the same timed in turns, beside what the machine gives meanwhile.

Cases take turns in every round, so that a noisy neighbour meets all of them. Among them run a
large matrix product and a large copy: their rates are the ceilings by which floors are reckoned.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from statistics import median, quantiles
from typing import Any, NamedTuple

import torch

from ratiorec.data.interactions import Dataset
from ratiorec.kernels.blocks import deterministic_threads

CPU = torch.device("cpu")
_MOST_CALLS = 1000  # in one round
_LONG = 2.0  # seconds that a second call need not be asked
_GPU_SCALE = 4  # a GPU's product and copy must be larger to take long enough

Tell = Callable[[str, float, float], None]
"""Told what goes on, how much of it is done, and of how much."""


# What a measurement is given.


@dataclass(frozen=True)
class Effort:
    """How thoroughly to measure.

    Every case runs in each of `repeats` rounds, and in a round again and again until
    `seconds_per_round` have passed. What the machine can do is found by a product of square
    matrices with `product_size` rows and by a copy of `copied_bytes`. A long run works for
    `slice_seconds` before it is another's turn, and for `max_seconds` in all. `is_quick` figures
    are to show only that everything works: even memory is measured in one process for all cases.
    """

    repeats: int = 7
    seconds_per_round: float = 0.1
    product_size: int = 2048
    copied_bytes: int = 2**28
    slice_seconds: float = 5.0
    max_seconds: float = 120.0
    is_quick: bool = False


USUAL = Effort()
QUICK = Effort(
    repeats=3,
    seconds_per_round=0.0,
    product_size=1024,
    copied_bytes=2**25,
    slice_seconds=0.1,
    max_seconds=1.0,
    is_quick=True,
)


def _silent(what: str, done: float, total: float) -> None:
    """Nobody watches."""


@dataclass(frozen=True, eq=False)
class Conditions:
    """Under what a target measures; a target that has no use for a part does not look at it.

    `n_users` are those of a batch, or those who are ranked for. `presets` are specifications as
    `race.settings_of` reads them. `epochs` is how long to train, where that is not searched for.
    """

    dataset: Dataset
    device: torch.device
    effort: Effort = USUAL
    n_users: int | None = None
    presets: tuple[str, ...] | None = None
    epochs: int | None = None
    tell: Tell = _silent

    def chosen(self, usual: tuple[str, ...], quick: tuple[str, ...]) -> tuple[str, ...]:
        """The presets that were asked for, or those that a target takes by itself."""
        if self.presets is not None:
            return self.presets
        return quick if self.effort.is_quick else usual


# Times.

Work = Callable[[], int]
"""Does some of what is timed, and says how much: one product, or a burst of fifty steps."""


def once(work: Callable[[], object]) -> Work:
    """Work that counts as one."""

    def counted() -> int:
        work()
        return 1

    return counted


@dataclass(frozen=True)
class Way:
    """Work, the context it needs, which is entered untimed, and the device that it waits for."""

    work: Work
    around: Callable[[], AbstractContextManager[object]] = nullcontext
    device: torch.device = CPU


def training_way(work: Work, device: torch.device) -> Way:
    """Work with the threads of a fit: on the CPU blocks of a fixed size."""
    return Way(work, deterministic_threads if device.type == "cpu" else nullcontext, device)


class Times(NamedTuple):
    """The seconds of one unit of work, round by round.

    `processor` are those that the cores of this process worked, which other programs on the machine
    hardly change; it is empty where nobody counted them.
    """

    rounds: tuple[float, ...]
    processor: tuple[float, ...] = ()

    @property
    def median(self) -> float:
        return median(self.rounds)

    @property
    def low(self) -> float:
        """The lower quartile."""
        return quantiles(self.rounds, method="inclusive")[0] if self.rounds[1:] else self.median

    @property
    def high(self) -> float:
        """The upper quartile."""
        return quantiles(self.rounds, method="inclusive")[2] if self.rounds[1:] else self.median


def interleaved(
    ways: Mapping[str, Way], *, effort: Effort, tell: Tell, what: str
) -> dict[str, Times]:
    """Time all ways in each of several rounds, after a first call of each that is not counted."""
    n_all = len(ways) * (effort.repeats + 1)
    n_calls = {}
    for place, (name, way) in enumerate(ways.items()):
        tell(f"{what}: warming up {name}", place, n_all)
        n_calls[name] = _calls_for(effort.seconds_per_round, way)
    taken: dict[str, list[_Taken]] = {name: [] for name in ways}
    for number in range(1, effort.repeats + 1):
        # every other round backwards, so that a steady drift favours nobody
        order = list(ways)[:: 1 if number % 2 else -1]
        for place, name in enumerate(order):
            tell(f"{what}: round {number}, {name}", number * len(ways) + place, n_all)
            taken[name].append(_timed_units(ways[name], n_calls[name]))
    tell(what, n_all, n_all)
    return {
        name: Times(
            tuple(one.seconds / one.n_units for one in rounds),
            tuple(one.processor_seconds / one.n_units for one in rounds),
        )
        for name, rounds in taken.items()
    }


def timed(way: Way, n_calls: int = 1) -> float:
    """The seconds of one unit of work, over so many calls."""
    taken = _timed_units(way, n_calls)
    return taken.seconds / taken.n_units


def seconds_of(work: Callable[[], object], device: torch.device = CPU) -> float:
    """The seconds of one call."""
    return timed(Way(once(work), device=device))


class _Taken(NamedTuple):
    """What so many calls took, and the work that was done in them."""

    seconds: float
    processor_seconds: float
    n_units: int


def _timed_units(way: Way, n_calls: int) -> _Taken:
    with way.around():
        synchronize(way.device)
        started, worked = time.perf_counter(), time.process_time()
        n_units = sum(way.work() for _ in range(n_calls))
        synchronize(way.device)
        return _Taken(time.perf_counter() - started, time.process_time() - worked, n_units)


def synchronize(device: torch.device) -> None:
    """Wait until a GPU has done what it was told."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _calls_for(at_least: float, way: Way) -> int:
    """How many calls take so long; the first call loads and allocates, so it cannot tell."""
    seconds = _timed_units(way, 1).seconds
    if at_least and (seconds < _LONG or way.device.type == "cuda"):
        seconds = _timed_units(way, 1).seconds
    return max(1, min(_MOST_CALLS, math.ceil(at_least / max(seconds, 1e-9))))


# Floors, and the ceilings that turn them into seconds.


class Stage(NamedTuple):
    """Operations, and bytes that must come from memory or go there; the two may overlap."""

    n_operations: float
    n_bytes: float


@dataclass(frozen=True)
class Floor:
    """What cannot be done without, in stages of which each needs what the one before has made."""

    stages: tuple[Stage, ...] = ()

    @classmethod
    def of(cls, *, n_operations: float = 0.0, n_bytes: float = 0.0) -> Floor:
        """A single stage."""
        return cls((Stage(n_operations, n_bytes),))

    @property
    def n_operations(self) -> float:
        return sum(stage.n_operations for stage in self.stages)

    @property
    def n_bytes(self) -> float:
        return sum(stage.n_bytes for stage in self.stages)

    def times(self, n: float) -> Floor:
        """The same n times over."""
        return Floor(tuple(Stage(n * a, n * b) for a, b in self.stages))

    def then(self, other: Floor) -> Floor:
        """This, and after it the other."""
        return Floor(self.stages + other.stages)


@dataclass(frozen=True)
class Ceilings:
    """Rates measured beside the cases, in the same rounds.

    `products` has one rate for each precision of a product; sums are in float32 in all of them.
    """

    products: Mapping[str, float]
    bytes_per_second: float

    @property
    def operations_per_second(self) -> float:
        """The fastest product: a floor must lie below whatever is possible."""
        return max(self.products.values())

    def seconds(self, floor: Floor) -> float:
        """The time of a floor: of operations and bytes of a stage the longer one counts.

        >>> Ceilings({"float32": 10.0}, 5.0).seconds(Floor.of(n_operations=20, n_bytes=15))
        3.0
        """
        rates = self.operations_per_second, self.bytes_per_second
        return sum(max(stage[0] / rates[0], stage[1] / rates[1]) for stage in floor.stages)

    def to_json(self) -> dict[str, Any]:
        """The rates in plain types."""
        return {
            "operations_per_second": digits(self.operations_per_second, 4),
            "bytes_per_second": digits(self.bytes_per_second, 4),
            "products": {name: digits(rate, 4) for name, rate in self.products.items()},
        }


class Gauge:
    """The work that finds the ceilings of a device, to be timed among the cases.

    On a CPU with all threads that torch has when this is made, whatever the cases use.
    """

    def __init__(self, device: torch.device, effort: Effort) -> None:
        self._device = device
        self._n_threads = torch.get_num_threads()
        scale = _GPU_SCALE if device.type == "cuda" else 1
        self._n_rows = scale * effort.product_size
        precisions = [torch.float32] + [torch.bfloat16] * (device.type == "cuda")
        square = torch.randn(self._n_rows, self._n_rows, device=device)
        self._squares = {str(d).removeprefix("torch."): square.to(d) for d in precisions}
        self._outputs = {name: torch.empty_like(each) for name, each in self._squares.items()}
        # ones, since memory of zeros that nobody has written to is not there yet
        self._source = torch.ones(scale * effort.copied_bytes // 4, device=device)
        self._target = torch.ones_like(self._source)
        self._pauses: dict[str, list[float]] = {}

    def ways(self) -> dict[str, Way]:
        """To be timed in turns with the cases."""
        works = {self._product(name): self._multiplied(name) for name in self._squares}
        works[self._copy] = once(lambda: self._target.copy_(self._source))
        return {name: Way(work, self._all_threads, self._device) for name, work in works.items()}

    def __call__(self) -> None:
        """Time everything once, in a pause of a long run."""
        for name, way in self.ways().items():
            self._pauses.setdefault(name, []).append(timed(way))

    def ceilings(self, times: Mapping[str, Times] | None = None) -> Ceilings:
        """The rates, by these times or by those of the pauses."""
        if times is None:
            times = {name: Times(tuple(rounds)) for name, rounds in self._pauses.items()}
        n_operations, n_bytes = 2 * self._n_rows**3, 2 * self._source.nbytes
        return Ceilings(
            {name: n_operations / times[self._product(name)].median for name in self._squares},
            n_bytes / times[self._copy].median,
        )

    def _product(self, precision: str) -> str:
        return f"{precision} product on {self._device}"

    @property
    def _copy(self) -> str:
        return f"copy on {self._device}"

    def _multiplied(self, precision: str) -> Work:
        square, output = self._squares[precision], self._outputs[precision]
        return once(lambda: torch.mm(square, square, out=output))

    @contextmanager
    def _all_threads(self) -> Iterator[None]:
        n_threads = torch.get_num_threads()
        torch.set_num_threads(self._n_threads)
        try:
            yield
        finally:
            torch.set_num_threads(n_threads)


def digits(value: float | None, n: int = 6) -> float | None:
    """As many digits as there is sense in.

    >>> digits(0.012345678), digits(None)
    (0.0123457, None)
    """
    return None if value is None else float(f"{value:.{n}g}")
