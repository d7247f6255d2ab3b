"""Options that several commands share, and how results are printed."""

from __future__ import annotations

import functools
import inspect
import json
import math
import re
import shlex
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, get_type_hints

import typer

from ratiorec.errors import (
    ConfigError,
    DataError,
    DataNotFoundError,
    MissingExtraError,
    unknown_choice,
)

if TYPE_CHECKING:
    from ratiorec.data.formats import Columns, Reading
    from ratiorec.data.interactions import Dataset
    from ratiorec.settings import AnySettings


Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A file, a folder or pattern of table parts, - for standard input, a training set on "
        "disk, a LightGCN folder, or a benchmark's name.",
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

OnBadRows = Annotated[
    str,
    typer.Option(help="Stop at rows that cannot be used, or skip them.", metavar="stop|skip"),
]
ListedAttributes = Annotated[
    str | None,
    typer.Option(
        "--attributes",
        help="Give these columns of the item table with each item.",
        metavar="C,C|all",
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
    on_bad_rows: OnBadRows = "stop"
    bad_rows_file: Annotated[
        Path | None, typer.Option(help="File to write the skipped rows to.")
    ] = None


@dataclass(frozen=True)
class EventSource(Source):
    """As `Source`, for commands that ask only which pairs there are, not what they weigh."""

    reads_unnamed: ClassVar[bool] = False
    """Whether weights and times are looked for by the usual names."""

    weight_column: Annotated[
        str | None, typer.Option(help="Column of weights; a weight of 0 is no pair.")
    ] = None
    event_column: Annotated[str | None, typer.Option(help="Column of kinds of event.")] = None
    event_weights: Annotated[
        str | None,
        typer.Option(
            help="Weight of each kind; 0 leaves its rows out, a negative one takes back what "
            "others gave.",
            metavar="buy=5,view=1,return=-1",
        ),
    ] = None


@dataclass(frozen=True)
class NewPairsSource(EventSource):
    """As `EventSource`, with all that decides what a pair weighs."""

    timestamp_column: Annotated[str | None, typer.Option(help="Column of times.")] = None
    half_life: Annotated[
        str | None,
        typer.Option(
            help="Age at which a row weighs half as much as the latest: a number with s, m, h, d "
            "or w, or in the unit of the timestamps.",
            metavar="90d",
        ),
    ] = None
    repeats: Annotated[
        str | None,
        typer.Option(
            help="Weight of a pair with several rows: their sum, the largest, or 1. If left, the "
            "sum where rows have weights, else 1.",
            metavar="sum|max|once",
        ),
    ] = None


@dataclass(frozen=True)
class WeightedSource(NewPairsSource):
    """As `NewPairsSource`, with weights and times found by their usual names."""

    reads_unnamed: ClassVar[bool] = True


def load_data(data: str, source: Source) -> Dataset:
    """The data set that the options describe; what was read of a file is said."""
    from ratiorec.data.benchmarks import load
    from ratiorec.data.formats import read_sql
    from ratiorec.data.interactions import Dataset

    options: dict[str, Any] = {
        "columns": columns_of(source),
        **weighting_of(source),
        "on_bad_rows": source.on_bad_rows,
        "bad_rows_file": source.bad_rows_file,
    }
    with told_with_flags():
        if source.sql is not None:
            dataset = Dataset("query", read_sql(source.sql, data, **options))
        else:
            options |= {"delimiter": source.delimiter, "header": source.header}
            dataset = load(data, data_dir=source.data_dir, **options)
    if (reading := dataset.train.reading) is not None:
        if dataset.train.weights is None and not isinstance(source, WeightedSource):
            reading = replace(reading, repeats="once")  # and no hint at what would not matter
        tell_of_reading(reading)
        if reading.n_dropped and source.bad_rows_file is None:
            say("note: --bad-rows-file FILE writes them to a file")
    return dataset


@contextmanager
def told_with_flags() -> Iterator[None]:
    """Let an error of reading name the options of the command line."""
    try:
        yield
    except (DataError, ConfigError) as error:
        error.wanted = with_flags(error.wanted)
        error.where = "--repeats" if error.where == "repeats" else error.where
        raise


def tell_of_reading(reading: Reading) -> None:
    """What was read, line by line; names and rows in it may look like arguments."""
    for line in reading.lines():
        is_ours = line.startswith("note: ")
        say(with_flags(line) if is_ours else line.replace('repeats="sum"', "--repeats sum"))


def columns_of(source: Source) -> Columns:
    """Which column is what, as the options say."""
    from ratiorec.data.formats import Columns

    return Columns(**{role: _column(source, role) for role in get_type_hints(Columns)})


def weighting_of(source: Source) -> dict[str, Any]:
    """What rows and their repeats weigh, as the options say."""
    return {
        "event_weights": _event_weights(getattr(source, "event_weights", None)),
        "half_life": getattr(source, "half_life", None),
        "repeats": getattr(source, "repeats", None),
    }


def _column(source: Source, role: str) -> str | None:
    """The column of a role; an empty name where the command does not look at it."""
    column: str | None = getattr(source, f"{role}_column", "")
    is_wanted = getattr(source, "reads_unnamed", False) or (
        role == "timestamp" and getattr(source, "half_life", None) is not None
    )
    if column is None and role in ("weight", "timestamp") and not is_wanted:
        return ""  # a column that is not used may hold anything
    return column


def _event_weights(text: str | None) -> dict[str, float] | None:
    """The weights of `--event-weights`, by kind.

    >>> _event_weights("buy=5,return=-1")
    {'buy': 5.0, 'return': -1.0}
    """
    if text is None:
        return None
    weights: dict[str, float] = {}
    for part in text.split(","):
        kind, _, number = (word.strip() for word in part.rpartition("="))
        try:
            weight = float(number)
        except ValueError:
            weight = math.nan
        if not kind or kind in weights or not math.isfinite(weight):
            raise ConfigError(
                "a kind of event has two weights"
                if kind in weights
                else "this is no kind of event with its weight",
                where="--event-weights",
                found=repr(part),
                wanted="each kind once with a number, as buy=5,view=1,return=-1",
            )
        weights[kind] = weight
    return weights


def flag(name: str) -> str:
    """The flag of an argument of Python."""
    return "--" + name.replace("_", "-")


def with_flags(text: str) -> str:
    """Arguments of Python as flags: the library that speaks knows no command line.

    >>> with_flags('a known user, or on_unknown="skip", or header=False')
    'a known user, or --on-unknown skip, or --no-header'
    >>> with_flags("columns=Columns(event='kind') with event_weights={'buy': 5}")
    '--event-column kind with --event-weights buy=5'
    """
    text = re.sub(r"columns=Columns\((.*?)\)", _column_flags, text)
    text = re.sub(r"event_weights=\{(.*?)\}", _event_flag, text)
    text = re.sub(r"\b(?:event_weights|half_life)\b", lambda found: flag(found[0]), text)
    text = re.sub(
        r'(?<![\w.])([a-z_]+)="(\w+)"', lambda found: f"{flag(found[1])} {found[2]}", text
    )
    text = re.sub(r"(?<![\w.])([a-z_]+)=True\b", lambda found: flag(found[1]), text)
    return re.sub(r"(?<![\w.])([a-z_]+)=False\b", lambda found: flag(f"no_{found[1]}"), text)


def _event_flag(weights: re.Match[str]) -> str:
    """The option for weights that are told as a dictionary."""
    given = re.findall(r"(['\"])(.*?)\1: ([^,]+)", weights[1])
    return f"--event-weights {shlex.quote(','.join(f'{kind}={n}' for _, kind, n in given))}"


def _column_flags(columns: re.Match[str]) -> str:
    """The options for columns that are told as arguments of `Columns`."""
    given = re.findall(r"(\w+)=(['\"])(.*?)\2(?:, |$)", columns[1])
    return " ".join(f"--{role}-column {shlex.quote(name)}" for role, _, name in given)


def tell_of_weights(dataset: Dataset, *settings: AnySettings) -> None:
    """One line where weights look like times, or for each model that does not use them."""
    from ratiorec.training.experiment import weights_note

    for sentence in dict.fromkeys(weights_note(dataset.train, one) for one in settings):
        if sentence is not None:
            say(f"warning: {sentence}")
            warnings.filterwarnings("ignore", message=re.escape(sentence))  # a fit says it again


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


def tell_of_order(
    dataset: Dataset, validation_by: str | None, *, is_left_to_data: bool = False
) -> None:
    """One line on how the last pairs of each user are told, or on why they are not taken."""
    from ratiorec.data.describe import order_evidence, order_note

    if is_left_to_data and (note := order_note(dataset.train)):
        say(f"note: {note}")
    elif validation_by == "last" and dataset.train.moments is not None:
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


def words(text: str) -> list[str]:
    """What stands between commas, with or without blanks after them."""
    return [word.strip() for word in text.split(",") if word.strip()]


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
