"""ratiorec reproduce: the paper's tables and figures, each beside what was published."""

from __future__ import annotations

import math
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from ratiorec.cli import options as o
from ratiorec.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ratiorec.data.interactions import Dataset
    from ratiorec.training.fit import EpochFinished, StepTaken
    from ratiorec_lab.reproduce.cells import Cell
    from ratiorec_lab.reproduce.plan import Plan
    from ratiorec_lab.reproduce.records import CellFiles
    from ratiorec_lab.reproduce.report import ReproductionReport
    from ratiorec_lab.reproduce.run import RunOutcome
    from ratiorec_lab.reproduce.wording import WordedTable

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
        self._heading = f"{place}/{n_cells} {cell.title}"
        self._left = time_left(seconds_left)
        self._validation = ""
        self._bar.reset(self._task, description=self._heading, total=None, note=self._left)
        if self._plain:
            o.say(f"{self._heading} ({self._left})")
            self._last_line = time.monotonic()

    def __call__(self, event: StepTaken | EpochFinished) -> None:
        """Its training goes on."""
        from ratiorec.training.fit import StepTaken

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
            words = f"{part} {o.format_metrics(record[part])}" if record[part] else "drawn"
            self.say(f"{cell.title}: {words}, {record['seconds']['train']:.1f} s")

    def say(self, words: str) -> None:
        """A line that stays; above the bar where there is one."""
        if self._plain:
            o.say(words)
        else:
            self._bar.console.print(words, markup=False, highlight=False)


def time_left(seconds: float | None) -> str:
    """A time that is left, in words.

    >>> time_left(42), time_left(600), time_left(9000), time_left(None)
    ('about 42 s left', 'about 10 min left', 'about 2.5 h left', 'time left not known yet')
    """
    if seconds is None:
        return "time left not known yet"
    if seconds < 100:
        return f"about {seconds:.0f} s left"
    if seconds < 5400:
        return f"about {seconds / 60:.0f} min left"
    return f"about {seconds / 3600:.1f} h left"


EXAMPLES = """Examples:

  ratiorec reproduce all --quick

  ratiorec reproduce table-effectiveness --datasets gowalla --only dregn-cf,lightgcn --seeds 0,1,2

  ratiorec reproduce table-ablation --protocol paper --max-seconds 600

  ratiorec reproduce all --report-only --out results/reproduce
"""


def reproduce(
    target: Annotated[
        str,
        typer.Argument(
            help="table-datasets, table-effectiveness, fig-efficiency, table-ablation, "
            "fig-static-adaptive, fig-dns, fig-sensitivity, search, more-runs or all of them."
        ),
    ],
    protocol: Annotated[
        str,
        typer.Option(
            help="validated by a random tenth of each user's pairs, validated-last by the last "
            "tenth, or paper: its fixed settings and step counts."
        ),
    ] = "validated",
    seeds: Annotated[
        str | None,
        typer.Option(help="With commas, 0 unless given; --report-only takes those of the files."),
    ] = None,
    datasets: Annotated[
        str | None, typer.Option(help="With commas; else the paper's, as far as they are there.")
    ] = None,
    only: Annotated[
        str | None, typer.Option(help="Run some cells only: names or patterns with commas.")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")] = "auto",
    max_seconds: Annotated[float, typer.Option(help="Time budget of each cell.")] = math.inf,
    checkpoint_seconds: Annotated[float, typer.Option(help="Time between checkpoints.")] = 30.0,
    whole_grid: Annotated[
        bool, typer.Option("--whole-grid", help="search: all 810 points of the paper's ranges.")
    ] = False,
    report_only: Annotated[
        bool, typer.Option("--report-only", help="Run nothing; report what there is.")
    ] = False,
    shares_device: Annotated[
        bool,
        typer.Option("--shares-device", help="Others use it meanwhile: times do not count."),
    ] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Small data, short runs: only to see it work.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="Folder of cells and report; reproduced unless given.")
    ] = None,
    data_dir: o.DataDir = None,
    json: o.Json = False,
) -> None:
    """Regenerate the paper's tables and figures, each beside what was published.

    Finished cells are kept, and the same command goes on where it was stopped.
    """
    from ratiorec.training.experiment import find_device
    from ratiorec.training.fit import FitOptions
    from ratiorec_lab.reproduce import report as reports
    from ratiorec_lab.reproduce.plan import Findings, Plan
    from ratiorec_lab.reproduce.records import CellFiles
    from ratiorec_lab.reproduce.tuning import with_choices

    targets = reports.named(target)
    find_device(device)
    FitOptions(max_seconds=max_seconds, checkpoint_seconds=checkpoint_seconds)
    folder = out or Path("reproduced-quick" if quick else "reproduced")
    files = CellFiles(folder)
    choice = _datasets(datasets, data_dir, files, quick=quick, report_only=report_only)
    known = files.known_seeds(protocol, choice.shown) if report_only else []
    plan = Plan(protocol, choice.shown, _seeds(seeds, known), whole_grid=whole_grid)
    plan = with_choices(plan, files)
    cells = reports.cells_of(targets, plan, only=None if only is None else _listed(only))
    outcome = None
    if not report_only:
        _require_data(choice)
        runs = _Runs(files, choice, device, max_seconds, checkpoint_seconds, shares_device)
        outcome = runs(cells)
    report = reports.build(target, targets, Findings(plan, files))
    paths = reports.write(report, folder, protocol=protocol)
    result = _result(target, plan, outcome, report, paths)
    if json:
        o.print_json(result)
    else:
        _print(report, result)
    if outcome is not None and any(failure.is_bug for failure in outcome.failed):
        raise typer.Exit(1)


