"""ratiorec evaluate."""

from __future__ import annotations

import textwrap
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ratiorec.cli import options as o
from ratiorec.errors import ConfigError, UnknownIdError

if TYPE_CHECKING:
    from ratiorec.data.interactions import Interactions
    from ratiorec.evaluation.evaluate import Report
    from ratiorec.model.artifact import Artifact


EXAMPLES = """Examples:

  ratiorec evaluate model

  ratiorec evaluate model --data gowalla --k 10,20

  ratiorec evaluate model --test held_out.csv --against other_model --json

  ratiorec evaluate model --data log.csv --cold-items 0.2
"""


@o.grouped
def evaluate(
    model: o.Model,
    *,
    test: Annotated[Path | None, typer.Option(help="File of held-out pairs.")] = None,
    data: Annotated[str | None, typer.Option(help="Data set with a test part.")] = None,
    k: Annotated[
        list[str] | None, typer.Option("-k", "--k", help="Cut-offs, as 5,10,20; repeatable.")
    ] = None,
    against: Annotated[Path | None, typer.Option(help="Second model, for a paired test.")] = None,
    per_user: Annotated[
        Path | None, typer.Option(help="Write every user's figures (.parquet or .csv).")
    ] = None,
    on_unknown: Annotated[
        Literal["raise", "skip"],
        typer.Option(help="Count pairs with unknown ids and leave them out, or refuse them."),
    ] = "skip",
    allow_seen: Annotated[
        bool, typer.Option("--allow-seen", help="Judge on pairs that a model was trained on.")
    ] = False,
    cold_items: Annotated[
        float | None,
        typer.Option(
            help="Hold out this share of the items of --data, train the model's settings anew "
            "without them, and judge how content alone ranks them."
        ),
    ] = None,
    max_seconds: Annotated[
        float | None, typer.Option(help="Time for the training that --cold-items needs.")
    ] = None,
    source: o.NewPairsSource,
    json: o.Json = False,
) -> None:
    """Judge a model on held-out pairs, with 95 % intervals.

    Without --test and --data, a model of a benchmark is judged on the benchmark's test part.
    Pairs that no list can hit are counted: those the model was trained on, and those of users or
    items that it does not know.
    """
    from ratiorec.evaluation.compare import compare
    from ratiorec.model.artifact import Artifact
    from ratiorec.scorers.table import require_table_format

    if per_user is not None:
        require_table_format(per_user)  # before minutes are spent on figures
    ks = _cutoffs(k or ["20"])
    artifact = Artifact.load(model)
    if cold_items is not None:
        _refuse_beside_cold_items(test=test, against=against, per_user=per_user)
        pairs = o.load_data(_required(data), _as_for_training(source)).train
        _print_cold_items(_judged_cold_items(artifact, pairs, cold_items, ks, max_seconds), json)
        return
    _refuse_without_cold_items(source)
    rival = None if against is None else Artifact.load(against)
    if test is None and data is None:
        pairs = _own_test_part(artifact, source)
    else:
        pairs = _test_pairs(test, data, source)
    _require_fair(artifact, rival, pairs, "--test" if data is None else "--data", allow=allow_seen)
    report = _judged(artifact, pairs, ks, on_unknown)
    result = report.to_json()
    if rival is not None:
        other = _judged(rival, pairs, ks, on_unknown)
        result["against"] = {"model": str(against), **compare(report, other).to_json()}
    if per_user is not None:
        report.write_per_user(per_user, artifact.users)
    if json:
        o.print_json(result)
    else:
        _print_report(result)


def _refuse_beside_cold_items(**given: Path | None) -> None:
    """Refuse what has no meaning where other items are held out and another model is trained."""
    if wrong := [name for name, value in given.items() if value is not None]:
        option = "--" + wrong[0].replace("_", "-")
        raise ConfigError(
            "cold items are judged by themselves",
            where=option,
            found=f"{option} beside --cold-items",
            wanted="--data alone: the pairs that the model was trained on",
        )


def _refuse_without_cold_items(source: o.NewPairsSource) -> None:
    """Refuse what decides only how much a pair counts in training."""
    names = ("timestamp_column", "half_life", "repeats")
    if given := [name for name in names if getattr(source, name) is not None]:
        option = "--" + given[0].replace("_", "-")
        raise ConfigError(
            "a held-out pair has no weight",
            where=option,
            found=f"{option} without --cold-items",
            wanted="no such option, or --cold-items, which trains a model anew",
        )


def _as_for_training(source: o.NewPairsSource) -> o.WeightedSource:
    """The same source, its weights and times found as `fit` finds them."""
    return o.WeightedSource(**{one.name: getattr(source, one.name) for one in fields(source)})


def _required(data: str | None) -> str:
    if data is None:
        raise ConfigError(
            "cold items are held out of the training pairs",
            where="--data",
            found="nothing",
            wanted="--data with the pairs that the model was trained on",
        )
    return data


