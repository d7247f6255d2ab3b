"""What people type: `fit`, `evaluate` and `compare`, from whatever holds pairs."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ratiorec.catalogue.tables import IdTable, Side
from ratiorec.config import preset as preset_settings
from ratiorec.config import resolve
from ratiorec.data import formats
from ratiorec.data.benchmarks import load
from ratiorec.data.describe import order_note
from ratiorec.data.interactions import Dataset, Interactions
from ratiorec.errors import ConfigError, DataError, unknown_choice
from ratiorec.evaluation.evaluate import Report
from ratiorec.evaluation.reach import Reach
from ratiorec.model.artifact import Artifact
from ratiorec.model.tables import attach, require_known
from ratiorec.plain import html_table, text_table
from ratiorec.presets import AUTO
from ratiorec.progress import progress_bar, say_lines
from ratiorec.settings import AnySettings
from ratiorec.training.auto import DEFAULT_SECONDS
from ratiorec.training.compare import PresetResult, compare_presets, ranked, with_test_part
from ratiorec.training.experiment import fit as train
from ratiorec.training.fit import FitOptions, Observer

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DEFAULT_PRESETS = (AUTO, "dregn-cf-fast", "softmax", "ease", "item-knn", "popularity")


def fit(
    data: Any,
    *,
    preset: str | None = None,
    settings: AnySettings | Mapping[str, Any] | None = None,
    seed: int = 0,
    device: str = "auto",
    items: Any = None,
    users: Any = None,
    options: FitOptions = FitOptions(),  # noqa: B008
    progress: bool | None = None,
    observe: Observer | None = None,
    stop_requested: Callable[[], bool] = lambda: False,
    **named: Any,
) -> Artifact:
    """Train a model.

    Args:
        data: A pandas or polars frame, an Arrow table, a list of (user, item), a sparse matrix,
            `Interactions`, a `Dataset`, or the path of a file or the name of a benchmark.
        preset: Named settings; "auto", which chooses on held-out pairs, where nothing is given.
        settings: Settings in place of a preset's, or a dictionary of those that differ from it.
        seed: Same seed, same bits on a CPU.
        device: "cpu", "cuda", "cuda:1" or "auto".
        items: Titles and attributes of items: an `IdTable`, or what `IdTable.read` takes.
        users: Attributes of users, in the same forms.
        options: Validation, refit, time budget, checkpoints.
        progress: Whether to show a bar; by default in a terminal or a notebook.
        observe: Told of every step and epoch, in place of the bar.
        stop_requested: Asked after every step; True saves a checkpoint and stops.
        **named: Fields of `options` by their names, such as max_seconds=30.
    """
    if isinstance(settings, Mapping):
        if preset is None:
            wanted = "preset='dregn-cf', or another whose settings these are"
            raise ConfigError(
                "settings in a dictionary change those of a preset",
                where="fit, settings",
                found="no preset",
                wanted=wanted,
            )
        settings = resolve(preset_settings(preset), settings)
    item_table, user_table = _table(items, "item"), _table(users, "user")
    dataset = _read_dataset(data, shown=progress)
    for table, known in ((item_table, dataset.train.items), (user_table, dataset.train.users)):
        if table is not None:
            require_known(table, known)
            say_lines(table.lines(), shown=progress)
    chosen = with_named(options, named)
    is_auto = settings is None and preset in (None, AUTO)
    is_left_to_data = is_auto and chosen.validation and chosen.validation_by is None
    if is_left_to_data and (note := order_note(dataset.train)):
        say_lines([f"note: {note}"], shown=progress)
    with progress_bar(
        _budget(chosen, is_auto=is_auto), shown=progress if observe is None else False
    ) as bar:
        model = train(
            dataset,
            preset=preset,
            settings=settings,
            seed=seed,
            device=device,
            options=chosen,
            observe=observe or bar,
            stop_requested=stop_requested,
        )
    model, attached = attach(model, item_table, user_table)
    for side in attached:
        say_lines([side.line()], shown=progress)
    return model


def _table(source: Any, kind: Side) -> IdTable | None:
    if source is None or isinstance(source, IdTable):
        return source and replace(source, kind=kind)
    return IdTable.read(source, kind=kind)


def evaluate(model: Artifact | str | Path, test: Any, **options: Any) -> Report:
    """Judge a model, or the folder of one, on test pairs in any form that `fit` takes.

    Options are those of `Artifact.evaluate`: ks, on_unknown, …
    """
    found = model if isinstance(model, Artifact) else Artifact.load(model)
    return found.evaluate(_pairs_of(test), **options)


def compare(
    data: Any,
    presets: Sequence[str] = DEFAULT_PRESETS,
    *,
    test: Any = None,
    test_share: float = 0.2,
    seed: int = 0,
    device: str = "auto",
    options: FitOptions = FitOptions(),  # noqa: B008
    progress: bool | None = None,
    **named: Any,
) -> PresetComparison:
    """Train several presets on the same pairs and judge them on the same test pairs.

    Args:
        data: Whatever `fit` takes.
        presets: Their names.
        test: Test pairs in the same forms, of which those of unknown users or items are left out;
            else those of `data`, or a share that is held out.
        test_share: That share of each user's pairs.
        seed: Of every fit, and of what is held out.
        device: "cpu", "cuda", "cuda:1" or "auto".
        options: Those of every fit.
        progress: Whether to show a bar; by default in a terminal or a notebook.
        **named: Fields of `options` by their names, such as max_seconds=30.
    """
    given, chosen = _read_dataset(data, shown=progress), with_named(options, named)
    if test is not None:
        judged = _with_test(given, _pairs_of(test), shown=progress)
    else:
        judged = with_test_part(given, test_share, seed=seed, by=chosen.validation_by or "random")
    if judged.train is not given.train:  # what `auto` would choose by may be drawn in another way
        chosen = replace(chosen, validation_by=chosen.validation_by or "random")

    @contextmanager
    def watch(name: str) -> Iterator[Observer]:
        seconds = _budget(chosen, is_auto=name == AUTO)
        with progress_bar(seconds, shown=progress, prefix=f"{name}: ") as bar:
            yield bar

    found = compare_presets(
        judged, list(presets), seed=seed, device=device, options=chosen, watch=watch
    )
    return PresetComparison(tuple(found))


@dataclass(frozen=True, repr=False)
class PresetComparison:
    """What `compare` has found, best first when printed."""

    results: tuple[PresetResult, ...]

    @property
    def best(self) -> PresetResult:
        """The preset with the highest nDCG@20."""
        return ranked(self.results)[0]

    def to_dicts(self) -> list[dict[str, Any]]:
        """One dictionary for each preset, in plain types, in the order asked for."""
        return [result.to_json() for result in self.results]

    def plot(self) -> Axes:
        """nDCG@20 of each preset with its 95 % interval (extra `plots`)."""
        from ratiorec.plots import plot_comparison

        return plot_comparison(ranked(self.results))

    def _rows(self) -> list[list[str]]:
        rows = [["preset", "ndcg@20", "recall@20", "seconds", "against the best", "95 % interval"]]
        for result in ranked(self.results):
            assert result.figures is not None
            metrics, against = result.figures.metrics, result.against_best
            difference = interval = ""
            if against is not None:
                difference = f"{against.difference:+.4f}"
                interval = f"{against.low:+.4f} to {against.high:+.4f}"
            seconds = f"{result.figures.seconds['total']:.1f}"
            figures = [f"{metrics[name]:.4f}" for name in ("ndcg@20", "recall@20")]
            rows.append([result.preset, *figures, seconds, difference, interval])
        return rows

    def __repr__(self) -> str:
        return "\n".join([self._title(), text_table(self._rows()), *self._failures()])

    def _repr_html_(self) -> str:
        return html_table(self._rows(), caption="; ".join([self._title(), *self._failures()]))

    def _title(self) -> str:
        ran = ranked(self.results)
        report = ran[0].figures.report if ran and ran[0].figures else None
        users = "" if report is None else f", {len(report.users):,} test users"
        return f"PresetComparison: {len(ran)} presets on the same pairs{users}"

    def _failures(self) -> list[str]:
        return [f"{r.preset} could not run: {r.error}" for r in self.results if r.error]


def read(source: str | Path, *, progress: bool | None = None, **options: Any) -> Interactions:
    """Pairs of a file, as `ratiorec.data.formats.read` gives them.

    In a terminal or a notebook it also says which columns were taken and what became of the rows,
    which is always in `reading` of the result; `progress` says so whatever there is, or never.
    """
    data = formats.read(source, **options)
    if data.reading is not None:
        say_lines(data.reading.lines(), shown=progress)
    return data


def _read_dataset(data: Any, *, shown: bool | None) -> Dataset:
    """Pairs from anything that holds some; what is read here is said."""
    dataset = dataset_of(data)
    reading = dataset.train.reading
    if not isinstance(data, Interactions | Dataset) and reading is not None:
        say_lines(reading.lines(), shown=shown)
    return dataset


def dataset_of(data: Any) -> Dataset:
    """Pairs from anything that holds some.

    Raises:
        DataError: It is nothing of the kind.
    """
    if isinstance(data, Dataset):
        return data
    if isinstance(data, Interactions):
        return Dataset("data", data)
    if isinstance(data, str | os.PathLike):
        return load(data)
    if hasattr(data, "tocsr"):
        return Dataset("data", Interactions.from_csr(data))
    if hasattr(data, "columns") or hasattr(data, "column_names"):
        return Dataset("data", Interactions.from_frame(data))
    return Dataset("data", _from_tuples(data))


def _from_tuples(data: Any) -> Interactions:
    rows = list(data) if isinstance(data, Iterable) else []
    if rows and all(isinstance(row, tuple | list) and len(row) == 2 for row in rows):
        return Interactions.from_pairs([row[0] for row in rows], [row[1] for row in rows])
    raise DataError(
        "no pairs can be read from this",
        where="data",
        found=f"{type(data).__name__}, {data!r:.60}",
        wanted="a frame, a sparse matrix, a list of (user, item), a path, or Interactions "
        "(Interactions.from_pairs takes weights and timestamps, too)",
    )


def _pairs_of(data: Any) -> Interactions:
    """The pairs to judge by: the test part where there is one."""
    found = dataset_of(data)
    return found.train if found.test is None else found.test


def _with_test(dataset: Dataset, test: Interactions, *, shown: bool | None) -> Dataset:
    """The test pairs by the ids of the training part; those of unknown users and items are told."""
    users, items = dataset.train.users, dataset.train.items
    known, lines = test.aligned_to(users, items, on_unknown="skip"), _unknown(test, dataset.train)
    if not known.n_pairs:
        raise DataError(
            "no test pair has a user and an item of the training pairs",
            where="test",
            found="; ".join(lines) or "no pairs",
            wanted="ids in the same spelling, as 00012 is not 12",
        )
    say_lines([f"note: {line}" for line in lines], shown=shown)
    return replace(dataset, test=known)


def _unknown(test: Interactions, train: Interactions) -> list[str]:
    return Reach.of(test, train.users, train.items, train).counts.told()


def with_named(options: FitOptions, named: Mapping[str, Any]) -> FitOptions:
    """Options with some of their fields changed, by name."""
    known = [option.name for option in fields(FitOptions)]
    if unknown := sorted(named.keys() - set(known)):
        raise unknown_choice("no such option of a fit", unknown[0], known, where="options")
    return replace(options, **named)


def _budget(options: FitOptions, *, is_auto: bool) -> float:
    """The seconds that a fit may take; the automatic choice has a budget of its own."""
    seconds = options.max_seconds
    return DEFAULT_SECONDS if is_auto and math.isinf(seconds) else seconds
