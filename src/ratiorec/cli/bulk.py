"""ratiorec recommend -o: lists for many users, into a file or a database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ratiorec.cli import options as o
from ratiorec.errors import ConfigError

if TYPE_CHECKING:
    from ratiorec.destinations import Destination, Job, Tally
    from ratiorec.recommend import Progress

Output = Annotated[
    str | None,
    typer.Option(
        "-o",
        "--output",
        help="Parquet file to write, or a database: sqlite:///FILE, postgresql://USER@HOST/NAME.",
    ),
]
Table = Annotated[str | None, typer.Option(help="Table of the database; recommendations if left.")]
Resume = Annotated[
    bool,
    typer.Option(
        "--resume/--no-resume", help="Go on with an interrupted run of the same request, or not."
    ),
]
BlockUsers = Annotated[
    int | None,
    typer.Option(min=1, help="Users in a transaction or part; by default 131,072 rows."),
]


def destination_for(output: str | None, table: str | None) -> Destination | None:
    """Where the lists go, if not to standard output."""
    from ratiorec.destinations import destination_of

    if output is not None:
        return destination_of(output, table)
    if table is not None:
        raise ConfigError(
            "a table needs a database",
            where="--table",
            found=f"{table}, and no -o",
            wanted="-o with the URL of a database",
        )
    return None


def write_out(
    job: Job,
    destination: Destination,
    *,
    resume: bool,
    block_users: int | None,
    progress: Progress,
) -> Tally:
    """Write the lists, saying what was found and what is kept."""
    from ratiorec.destinations import write_lists

    return write_lists(
        job,
        destination,
        resume=resume,
        users_at_a_time=block_users,
        progress=progress,
        notify=o.say,
    )


def print_summary(tally: Tally, destination: Destination, *, json: bool) -> None:
    """How much there is now, and where."""
    place = destination.describe()
    if json:
        o.print_json({"rows": tally.n_rows, "users": tally.n_users, **place})
    elif "table" in place:
        o.say(f"{tally.n_rows:,} rows in table {place['table']} of {destination.where}")
    else:
        o.say(f"{tally.n_rows:,} rows in {destination.where}")
    if tally.n_without:
        o.say(f"{tally.n_without:,} of {tally.n_users:,} users have no item left to list")
