"""ratiorec fit."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ratiorec.cli import options as o
from ratiorec.cli.tables import ColumnGroup, require_tables_known
from ratiorec.errors import ConfigError

if TYPE_CHECKING:
    from ratiorec.catalogue.tables import IdTable
    from ratiorec.data.interactions import Dataset
    from ratiorec.model.artifact import Artifact
    from ratiorec.settings import AnySettings, BlendSettings
    from ratiorec.tracking.tracker import Tracker
    from ratiorec.training.fit import FitOptions, Observer
    from ratiorec.training.team import Team

    Tables = tuple[IdTable | None, IdTable | None]

EXAMPLES = """Examples:

  ratiorec fit clicks.csv -o model

  ratiorec fit gowalla -o model --seed 1 --set training.l2=0.06 --json

  ratiorec fit plays.parquet -o model --max-seconds 600 --resume

  ratiorec fit clicks.csv -o model --items items.csv --users users.csv
"""


@o.grouped
def fit(
    data: o.Data,
    *,
    output: Annotated[Path, typer.Option("-o", "--output", help="Model folder to write.")],
    preset: Annotated[
        str | None, typer.Option(help="Named settings; auto where nothing names one.")
    ] = None,
    plan: Annotated[
        Path | None, typer.Option(help="An earlier auto model, to fit its members again.")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="TOML file laid over the preset.")] = None,
    assignments: Annotated[
        list[str] | None, typer.Option("--set", help="One setting, e.g. risk.upper_bound=70.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same bits on a CPU.")] = 0,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")] = "auto",
    validation: o.Validation = 0.1,
    validation_by: o.ValidationBy = None,
    no_refit: Annotated[
        bool, typer.Option("--no-refit", help="Keep the model that was validated; not of auto.")
    ] = False,
    max_seconds: Annotated[
        float, typer.Option(help="Time budget for training; auto takes at most 600 without.")
    ] = math.inf,
    memory_mb: Annotated[
        float | None, typer.Option(help="Refuse a model that would need more; else what is left.")
    ] = None,
    checkpoint_dir: Annotated[
        Path | None, typer.Option(help="Default: the model folder's name with .checkpoint.")
    ] = None,
    checkpoint_seconds: Annotated[float, typer.Option(help="Time between checkpoints.")] = 30.0,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the checkpoint.")] = False,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Processes on this machine that train the model together."),
    ] = None,
    log: Annotated[
        Path | None, typer.Option(help="Default: the model folder's name with .training.jsonl.")
    ] = None,
    record: Annotated[
        Path | None, typer.Option(help="Also write a result file, as under results/.")
    ] = None,
    track: Annotated[
        list[str] | None,
        typer.Option(help="Also tell tensorboard:FOLDER, mlflow or mlflow:STORE; repeatable."),
    ] = None,
    items: Annotated[
        str | None, typer.Option(help="Titles and attributes of items: CSV, TSV, Parquet, Arrow.")
    ] = None,
    users: Annotated[
        str | None, typer.Option(help="Attributes of users, such as a segment.")
    ] = None,
    columns: ColumnGroup,
    source: o.WeightedSource,
    json: o.Json = False,
) -> None:
    """Train a model: choose the stopping step on held-out pairs, then refit on all pairs."""
    from ratiorec.config import named_settings, to_table
    from ratiorec.machine import commit, is_rank, is_restarted
    from ratiorec.model.store import require_replaceable
    from ratiorec.tracking.tracker import tracked
    from ratiorec.training.experiment import find_device
    from ratiorec.training.fit import FitOptions

    preset, settings = named_settings(preset, file=config, assignments=assignments or ())
    settings = settings if plan is None else _planned(plan)
    find_device(device)  # a device that is not there is refused before the data are read
    require_replaceable(output)
    folder = checkpoint_dir or _beside(output, ".checkpoint")
    _require_apart(folder, output)
    read_tables = cache(partial(_tables, columns, items, users, source.on_bad_rows))
    if not is_rank():  # a bad table is refused before anything else is read
        read_tables()
    if workers is not None and not is_rank():
        from ratiorec.distributed import session

        session.require_team(settings)
        raise typer.Exit(session.run_as_ranks(sys.argv[1:], workers, say=o.say))
    fit_options = FitOptions(
        validation=validation,
        validation_by=validation_by,
        refit=not no_refit,
        max_seconds=max_seconds,
        memory_mb=memory_mb,
        checkpoint_seconds=checkpoint_seconds,
        resume=resume or is_restarted(),
        log=log or _beside(output, ".training.jsonl"),
    )
    trackers = _trackers(track or ())
    if resume and not folder.exists():
        o.say(f"note: there is no checkpoint in {folder}: training starts anew")
    started_from = commit()
    told = {"data": data, "preset": preset, "seed": seed, "settings": to_table(settings)}
    load = partial(_loaded, data, source, read_tables)
    with _team(settings, device, folder, load, fit_options, seed) as (dataset, team, chosen):
        o.tell_of_weights(dataset, settings)
        is_left_to_data = _is_left_to_data(settings, fit_options)
        o.tell_of_order(dataset, validation_by, is_left_to_data=is_left_to_data)
        asking = tracked(trackers, told) if trackers and team.is_first else None
        with asking or nullcontext(_tell_nobody) as tell:
            model = _train(dataset, preset, settings, seed, device, chosen, tell, team)
            if not team.is_first:
                return
            model, attached = _with_tables(model, read_tables())
            for tracker in trackers:
                tracker.finish(model)
        _save(model, output)
    if record is not None:
        _write_record(model, record, validation, started_from)
    if chosen.checkpoints is not None:
        chosen.checkpoints.remove()
    summary = _summary(model, output) | attached
    _tell_of_budget(model.card, settings, fit_options)
    if json:
        o.print_json(summary)
    else:
        _print_summary(summary)


def _is_left_to_data(settings: AnySettings, options: FitOptions) -> bool:
    from ratiorec.settings import AutoSettings

    is_asked = options.validation_by is not None or not options.validation
    return isinstance(settings, AutoSettings) and not is_asked


@contextmanager
def _team(
    settings: AnySettings,
    device: str,
    folder: Path,
    load: Callable[[], Dataset],
    options: FitOptions,
    seed: int,
) -> Iterator[tuple[Dataset, Team, FitOptions]]:
    """The data, who fits, and where it keeps checkpoints: this process, or those of torchrun."""
    from ratiorec.machine import is_rank
    from ratiorec.training.checkpoint import Checkpoints
    from ratiorec.training.team import ALONE

    if not is_rank():
        yield load(), ALONE, replace(options, checkpoints=Checkpoints(folder))
        return
    from ratiorec.distributed import session

    names = ("validation", "refit", "validation_by", "max_seconds")
    alike = {"seed": seed, **{name: getattr(options, name) for name in names}}
    with session.joined(settings, device, folder, load, **alike) as (dataset, team):
        kept = getattr(team, "checkpoints", None)  # a closed form is solved faster than resumed
        log = options.log if team.is_first else None
        yield dataset, team, replace(options, checkpoints=kept, log=log)


def _loaded(data: str, source: o.WeightedSource, read_tables: Callable[[], Tables]) -> Dataset:
    """The data, once the tables of items and users are known to be those of this shop."""
    dataset, tables = o.load_data(data, source), read_tables()
    if tables != (None, None):
        require_tables_known(tables, dataset.train.items, dataset.train.users)
    for line in [line for table in tables if table is not None for line in table.lines()]:
        o.say(line)
    return dataset


def _tables(
    columns: ColumnGroup, items: str | None, users: str | None, on_bad_rows: o.OnBadRows
) -> Tables:
    """The tables of items and users, where there are any."""
    if items is None and users is None:
        return None, None
    return columns.read(items, users, on_bad_rows)


def _with_tables(model: Artifact, tables: Tables) -> tuple[Artifact, dict[str, Any]]:
    """The model with its tables of items and users, and what became of them."""
    if tables == (None, None):
        return model, {}
    from ratiorec.model.tables import attach

    model, attached = attach(model, *tables)
    for side in attached:
        o.say(side.line())
    return model, attached.to_json()


def _save(model: Artifact, output: Path) -> None:
    from ratiorec.files import made_folder, sole_writer

    with made_folder(output), sole_writer(output, o.say):  # an update may be at work there
        model.save(output)


def _planned(path: Path) -> BlendSettings:
    """The members of an automatic choice, as its model folder has them."""
    from ratiorec.config import settings_in
    from ratiorec.model.artifact import Artifact
    from ratiorec.settings import AutoSettings, BlendMember, BlendSettings

    model = Artifact.load(path)
    settings = settings_in(model.settings)
    if isinstance(settings, BlendSettings):
        return settings
    (only,) = [member for member in model.card.get("members", []) if member["weight"]] or [None]
    if only is None or isinstance(settings, AutoSettings):
        raise ConfigError(
            "the model has no members",
            where=f"--plan {path}",
            found=f"a model of preset {model.card.get('preset')}",
            wanted="a model that --preset auto made",
        )
    return BlendSettings((BlendMember(only["name"], 1.0, only["steps"], only["seed"], settings),))


def _trackers(names: Sequence[str]) -> list[Tracker]:
    if not names:
        return []
    from ratiorec.tracking.tracker import named_tracker

    return [named_tracker(name) for name in names]


def _tell_nobody(event: object) -> None: ...


def _beside(output: Path, suffix: str) -> Path:
    """A path next to the model folder, also where that is given as `.`."""
    named = output if output.name else output.resolve()
    return named.with_name(named.name + suffix)


def _require_apart(checkpoint: Path, output: Path) -> None:
    """A model folder holds a model and nothing else, so a checkpoint needs one of its own."""
    if checkpoint.resolve() == output.resolve():
        raise ConfigError(
            "checkpoint and model would share a folder",
            where="--checkpoint-dir",
            found=str(checkpoint),
            wanted="another folder than that of -o",
        )


def _train(
    dataset: Any,
    preset: str,
    settings: Any,
    seed: int,
    device: str,
    fit_options: Any,
    tell: Observer,
    team: Team,
) -> Artifact:
    from ratiorec.cli.progress import stop_on_interrupt
    from ratiorec.progress import FitProgress
    from ratiorec.settings import AutoSettings
    from ratiorec.training.auto import DEFAULT_SECONDS
    from ratiorec.training.experiment import fit as run_fit

    seconds = fit_options.max_seconds
    if isinstance(settings, AutoSettings) and math.isinf(seconds):
        seconds = DEFAULT_SECONDS
    with stop_on_interrupt() as stop_requested, FitProgress(seconds) as progress:

        def observe(event: Any) -> None:
            progress(event)
            tell(event)

        return run_fit(
            dataset,
            preset=preset,
            settings=settings,
            seed=seed,
            device=device,
            options=fit_options,
            observe=observe,
            stop_requested=stop_requested,
            team=team,
        )


def _write_record(model: Artifact, path: Path, validation: float, started_from: str | None) -> None:
    from ratiorec.files import write_json
    from ratiorec.training.experiment import result_record

    protocol = "validated" if validation else "fixed epochs"
    record = result_record(
        model, target="fit", protocol=protocol, command=o.given_command(), commit=started_from
    )
    write_json(path, record)


def _summary(model: Artifact, output: Path) -> dict[str, Any]:
    names = ("preset", "seed", "device", "steps", "epochs", "stopped_by", "seconds")
    summary = {name: model.card[name] for name in (*names, "peak_memory_mb")}
    if "peak_device_memory_mb" in model.card:
        summary["peak_device_memory_mb"] = model.card["peak_device_memory_mb"]
    if "processes" in model.card:
        summary["processes"] = model.card["processes"]
    if "members" in model.card:
        told = ("name", "validation", "seconds", "weight", "why")
        summary["members"] = [{key: one[key] for key in told} for one in model.card["members"]]
    return summary | {
        "validation": model.card["validation"],
        "validation_by": model.card["validation_by"],
        "test": model.card["test"],
        "model": str(output),
    }


def _tell_of_budget(card: Mapping[str, Any], settings: Any, asked: FitOptions) -> None:
    """One line where the time was too short: what was kept, and how far it is from converged."""
    if "members" in card:
        _tell_of_candidates(card, asked.max_seconds)
        return
    planned = getattr(getattr(settings, "training", None), "epochs", None)
    is_cut = asked.validation == 0 and planned is not None and card["epochs"] < planned
    if math.isinf(asked.max_seconds) or (card["stopped_by"] != "time budget" and not is_cut):
        return
    judged = [record["validation"]["ndcg@20"] for record in card["curve"] if "validation" in record]
    of = "" if planned is None else f" of up to {planned:,}"
    o.say(
        f"warning: --max-seconds {asked.max_seconds:g} ended the training: the model of step "
        f"{card['steps']:,} is kept (epoch {card['epochs']:g}{of}); "
        f"{_far_from_converged(judged)}; more --max-seconds, or --preset auto, which chooses what "
        "fits the time"
    )


def _tell_of_candidates(card: Mapping[str, Any], max_seconds: float) -> None:
    """One line where an automatic choice had no time for candidates: which, and what was kept."""
    members = card["members"]
    late = [one for one in members if one["why"].startswith("left out: about ")]
    if not late:
        return
    budget = "the budget of auto" if math.isinf(max_seconds) else f"--max-seconds {max_seconds:g}"
    kept, figures = [one["name"] for one in members if one["weight"]], card["validation"]
    told = [f"{budget} was too short for {len(late)} of {len(members)} candidates"]
    if figures:
        told[0] += f": {' + '.join(kept)} is kept, ndcg@20 {figures['ndcg@20']:.4f}"
        judged = {one["name"]: one["validation"]["ndcg@20"] for one in late if one["validation"]}
        if judged and max(judged.values()) > figures["ndcg@20"]:
            best = max(judged, key=lambda name: judged[name])
            told.append(f"{best} had {judged[best]:.4f} and could not be fitted to all pairs")
    if untried := [one["name"] for one in late if not one["validation"]]:
        told.append(f"not tried: {', '.join(untried)}")
    o.say("warning: " + "; ".join([*told, "more --max-seconds"]))


def _far_from_converged(judged: Sequence[float]) -> str:
    """What the validations say: still rising, or not; too few say nothing.

    >>> _far_from_converged([0.1, 0.2, 0.25])
    'not converged: ndcg@20 still rose from 0.2000 to 0.2500 at the last of 3 validations'
    """
    if len(judged) < 2:
        return "it was validated at most once, so nothing says how far it is from converged"
    best, last = max(judged[:-1]), judged[-1]
    if last > best:
        gain = f"ndcg@20 still rose from {best:.4f} to {last:.4f}"
        return f"not converged: {gain} at the last of {len(judged)} validations"
    stale = len(judged) - 1 - judged.index(best)
    return f"nearly converged: no gain at the last {stale} of {len(judged)} validations"


def _print_summary(summary: dict[str, Any]) -> None:
    seconds = summary["seconds"]
    _print_members(summary.get("members", []))
    typer.echo(
        f"trained {summary['epochs']:g} epochs ({summary['steps']} steps) of {summary['preset']} "
        f"on {summary['device']} in {seconds['train']:.1f} s "
        f"({seconds['total']:.1f} s in all, {summary['peak_memory_mb']:.0f} MB at most)"
    )
    for part in ("validation", "test"):
        if summary[part]:
            typer.echo(f"{part}: {o.format_metrics(summary[part])}")
    typer.echo(f"model: {summary['model']}")


def _print_members(members: Sequence[dict[str, Any]]) -> None:
    """A line for each candidate of an automatic choice."""
    if not members:
        return
    typer.echo(f"{'member':16} {'ndcg@20':>8} {'seconds':>8} {'weight':>7}")
    for member in members:
        judged = member["validation"]
        ndcg = f"{judged['ndcg@20']:8.4f}" if judged else f"{'-':>8}"
        weight = f"{member['weight']:7.2f}" if member["weight"] else f"{'-':>7}"
        line = f"{member['name']:16} {ndcg} {member['seconds']:8.1f} {weight}  {member['why']}"
        typer.echo(line)
