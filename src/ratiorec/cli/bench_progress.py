"""How far a measurement is, how fast it goes, and how long it will take."""

from __future__ import annotations

import time

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from ratiorec.cli import options as o

SECONDS_BETWEEN_LINES = 10.0


class BenchProgress:
    """Shows measurements on standard error; on a terminal as a bar, else a line now and then."""

    def __init__(self) -> None:
        console = Console(stderr=True)
        self._plain = not console.is_terminal
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.percentage:>3.0f} % · {task.fields[pace]}"),
            TimeElapsedColumn(),
            console=console,
            disable=self._plain,
            transient=True,
        )
        self._task: TaskID | None = None
        self._target = ""
        self._started = self._last_line = time.monotonic()

    def __enter__(self) -> BenchProgress:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def __call__(self, what: str, done: float, total: float) -> None:
        """What goes on, how much of it is done, and of how much; a total of 0 is not known."""
        now = time.monotonic()
        target = what.partition(":")[0]
        if target != self._target or done == 0:
            self._target, self._started = target, now
        pace = _pace(done, total, now - self._started)
        if self._task is None:
            self._task = self._bar.add_task(what, total=total or None, pace=pace)
        self._bar.update(
            self._task, description=what, completed=done, total=total or None, pace=pace
        )
        if self._plain and now - self._last_line >= SECONDS_BETWEEN_LINES:
            self._last_line = now
            o.say(f"{what} ({pace})")


def _pace(done: float, total: float, seconds: float) -> str:
    """`12 of 56, 3.1/s, 14 s left`, as far as it is known."""
    if not total:
        return "running"
    so_far = f"{done:.3g} of {total:.3g}"
    if not done or not seconds:
        return so_far
    rate = done / seconds
    return f"{so_far}, {rate:.2g}/s, {(total - done) / rate:.0f} s left"