@dataclass(frozen=True)
class _Choice:
    """Data sets that are shown, those of them that can be loaded, and how."""

    shown: tuple[str, ...]
    present: tuple[str, ...]
    load: Callable[[str], Dataset]


def _datasets(
    given: str | None, data_dir: Path | None, files: CellFiles, *, quick: bool, report_only: bool
) -> _Choice:
    """Those that are named, else the paper's; what stands in for one is shown if it is there.

    A report alone follows from the files, whatever data are on this machine.
    """
    from ratiorec.data.benchmarks import available, load
    from ratiorec_lab.reproduce.cells import small_dataset
    from ratiorec_lab.reproduce.published import PAPER_DATASETS, SMALL, STAND_IN

    if quick:
        if given is not None:
            raise ConfigError(
                "a quick run has data of its own",
                where="--datasets",
                found=given,
                wanted="either --quick or --datasets",
            )
        return _Choice((SMALL,), (SMALL,), lambda _: small_dataset())
    listings = [] if report_only else available(data_dir)
    there = {listing.name for listing in listings if listing.where is not None}
    if given is None:
        extra = (STAND_IN,) if STAND_IN in there | files.known_datasets() else ()
        shown = (*PAPER_DATASETS, *extra)
    else:
        shown = _listed(given)
        _require_known(shown, set(shown) if report_only else there | files.known_datasets())
    present = tuple(name for name in shown if name in there)
    return _Choice(shown, present, lambda name: load(name, data_dir=data_dir))


def _require_data(choice: _Choice) -> None:
    """Refuse to run on nothing."""
    if not choice.present:
        raise ConfigError(
            "none of the data sets is on this machine",
            where="--data-dir",
            found=f"neither of {', '.join(choice.shown)}",
            wanted="ratiorec data fetch gowalla, or --quick, or --report-only",
        )


def _require_known(names: Sequence[str], known: set[str]) -> None:
    from ratiorec.data.registry import BENCHMARKS

    for name in names:
        benchmark = BENCHMARKS.get(name)
        if benchmark is None or benchmark.n_test_pairs == 0:
            raise ConfigError(
                "no benchmark of this name with a test part",
                where="--datasets",
                found=repr(name),
                wanted="one of " + ", ".join(n for n, b in BENCHMARKS.items() if b.n_test_pairs),
            )
        if name not in known:
            raise ConfigError(
                "a data set is not on this machine",
                where="--datasets",
                found=name,
                wanted=benchmark.how_to_get,
            )


