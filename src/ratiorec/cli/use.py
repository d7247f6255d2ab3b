"""ratiorec evaluate, recommend and similar: what a model is for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ratiorec.cli import options as o
from ratiorec.errors import ConfigError

if TYPE_CHECKING:
    from ratiorec.artifact import Artifact
    from ratiorec.data.interactions import Interactions
    from ratiorec.evaluate import Report

EVALUATE_EXAMPLES = """Examples:

  ratiorec evaluate model --data gowalla --k 10 --k 20

  ratiorec evaluate model --test held_out.csv --against other_model --json
"""
RECOMMEND_EXAMPLES = """Examples:

  ratiorec recommend model --user alice --user bob -k 10

  ratiorec recommend model --all -o lists.parquet

  ratiorec recommend model --users users.txt --deny sold_out.txt --json
"""
SIMILAR_EXAMPLES = """Examples:

  ratiorec similar model --item 1234 -k 5
"""

OnUnknown = Annotated[str, typer.Option(help="Unknown ids: raise, skip or fallback.")]


def evaluate(
    model: o.Model,
    test: Annotated[Path | None, typer.Option(help="File of held-out pairs.")] = None,
    data: Annotated[str | None, typer.Option(help="Data set with a test part.")] = None,
    k: Annotated[list[int] | None, typer.Option("-k", "--k", help="Cut-offs; repeatable.")] = None,
    against: Annotated[Path | None, typer.Option(help="Second model, for a paired test.")] = None,
    per_user: Annotated[
        Path | None, typer.Option(help="Write every user's figures (.parquet or .csv).")
    ] = None,
    on_unknown: OnUnknown = "raise",
    data_dir: o.DataDir = None,
    user: o.User = None,
    item: o.Item = None,
    delimiter: o.Delimiter = None,
    header: o.Header = None,
    json: o.Json = False,
) -> None:
    """Judge a model on held-out pairs, with 95 % intervals."""
    from ratiorec.artifact import Artifact
    from ratiorec.evaluate import compare

    artifact = Artifact.load(model)
    pairs = _test_pairs(test, data, data_dir, user, item, delimiter, header)
    ks = tuple(sorted(set(k or [20])))
    report = _judge(artifact, pairs, ks, on_unknown)
    result = report.to_json()
    if against is not None:
        other = _judge(Artifact.load(against), pairs, ks, on_unknown)
        result["against"] = {"model": str(against), **compare(report, other).to_json()}
    if per_user is not None:
        report.write_per_user(per_user, artifact.users)
    if json:
        o.print_json(result)
    else:
        _print_report(result)


def _test_pairs(
    test: Path | None,
    data: str | None,
    data_dir: Path | None,
    user: str | None,
    item: str | None,
    delimiter: str | None,
    header: bool | None,
) -> Interactions:
    if (test is None) == (data is None):
        raise ConfigError(
            "evaluation needs one set of held-out pairs",
            where="--test, --data",
            found="both" if test else "neither",
            wanted="exactly one of them",
        )
    dataset = o.load_data(
        str(test or data), data_dir, user, item, delimiter=delimiter, header=header
    )
    if test is not None:
        return dataset.train  # a file of its own, so all of its pairs are held out
    if dataset.test is None:
        raise ConfigError(
            "the data set has no test part", where="--data", found=str(data), wanted="--test FILE"
        )
    return dataset.test


def _judge(model: Artifact, pairs: Interactions, ks: tuple[int, ...], on_unknown: str) -> Report:
    aligned = pairs.aligned_to(model.users, model.items, on_unknown=on_unknown)  # type: ignore[arg-type]
    return model.evaluate(aligned, ks=ks)


def _print_report(result: dict[str, Any]) -> None:
    typer.echo(f"{result['users']:,} users; {result['definition']}")
    for name, figure in result["metrics"].items():
        interval = "" if figure["low"] is None else f"  [{figure['low']:.4f}, {figure['high']:.4f}]"
        typer.echo(f"{name:>16}  {figure['value']:.4f}{interval}")
    if "against" in result:
        typer.echo(f"against {result['against']['model']} (paired, this minus that):")
        for name, line in result["against"]["metrics"].items():
            typer.echo(
                f"{name:>16}  {line['difference']:+.4f}  [{line['low']:+.4f}, {line['high']:+.4f}]"
                f"  p = {line['p_value']:.2g}"
            )


def recommend(
    model: o.Model,
    user: Annotated[list[str] | None, typer.Option("--user", help="User id; repeatable.")] = None,
    users: Annotated[Path | None, typer.Option(help="File with one user id a line.")] = None,
    everyone: Annotated[bool, typer.Option("--all", help="Every known user.")] = False,
    k: o.K = 20,
    allow: Annotated[Path | None, typer.Option(help="Only items in this file, one a line.")] = None,
    deny: Annotated[Path | None, typer.Option(help="No items in this file, one a line.")] = None,
    include_seen: Annotated[
        bool, typer.Option("--include-seen", help="Also items the user has already.")
    ] = False,
    on_unknown: OnUnknown = "raise",
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Parquet file to write.")
    ] = None,
    memory_mb: Annotated[int, typer.Option(help="Memory for blocks of scores.")] = 512,
    json: o.Json = False,
) -> None:
    """The best items for one user, for a file of users, or for everyone."""
    from ratiorec.artifact import Artifact
    from ratiorec.recommend import write_parquet

    given = [user is not None, users is not None, everyone]
    if sum(given) != 1:
        raise ConfigError(
            "recommendation needs users",
            where="--user, --users, --all",
            found=f"{sum(given)} of them",
            wanted="exactly one of them",
        )
    artifact = Artifact.load(model)
    ids = artifact.users.ids if everyone else _lines(users) if users else user
    blocks = artifact.recommend_blocks(
        ids,
        k,
        exclude_seen=not include_seen,
        allow=_lines(allow) if allow else None,
        deny=_lines(deny) if deny else None,
        on_unknown=on_unknown,
        memory_mb=memory_mb,
    )
    if output is not None:
        n_rows = write_parquet(_with_progress(blocks, len(ids or ())), output)
        o.say(f"{n_rows:,} rows in {output}")
        return
    for number, block in enumerate(blocks):
        if json:
            _print_json_block(block, first=number == 0)
        else:
            _print_lists(block, k)
    if json:
        typer.echo("]}")


def _lines(path: Path) -> list[str]:
    from ratiorec.data.sources import read_ids

    return read_ids(path)


def _with_progress(blocks: Any, n_users: int) -> Any:
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task("recommending", total=n_users)
        for block in blocks:
            yield block
            bar.advance(task, block.n_users)


def _print_json_block(block: Any, *, first: bool) -> None:
    """Blocks make one JSON object together, so that --all --json needs no more memory."""
    import json

    typer.echo('{"recommendations": [' if first else ",")
    rows = (json.dumps(row, ensure_ascii=False) for row in block.to_dicts())
    typer.echo(",\n".join(rows))


def _print_lists(block: Any, k: int) -> None:
    last = None
    for row in block.to_dicts():
        if row["user_id"] != last:
            last = row["user_id"]
            typer.echo(f"{last}")
        name = f"  {row['item_name']}" if "item_name" in row else ""
        typer.echo(f"{row['rank']:>5}  {row['score']:>9.4f}  {row['item_id']}{name}")


def similar(
    model: o.Model,
    item: Annotated[list[str], typer.Option("--item", help="Item id; repeatable.")],
    k: o.K = 20,
    json: o.Json = False,
) -> None:
    """The items nearest to an item."""
    from ratiorec.artifact import Artifact

    neighbours = Artifact.load(model).similar(item, k)
    if json:
        o.print_json({"similar": neighbours.to_dicts()})
        return
    for row in neighbours.to_dicts():
        name = f"  {row['similar_name']}" if "similar_name" in row else ""
        typer.echo(f"{row['rank']:>5}  {row['score']:>9.4f}  {row['similar_id']}{name}")
