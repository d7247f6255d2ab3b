"""ratiorec data: look at, fetch and split pairs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from ratiorec.cli import options as o

app = typer.Typer(help="Look at, fetch and split pairs.", no_args_is_help=True)


@app.command("list", epilog="Example:\n\n  ratiorec data list")
def list_benchmarks(data_dir: o.DataDir = None, json: o.Json = False) -> None:
    """The benchmarks by name, and where each one lies."""
    from ratiorec.data.benchmarks import available

    rows = available(data_dir)
    if json:
        o.print_json({"benchmarks": [row.to_json() for row in rows]})
        return
    for row in rows:
        size = f"{row.n_users:>7,} users {row.n_items:>7,} items {row.n_train_pairs:>9,} pairs"
        typer.echo(f"{row.name:<15} {size}  {row.where or 'not here: ' + row.how_to_get}")


@app.command(
    epilog="Examples:\n\n  ratiorec data describe clicks.csv\n\n  "
    "ratiorec data describe gowalla --json"
)
@o.grouped
def describe(data: o.Data, *, source: o.WeightedSource, json: o.Json = False) -> None:
    """Users, items, pairs, density and degrees, with warnings."""
    from ratiorec.data.describe import describe as describe_pairs

    dataset = o.load_data(data, source)
    description = describe_pairs(dataset.train)
    if json:
        test = None if dataset.test is None else dataset.test.n_pairs
        reading = dataset.train.reading
        o.print_json(
            {
                "name": dataset.name,
                **description.to_json(),
                "n_test_pairs": test,
                "reading": None if reading is None else reading.to_json(),
            }
        )
        return
    typer.echo(dataset.name)
    for name, value in description.to_json().items():
        if name != "warnings":
            typer.echo(f"{name:>24}  {_readable(value)}")
    if dataset.test is not None:
        typer.echo(f"{'n_test_pairs':>24}  {dataset.test.n_pairs:,}")
    for warning in description.warnings:
        o.say(f"warning: {warning}")


def _readable(value: Any) -> str:
    if isinstance(value, dict):
        if "sentence" in value:
            return str(value["sentence"])
        return ", ".join(f"{name} {_readable(number)}" for name, number in value.items())
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"


@app.command(epilog="Examples:\n\n  ratiorec data fetch gowalla\n\n  ratiorec data fetch ml-100k")
def fetch(
    name: Annotated[str, typer.Argument(help="A benchmark's name.")], data_dir: o.DataDir = None
) -> None:
    """Download a benchmark, verify it, and put it where DATA finds it."""
    from rich.console import Console
    from rich.progress import DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    from ratiorec.data.benchmarks import fetch as fetch_benchmark

    console = Console(stderr=True)
    columns = (*Progress.get_default_columns()[:2], DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console) as bar:
        tasks: dict[str, Any] = {}

        def show(file: str, done: int, total: int | None) -> None:
            if file not in tasks:
                tasks[file] = bar.add_task(file, total=total)
            bar.update(tasks[file], completed=done)

        folder = fetch_benchmark(name, data_dir=data_dir, progress=show)
    typer.echo(str(folder))


@app.command(
    epilog="Examples:\n\n  ratiorec data split clicks.csv -o split\n\n  "
    "ratiorec data split plays.parquet -o split --by last --n 2\n\n  "
    "ratiorec data split clicks.csv -o split --at 2026-05-01"
)
@o.grouped
def split(
    data: o.Data,
    *,
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder to write.")],
    by: Annotated[str | None, typer.Option(help="ratio, last or time; ratio if left.")] = None,
    fraction: Annotated[float, typer.Option(help="Share held out, for ratio and time.")] = 0.1,
    n: Annotated[int, typer.Option(help="Pairs held out per user, for last.")] = 1,
    at: o.At = None,
    last_days: o.LastDays = None,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same split.")] = 0,
    source: o.WeightedSource,
) -> None:
    """Hold pairs out and write both parts as a LightGCN folder, the earliest items first.

    The last pairs of a user are told by timestamps, or else by their order in the source.
    """
    import numpy as np

    from ratiorec.data.formats import write_lightgcn
    from ratiorec.data.interactions import Dataset
    from ratiorec.data.split import LeaveLast, RatioSplit, Split, TimeSplit, cut_in_time

    by = o.split_by(by, at, last_days, choices=("ratio", "last", "time"), where="--by")
    splitters: dict[str, Callable[..., Split]] = {
        "ratio": RatioSplit(fraction),
        "last": LeaveLast(n),
        "time": TimeSplit(fraction),
    }
    dataset = o.load_data(data, source)
    if dataset.test is not None:
        o.say(f"note: {dataset.name} has a test part already; it is left out of the split")
    o.tell_of_order(dataset, by)
    if by == "time":
        splitters[by] = cut_in_time(dataset.train, fraction, at=at, last_days=last_days)
    parts = splitters[by](dataset.train, rng=np.random.default_rng(seed))
    write_lightgcn(Dataset(dataset.name, parts.train, parts.held_out), output)
    if dataset.train.weights is not None:
        o.say("note: a LightGCN folder holds no weights; fit and compare split a weighted log")
    why = "have no pair after the cut" if by == "time" else "had too few pairs"
    typer.echo(
        f"{parts.train.n_pairs:,} pairs for training and {parts.held_out.n_pairs:,} held out "
        f"in {output}; {parts.n_users_kept_whole:,} users {why} and stay whole"
    )
    if by == "time":
        typer.echo(
            f"{parts.n_users_unseen:,} users begin after the cut, and {parts.n_repeats:,} training "
            "pairs come again after it: seen items are not listed, so these are not held out"
        )