def _listed(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _seeds(text: str | None, known: Sequence[int]) -> tuple[int, ...]:
    if text is None:
        return tuple(known) or (0,)
    try:
        return tuple(int(word) for word in _listed(text))
    except ValueError:
        raise ConfigError(
            "a seed is no number", where="--seeds", found=repr(text), wanted="such as 0,1,2"
        ) from None


@dataclass(frozen=True)
class _Runs:
    """Runs what is missing, and shows how far it is."""

    files: CellFiles
    choice: _Choice
    device: str
    max_seconds: float
    checkpoint_seconds: float
    shares_device: bool

    def __call__(self, cells: list[Cell]) -> RunOutcome:
        from ratiorec.cli.progress import stop_on_interrupt
        from ratiorec_lab.reproduce.run import Runner

        with stop_on_interrupt() as stop_requested, ReproduceProgress() as progress:
            run = Runner(
                self.files,
                self.choice.load,
                progress,
                device=self.device,
                max_seconds=self.max_seconds,
                checkpoint_seconds=self.checkpoint_seconds,
                shares_device=self.shares_device,
                stop_requested=stop_requested,
            )
            return run(cells, self.choice.present)


def _result(
    target: str,
    plan: Plan,
    outcome: RunOutcome | None,
    report: ReproductionReport,
    paths: dict[str, Path],
) -> dict[str, Any]:
    told = report.to_json()
    return {
        "target": target,
        "protocol": plan.protocol,
        "quick": plan.is_quick,
        "seeds": list(plan.seeds),
        "datasets": list(plan.datasets),
        "cells": {
            "run": [cell.path for cell in outcome.run] if outcome else [],
            "kept": [cell.path for cell in outcome.kept] if outcome else [],
            "failed": [
                {"where": failure.where, "reason": failure.reason, "is_bug": failure.is_bug}
                for failure in (outcome.failed if outcome else ())
            ],
        },
        "verdicts": told["verdicts"],
        "facts": told["facts"],
        "exhibits": told["exhibits"],
        "chosen": told["chosen"],
        "paths": {name: str(path) for name, path in paths.items()},
    }


def _print(report: ReproductionReport, result: dict[str, Any]) -> None:
    from ratiorec_lab.reproduce.exhibits import TableExhibit
    from ratiorec_lab.reproduce.wording import worded

    console = Console(highlight=False, markup=False, soft_wrap=True)
    console.print(report.title)
    for exhibit in report.exhibits:
        console.print(f"\n{exhibit.title}", style="bold")
        if isinstance(exhibit, TableExhibit):  # curves and bars need a page
            for part in _parts(worded(exhibit), console):
                console.print(part)
                console.print()
        for remark in exhibit.remarks:
            console.print(f"  {remark}")
    for verdict in report.verdicts:
        console.print(f"{verdict.status}: {verdict.claim.sentence} ({verdict.figures})")
    for toml in report.chosen.values():
        console.print(f"\n{toml}".rstrip())
    cells = {name: len(found) for name, found in result["cells"].items()}
    console.print(f"\n{cells['run']} cells run, {cells['kept']} kept, {cells['failed']} failed")
    for name, path in result["paths"].items():
        console.print(f"{name}: {path}")


def _parts(table: WordedTable, console: Console) -> Iterator[Table]:
    """A table for a console; one that is too wide comes in parts, each with some columns."""
    unbounded = console.options.update(width=sys.maxsize)
    part = _part(table, [])
    columns: list[int] = []
    for k in range(len(table.columns)):
        wider = _part(table, [*columns, k])
        if columns and Measurement.get(console, unbounded, wider).maximum > console.width:
            yield part
            columns, wider = [], _part(table, [k])
        columns, part = [*columns, k], wider
    yield part


def _part(table: WordedTable, columns: Sequence[int]) -> Table:
    built = Table(box=box.SIMPLE, show_edge=False)
    built.add_column("", no_wrap=True)
    for k in columns:
        built.add_column(table.columns[k], justify="right", no_wrap=True)
    for name, cells in table.rows:
        figures = [f"{cell.upper} ({cell.lower})" if cell.lower else cell.upper for cell in cells]
        styled = (Text(figures[k], style="bold" if cells[k].is_best else "") for k in columns)
        built.add_row(Text(name), *styled)
    return built
