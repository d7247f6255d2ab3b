"""ratiorec update: new pairs for a model, between one fit and the next."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ratiorec.cli import options as o
from ratiorec.errors import ConfigError, ModelError, NoPairsError

if TYPE_CHECKING:
    from ratiorec.data.interactions import Dataset, Interactions
    from ratiorec.model.artifact import Artifact


EXAMPLES = """Examples:

  ratiorec update model today.csv

  ratiorec update model today.parquet -o newer_model --json

  ratiorec update model today.csv --only-touched
"""


_MOST_READINGS = 5


@o.grouped
def update(
    model: o.Model,
    data: o.Data,
    *,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Model folder to write; else MODEL.")
    ] = None,
    only_touched: Annotated[
        bool,
        typer.Option("--only-touched", help="Change no user and item but those of the new pairs."),
    ] = False,
    source: o.NewPairsSource,
    json: o.Json = False,
) -> None:
    """Take new pairs, users and items into a model without training it again.

    The model folder is replaced in one step, so that a server that watches it goes on with the new
    model. Pairs that the model already has change nothing, and none is taken out: new pairs whose
    weights sum to 0 or less, say by returns, are left out and counted.
    """
    from ratiorec.cli.progress import users_bar
    from ratiorec.model.store import require_replaceable

    target = model if output is None else output
    require_replaceable(target)
    started = time.perf_counter()
    try:
        pairs = _pairs(o.load_data(data, source))
    except NoPairsError as error:
        o.say(f"note: {error.what}: {error.found}")
        pairs = None  # an hour in which nobody came is no mistake

    def take_in(before: Artifact) -> Artifact:
        if pairs is None:
            return before
        with users_bar("folding in") as progress:
            fold_in = before.partial_fit if only_touched else before.update
            return fold_in(pairs, progress=progress)

    before, after = taken_in(model, target, take_in)
    seconds = time.perf_counter() - started
    result = {"model": str(target), **summary(before, after), "seconds": round(seconds, 3)}
    if json:
        o.print_json(result)
    else:
        _print_summary(result)


def taken_in(
    model: Path, target: Path, take_in: Callable[[Artifact], Artifact]
) -> tuple[Artifact, Artifact]:
    """The model as it was and as it was saved, while no other command writes to the folder.

    Begun again where somebody who asks for no lock has put another model there meanwhile. A model
    that stays as it is is not written in its own place.
    """
    from ratiorec.files import made_folder, sole_writer
    from ratiorec.model.artifact import Artifact
    from ratiorec.model.store import header_bytes

    for _ in range(_MOST_READINGS):
        place = Path(os.path.realpath(target))  # a link may point elsewhere in a moment
        is_other = place != Path(os.path.realpath(model))
        with made_folder(place), sole_writer(place, o.say):
            read = header_bytes(model)
            before = Artifact.load(model)
            after = take_in(before)
            if is_other or header_bytes(model) == read:
                if is_other or after is not before:
                    after.save(place)
                return before, after
        o.say("the model was replaced meanwhile: what is new goes into the new one")
    raise ModelError(
        "the model is replaced all the time",
        where=str(model),
        found=f"another one after each of {_MOST_READINGS} readings",
        wanted="one writer at a time",
    )


def _pairs(dataset: Dataset) -> Interactions:
    if dataset.test is not None:
        raise ConfigError(
            "the new pairs have a training and a test part",
            where="DATA",
            found=dataset.name,
            wanted="a file of pairs",
        )
    return dataset.train


def summary(before: Artifact, after: Artifact) -> dict[str, Any]:
    """What has come in."""
    return {
        "pairs": len(after.seen.indices) - len(before.seen.indices),
        "users": len(after.users) - len(before.users),
        "items": len(after.items) - len(before.items),
        "pairs_since_training": after.card.get("pairs_since", 0),
    }


def _print_summary(result: dict[str, Any]) -> None:
    typer.echo(
        f"{result['pairs']:,} new pairs, {result['users']:,} new users and "
        f"{result['items']:,} new items in {result['seconds']:.1f} s"
    )
    typer.echo(f"{result['pairs_since_training']:,} pairs since the model was trained")
    typer.echo(f"model: {result['model']}")
