"""ratiorec items: titles and attributes of a model's items and users, without another fit."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ratiorec.cli import options as o
from ratiorec.cli.tables import ColumnGroup, require_tables_known
from ratiorec.cli.update import taken_in
from ratiorec.errors import ConfigError

if TYPE_CHECKING:
    from ratiorec.model.artifact import Artifact
    from ratiorec.model.tables import Attached


EXAMPLES = """Examples:

  ratiorec items model items.csv

  ratiorec items model items.parquet --users users.csv --json

  ratiorec items model items.csv --id-column sku --column-kind brand=category

  ratiorec items model
"""


@o.grouped
def items(
    model: o.Model,
    file: Annotated[
        str | None, typer.Argument(metavar="[FILE]", help="Items: CSV, TSV, Parquet or Arrow.")
    ] = None,
    *,
    users: Annotated[str | None, typer.Option(help="The same of users, such as a segment.")] = None,
    columns: ColumnGroup,
    on_bad_rows: o.OnBadRows = "stop",
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Model folder to write; else MODEL.")
    ] = None,
    json: o.Json = False,
) -> None:
    """Put a table of items or users in place of the one that a model has; show them without one.

    Nothing is trained. The model folder is replaced in one step, so that a server that watches it
    goes on with the new table.
    """
    from ratiorec.model.artifact import Artifact

    if file is None and users is None:
        if output is not None:
            raise ConfigError("nothing to write", where="-o", found="no FILE", wanted="a table")
        _show(Artifact.load(model), model, json=json)
        return
    started = time.perf_counter()
    tables = columns.read(file, users, on_bad_rows)
    for line in [line for table in tables if table is not None for line in table.lines()]:
        o.say(line)
    after, attached, is_new = _attached(model, output or model, tables)
    result = {"model": str(output or model), "changed": is_new, **attached.to_json()}
    result["seconds"] = round(time.perf_counter() - started, 3)
    if json:
        o.print_json(result)
    else:
        _print(after, attached, result)


def _attached(model: Path, target: Path, tables: Any) -> tuple[Artifact, Attached, bool]:
    """The model as it was saved, what became of the tables, and whether they are new to it."""
    from ratiorec.model.store import require_replaceable
    from ratiorec.model.tables import Attached, attach, same_tables

    require_replaceable(target)
    attached = Attached()

    def put_in(before: Artifact) -> Artifact:
        nonlocal attached
        require_tables_known(tables, before.items, before.users)
        after, attached = attach(before, *tables)
        return before if same_tables(before, after) else after

    before, after = taken_in(model, target, put_in)
    return after, attached, after is not before


def _print(model: Artifact, attached: Attached, result: dict[str, Any]) -> None:
    for side in attached:
        typer.echo(side.line())
        table = model.item_table if side.table.kind == "item" else model.user_table
        _print_columns(table)
    if not result["changed"]:
        typer.echo("no change: the model has these tables already")
    typer.echo(f"model: {result['model']}")


def _show(model: Artifact, folder: Path, *, json: bool) -> None:
    """What the model knows of its items and users."""
    tables = {"items": model.item_table, "users": model.user_table}
    if json:
        columns = {name: {"columns": table.kinds} for name, table in tables.items()}
        o.print_json({"model": str(folder), **columns})
        return
    for name, table in tables.items():
        titles = ", with titles" if name == "items" and model.items.names is not None else ""
        cold = f", {model.n_cold:,} without pairs" if name == "items" and model.n_cold else ""
        typer.echo(f"{table.n_rows:,} {name}{titles}{cold}")
        _print_columns(table)


def _print_columns(table: Any) -> None:
    from ratiorec.catalogue.tables import overview
    from ratiorec.plain import text_table

    if table:
        typer.echo(text_table(overview(table)))
