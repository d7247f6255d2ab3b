"""ratiorec recommend and similar: lists of items, for some users or in bulk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ratiorec.cli import options as o
from ratiorec.cli.query import ListGroup, QueryGroup
from ratiorec.errors import ConfigError, UnknownIdError

if TYPE_CHECKING:
    from ratiorec.engines import Engine, Spread
    from ratiorec.model.artifact import Artifact
    from ratiorec.model.query import Query
    from ratiorec.scorers.table import Recommendations
    from ratiorec.sinks import Job, Sink, Tally


EXAMPLES = """Examples:

  ratiorec recommend model --user alice --user bob -k 10

  ratiorec recommend model --all -o lists.parquet

  ratiorec recommend model --users users.txt -o lists.csv

  ratiorec recommend model --all -o sqlite:///lists.db --table homepage

  ratiorec recommend model --all -o lists --engine ray --workers 2

  ratiorec recommend model --history tea,jam

  ratiorec recommend model --users users.txt --deny sold_out.txt --json

  ratiorec recommend model --user alice --filter 'kind in ["tea", "jam"] and price < 50'

  ratiorec recommend model --all -o lists.csv --rules rules.toml --rule-set home

  ratiorec recommend model --all --attributes category,price -o lists.parquet
"""
SIMILAR_EXAMPLES = """Examples:

  ratiorec similar model --item 1234 -k 5

  ratiorec similar model --item 1234 --item 99 -o similar.csv

  ratiorec similar model --item 1234 --filter 'stock > 0' --diversity 0.3
