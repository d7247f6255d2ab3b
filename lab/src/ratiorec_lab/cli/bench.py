"""ratiorec bench."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from ratiorec.cli import options as o
from ratiorec.errors import StorageError, require_range

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ratiorec.data.interactions import Dataset
    from ratiorec_lab.bench.case import Measured
    from ratiorec_lab.bench.clock import Conditions, Effort

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


EXAMPLES = """Examples:

  ratiorec bench --quick

  ratiorec bench risk --data gowalla --users 2500

  ratiorec bench step --presets dregn-cf,lightgcn:batches.n_pairs=2048 --json

  ratiorec bench frontier --data gowalla --max-seconds 60 --out out/bench

  ratiorec bench growth --device cpu --out out/bench
"""
TEST_SHARE = 0.2  # of each user's pairs, where the data have no test part


def bench(
    target: Annotated[
        str,
        typer.Argument(
            help="risk, softmax, propagation, step, fit, recommend, evaluate, frontier, growth "
            "or all."
        ),
    ] = "all",
    data: Annotated[
        str | None,
        typer.Option(
            help="Data to measure on; gowalla, or synthetic with --quick. growth makes its own."
        ),
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")] = "auto",
    users: Annotated[
        int | None,
        typer.Option(min=1, help="Users of a batch (risk), or to rank for (recommend, evaluate)."),
    ] = None,
    presets: Annotated[
        str | None,
        typer.Option(
            help="For step, fit and frontier: PRESET[+FILE.toml][:SETTING=VALUE] with commas; "
            "for frontier also auto@SECONDS."
        ),
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="For fit: train for so long, search for nothing.")
    ] = None,
    max_seconds: Annotated[
        float | None, typer.Option(help="For fit (its search) and frontier: of each preset; 120.")
    ] = None,
    repeats: Annotated[int | None, typer.Option(min=1, help="Rounds; 7 unless given.")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Small data, few rounds: only to see it work.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="Folder for bench-TARGET.json and bench-TARGET.html.")
    ] = None,
    record: Annotated[
        Path | None, typer.Option(help="Also write a result file, as under results/.")
    ] = None,
    data_dir: o.DataDir = None,
    json: o.Json = False,
) -> None:
    """Measure how fast things are, beside the least they could take and beside rivals.

    Cases take turns in one run, so that their ratios hold on a noisy machine.
    """
    import torch

    from ratiorec.machine import commit
    from ratiorec.training.experiment import find_device
    from ratiorec_lab.bench.case import to_record
    from ratiorec_lab.bench.clock import Conditions
    from ratiorec_lab.bench.targets import named

    names, contenders = named(target), _contenders(presets)
    place = torch.device(str(find_device(device)))
    effort = _effort(repeats, max_seconds, quick=quick)
    _require_room(out, record)
    conditions = Conditions(
        _data(names, data, data_dir, effort),
        place,
        effort,
        n_users=users,
        presets=contenders,
        epochs=epochs,
    )
    started_from = commit()
    found = _measure(names, conditions)
    result = to_record(
        found,
        target=target,
        dataset=conditions.dataset,
        device=str(place),
        command=o.given_command(),
        commit=started_from,
    )
    if json:
        o.print_json(result)
    else:
        _print(found)
    _write(found, result, out, record)


def _data(
    names: Sequence[str], asked_for: str | None, data_dir: Path | None, effort: Effort
) -> Dataset:
    """What is asked for, or what is usual, or what the only target makes for itself."""
    from ratiorec.training.compare import with_test_part
    from ratiorec_lab.bench.targets import TARGETS

    own_data = TARGETS[names[0]].own_data
    if asked_for is None and len(names) == 1 and own_data is not None:
        return own_data(effort)
    usual = "synthetic" if effort.is_quick else "gowalla"
    return with_test_part(o.load_data(asked_for or usual, o.Source(data_dir)), TEST_SHARE)


def _contenders(presets: str | None) -> tuple[str, ...] | None:
    from ratiorec_lab.bench.race import require_contenders

    if presets is None:
        return None
    names = tuple(name.strip() for name in presets.split(","))
    require_contenders(names)
    return names


def _effort(repeats: int | None, max_seconds: float | None, *, quick: bool) -> Effort:
    from ratiorec_lab.bench import clock

    if max_seconds is not None:
        what = "the time budget is out of range"
        require_range("--max-seconds", max_seconds, above=0, finite=False, what=what)
    effort = clock.QUICK if quick else clock.USUAL
    return replace(
        effort,
        repeats=repeats or effort.repeats,
        max_seconds=max_seconds or effort.max_seconds,
    )


def _require_room(out: Path | None, record: Path | None) -> None:
    """Refuse, before anything is measured, places that cannot be written to."""
    from ratiorec.files import make_folder

    if record is not None and record.is_dir():
        raise StorageError(
            "the result would replace a folder",
            where="--record",
            found=str(record),
            wanted="the path of a file",
        )
    for folder in (out, record and record.parent):
        if folder is not None:
            make_folder(folder)


def _measure(names: Sequence[str], conditions: Conditions) -> list[Measured]:
    from ratiorec_lab.bench.targets import TARGETS

    with BenchProgress() as progress:
        watched = replace(conditions, tell=progress)
        return [TARGETS[name].measure(watched) for name in names]


def _print(found: Sequence[Measured]) -> None:
    from ratiorec_lab.bench.words import lines

    for place, measured in enumerate(found):
        if place:
            typer.echo()
        for line in lines(measured):
            typer.echo(line)


def _write(
    found: Sequence[Measured], result: dict[str, Any], out: Path | None, record: Path | None
) -> None:
    """After the figures are told: a full disk must not cost them."""
    from ratiorec.files import write_json
    from ratiorec_lab.bench.page import write_page

    if record is not None:
        write_json(record, result)
    if out is not None:
        file = out / f"bench-{result['target']}.json"
        write_json(file, result)
        write_page(found, result, file.with_suffix(".html"))
        o.say(f"page: {file.with_suffix('.html')}")