def _judged_cold_items(
    model: Artifact,
    pairs: Interactions,
    share: float,
    ks: tuple[int, ...],
    max_seconds: float | None,
) -> dict[str, Any]:
    """The settings of a model trained anew without some items, which content ranks then."""
    from ratiorec.config import settings_in
    from ratiorec.model.tables import names_by_rows
    from ratiorec.training.cold_items import evaluate_cold_items
    from ratiorec.training.fit import FitOptions

    if model.card.get("data", {}).get("sha256") != pairs.sha256:
        o.say("note: --data are not the pairs, or not the weights, that the model was trained on")
    rows = model.items.indices(pairs.items.ids, on_unknown="skip")
    if model.items.names is not None:
        names = names_by_rows(model.items.names, rows, pairs.items)
        pairs = replace(pairs, items=pairs.items.with_names(names))
    report = evaluate_cold_items(
        pairs,
        model.item_table.take(rows),
        share=share,
        ks=ks,
        seed=int(model.card.get("seed", 0)),
        settings=settings_in(model.settings, complete=True),
        options=FitOptions(max_seconds=float("inf") if max_seconds is None else max_seconds),
    )
    return report.to_json()


_TOLD = ("recall@", "ndcg@")  # of cold items; --json has all figures


def _print_cold_items(result: dict[str, Any], json: bool) -> None:
    if json:
        o.print_json(result)
        return
    counts = result["cold_items"]
    typer.echo(
        f"{counts['held_out']:,} of {counts['held_out'] + counts['trained']:,} items held out, "
        f"{counts['pairs']:,} pairs of {result['users']:,} users"
    )
    if counts["untold"]:
        typer.echo(f"{counts['untold']:,} items of which nothing is known are never held out")
    for name, figures in {"content": result, **result["baselines"]}.items():
        for metric, figure in figures["metrics"].items():
            if metric.startswith(_TOLD):
                typer.echo(f"{name:>12}  {metric:>12}  {_figure(figure)}")
    for name, compared in result["against"].items():
        for metric, line in compared["metrics"].items():
            if not metric.startswith(_TOLD):
                continue
            typer.echo(
                f"content minus {name:<12}{metric:>12}  {line['difference']:+.4f}  "
                f"[{line['low']:+.4f}, {line['high']:+.4f}]  p = {line['p_value']:.2g}"
            )


def _cutoffs(given: list[str]) -> tuple[int, ...]:
    """The cutoffs, with commas between them or one for each option."""
    words = [word.strip() for words in given for word in words.split(",")]
    if not all(word.isdecimal() and int(word) for word in words):
        raise ConfigError(
            "a cut-off is no length of a list",
            where="--k",
            found=", ".join(given),
            wanted="whole numbers from 1, as --k 20 or --k 5,10,20",
        )
    return tuple(sorted({int(word) for word in words}))


def _require_fair(
    model: Artifact, rival: Artifact | None, test: Interactions, where: str, *, allow: bool
) -> None:
    """Refuse pairs that a model was trained on, and tell those that it cannot hit."""
    from ratiorec.evaluation.reach import Reach, require_held_out, require_same_seen

    reach = Reach.of(test, model.users, model.items, model.seen)
    if not allow:
        require_held_out(reach.counts, where=where, override="--allow-seen")
    if rival is not None and not allow:
        theirs = Reach.of(test, rival.users, rival.items, rival.seen)
        require_same_seen(reach, theirs, where="--against", override="--allow-seen")
    for line in reach.counts.told():
        o.say(f"note: {line}")


def _judged(
    model: Artifact, test: Interactions, ks: tuple[int, ...], on_unknown: Literal["raise", "skip"]
) -> Report:
    """The report on a model; an unknown id is told in the spelling of the command line."""
    try:
        return model.evaluate(test, ks, on_unknown=on_unknown, allow_seen=True)
    except UnknownIdError as error:
        wanted = error.wanted.replace('on_unknown="skip"', "--on-unknown skip")
        raise UnknownIdError(
            error.what, where=error.where, found=error.found, wanted=wanted
        ) from None


def _own_test_part(model: Artifact, source: o.EventSource) -> Interactions:
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


def _test_pairs(test: Path | None, data: str | None, source: o.EventSource) -> Interactions:
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
    """The figures, beside them those over the pairs that can be hit where these are others."""
    pairs, reachable = result["pairs"], result["of_reachable"]
    judged = pairs["total"] - pairs["unknown_user"] - pairs["unknown_item"]
    typer.echo(f"{result['users']:,} users, {judged:,} test pairs")
    if pairs["seen"]:
        typer.echo(f"{'':>20}{'all of them':<26}of reachable: {reachable['users']:,} users")
    for name, figure in result["metrics"].items():
        line = f"{name:>18}  {_figure(figure):<26}"
        if pairs["seen"] and name in reachable["metrics"]:
            line += _figure(reachable["metrics"][name])
        typer.echo(line.rstrip())
    if "against" in result:
        typer.echo(f"against {result['against']['model']} (paired, this minus that):")
        for name, line in result["against"]["metrics"].items():
            typer.echo(
                f"{name:>18}  {line['difference']:+.4f}  [{line['low']:+.4f}, {line['high']:+.4f}]"
                f"  p = {line['p_value']:.2g}"
            )
    typer.echo("\n" + textwrap.fill(result["definition"], 100))


def _figure(figure: dict[str, float | None]) -> str:
    """`0.1669  [0.1601, 0.1735]`."""
    value, low, high = (figure[name] for name in ("value", "low", "high"))
    if value is None:
        return "unknown"
    return f"{value:.4f}" + ("" if low is None else f"  [{low:.4f}, {high:.4f}]")
