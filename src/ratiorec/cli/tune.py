"""ratiorec tune."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ratiorec.cli import options as o
from ratiorec.errors import ConfigError, StoppedError, StorageError

if TYPE_CHECKING:
    from ratiorec.data.interactions import Dataset
    from ratiorec.settings import ModelSettings
    from ratiorec.training.fit import EpochFinished, StepTaken
    from ratiorec.training.tune import Trial, TuneSession, Tuning

EXAMPLES = """Examples:

  ratiorec tune clicks.csv -o best.toml

  ratiorec fit clicks.csv -o model --config best.toml

  ratiorec tune gowalla --preset softmax --max-seconds 3600 --report tuning.html -o best.toml

  ratiorec tune clicks.csv --preset ease,walk --trials 50 -o best.toml --json
"""
PORTFOLIO = "walk,graph-filter,local-ease,ease,dregn-cf-fast,softmax"
DEFAULT_SECONDS = 600.0
_N_SHOWN = 5  # trials
_BAR = 24  # letters that stand for the whole


@o.grouped
def tune(
    data: o.Data,
    *,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="TOML file to write, for fit --config.")
    ],
    preset: Annotated[
        str, typer.Option(help="One, several with commas between them, or all.")
    ] = PORTFOLIO,
    assignments: Annotated[
        list[str] | None, typer.Option("--set", help="One setting, which is then not searched.")
    ] = None,
    max_seconds: Annotated[
        float | None,
        typer.Option(help="Time budget of this run; 600, or none with --trials."),
    ] = None,
    trials: Annotated[
        int | None, typer.Option(min=1, help="Trials in all, those of earlier runs included.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Same seed and trials, same result.")] = 0,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")] = "auto",
    validation: o.Validation = 0.1,
    validation_by: o.ValidationBy = None,
    memory_mb: Annotated[
        float | None, typer.Option(help="Refuse a model that would need more; else what is left.")
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Also write a page (.html).")] = None,
    source: o.WeightedSource,
    json: o.Json = False,
) -> None:
    """Search for better settings of presets by nDCG@20 on held-out pairs.

    The first trial of a preset is the preset as it is. All trials are kept in a file beside the
    output (.study.db): the same command goes on from there, also after Ctrl-C.
    """
    from ratiorec.errors import require_extra
    from ratiorec.training.experiment import find_device
    from ratiorec.training.fit import FitOptions

    require_extra("optuna", "tune", where="ratiorec tune")
    seconds = (math.inf if trials else DEFAULT_SECONDS) if max_seconds is None else max_seconds
    options = FitOptions(validation, validation_by, max_seconds=seconds, memory_mb=memory_mb)
    starts = _starts(preset, assignments or ())
    place = find_device(device)
    _require_room(output, report)
    dataset = o.load_data(data, source)
    o.tell_of_weights(dataset, *starts.values())
    search = {"options": options, "seed": seed, "device": place, "n_trials": trials}
    tuning, stopped_by = _run(dataset, starts, assignments or (), output, search)
    if not tuning.ranked:
        raise _nothing_found(tuning, stopped_by)
    _write(tuning, output)
    if report is not None:
        _report_writer()(tuning, dataset, report, seed=seed, device=str(place))
    result = {"dataset": dataset.name, "seed": seed, "device": str(place), **_result(tuning)}
    result |= {"config": str(output), "study": str(_study(output))}
    result["report"] = None if report is None else str(report)
    if json:
        o.print_json(result)
    else:
        _print(tuning, result, data)
    if stopped_by is not None:
        raise _stopped(str(_study(output)), "the same command goes on from here", stopped_by)


def _starts(names: str, assignments: Sequence[str]) -> dict[str, ModelSettings]:
    """The settings that the search of each preset begins with."""
    from ratiorec.config import model_preset, resolve
    from ratiorec.presets import PRESETS

    listed = list(PRESETS) if names.strip() == "all" else [one.strip() for one in names.split(",")]
    if assignments and len(listed) > 1:
        raise ConfigError(
            "a setting can be fixed for one preset only",
            where="--set",
            found=f"{len(listed)} presets",
            wanted="--preset with one name",
        )
    return {name: resolve(model_preset(name), {}, assignments) for name in listed}


def _study(output: Path) -> Path:
    return output.with_name(f"{output.name.removesuffix('.toml')}.study.db")


def _require_room(output: Path, report: Path | None) -> None:
    """Refuse, before anything is trained, places that cannot be written to."""
    from ratiorec.files import make_folder

    if report is not None:
        _report_writer()
    for path, option in ((output, "-o"), (report, "--report")):
        if path is not None and path.is_dir():
            raise StorageError(
                "a folder stands where a file would be written",
                where=option,
                found=str(path),
                wanted="the path of a file",
            )
        if path is not None:
            make_folder(path.parent)


def _report_writer() -> Any:
    """What writes the page, which is a part of the laboratory."""
    writers = entry_points(group="ratiorec.reports", name="tune")
    if not writers:
        raise o.lab_is_missing("ratiorec tune --report")
    return next(iter(writers)).load()


def _run(
    dataset: Dataset,
    starts: dict[str, ModelSettings],
    assignments: Sequence[str],
    output: Path,
    search: dict[str, Any],
) -> tuple[Tuning, int | None]:
    """The search with its progress, and the signal by which it was stopped."""
    from ratiorec.cli.progress import stop_on_interrupt
    from ratiorec.training.search_space import fixed_by
    from ratiorec.training.tune import TuneSession

    with stop_on_interrupt() as stop_requested:
        session = TuneSession(
            dataset.train,
            starts,
            study=_study(output),
            fixed=fixed_by(assignments),
            stop_requested=stop_requested,
            **search,
        )
        is_left_to_data = search["options"].validation_by is None
        o.tell_of_order(dataset, session.validation_by, is_left_to_data=is_left_to_data)
        with TuneProgress(session) as progress:
            session.observe, session.told = progress, progress.tell
            return session(), stop_requested.signal


class TuneProgress:
    """Shows a search on standard error: a line per trial, and on a terminal a bar."""

    def __init__(self, session: TuneSession) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        console = Console(stderr=True)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._session = session
        total = session.n_trials or session.options.max_seconds
        self._task = self._bar.add_task("trial", total=total)

    def __enter__(self) -> TuneProgress:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def __call__(self, event: StepTaken | EpochFinished) -> None:
        session, n_done = self._session, len(self._session.trials)
        epoch = getattr(event, "epoch", None)
        words = f"trial {n_done + 1}" + (f", epoch {epoch}" if epoch else "")
        done = n_done if session.n_trials else session.seconds
        self._bar.update(self._task, completed=done, description=words)

    def tell(self, trial: Trial) -> None:
        """The line of a trial that has ended."""
        *before, _ = self._session.trials
        scores = [one.score for one in before if one.state == "done"]
        is_best = trial.state == "done" and trial.score > max(scores, default=-math.inf)
        figure = f"ndcg@20 {trial.score:.4f}" if trial.validation else ""
        words = ", ".join(word for word in (figure, f"{trial.seconds:.1f} s") if word)
        state = "best so far" if is_best else trial.state
        why = f" ({trial.why})" if trial.why else ""
        line = f"trial {len(before) + 1} {trial.preset}: {words}, {state}{why}"
        self._bar.console.print(line, markup=False, highlight=False, soft_wrap=True)


def _stopped(where: str, wanted: str, by: int) -> StoppedError:
    stopped = StoppedError(
        "the search was stopped", where=where, found="a request to stop", wanted=wanted
    )
    stopped.signal = by
    return stopped


def _nothing_found(tuning: Tuning, stopped_by: int | None) -> Exception:
    if stopped_by is not None:
        return _stopped("the first trial", "the same command again", stopped_by)
    reasons = [f"{trial.preset}: {trial.why}" for trial in tuning.trials]
    reasons += [f"{name}: {why}" for name, why in tuning.left_out.items()]
    return ConfigError(
        "no trial came to its end",
        where="--preset, --max-seconds",
        found=f"{len(tuning.trials)} trials" + (f", {reasons[0]}" if reasons else ""),
        wanted="more time, or a preset that these data and this machine allow",
    )


def _write(tuning: Tuning, output: Path) -> None:
    from ratiorec.files import atomic_write
    from ratiorec.training.search_space import to_toml

    best = tuning.ranked[0]
    start = tuning.start(best.preset).validation
    own = f", {start['ndcg@20']:.4f} with the preset as it is" if start else ""
    comment = f"# ratiorec tune: validation ndcg@20 {best.score:.4f}{own}"
    if tuning.validation_by != "random":
        comment += f"\n# fit with --validation-by {tuning.validation_by}, as it was chosen"
    with atomic_write(output) as file:
        file.write(f"{comment}\n{to_toml(tuning.config)}\n".encode())


def _result(tuning: Tuning) -> dict[str, Any]:
    best = tuning.ranked[0]
    return {
        "preset": best.preset,
        "settings": tuning.changes(best),
        "validation": best.validation,
        "start_validation": tuning.start(best.preset).validation,
        "validation_by": tuning.validation_by,
        "validation_users": tuning.n_validation_users,
        "seconds": tuning.seconds,
        "trials": [asdict(trial) for trial in tuning.trials],
        "importance": tuning.importance,
        "left_out": tuning.left_out,
    }


def _print(tuning: Tuning, result: dict[str, Any], data: str) -> None:
    _print_trials(tuning)
    _print_importance(tuning)
    for name, why in tuning.left_out.items():
        typer.echo(f"left out: {name}: {why}")
    states = [trial.state for trial in tuning.trials]
    counts = ", ".join(f"{states.count(one)} {one}" for one in ("done", "pruned", "failed"))
    typer.echo(f"{len(states)} trials ({counts}) in {tuning.seconds:.0f} s of this run")
    best, start = result["validation"], result["start_validation"]
    typer.echo(f"validation: {o.format_metrics(best)} with {result['preset']} as tuned")
    if start:
        gain = best["ndcg@20"] / start["ndcg@20"] - 1 if start["ndcg@20"] else math.inf
        typer.echo(f"            {o.format_metrics(start)} as it is ({gain:+.1%})")
    for name in ("config", "study", "report"):
        if result[name] is not None:
            typer.echo(f"{name}: {result[name]}")
    by = "" if tuning.validation_by == "random" else f" --validation-by {tuning.validation_by}"
    typer.echo(f"next: ratiorec fit {data} -o MODEL --config {result['config']}{by}")


def _print_trials(tuning: Tuning) -> None:
    """The best trials, with what differs from their presets."""
    typer.echo(f"{'preset':16}{'ndcg@20':>9}{'recall@20':>11}{'seconds':>9}  settings")
    for trial in tuning.ranked[:_N_SHOWN]:
        assert trial.validation is not None
        changes = ", ".join(f"{path} {value:g}" for path, value in tuning.changes(trial).items())
        recall, cut = trial.validation["recall@20"], " (cut by the budget)" if trial.why else ""
        typer.echo(
            f"{trial.preset:16}{trial.score:>9.4f}{recall:>11.4f}{trial.seconds:>9.1f}"
            f"  {changes or 'as it is'}{cut}"
        )


def _print_importance(tuning: Tuning) -> None:
    """Bars of how much each setting of the best preset mattered."""
    name = tuning.ranked[0].preset
    shares = tuning.importance.get(name)
    if not shares:
        typer.echo("too few trials came to their end to say which settings matter")
        return
    typer.echo(f"importance of each setting of {name}")
    width = max(map(len, shares))
    for path, share in shares.items():
        typer.echo(f"  {path:<{width}} {share:5.0%} {'█' * round(share * _BAR)}".rstrip())