"""


@dataclass(frozen=True)
class SinkGroup:
    """The options of writing lists to a sink."""

    output: Annotated[
        str | None,
        typer.Option(
            "-o",
            "--output",
            help="Parquet or CSV file to write, or a database: sqlite:///FILE, "
            "postgresql://USER@HOST/NAME; with --engine a folder or its URI.",
        ),
    ] = None
    table: Annotated[
        str | None, typer.Option(help="Table of the database; recommendations if left.")
    ] = None
    resume: Annotated[
        bool, typer.Option(help="Go on with an interrupted run of the same request, or not.")
    ] = True
    block_users: Annotated[
        int | None,
        typer.Option(min=1, help="Users in a transaction or part; by default 131,072 rows."),
    ] = None

    engine: Annotated[
        Literal["local", "ray"] | None,
        typer.Option(help="Who ranks into a folder of parts: this process, or Ray workers."),
    ] = None
    workers: Annotated[
        int | None, typer.Option(min=1, help="Ray workers; as many as there are cores for if left.")
    ] = None
    worker_cores: Annotated[
        int, typer.Option(min=1, help="Cores of a Ray worker, around one copy of the model.")
    ] = 1
    engine_address: Annotated[
        str | None,
        typer.Option(
            help="A Ray that runs; one on this machine alone if left.",
            metavar="auto|HOST:PORT",
        ),
    ] = None

    def sink(self, model: Path) -> Sink | Spread | None:
        """Where the lists of a model go, if not to standard output."""
        from ratiorec.sinks import sink_of

        if (engine := self._engine()) is not None:
            return self._spread(engine, model)
        if self.output is not None:
            return sink_of(self.output, self.table)
        if self.table is not None:
            raise ConfigError(
                "a table needs a database",
                where="--table",
                found=f"{self.table}, and no -o",
                wanted="-o with the URL of a database",
            )
        return None

    def _engine(self) -> Engine | None:
        from ratiorec.engines import OneProcess, RayCluster

        if self.engine == "ray":
            return RayCluster(self.engine_address, self.workers, self.worker_cores, notify=o.say)
        if self.workers is not None or self.engine_address is not None or self.worker_cores != 1:
            raise ConfigError(
                "only Ray has workers",
                where="--workers, --worker-cores, --engine-address",
                found=f"--engine {self.engine}" if self.engine else "no --engine",
                wanted="--engine ray with them",
            )
        return OneProcess() if self.engine == "local" else None

    def _spread(self, engine: Engine, model: Path) -> Spread:
        from ratiorec.engines import Spread
        from ratiorec.sinks import FolderOfParts, place_of

        if self.output is None or self.table is not None:
            raise ConfigError(
                "an engine writes a folder of parts",
                where=f"--engine {self.engine}",
                found="no -o" if self.output is None else f"--table {self.table}",
                wanted="-o with a folder or its URI, and no --table",
            )
        return Spread(FolderOfParts(place_of(self.output)), engine, model)

    def write(self, job: Job, sink: Sink | Spread) -> Tally:
        """Write the lists, saying what was found and what is kept."""
        from ratiorec.cli.progress import users_bar
        from ratiorec.engines import Spread, spread_lists
        from ratiorec.sinks import write_lists

        with users_bar("users") as progress:
            options: dict[str, Any] = {
                "resume": self.resume,
                "users_at_a_time": self.block_users,
                "progress": progress,
                "notify": o.say,
            }
            if isinstance(sink, Spread):
                return spread_lists(job, sink, **options)
            return write_lists(job, sink, **options)


@o.grouped
def recommend(
    model: o.Model,
    *,
    user: Annotated[list[str] | None, typer.Option("--user", help="User id; repeatable.")] = None,
    users: Annotated[Path | None, typer.Option(help="File with one user id a line.")] = None,
    everyone: Annotated[bool, typer.Option("--all", help="Every known user.")] = False,
    history: Annotated[
        list[str] | None,
        typer.Option(help="Items of someone who was not there in training: ITEM,ITEM; repeatable."),
    ] = None,
    asked: QueryGroup,
    out: SinkGroup,
    json: o.Json = False,
) -> None:
    """The best items for one user, for a file of users, or for everyone."""
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
    sink = out.sink(model)
    artifact = Artifact.load(model)
    query = asked.query(artifact)
    _tell_of_denied(artifact, query)
    if history is not None:
        lists = artifact.recommend_to([o.words(text) for text in history], query)
        _put_out_histories(lists, history, sink, json=json)
        return
    ids = artifact.users.ids if everyone else o.read_lines(users) if users else user or []
    _tell_of_unknown(artifact, ids, query)
    if user is not None:  # a few users: know that there is a list before one is begun
        n_listable = artifact.n_listable(ids, query)
        _require_lists(len(n_listable), int((n_listable > 0).sum()), "--user", user)
    if sink is not None:
        tally = out.write(Job.of(artifact, ids, query), sink)
        _print_summary(tally, sink, json=json)
    else:
        tally = _print_out(artifact.recommend_blocks(ids, query), json=json)
    if tally.n_without:
        o.say(f"{tally.n_without:,} of {tally.n_users:,} users have no item left to list")


def _tell_of_denied(artifact: Artifact, query: Query) -> None:
    """One line where a file of items to deny has unknown ones: as a rule no mistake."""
    denied: Any = query.deny or ()
    found = artifact.items.indices(denied, on_unknown="skip")
    if n_unknown := int((found < 0).sum()):
        o.say(f"note: {n_unknown:,} of {len(found):,} items to deny are unknown to the model")


def _tell_of_unknown(artifact: Artifact, user_ids: Iterable[Any], query: Query) -> None:
    """Refuse unknown users with both ways out; one line where lists are not personal."""
    from ratiorec.data.vocabulary import Vocabulary

    try:
        found = artifact.users.indices(user_ids, on_unknown=query.on_unknown)
    except UnknownIdError as error:
        error.wanted += " or --on-unknown fallback"
        raise
    n_unknown = int((found < 0).sum())
    if n_unknown and artifact.new_users is not None and query.on_unknown == "fallback":
        unknown = [one for one, place in zip(user_ids, found, strict=True) if place < 0]
        described = Vocabulary(artifact.new_users.ids, "user")
        n_described = int((described.indices(unknown, on_unknown="skip") >= 0).sum())
        o.say(f"note: {n_described:,} of {len(found):,} users have lists by their attributes alone")
        n_unknown -= n_described
    if n_unknown and query.on_unknown == "fallback":
        are = "is" if n_unknown == 1 else "are"
        o.say(
            f"note: {n_unknown:,} of {len(found):,} users {are} unknown: the list is what most "
            "users have, the score how many"
        )


def _put_out_histories(
    lists: Recommendations, history: list[str], sink: Sink | Spread | None, *, json: bool
) -> None:
    """Lists of new users, who are called by their place in the query."""
    from ratiorec.sinks import Tally

    tally = Tally.of(lists)
    _require_lists(tally.n_users, tally.n_users - tally.n_without, "--history", history)
    if sink is None:
        _print_out([lists], json=json)
        return
    _write_file(lists, sink, "lists for histories")
    _print_summary(tally, sink, json=json)


def _write_file(lists: Recommendations, sink: Sink | Spread, what: str) -> None:
    """Lists that are no job of known users: a table of a database could not go on with them."""
    from ratiorec.sinks import FileOfParts

    if not isinstance(sink, FileOfParts):
        raise ConfigError(
            f"{what} are written to a file",
            where="-o",
            found=sink.where,
            wanted="a file name that ends in .parquet or .csv, or --json",
        )
    sink.write_at_once(lists)


def _require_lists(n_users: int, n_with: int, option: str, values: list[str]) -> None:
    if n_users and not n_with:
        raise ConfigError(
            "no item is left to list",
            where=f"{option} " + " ".join(values[:3]),
            found="users who have seen every item that is allowed",
            wanted="other users, a wider --filter, --allow or --deny, a larger --max-cold, or "
            "--include-seen",
        )


def _print_summary(tally: Tally, sink: Sink | Spread, *, json: bool) -> None:
    """How much there is now, and where."""
    place = sink.describe()
    if json:
        o.print_json({"rows": tally.n_rows, "users": tally.n_users, **place})
    else:
        table = f"table {place['table']} of " if "table" in place else ""
        o.say(f"{tally.n_rows:,} rows in {table}{sink.where}")


def _print_out(blocks: Iterable[Recommendations], *, json: bool) -> Tally:
    """Print lists as they come, so that --all needs no more memory than a block; count them."""
    from ratiorec.sinks import Tally

    tally = Tally()

    def rows() -> Iterator[dict[str, Any]]:
        nonlocal tally
        for block in blocks:
            tally = tally.plus(Tally.of(block))
            yield from block.to_dicts()

    (_print_json_rows if json else _print_rows)(rows())
    return tally


def _print_json_rows(rows: Iterable[dict[str, Any]]) -> None:
    opening = '{"recommendations": [\n'
    for row in rows:
        typer.echo(opening + dumps(row, ensure_ascii=False), nl=False)
        opening = ",\n"
    typer.echo("\n]}" if opening == ",\n" else opening + "]}")


def _print_rows(rows: Iterable[dict[str, Any]], answer: str = "item") -> None:
    """One line for each item, marked where it is not personal; a user's id stands above."""
    last = None
    for row in rows:
        if answer == "item" and row["user_id"] != last:
            last = row["user_id"]
            typer.echo(f"{last}")
        name = f"  {row[f'{answer}_name']}" if f"{answer}_name" in row else ""
        kind = row.get("kind", "personal")
        mark = "" if kind == "personal" else f"  ({kind})"
        more = _shown(row.get("attributes", {}))
        typer.echo(
            f"{row['rank']:>5}  {row['score']:>9.4f}  {row[f'{answer}_id']}{name}{mark}{more}"
        )


