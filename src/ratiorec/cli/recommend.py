"""ratiorec recommend and similar: lists of items, for some users or in bulk."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ratiorec.cli import options as o
from ratiorec.cli import recommend as bulk
from ratiorec.errors import ConfigError

if TYPE_CHECKING:
    from ratiorec.scorers.table import Recommendations
    from ratiorec.scorers.topk import Progress
    from ratiorec.sinks import Destination, Job, Tally


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
    from ratiorec.sinks import destination_of

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
    from ratiorec.sinks import write_lists

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


EXAMPLES = """Examples:

  ratiorec recommend model --user alice --user bob -k 10

  ratiorec recommend model --all -o lists.parquet

  ratiorec recommend model --all -o sqlite:///lists.db --table homepage

  ratiorec recommend model --history tea,jam

  ratiorec recommend model --users users.txt --deny sold_out.txt --json
"""
SIMILAR_EXAMPLES = """Examples:

  ratiorec similar model --item 1234 -k 5
"""

OnUnknown = Annotated[
    Literal["raise", "skip", "fallback"], typer.Option(help="What to do about unknown ids.")
]


def recommend(
    model: o.Model,
    user: Annotated[list[str] | None, typer.Option("--user", help="User id; repeatable.")] = None,
    users: Annotated[Path | None, typer.Option(help="File with one user id a line.")] = None,
    everyone: Annotated[bool, typer.Option("--all", help="Every known user.")] = False,
    history: Annotated[
        list[str] | None,
        typer.Option(help="Items of someone who was not there in training: ITEM,ITEM; repeatable."),
    ] = None,
    k: o.K = None,
    allow: Annotated[Path | None, typer.Option(help="Only items in this file, one a line.")] = None,
    deny: Annotated[Path | None, typer.Option(help="No items in this file, one a line.")] = None,
    include_seen: Annotated[
        bool, typer.Option("--include-seen", help="Also items the user has already.")
    ] = False,
    on_unknown: OnUnknown = "raise",
    output: bulk.Output = None,
    table: bulk.Table = None,
    resume: bulk.Resume = True,
    block_users: bulk.BlockUsers = None,
    memory_mb: Annotated[int, typer.Option(help="Memory for blocks of scores.")] = 512,
    json: o.Json = False,
) -> None:
    """The best items for one user, for a file of users, or for everyone."""
    from ratiorec.cli.progress import users_bar
    from ratiorec.model.artifact import Artifact
    from ratiorec.sinks import Job

    given = [user is not None, users is not None, everyone, history is not None]
    if sum(given) != 1:
        raise ConfigError(
            "recommendation needs users",
            where="--user, --users, --all, --history",
            found=f"{sum(given)} of them",
            wanted="exactly one of them",
        )
    destination = bulk.destination_for(output, table)
    artifact = Artifact.load(model)
    length = _list_length(k, len(artifact.items))
    ids = artifact.users.ids if everyone else o.read_lines(users) if users else user or []
    asked: dict[str, Any] = {
        "exclude_seen": not include_seen,
        "allow": o.read_lines(allow) if allow else None,
        "deny": o.read_lines(deny) if deny else None,
        "on_unknown": on_unknown,
        "memory_mb": memory_mb,
    }
    if history is not None:
        lists = artifact.recommend_to([text.split(",") for text in history], length, **asked)
        _put_out_histories(lists, history, destination, json=json)
        return
    if user is not None:  # a few users: know that there is a list before one is begun
        _require_lists(artifact.recommend_blocks(ids, length, **asked), user)
    if destination is not None:
        with users_bar("users") as progress:
            tally = bulk.write_out(
                Job.of(artifact, ids, length, **asked),
                destination,
                resume=resume,
                block_users=block_users,
                progress=progress,
            )
        bulk.print_summary(tally, destination, json=json)
        return
    counted = _Tally()
    _print_out(counted(artifact.recommend_blocks(ids, length, **asked)), json=json)
    if counted.n_without:
        o.say(f"{counted.n_without:,} of {counted.n_users:,} users have no item left to list")


def _list_length(k: int | None, n_items: int) -> int:
    """What was asked for; a small catalogue is in the way of a wish only, not of the default."""
    if k is None:
        return min(20, n_items)
    if k > n_items:
        raise ConfigError(
            "a list cannot be longer than the catalogue",
            where="-k",
            found=str(k),
            wanted=f"1 to {n_items}, the number of items",
        )
    return k


def _put_out_histories(
    lists: Recommendations, history: list[str], destination: Destination | None, *, json: bool
) -> None:
    """Lists of new users, who are called by their place in the question."""
    from ratiorec.scorers.table import write_parquet
    from ratiorec.sinks import ParquetFile

    _require_lists([lists], history, option="--history")
    if destination is None:
        _print_out([lists], json=json)
        return
    if not isinstance(destination, ParquetFile):
        raise ConfigError(
            "lists for histories are written as Parquet",
            where="-o",
            found=destination.where,
            wanted="a file name that ends in .parquet, or --json",
        )
    n_rows = write_parquet([lists], destination.path)
    if json:
        o.print_json({"rows": n_rows, "users": lists.n_users, **destination.describe()})
    else:
        o.say(f"{n_rows:,} rows in {destination.where}")


def _require_lists(
    blocks: Iterable[Recommendations], user_ids: list[str], *, option: str = "--user"
) -> None:
    tally = _Tally()
    deque(tally(blocks), maxlen=0)
    if tally.n_users and tally.n_without == tally.n_users:
        raise ConfigError(
            "no item is left to list",
            where=f"{option} " + " ".join(user_ids[:3]),
            found="users who have seen every item that is allowed",
            wanted="other users, other items in --allow or --deny, or --include-seen",
        )


@dataclass
class _Tally:
    """Counts what passes through; a list that stays empty is otherwise easily missed."""

    n_users: int = 0
    n_without: int = 0

    def __call__(self, blocks: Iterable[Recommendations]) -> Iterator[Recommendations]:
        for block in blocks:
            self.n_users += block.n_users
            self.n_without += block.n_users - int((block.ranks == 1).sum())
            yield block


def _print_out(blocks: Iterable[Recommendations], *, json: bool) -> None:
    if json:
        _print_json_blocks(blocks)
    else:
        _print_lists(blocks)


def _print_json_blocks(blocks: Iterable[Recommendations]) -> None:
    """One JSON object written block by block, so that --all needs no more memory than one."""
    opening = '{"recommendations": [\n'
    for block in blocks:
        for row in block.to_dicts():
            typer.echo(opening + dumps(row, ensure_ascii=False), nl=False)
            opening = ",\n"
    typer.echo("\n]}" if opening == ",\n" else opening + "]}")


def _print_lists(blocks: Iterable[Recommendations]) -> None:
    last = None
    for block in blocks:
        for row in block.to_dicts():
            if row["user_id"] != last:
                last = row["user_id"]
                typer.echo(f"{last}")
            name = f"  {row['item_name']}" if "item_name" in row else ""
            typer.echo(f"{row['rank']:>5}  {row['score']:>9.4f}  {row['item_id']}{name}")


def similar(
    model: o.Model,
    item: Annotated[list[str], typer.Option("--item", help="Item id; repeatable.")],
    k: o.K = None,
    json: o.Json = False,
) -> None:
    """The items nearest to an item."""
    from ratiorec.model.artifact import Artifact

    artifact = Artifact.load(model)
    neighbours = artifact.similar(item, _list_length(k, len(artifact.items)))
    if json:
        o.print_json({"similar": neighbours.to_dicts()})
        return
    for row in neighbours.to_dicts():
        name = f"  {row['similar_name']}" if "similar_name" in row else ""
        typer.echo(f"{row['rank']:>5}  {row['score']:>9.4f}  {row['similar_id']}{name}")
