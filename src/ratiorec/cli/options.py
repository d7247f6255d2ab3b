"""Options that several commands share, and how results are printed."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ratiorec.errors import MissingExtraError

if TYPE_CHECKING:
    from ratiorec.data.interactions import Dataset


Data = Annotated[
    str, typer.Argument(metavar="DATA", help="A file, a LightGCN folder, or a benchmark's name.")
]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A model folder.")]
DataDir = Annotated[
    Path | None,
    typer.Option(help="Where benchmarks lie; then $RATIOREC_DATA, then the user cache."),
]
User = Annotated[str | None, typer.Option("--user-column", help="Column of user ids.")]
Item = Annotated[str | None, typer.Option("--item-column", help="Column of item ids.")]
Weight = Annotated[str | None, typer.Option("--weight-column", help="Column of weights.")]
Timestamp = Annotated[str | None, typer.Option("--timestamp-column", help="Column of times.")]
Delimiter = Annotated[str | None, typer.Option(help="Field separator; found by itself if left.")]
Header = Annotated[
    bool | None,
    typer.Option("--header/--no-header", help="First line holds names; found by itself if left."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")]
K = Annotated[
    int | None,
    typer.Option("-k", "--k", help="Length of the lists; 20, or all items where they are fewer."),
]


def load_data(
    data: str,
    data_dir: Path | None,
    user: str | None = None,
    item: str | None = None,
    weight: str | None = None,
    timestamp: str | None = None,
    delimiter: str | None = None,
    header: bool | None = None,
) -> Dataset:
    """The data set that the options describe."""
    from ratiorec.data.benchmarks import load
    from ratiorec.data.formats import Columns

    return load(
        data,
        data_dir=data_dir,
        columns=Columns(user, item, weight, timestamp),
        delimiter=delimiter,
        header=header,
    )


def read_lines(path: Path) -> list[str]:
    """The lines of a file of ids; blank ones do not count."""
    from ratiorec.errors import DataError, DataNotFoundError

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
