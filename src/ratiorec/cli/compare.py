"""ratiorec compare."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ratiorec.cli import options as o
from ratiorec.errors import ConfigError, DataError, StorageError

if TYPE_CHECKING:
    from ratiorec.data.interactions import Dataset
    from ratiorec.model.artifact import Artifact
    from ratiorec.progress import FitProgress
    from ratiorec.training.compare import PresetResult


EXAMPLES = """Examples:

  ratiorec compare clicks.csv --presets dregn-cf,lightgcn,ease

  ratiorec compare clicks.csv --presets ease,item-knn --split time --last-days 30

  ratiorec compare clicks.csv --presets ease,item-knn --folds 5

  ratiorec compare gowalla --presets all --max-seconds 600 --report report.html --json
"""

SPLITS = {"ratio": "random", "last": "last", "time": "time"}
"""The names of --split, and what draws validation pairs in the same way."""


@dataclass(frozen=True)
class Judging:
    """Options of the pairs that judge."""

    test_share: Annotated[
        float,
        typer.Option(help="Share of the pairs that judges, if there is no test part."),
    ] = 0.2
    split: Annotated[
        str | None,
        typer.Option(
            help="How it is held out; like the validation pairs if left.",
            metavar="|".join(SPLITS),
        ),
    ] = None
    at: o.At = None
    last_days: o.LastDays = None
    folds: Annotated[
        int | None,
        typer.Option(min=2, help="Cross-validation instead: so many random folds of the pairs."),
    ] = None

    @property
    def by(self) -> str | None:
        """The name of --split, which --at and --last-days stand for too."""
        if (self.split, self.at, self.last_days) == (None, None, None):
            return None
        by = o.split_by(self.split, self.at, self.last_days, choices=tuple(SPLITS), where="--split")
        if self.folds is not None:
            raise ConfigError(
                "folds are a split of their own",
                where="--folds, --split",
                found="both",
                wanted="one of them",
            )
        return by

    def test_part(self, loaded: Dataset, seed: int, validation_by: str) -> Dataset:
        """The data with pairs that judge: their own test part, unless a split is asked for."""
        from ratiorec.training.compare import with_test_part

        if self.by is None and self.folds is None:
            return with_test_part(loaded, self.test_share, seed=seed, by=validation_by)
        if loaded.test is not None:
            o.say(f"note: {loaded.name} has a test part already; it is left out")
        train = replace(loaded, test=None)
        return train if self.folds is not None else self._split(train, seed)

    def _split(self, whole: Dataset, seed: int) -> Dataset:
        import numpy as np

        from ratiorec.data.interactions import require_trainable
        from ratiorec.data.split import LeaveLast, RatioSplit, cut_in_time
        from ratiorec.training.compare import require_test_share

        data, share = require_trainable(whole.train), self.test_share
        require_test_share(share)
        try:
            if self.by == "time":
                split = cut_in_time(data, share, at=self.at, last_days=self.last_days)(data)
            elif self.by == "last":
                split = LeaveLast(fraction=share)(data, rng=np.random.default_rng(seed))
            else:
                split = RatioSplit(share)(data, rng=np.random.default_rng(seed))
        except DataError as error:
            wanted = f"{error.wanted}; or --split ratio"
            raise DataError(
                error.what, where=f"--split {self.by}", found=error.found, wanted=wanted
            ) from None
        if not split.judged.n_pairs:
            raise DataError(
                "no pair is left to judge by",
                where=f"--split {self.by}",
                found=f"{split.held_out.n_pairs:,} pairs, all of users who begin after it"
                if split.held_out.n_pairs
                else "users with too few pairs",
                wanted="an earlier moment or a larger share",
            )
        if self.by == "time":
            o.say(
                f"note: {split.n_repeats:,} training pairs come again after the cut and "
                f"{split.n_users_unseen:,} users begin after it; neither is judged"
            )
        return replace(whole, train=split.train, test=split.judged)


@o.grouped
def compare(
    data: o.Data,
    *,
    presets: Annotated[str, typer.Option(help="Names with commas between them, or all.")],
    seed: Annotated[int, typer.Option(min=0, help="The same for every preset.")] = 0,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")] = "auto",
    validation: o.Validation = 0.1,
    validation_by: o.ValidationBy = None,
    judging: Judging,
    no_refit: Annotated[
        bool, typer.Option("--no-refit", help="Keep the models that were validated; not of auto.")
    ] = False,
    max_seconds: Annotated[
        float, typer.Option(help="Time budget for training each preset.")
    ] = math.inf,
    memory_mb: Annotated[
        float | None, typer.Option(help="Refuse a model that would need more; else what is left.")
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Also write a page (.html).")] = None,
    models: Annotated[
        Path | None, typer.Option(help="Save each model in this folder, under its preset's name.")
    ] = None,
    source: o.WeightedSource,
    json: o.Json = False,
) -> None:
    """Train several presets on the same data and rank them by nDCG@20.

    They are judged on the test part; where the data have none, a share of the pairs is held out
    as one, drawn like the validation pairs or as --split says. A preset that cannot run here is
    listed with the reason, and the others go on.
    """
    from ratiorec.config import preset as preset_settings
    from ratiorec.training.compare import ranked
    from ratiorec.training.experiment import find_device
    from ratiorec.training.fit import FitOptions

    names = _names(presets)
    place = str(find_device(device))
    options = FitOptions(
        validation=validation,
        validation_by=validation_by,
        refit=not no_refit,
        max_seconds=max_seconds,
        memory_mb=memory_mb,
    )
    by = judging.by
    _require_room(report, models, names, folds=judging.folds)
    loaded = o.load_data(data, source)
    o.tell_of_weights(loaded, *map(preset_settings, names))
    o.tell_of_order(loaded, validation_by or by)
    validation_by = validation_by or (SPLITS[by] if by else None)
    dataset = judging.test_part(loaded, seed, validation_by or "random")
    if dataset is not loaded:  # what `auto` would choose by may be drawn in another way
        options = replace(options, validation_by=validation_by or "random")
    desk = _Desk(names, models, max_seconds)
    results = desk.run(dataset, seed, device, options, judging.folds)
    if report is not None:
        desk.write_report(results, dataset, report, seed, place)
    result = _result(results, dataset.name, seed, place) | {
        "validation_by": (validation_by or "random") if validation else None,
        "test_share": judging.test_share if _has_share(judging, dataset, loaded) else None,
        "split": by,
        "folds": judging.folds,
        "models": None if models is None else str(models),
        "report": None if report is None else str(report),
    }
    if json:
        o.print_json(result)
    else:
        _print(result)
    if desk.unwritten:
        raise desk.unwritten[0]
    if not ranked(results):
        raise ConfigError(
            "no preset could run",
            where="--presets",
            found=f"{len(results)} failures, the first: {results[0].error}",
            wanted="a preset that these data and this machine allow",
        )


def _has_share(judging: Judging, dataset: Dataset, loaded: Dataset) -> bool:
    """Whether a share of the pairs judges, not a test part, a moment or folds."""
    given = (judging.at, judging.last_days, judging.folds)
    return dataset is not loaded and given == (None, None, None)


def _names(presets: str) -> list[str]:
    from ratiorec.presets import PRESETS
    from ratiorec.training.compare import require_presets

    if presets.strip() == "all":
        return list(PRESETS)
    names = [name.strip() for name in presets.split(",")]
    require_presets(names)
    return names


def _require_room(
    report: Path | None, models: Path | None, names: Sequence[str], *, folds: int | None
) -> None:
    """Refuse, before anything is trained, places that cannot be written to."""
    from ratiorec.files import make_folder
    from ratiorec.model.store import require_replaceable

    if models is not None and folds is not None:
        raise ConfigError(
            "cross-validation has a model for each fold",
            where="--models, --folds",
            found="both",
            wanted="--folds to choose a preset, then fit on all pairs",
        )
    if report is not None:
        _report_writer()  # refused before anything is trained
    if report is not None and report.is_dir():
        raise StorageError(
            "the report would replace a folder",
            where="--report",
            found=str(report),
            wanted="the path of a file",
        )
    if models is not None:
        for name in names:
            require_replaceable(models / name)
        make_folder(models)
    if report is not None:
        make_folder(report.parent)


def _report_writer() -> Any:
    """What writes the page, which is a part of the laboratory."""
    writers = entry_points(group="ratiorec.reports", name="compare")
    if not writers:
        raise o.lab_is_missing("ratiorec compare --report")
    return next(iter(writers)).load()


class _Desk:
    """Shows what goes on, and keeps for the end what could not be written.

    A full disk must not cost the figures of hours of training.
    """

    def __init__(self, names: Sequence[str], models: Path | None, max_seconds: float) -> None:
        self.names = names
        self.max_seconds = max_seconds
        self.models = models
        self.unwritten: list[StorageError] = []

    def run(
        self, dataset: Any, seed: int, device: str, options: Any, folds: int | None
    ) -> list[PresetResult]:
        from ratiorec.cli.progress import stop_on_interrupt
        from ratiorec.training.compare import compare_folds, compare_presets

        run = compare_presets if folds is None else partial(compare_folds, n_folds=folds)
        with stop_on_interrupt() as stop_requested:
            return run(
                dataset,
                self.names,
                seed=seed,
                device=device,
                options=options,
                watch=self.watch,
                finish=self.finish,
                stop_requested=stop_requested,
            )

    def watch(self, name: str) -> FitProgress:
        from ratiorec.progress import FitProgress

        o.say(f"{self.names.index(name) + 1}/{len(self.names)} {name}")
        return FitProgress(self.max_seconds)

    def finish(self, result: PresetResult, model: Artifact | None) -> None:
        """Tell the figures at once: they are all that is left when the rest is stopped."""
        if result.figures is None or model is None:
            o.say(f"{result.preset} could not run: {result.error}")
            return
        figures = result.figures
        part = "validation" if figures.test is None else "test"
        metrics = o.format_metrics(dict(figures.metrics))
        o.say(f"{result.preset}: {part} {metrics}, {figures.seconds['train']:.1f} s")
        if self.models is not None:
            try:
                model.save(self.models / result.preset)
            except StorageError as error:
                self.unwritten.append(error)

    def write_report(
        self, results: list[PresetResult], dataset: Any, path: Path, seed: int, device: str
    ) -> None:
        try:
            _report_writer()(results, dataset, path, seed=seed, device=device)
        except StorageError as error:
            self.unwritten.append(error)


def _result(
    results: Sequence[PresetResult], dataset: str, seed: int, device: str
) -> dict[str, Any]:
    from ratiorec.training.compare import ranked

    order = ranked(results)
    return {
        "dataset": dataset,
        "seed": seed,
        "device": device,
        "best": order[0].preset if order else None,
        "results": [result.to_json() for result in results],
    }


def _print(result: dict[str, Any]) -> None:
    ran = [line for line in result["results"] if line["error"] is None]
    if ran:
        part = "validation" if ran[0]["test"] is None else "test"
        _print_table(sorted(ran, key=lambda line: -line[part]["ndcg@20"]), part)
    for line in result["results"]:
        if line["error"] is not None:
            typer.echo(f"could not run: {line['preset']}: {line['error']}")
    for name in ("models", "report"):
        if result[name] is not None:
            typer.echo(f"{name}: {result[name]}")


def _print_table(lines: Sequence[dict[str, Any]], part: str) -> None:
    """The best first, and marked."""
    width = max(len(line["preset"]) for line in lines)
    head = f"{'ndcg@20':>9}{'recall@20':>11}{'seconds':>10}{'epochs':>8}"
    if part == "test":
        head += f"{'novelty':>9}{'coverage':>10}"
    over_folds = lines[0]["folds"] is not None
    if over_folds:
        head += f"   {'ndcg@20 over folds':<18}"
    against = "   ndcg@20 against the best" if part == "test" and len(lines) > 1 else ""
    typer.echo(f"  {part:<{width}}{head}{against}")
    for place, line in enumerate(lines):
        figures = line[part]
        typer.echo(
            f"{' ' if place else '*'} {line['preset']:<{width}}"
            f"{figures['ndcg@20']:>9.4f}{figures['recall@20']:>11.4f}"
            f"{line['seconds']['train']:>10.1f}{line['epochs']:>8.4g}"
            f"{_lists(line)}{_interval(line) if over_folds else ''}{_against(line)}"
        )


def _lists(line: dict[str, Any]) -> str:
    """How far the lists are from the best sellers, and how much of the catalogue is in them."""
    beyond = line["beyond"]
    if beyond is None:
        return ""
    return f"{beyond['novelty@20']['value']:>9.2f}{beyond['coverage@20']['value']:>10.1%}"


def _interval(line: dict[str, Any]) -> str:
    interval = line["intervals"]["ndcg@20"]
    return f"   [{interval['low']:.4f}, {interval['high']:.4f}]"


def _against(line: dict[str, Any]) -> str:
    against = line["against_best"]
    if against is None:
        return ""
    interval = f"[{against['low']:+.4f}, {against['high']:+.4f}]"
    return f"   {against['difference']:+.4f} {interval}  p = {against['p_value']:.2g}"
