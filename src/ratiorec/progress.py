"""Progress of training: a bar on a terminal, one line in a notebook, lines in a log."""

from __future__ import annotations

import importlib
import math
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from html import escape
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Column
from rich.text import Text

if TYPE_CHECKING:
    from ratiorec.training.fit import EpochFinished, Observer, StepTaken


QUIET_SECONDS = 30.0
"""Without a terminal, how long a fit may say nothing: a log that stands still looks dead."""


class _TimeLeft(ProgressColumn):
    """The time that a phase may still take: by its steps, and no more than the budget has left."""

    def __init__(self, budget_left: Callable[[], float]) -> None:
        super().__init__(table_column=Column(no_wrap=True))
        self._budget_left = budget_left

    def render(self, task: Task) -> Text:
        """Nothing for a phase that has ended, whether or not it has taken all of its steps."""
        if task.finished or task.stop_time is not None:
            return Text("")
        by_steps = math.inf if task.time_remaining is None else task.time_remaining
        return Text(_left(min(by_steps, self._budget_left())))


def _left(seconds: float) -> str:
    """`0:00:18 left`, which is the most: a search may lose patience before."""
    return "" if math.isinf(seconds) else f"{timedelta(seconds=math.ceil(seconds))} left"


class FitProgress:
    """Shows training on standard error: on a terminal as a bar with rate, risk and time left.

    Else, with `lines`, a line for each validation, and one whenever there was none for half a
    minute. `shown` says whether there is a bar where it should not depend on the terminal.
    """

    def __init__(
        self,
        max_seconds: float = math.inf,
        *,
        prefix: str = "",
        shown: bool | None = None,
        lines: bool = True,
    ) -> None:
        console = Console(stderr=True)
        has_bar = console.is_terminal if shown is None else shown
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("steps · {task.fields[note]}"),
            TimeElapsedColumn(),
            _TimeLeft(self._budget_left),
            console=console,
            disable=not has_bar,
        )
        self._plain = lines and not has_bar
        self._prefix = prefix
        self._tasks: dict[str, TaskID] = {}
        self._validation = ""
        self._rate = 0.0
        self._started = self._last = self._said = time.monotonic()
        self._max_seconds = max_seconds
        self._state = "no step taken yet"
        self._ended = threading.Event()
        self._speaker = threading.Thread(target=self._break_silence, daemon=True)

    def __enter__(self) -> FitProgress:
        self._bar.start()
        if self._plain:
            self._speaker.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._plain:
            self._speaker.join()  # what has ended says no more
        self._bar.stop()

    def _budget_left(self) -> float:
        return max(0.0, self._max_seconds - (time.monotonic() - self._started))

    def _break_silence(self) -> None:
        """In a thread of its own, since a closed form is one long step."""
        while not self._ended.wait(max(0.0, self._said + QUIET_SECONDS - time.monotonic())):
            now = time.monotonic()
            if now - self._said >= QUIET_SECONDS:
                left = _left(self._budget_left())
                passed = f"{now - self._started:.0f} s"
                self._say(f"{self._state}, {passed}" + (left and f", at most {left}"))

    def _say(self, line: str) -> None:
        self._said = time.monotonic()
        print(line, file=sys.stderr, flush=True)

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
        self._state = (
            f"{event.phase} step {event.step:,} of at most {event.last_step:,}, {_risk(event.risk)}"
        )
        task = self._tasks.get(event.phase)
        if task is None:
            for ended in self._tasks.values():
                self._bar.stop_task(ended)
            task = self._bar.add_task(self._prefix + event.phase, total=event.last_step, note=note)
            self._tasks[event.phase] = task
        self._bar.update(task, completed=event.step, note=note)

    def _epoch(self, event: EpochFinished) -> None:
        metrics = event.record.get("validation")
        if event.resumed:  # the budget counts what an earlier run has spent
            self._started = min(self._started, self._last - event.record["seconds"])
        if metrics is None or event.resumed:
            return
        self._validation = f" · recall@20 {metrics['recall@20']:.4f}"
        if self._plain:
            record = event.record
            self._say(
                f"{record['phase']} epoch {record['epoch']}: {_risk(record['risk'])}, "
                f"validation recall@20 {metrics['recall@20']:.4f}, "
                f"ndcg@20 {metrics['ndcg@20']:.4f}, {record['seconds']:.0f} s"
            )


def _risk(value: float | None) -> str:
    """Some models are solved and have no risk to tell."""
    return "solved" if value is None else f"risk {value:.4f}"


@contextmanager
def progress_bar(
    max_seconds: float = math.inf, *, shown: bool | None = None, prefix: str = ""
) -> Iterator[Observer]:
    """A bar for people who call a function: on a terminal, in a notebook, else only if `shown`."""
    console = Console(stderr=True)
    if shown is not False and console.is_jupyter:
        yield _NotebookBar(max_seconds, prefix)
        return
    with FitProgress(max_seconds, prefix=prefix, shown=shown, lines=False) as bar:
        yield bar


def say_lines(lines: Iterable[str], *, shown: bool | None = None) -> None:
    """Lines on standard error, where a bar would be shown as well."""
    console = Console(stderr=True)
    if (console.is_terminal or console.is_jupyter) if shown is None else shown:
        print(*lines, sep="\n", file=sys.stderr)


class _NotebookBar:
    """One line of HTML that is replaced; rich's own bar would need ipywidgets."""

    SECONDS = 0.2
    """The least time between two changes of a phase."""

    def __init__(self, max_seconds: float, prefix: str) -> None:
        self._display = importlib.import_module("IPython.display")
        self._prefix, self._max_seconds = prefix, max_seconds
        self._started = time.monotonic()
        self._phase, self._drawn, self._handle = "", 0.0, None

    def __call__(self, event: Any) -> None:
        from ratiorec.training.fit import StepTaken

        if not isinstance(event, StepTaken):
            return
        now, last = time.monotonic(), event.step >= event.last_step
        if event.phase == self._phase and not last and now - self._drawn < self.SECONDS:
            return
        self._phase, self._drawn = event.phase, now
        text = f"{self._prefix}{event.phase}: step {event.step:,} of at most {event.last_step:,}"
        passed = now - self._started
        left = _left(max(0.0, self._max_seconds - passed))
        text += f", {passed:.0f} s" + (left and f", at most {left}")
        html = f'<progress max="{event.last_step}" value="{event.step}"></progress> {escape(text)}'
        line = {"text/plain": text, "text/html": html}
        if self._handle is None:
            self._handle = self._display.display(line, raw=True, display_id=True)
        else:
            self._handle.update(line, raw=True)
