"""Progress bars: for training, with rate, risk, validation and remaining time; and for users."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from ratiorec.cli import options as o

if TYPE_CHECKING:
    from ratiorec.training.fit import EpochFinished, StepTaken


class FitProgress:
    """Shows training on standard error; on a terminal as a bar, else a line per validation."""

    def __init__(self) -> None:
        console = Console(stderr=True)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("steps · {task.fields[note]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(elapsed_when_finished=False),
            console=console,
            disable=not console.is_terminal,
        )
        self._plain = not console.is_terminal
        self._tasks: dict[str, TaskID] = {}
        self._validation = ""
        self._last = time.monotonic()
        self._rate = 0.0

    def __enter__(self) -> FitProgress:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def __call__(self, event: StepTaken | EpochFinished) -> None:
        from ratiorec.training.fit import StepTaken

        if isinstance(event, StepTaken):
            self._step(event)
        else:
            self._epoch(event)

    def _step(self, event: StepTaken) -> None:
        now = time.monotonic()
        seconds, self._last = max(now - self._last, 1e-9), now
        self._rate = 0.9 * self._rate + 0.1 / seconds if self._rate else 1 / seconds
        note = f"epoch {event.epoch} · {self._rate:.1f}/s · {_risk(event.risk)}{self._validation}"
        task = self._tasks.get(event.phase)
        if task is None:
            task = self._bar.add_task(event.phase, total=event.last_step, note=note)
            self._tasks[event.phase] = task
        self._bar.update(task, completed=event.step, note=note)

    def _epoch(self, event: EpochFinished) -> None:
        metrics = event.record.get("validation")
        if metrics is None or event.resumed:
            return
        self._validation = f" · recall@20 {metrics['recall@20']:.4f}"
        if self._plain:
            record = event.record
            o.say(
                f"{record['phase']} epoch {record['epoch']}: {_risk(record['risk'])}, "
                f"validation recall@20 {metrics['recall@20']:.4f}, "
                f"ndcg@20 {metrics['ndcg@20']:.4f}, {record['seconds']:.0f} s"
            )


class StopRequest:
    """Whether Ctrl-C was pressed; pressed a second time it interrupts at once."""

    def __init__(self) -> None:
        self._asked = False

    def __call__(self) -> bool:
        return self._asked

    def ask(self, number: int, frame: FrameType | None) -> None:
        """What the signal calls."""
        if self._asked:
            raise KeyboardInterrupt
        self._asked = True
        o.say("\nstopping after this step; Ctrl-C again to leave at once")


@contextmanager
def stop_on_interrupt() -> Iterator[StopRequest]:
    """Inside, Ctrl-C and a polite kill ask training to save itself and stop."""
    request = StopRequest()
    old = {number: signal.signal(number, request.ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield request
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


def _risk(value: float | None) -> str:
    """Some models are solved and have no risk to tell."""
    return "solved" if value is None else f"risk {value:.4f}"


@contextmanager
def users_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """A bar of users, on a terminal; it starts again where work goes over them again."""
    console = Console(stderr=True)
    columns = (*Progress.get_default_columns(), MofNCompleteColumn())
    with Progress(
        *columns, console=console, disable=not console.is_terminal, transient=True
    ) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
