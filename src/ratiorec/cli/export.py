"""ratiorec export: a model in a form that other programs search."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ratiorec.cli import options as o
from ratiorec.errors import ConfigError

if TYPE_CHECKING:
    from ratiorec.export import Exported


EXAMPLES = """Examples:

  ratiorec export model --to faiss -o index

  ratiorec export model --to parquet -o vectors --json

  ratiorec export model --to pgvector --url postgresql://ada@db/shop --table items
"""

Form = Literal["faiss", "parquet", "numpy", "pgvector", "onnx"]


def export(
    model: o.Model,
    to: Annotated[Form, typer.Option("--to", help="The form.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Folder to write: new, or an export.")
    ] = None,
    min_recall: Annotated[
        float, typer.Option(help="Least recall of the exact lists; below, nothing is written.")
    ] = 0.95,
    k: Annotated[int, typer.Option("-k", "--k", help="Length of the lists compared.")] = 20,
    sample: Annotated[int, typer.Option(help="Users whose lists are compared.")] = 1000,
    seed: Annotated[int, typer.Option(help="Which users these are.")] = 0,
    dimension: Annotated[
        int | None,
        typer.Option(
            help="Length of approximate vectors, for scores that are no inner products (walks, "
            "item-item models, blends with them); 128 to 1024 are tried in turn if left."
        ),
    ] = None,
    url: Annotated[
        str | None, typer.Option(help="Database of pgvector: postgresql://USER@HOST/NAME.")
    ] = None,
    table: Annotated[str | None, typer.Option(help="Table of the database; items if left.")] = None,
    json: o.Json = False,
) -> None:
    """Vectors or an index for other programs, held against exact search before it is kept."""
    from ratiorec.cli.progress import users_bar
    from ratiorec.export import FORMS, ExportTrial, LowRank, Pgvector, export_to_postgres
    from ratiorec.export import export as export_to_folder
    from ratiorec.export.exporting import require_replaceable
    from ratiorec.model.artifact import Artifact

    trial = ExportTrial(k, sample, min_recall, seed)
    if dimension is not None:
        LowRank(dimension)  # a wrong one is told before a large model is read
    started = time.perf_counter()
    if to == "pgvector":
        address = _address(url, output)
        name = "items" if table is None else table
        Pgvector.at(address, name)  # a wrong name is told before a large model is read
        with users_bar("approximating lists") as bar:
            exported = export_to_postgres(
                Artifact.load(model), address, name, trial=trial, dimension=dimension, progress=bar
            )
    else:
        folder = _folder(to, output, url, table)
        require_replaceable(folder)
        with users_bar("approximating lists") as bar:
            exported = export_to_folder(
                Artifact.load(model),
                FORMS[to],
                folder,
                trial=trial,
                dimension=dimension,
                progress=bar,
            )
    _print_summary(exported, output, time.perf_counter() - started, json=json)


def _address(url: str | None, output: Path | None) -> str:
    if url is None:
        raise ConfigError(
            "pgvector needs a database",
            where="--url",
            found="none",
            wanted="--url postgresql://USER@HOST/DATABASE",
        )
    if output is not None:
        raise ConfigError(
            "pgvector writes to a database and to no folder",
            where="-o",
            found=str(output),
            wanted="--url and --table, without -o",
        )
    return url


def _folder(to: str, output: Path | None, url: str | None, table: str | None) -> Path:
    given = [name for name, value in (("--url", url), ("--table", table)) if value is not None]
    if given:  # what was given is not shown: a URL may hold a password
        raise ConfigError(
            "this form is a folder and no database",
            where=", ".join(given),
            found=f"--to {to}",
            wanted="-o FOLDER alone, or --to pgvector",
        )
    if output is None:
        raise ConfigError(
            "an export needs a folder", where="-o", found="none", wanted="-o FOLDER, new or empty"
        )
    return output


def _print_summary(exported: Exported, output: Path | None, seconds: float, *, json: bool) -> None:
    from ratiorec.export.vectors import in_words

    if json:
        o.print_json(exported.to_dict() | {"seconds": seconds})
        return
    place = exported.place
    where = f"table {place['table']} of {place['database']}" if place else str(output)
    o.say(f"{exported.form}: {in_words(exported.measured.settings)}")
    exact = exported.vectors == "exact"
    o.say(
        f"recall@{exported.k} {exported.measured.recall:.4f} of "
        + ("exact search" if exact else "the model's own lists, by approximate vectors")
        + f", {exported.n_users:,} users"
    )
    o.say(f"{exported.n_bytes:,} bytes in {where}, {seconds:.1f} s")
