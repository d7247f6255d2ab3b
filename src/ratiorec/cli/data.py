"""ratiorec data: look at, fetch, prepare and split pairs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ratiorec.cli import options as o
from ratiorec.errors import ConfigError

if TYPE_CHECKING:
    from ratiorec.data.interactions import Dataset
    from ratiorec.data.split import Split
    from ratiorec.data.stored.splitting import AskedSplit, Counts

app = typer.Typer(help="Look at, fetch, prepare and split pairs.", no_args_is_help=True)


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


SPLIT_EXAMPLES = """Examples:

  ratiorec data split clicks.csv -o split

  ratiorec data split plays.parquet -o split --by last --n 2

  ratiorec data split clicks.csv -o split --at 2026-05-01

  ratiorec data split logs -o split --memory-mb 6144
"""


@app.command(epilog=SPLIT_EXAMPLES)
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
    memory_mb: Annotated[
        float | None,
        typer.Option(
            help="Stay below, for data larger than memory: Parquet, text, a query or an address "
            "such as s3://…; writes a training set on disk."
        ),
    ] = None,
    source: o.WeightedSource,
) -> None:
    """Hold pairs out and write both parts: a LightGCN folder, or with --memory-mb a training set.

    The last pairs of a user are told by timestamps, or else by their order in the source.
    """
    from ratiorec.data.split import LeaveLast, RatioSplit, TimeSplit, cut_in_time
    from ratiorec.data.stored.splitting import AskedSplit

    by = o.split_by(by, at, last_days, choices=("ratio", "last", "time"), where="--by")
    if memory_mb is not None:
        asked = AskedSplit(by, fraction, n, at, last_days, seed)
        _prepare(data, output, source, memory_mb=memory_mb, split=asked)
        return
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
    _write_split(dataset, splitters[by], seed, output, by)


def _write_split(
    dataset: Dataset, splitter: Callable[..., Split], seed: int, output: Path, by: str
) -> None:
    """Both parts as a LightGCN folder, the earliest items first."""
    import numpy as np

    from ratiorec.data.formats import write_lightgcn
    from ratiorec.data.interactions import Dataset

    parts = splitter(dataset.train, rng=np.random.default_rng(seed))
    write_lightgcn(Dataset(dataset.name, parts.train, parts.held_out), output)
    if dataset.train.weights is not None:
        o.say("note: a LightGCN folder holds no weights; fit and compare split a weighted log")
    _tell_of_split(parts.train.n_pairs, parts.held_out.n_pairs, parts, output, by)


def _tell_of_split(
    n_train: int, n_held_out: int, done: Split | Counts, output: Path, by: str
) -> None:
    why = "have no pair after the cut" if by == "time" else "had too few pairs"
    typer.echo(
        f"{n_train:,} pairs for training and {n_held_out:,} held out "
        f"in {output}; {done.n_users_kept_whole:,} users {why} and stay whole"
    )
    if by == "time":
        typer.echo(
            f"{done.n_users_unseen:,} users begin after the cut, and {done.n_repeats:,} training "
            "pairs come again after it: seen items are not listed, so these are not held out"
        )


PREPARE_EXAMPLES = """Examples:

  ratiorec data prepare 'logs/*.parquet' -o training-set --memory-mb 6144

  ratiorec data prepare s3://shop/clicks -o training-set

  ratiorec data prepare tuesday.parquet -o training-set --append
"""


@app.command(epilog=PREPARE_EXAMPLES)
@o.grouped
def prepare(
    data: o.Data,
    *,
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder to write.")],
    memory_mb: Annotated[float, typer.Option(help="The memory that may be taken.")] = 4096,
    append: Annotated[
        bool,
        typer.Option("--append", help="Add to the folder: its ids keep their indices."),
    ] = False,
    source: o.WeightedSource,
) -> None:
    """Write data larger than memory as a training set on disk, which every command takes as DATA.

    The source is Parquet, text with a header, a query, or an address such as s3://… of such files.
    """
    _prepare(data, output, source, memory_mb=memory_mb, append=append)


def _prepare(
    data: str,
    output: Path,
    source: o.WeightedSource,
    *,
    memory_mb: float,
    split: AskedSplit | None = None,
    append: bool = False,
) -> None:
    from ratiorec.data.formats.merging import Weighting
    from ratiorec.data.formats.reading import BadRows
    from ratiorec.data.stored.prepare import prepare as prepare_data
    from ratiorec.data.stored.source import Asked

    if source.bad_rows_file is not None:
        raise ConfigError(
            "bad rows are not written while data are streamed",
            where="--bad-rows-file",
            found=str(source.bad_rows_file),
            wanted="--on-bad-rows skip, whose report counts them and tells the first five",
        )
    columns = o.columns_of(source)
    with o.told_with_flags():
        weighting = Weighting(**o.weighting_of(source))
        weighting.require_event_column(columns.event, spelt="columns=Columns(event='NAME')")
        done = prepare_data(
            Asked(data, columns, source.sql, source.delimiter, source.header),
            output,
            memory_mb=memory_mb,
            weighting=weighting,
            bad=BadRows(source.on_bad_rows),  # type: ignore[arg-type]  # it is checked there
            split=split,
            append=append,
        )
    if done.reading is not None:
        o.tell_of_reading(done.reading)
    if done.split is not None:
        assert split is not None
        _tell_of_split(done.split.train, done.split.held_out, done.split, output, split.by)
        return
    sizes = done.manifest
    typer.echo(
        f"{sizes['pairs']['train']:,} pairs of {sizes['users']:,} users and {sizes['items']:,} "
        f"items in {output}"
    )
