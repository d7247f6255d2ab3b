"""What commands show and hear while they work: a bar of users, Ctrl-C."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, ProgressColumn, Task
from rich.text import Text

from ratiorec.cli import options as o
from ratiorec.errors import StoppedError


class StopRequest:
    """Whether Ctrl-C was pressed; pressed a second time it interrupts at once."""

    def __init__(self) -> None:
        self.signal: int | None = None

    def __call__(self) -> bool:
        return self.signal is not None

    def ask(self, number: int, frame: FrameType | None) -> None:
        """What the signal calls."""
        if self():
            raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)
        self.signal = number
        o.say("\nstopping after this step; Ctrl-C again to leave at once")


@contextmanager
def stop_on_interrupt() -> Iterator[StopRequest]:
    """Inside, Ctrl-C and a polite kill ask training to save itself and stop."""
    request = StopRequest()
    old = {number: signal.signal(number, request.ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield request
    except StoppedError as stopped:
        stopped.signal = request.signal or stopped.signal
        raise
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


class _Rate(ProgressColumn):
    """How many a second."""

    def render(self, task: Task) -> Text:
        return Text("" if task.speed is None else f"{task.speed:,.0f}/s")


@contextmanager
def users_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """A bar of users, on a terminal; it starts again where work goes over them again."""
    console = Console(stderr=True)
    columns = (*Progress.get_default_columns(), MofNCompleteColumn(), _Rate())
    with Progress(
        *columns, console=console, disable=not console.is_terminal, transient=True
    ) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
