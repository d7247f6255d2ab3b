"""Several ways of doing the same, timed in turns, so that a noisy neighbour meets all of them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from statistics import median, quantiles
from typing import NamedTuple

import torch

from ratiorec_lab.bench.conditions import Effort, Tell

_MOST_CALLS = 1000  # in one round
_LONG = 2.0  # seconds that a second call need not be asked

CPU = torch.device("cpu")

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


class Times(NamedTuple):
    """The seconds of one unit of work, round by round."""

    rounds: tuple[float, ...]

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
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(1, effort.repeats + 1):
        # every other round backwards, so that a steady drift favours nobody
        order = list(ways)[:: 1 if number % 2 else -1]
        for place, name in enumerate(order):
            tell(f"{what}: round {number}, {name}", number * len(ways) + place, n_all)
            seconds[name].append(timed(ways[name], n_calls[name]))
    tell(what, n_all, n_all)
    return {name: Times(tuple(rounds)) for name, rounds in seconds.items()}


def timed(way: Way, n_calls: int = 1) -> float:
    """The seconds of one unit of work, over so many calls."""
    seconds, n_units = _timed_units(way, n_calls)
    return seconds / n_units


def _timed_units(way: Way, n_calls: int) -> tuple[float, int]:
    """The seconds of so many calls, and the work that was done in them."""
    with way.around():
        synchronise(way.device)
        started = time.perf_counter()
        n_units = sum(way.work() for _ in range(n_calls))
        synchronise(way.device)
        return time.perf_counter() - started, n_units


def synchronise(device: torch.device) -> None:
    """Wait until a graphics card has done what it was told."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _calls_for(at_least: float, way: Way) -> int:
    """How many calls take so long; the first call loads and allocates, so it cannot tell."""
    seconds, _ = _timed_units(way, 1)
    if at_least and (seconds < _LONG or way.device.type == "cuda"):
        seconds, _ = _timed_units(way, 1)
    return max(1, min(_MOST_CALLS, math.ceil(at_least / max(seconds, 1e-9))))
