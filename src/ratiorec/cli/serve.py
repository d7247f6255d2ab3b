"""ratiorec serve."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from json import dumps
from pathlib import Path
from typing import Annotated, Literal

import typer

from ratiorec.cli import options as o
from ratiorec.cli.doctor import EXTRAS
from ratiorec.errors import require_extra

EXAMPLES = """Examples:

  ratiorec serve model

  ratiorec serve model --port 0 --json

  ratiorec serve model --filters filters.toml --rules rules.toml

  ratiorec serve a=models/old b=models/new --split a:90,b:10

  ratiorec serve model --host 0.0.0.0 --api-keys-file keys.txt --admin-token-file token.txt
"""


@dataclass(frozen=True)
class LimitGroup:
    """The fields of `ratiorec.serve.service.Limits`, which needs the extra."""

    max_k: Annotated[int, typer.Option(min=1, help="Items in a list.")] = 1000
    max_users: Annotated[int, typer.Option(min=1, help="Users or histories in a request.")] = 256
    max_histories: Annotated[int, typer.Option(min=1, help="Of these, histories.")] = 64
    max_rows: Annotated[int, typer.Option(min=1, help="Rows in an answer.")] = 20_000
    max_history: Annotated[int, typer.Option(min=1, help="Items in a history.")] = 1000
    max_why: Annotated[int, typer.Option(min=1, help="Items of a history to explain.")] = 200
    max_listed: Annotated[int, typer.Option(min=1, help="Items to allow or deny.")] = 10_000
    max_rules: Annotated[int, typer.Option(min=1, help="Rules that a request brings.")] = 50
    max_conditions: Annotated[int, typer.Option(min=1, help="Conditions in a filter.")] = 50
    max_body_bytes: Annotated[int, typer.Option(min=1, help="Bytes in a body.")] = 2**20
    max_waiting: Annotated[int, typer.Option(min=1, help="Requests that wait.")] = 256
    max_long: Annotated[int, typer.Option(min=1, help="Long requests at once.")] = 4
    max_connections: Annotated[int, typer.Option(min=1, help="Connections open.")] = 1000
    rank_seconds: Annotated[float, typer.Option(help="Time to wait and be answered.")] = 5.0
    read_seconds: Annotated[float, typer.Option(help="Time for a request to arrive.")] = 10.0
    idle_seconds: Annotated[float, typer.Option(help="Time a connection may rest.")] = 30.0
    drain_seconds: Annotated[float, typer.Option(help="Time to finish on SIGTERM.")] = 20.0


@o.grouped
def serve(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL", help="A model folder; NAME=FOLDER for each of several variants."
        ),
    ],
    *,
    split: Annotated[
        str | None, typer.Option(help="Who gets which variant, in percent.", metavar="a:90,b:10")
    ] = None,
    split_salt: Annotated[
        str, typer.Option(help="Another text draws the users of each variant anew.")
    ] = "",
    filters: Annotated[Path | None, typer.Option(help="TOML file of named filters.")] = None,
    rules: Annotated[Path | None, typer.Option(help="TOML file of sets of rules.")] = None,
    host: Annotated[str, typer.Option(help="Address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 for any that is free.")] = 8000,
    api_keys_file: Annotated[
        Path | None, typer.Option(help="Only who knows a key of this file, one a line, may ask.")
    ] = None,
    admin_token_file: Annotated[
        Path | None, typer.Option(help="Who knows this token may POST /v1/reload.")
    ] = None,
    user_search: Annotated[
        bool, typer.Option("--user-search", help="Find users by a part of their id.")
    ] = False,
    watch: Annotated[bool, typer.Option(help="Take a new model when the folder has one.")] = True,
    watch_seconds: Annotated[float, typer.Option(min=0.05, help="Seconds between looks.")] = 2.0,
    limits: LimitGroup,
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"],
        typer.Option(help="What is logged; debug holds users' ids."),
    ] = "info",
    json: o.Json = False,
) -> None:
    """Answer requests over HTTP until SIGTERM or SIGINT."""
    for package in EXTRAS["serve"].modules:
        require_extra(package, "serve", where="ratiorec serve")
    from ratiorec.serve.models import RequestNames
    from ratiorec.serve.security import Keys
    from ratiorec.serve.server import address_of, bind, run
    from ratiorec.serve.service import Limits, Service, start_logging
    from ratiorec.serve.variants import TrafficSplit, Variants, named_folders

    bounds = Limits(**asdict(limits))
    keys = Keys.read(api_keys_file) if api_keys_file else None
    admin = Keys.read(admin_token_file) if admin_token_file else None
    folders = named_folders(models)
    shares = TrafficSplit.read(split, list(folders), salt=split_salt)
    names = RequestNames.read(filters, rules)
    with bind(host, port) as listener:
        address = address_of(listener)
        variants = Variants.read(folders, shares, names)
        service = Service.of(
            variants, bounds, names=names, keys=keys, admin=admin, user_search=user_search
        )
        start_logging(log_level)
        line = {"address": address, **variants.versions()}
        run(
            service,
            listener,
            watch_seconds=watch_seconds if watch else None,
            announce=lambda: typer.echo(dumps(line) if json else address),
        )
