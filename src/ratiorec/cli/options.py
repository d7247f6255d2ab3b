"""Options that several commands share, and how results are printed."""

from __future__ import annotations

import functools
import inspect
import json
import re
import shlex
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from ratiorec.errors import (
    ConfigError,
    DataError,
    DataNotFoundError,
    MissingExtraError,
    unknown_choice,
)

if TYPE_CHECKING:
    from ratiorec.data.interactions import Dataset


Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A file, a folder or pattern of table parts, - for standard input, a LightGCN folder, "
        "or a benchmark's name.",
    ),
]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A model folder.")]
DataDir = Annotated[
    Path | None,
    typer.Option(help="Where benchmarks lie; then $RATIOREC_DATA, then the user cache."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")]
K = Annotated[
    int | None,
    typer.Option("-k", "--k", help="Length of the lists; 20, or all items where they are fewer."),
]

Validation = Annotated[
    float, typer.Option(help="Share of the pairs that chooses when to stop; 0 for none.")
]
ValidationBy = Annotated[
    str | None,
    typer.Option(
        help="Draw them at random, as the last of each user by timestamp or else by order in the "
        "source, or as all after a moment in time.",
        metavar="random|last|time",
    ),
]

At = Annotated[
    str | None,
    typer.Option(help="Hold out what first comes at this moment or later.", metavar="2026-05-01"),
]
LastDays = Annotated[
    float | None, typer.Option(help="Hold out what first comes in the last so many days.")
]


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """A command in which a parameter of a dataclass type stands for one option for each field.

    Typer has no groups of options and looks at nothing but the signature, so the groups are taken
    apart there, and put together again when the command is called.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        if name not in groups:
            parameters.append(parameter.replace(annotation=hints[name]))
            continue
        options = get_type_hints(groups[name], include_extras=True)
        for field in fields(groups[name]):
            option = parameter.replace(name=field.name, default=field.default)
            parameters.append(option.replace(annotation=options[field.name]))

    @functools.wraps(command)
    def run(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        command(**given)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run


@dataclass(frozen=True)
class Source:
    """Options of reading pairs: where benchmarks lie, and which column of a file is what."""

    data_dir: DataDir = None
    user_column: Annotated[str | None, typer.Option(help="Column of user ids.")] = None
    item_column: Annotated[str | None, typer.Option(help="Column of item ids.")] = None
    delimiter: Annotated[
        str | None, typer.Option(help="Field separator; found by itself if left.")
    ] = None
    header: Annotated[
        bool | None,
        typer.Option(
            "--header/--no-header", help="First line holds names; found by itself if left."
        ),
    ] = None
    sql: Annotated[
        str | None,
        typer.Option(
            help="Query for the pairs; DATA is then a DuckDB file, :memory: for queries over "
            "files, or a database's address.",
            metavar="SELECT",
        ),
    ] = None
    on_bad_rows: Annotated[
        str,
        typer.Option(help="Stop at rows that cannot be used, or skip them.", metavar="stop|skip"),
    ] = "stop"
    bad_rows_file: Annotated[
        Path | None, typer.Option(help="File to write the skipped rows to.")
    ] = None


@dataclass(frozen=True)
class TimedSource(Source):
    """As `Source`, for commands that look at times."""

    timestamp_column: Annotated[str | None, typer.Option(help="Column of times.")] = None


@dataclass(frozen=True)
class WeightedSource(TimedSource):
    """As `TimedSource`, for commands that look at weights too."""

    weight_column: Annotated[
        str | None,
        typer.Option(help="Column of weights; kept with the data, no model uses them yet."),
    ] = None


def load_data(data: str, source: Source) -> Dataset:
    """The data set that the options describe; what was read of a file is said."""
    from ratiorec.data.benchmarks import load
    from ratiorec.data.formats import Columns, read_sql
    from ratiorec.data.interactions import Dataset

    # a column that the command has no option for is not used, so that it may hold anything
    roles = {role: getattr(source, f"{role}_column", "") for role in get_type_hints(Columns)}
    options: dict[str, Any] = {
        "columns": Columns(**roles),
        "on_bad_rows": source.on_bad_rows,
        "bad_rows_file": source.bad_rows_file,
    }
    try:
        if source.sql is not None:
            dataset = Dataset("query", read_sql(source.sql, data, **options))
        else:
            options |= {"delimiter": source.delimiter, "header": source.header}
            dataset = load(data, data_dir=source.data_dir, **options)
    except DataError as error:
        error.wanted = re.sub(r"columns=Columns\((.*?)\)", _column_flags, error.wanted)
        raise
    if (reading := dataset.train.reading) is not None:
        for line in reading.lines():
            say(line)
        if reading.n_dropped and source.bad_rows_file is None:
            say("note: --bad-rows-file FILE writes them to a file")
    return dataset


def _column_flags(columns: re.Match[str]) -> str:
    """The options for columns that are told as arguments of `Columns`."""
    given = re.findall(r"(\w+)=(['\"])(.*?)\2(?:, |$)", columns[1])
    return " ".join(f"--{role}-column {shlex.quote(name)}" for role, _, name in given)


def tell_of_weights(dataset: Dataset) -> None:
    """One line for whoever gives weights, which change no model yet."""
    from ratiorec.data.interactions import weights_are_ignored

    if sentence := weights_are_ignored(dataset.train):
        say(f"warning: {sentence}")
        warnings.filterwarnings("ignore", message=sentence)  # every fit would say it again


def split_by(
    by: str | None, at: str | None, last_days: float | None, *, choices: Sequence[str], where: str
) -> str:
    """How pairs are held out: as asked for, by time where a moment is given, else as the first."""
    cut = "--at" if at is not None else "--last-days"
    if at is None and last_days is None:
        by = by or choices[0]
    elif by not in (None, "time"):
        raise ConfigError(
            f"{cut} is a cut in time", where=where, found=str(by), wanted=f"{where} time, or none"
        )
    else:
        by = "time"
    if by not in choices:
        raise unknown_choice("unknown split", by, choices, where=where)
    return by


def tell_of_order(dataset: Dataset, validation_by: str | None) -> None:
    """One line for whoever asks for the last pairs of each user: how they are told."""
    from ratiorec.data.describe import order_evidence

    if validation_by == "last" and dataset.train.moments is not None:
        evidence = order_evidence(dataset.train)
        say(f"{'note' if evidence.is_informative else 'warning'}: {evidence.sentence}")


def read_lines(path: Path) -> list[str]:
    """The lines of a file of ids; blank ones do not count."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise DataNotFoundError(
            "no such file of ids", where=str(path), found="nothing", wanted="a file, one id a line"
        ) from None
    except (UnicodeDecodeError, OSError) as error:
        raise DataError(
            "the file of ids cannot be read",
            where=str(path),
            found=str(error),
            wanted="UTF-8 text, one id a line",
        ) from None
    # an id may hold any character but the end of a line, so only that is cut off
    return [line for line in text.split("\n") if line.strip()]


def given_command() -> str:
    """The command as it was given, less the place of its result file, which moves."""
    words = sys.argv[1:]
    if "--record" in words:
        place = words.index("--record")
        words = words[:place] + words[place + 2 :]
    return shlex.join(["ratiorec", *(word for word in words if not word.startswith("--record="))])


def print_json(value: dict[str, Any]) -> None:
    """One JSON object on standard output."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


def say(text: str) -> None:
    """A line for people; never on standard output, which belongs to results."""
    typer.echo(text, err=True)


def format_metrics(metrics: dict[str, float]) -> str:
    """`recall@20 0.1813, ndcg@20 0.1545`."""
    return ", ".join(f"{name} {value:.4f}" for name, value in metrics.items())


def lab_is_missing(where: str) -> MissingExtraError:
    """The error of what only the laboratory can do, where it is not installed."""
    return MissingExtraError(
        "the laboratory is not installed",
        where=where,
        found="no package ratiorec-lab",
        wanted="pip install ratiorec-lab, or pip install ./lab in a clone of the repository",
    )
