"""ratiorec evaluate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ratiorec.cli import options as o
from ratiorec.errors import ConfigError

if TYPE_CHECKING:
    from ratiorec.data.interactions import Interactions
    from ratiorec.model.artifact import Artifact


EXAMPLES = """Examples:

  ratiorec evaluate model

  ratiorec evaluate model --data gowalla --k 10 --k 20

  ratiorec evaluate model --test held_out.csv --against other_model --json
"""


@o.grouped
def evaluate(
    model: o.Model,
    *,
    test: Annotated[Path | None, typer.Option(help="File of held-out pairs.")] = None,
    data: Annotated[str | None, typer.Option(help="Data set with a test part.")] = None,
    k: Annotated[list[int] | None, typer.Option("-k", "--k", help="Cut-offs; repeatable.")] = None,
    against: Annotated[Path | None, typer.Option(help="Second model, for a paired test.")] = None,
    per_user: Annotated[
        Path | None, typer.Option(help="Write every user's figures (.parquet or .csv).")
    ] = None,
    on_unknown: Annotated[
        Literal["raise", "skip"], typer.Option(help="What to do about pairs with unknown ids.")
    ] = "raise",
    source: o.Source,
    json: o.Json = False,
) -> None:
    """Judge a model on held-out pairs, with 95 % intervals.

    Without --test and --data, a model of a benchmark is judged on the benchmark's test part.
    """
    from ratiorec.evaluation.evaluate import compare
    from ratiorec.model.artifact import Artifact

    artifact = Artifact.load(model)
    if test is None and data is None:
        pairs = _own_test_part(artifact, source)
    else:
        pairs = _test_pairs(test, data, source)
    ks = tuple(sorted(set(k or [20])))
    report = artifact.evaluate(pairs, ks, on_unknown=on_unknown)
    result = report.to_json()
    if against is not None:
        other = Artifact.load(against).evaluate(pairs, ks, on_unknown=on_unknown)
        result["against"] = {"model": str(against), **compare(report, other).to_json()}
    if per_user is not None:
        report.write_per_user(per_user, artifact.users)
    if json:
        o.print_json(result)
    else:
        _print_report(result)


def _own_test_part(model: Artifact, source: o.Source) -> Interactions:
    """The test part of the benchmark that a model was trained on."""
    from ratiorec.data.registry import BENCHMARKS

    trained_on = model.card.get("data", {})
    if trained_on.get("name") in BENCHMARKS:
        dataset = o.load_data(trained_on["name"], source)
        if dataset.train.sha256 == trained_on["sha256"] and dataset.test is not None:
            return dataset.test
    raise ConfigError(
        "evaluation needs held-out pairs",
        where="--test, --data",
        found="neither, and a model that was not trained on a benchmark with a test part",
        wanted="one of them",
    )


def _test_pairs(test: Path | None, data: str | None, source: o.Source) -> Interactions:
    if test is not None and data is not None:
        raise ConfigError(
            "evaluation needs one set of held-out pairs",
            where="--test, --data",
            found="both",
            wanted="one of them",
        )
    dataset = o.load_data(str(test or data), source)
    if test is not None and dataset.test is None:
        return dataset.train  # a file of its own, so all of its pairs are held out
    if test is not None:
        raise ConfigError(
            "the held-out pairs have a training and a test part",
            where="--test",
            found=str(test),
            wanted="a file of held-out pairs alone, or --data for the test part",
        )
    if dataset.test is None:
        raise ConfigError(
            "the data set has no test part", where="--data", found=str(data), wanted="--test FILE"
        )
    return dataset.test


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