def _shown(attributes: dict[str, Any]) -> str:
    """The attributes of an item in one line, without those that are missing.

    >>> _shown({"price": 3.5, "labels": ["fair", "organic"], "brand": None})
    '  [price 3.5, labels fair|organic]'
    """
    from ratiorec.scorers.table import as_cell

    cells = {name: as_cell(value) for name, value in attributes.items()}
    told = [f"{name} {' '.join(cell.split())}" for name, cell in cells.items() if cell]
    return f"  [{', '.join(told)}]" if told else ""


@o.grouped
def similar(
    model: o.Model,
    *,
    item: Annotated[list[str], typer.Option("--item", help="Item id; repeatable.")],
    asked: ListGroup,
    output: Annotated[
        str | None, typer.Option("-o", "--output", help="Parquet or CSV file to write.")
    ] = None,
    json: o.Json = False,
) -> None:
    """The items nearest to an item."""
    from ratiorec.model.artifact import Artifact
    from ratiorec.sinks import Tally, sink_of

    sink = None if output is None else sink_of(output)
    artifact = Artifact.load(model)
    query = asked.query(artifact)
    _tell_of_denied(artifact, query)
    try:
        found = artifact.similar(item, query)
    except UnknownIdError as error:  # there is no policy to choose here
        error.wanted = error.wanted.partition(", or on_unknown")[0]
        raise
    if sink is not None:
        _write_file(found, sink, "similar items")
        _print_summary(Tally.of(found), sink, json=json)
    elif json:
        o.print_json({"similar": found.to_dicts()})
    else:
        _print_rows(found.to_dicts(), "similar")
