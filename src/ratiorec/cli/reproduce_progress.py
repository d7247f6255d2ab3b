"""How far a reproduction is: which cell, how much of it, and how long all will take."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from ratiorec.cli import options as o
from ratiorec.events import EpochFinished, StepTaken

if TYPE_CHECKING:
    from ratiorec.reproduce.cells import Cell

SECONDS_BETWEEN_LINES = 30.0


class ReproduceProgress:
    """Shows cells on standard error; on a terminal with a bar, else in lines."""

    def __init__(self) -> None:
        console = Console(stderr=True)
        self._plain = not console.is_terminal
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=8),
            TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(),
            console=console,
            disable=self._plain,
            transient=True,
        )
        self._task = self._bar.add_task("", total=None, note="")
        self._heading = self._left = self._validation = ""
        self._resumed: int | None = None  # the last epoch that an earlier run had finished
        self._last_line = time.monotonic()

    def __enter__(self) -> ReproduceProgress:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def begin(self, cell: Cell, *, place: int, n_cells: int, seconds_left: float | None) -> None:
        """A cell starts."""
        from ratiorec.reproduce.estimate import in_words

        self._heading = f"{place}/{n_cells} {cell.title}"
        self._left = in_words(seconds_left)
        self._validation = ""
        self._bar.reset(self._task, description=self._heading, total=None, note=self._left)
        if self._plain:
            o.say(f"{self._heading} ({self._left})")
            self._last_line = time.monotonic()

    def __call__(self, event: StepTaken | EpochFinished) -> None:
        """Its training goes on."""
        if isinstance(event, StepTaken):
            self._step(event)
            return
        if metrics := event.record.get("validation"):
            self._validation = f" · validation nDCG@20 {metrics['ndcg@20']:.4f}"
        if event.resumed:
            self._resumed = event.record["epoch"]

    def _step(self, event: StepTaken) -> None:
        if self._resumed is not None:
            self.say(f"{self._heading}: goes on after epoch {self._resumed}")
            self._resumed = None
        note = f"{event.phase} {event.step}/{event.last_step} steps{self._validation}"
        self._bar.update(
            self._task,
            completed=event.step,
            total=event.last_step,
            note=f"{self._left} · {note}",  # what is cut off on a narrow terminal is the end
        )
        now = time.monotonic()
        if self._plain and now - self._last_line >= SECONDS_BETWEEN_LINES:
            self._last_line = now
            o.say(f"{self._heading}: {note}")

    def end(self, cell: Cell, record: dict[str, Any] | None) -> None:
        """A cell is finished, or could not run."""
        if record is not None:
            part = "validation" if record["test"] is None else "test"
            words = f"{part} {o.format_metrics(record[part])}"
            self.say(f"{cell.title}: {words}, {record['seconds']['train']:.1f} s")

    def say(self, words: str) -> None:
        """A line that stays; above the bar where there is one."""
        if self._plain:
            o.say(words)
        else:
            self._bar.console.print(words, markup=False, highlight=False)
