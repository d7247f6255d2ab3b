"""Work of an engine with a planted fault, and engines that are handed it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ratiorec.engines import Engine, Work
from ratiorec.engines.spread import Task
from ratiorec.errors import StorageError
from ratiorec.sinks import Tally

Fault = Callable[[Task], None]


@dataclass(frozen=True)
class KillsItsProcess:
    """`kill -9` of the worker in the middle of one block, the first time."""

    start: int
    marker: Path

    def __call__(self, task: Task) -> None:
        if task.part.start == self.start and not self.marker.exists():
            self.marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class Fails:
    """A block that cannot be written, by nobody."""

    start: int

    def __call__(self, task: Task) -> None:
        if task.part.start == self.start:
            raise StorageError("no room", where="the moon", found="dust", wanted="room")


@dataclass(frozen=True)
class Waits:
    """A block that takes its time."""

    seconds: float

    def __call__(self, task: Task) -> None:
        time.sleep(self.seconds)


@dataclass(frozen=True)
class FaultyWork:
    """Some work, after a fault."""

    work: Work
    fault: Fault

    @property
    def memory_mb(self) -> float:
        return self.work.memory_mb

    def begin(self, *, n_threads: int | None) -> Callable[[Task], Tally]:
        rank = self.work.begin(n_threads=n_threads)

        def rank_after_fault(task: Task) -> Tally:
            self.fault(task)
            return rank(task)

        return rank_after_fault


@dataclass(frozen=True)
class WithFault:
    """An engine whose work is faulty."""

    engine: Engine
    fault: Fault

    def __call__(self, work: Work, tasks: Sequence[Task]) -> Generator[Tally]:
        return self.engine(FaultyWork(work, self.fault), tasks)
