"""Several presets on the same data: each is trained, judged, and set against the best.

A preset that cannot run here does not lose the others: its result holds the reason in place of
figures.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from ratiorec.config import preset, to_table
from ratiorec.data.interactions import Dataset, Interactions, require_trainable
from ratiorec.data.split import hold_out
from ratiorec.errors import ConfigError, RatiorecError, StoppedError
from ratiorec.evaluation.evaluate import Difference, Report, compare
from ratiorec.machine import load_torch_whole, release_memory
from ratiorec.model.artifact import Artifact
from ratiorec.training.experiment import find_device, fit
from ratiorec.training.fit import FitOptions, Observer

METRICS = ("recall@20", "ndcg@20")
RANKED_BY = "ndcg@20"
_FIGURES = (
    *("seconds", "validation", "test", "epochs", "steps"),
    *("peak_memory_mb", "peak_device_memory_mb"),
)


@dataclass(frozen=True, eq=False)
class Figures:
    """What came of training one preset.

    `report` has the two metrics for every test user. `peak_memory_mb` is the most memory that the
    process held meanwhile, and None where the system cannot tell it apart from an earlier peak.
    """

    seconds: Mapping[str, float]
    epochs: float
    steps: int
    validation: Mapping[str, float] | None
    test: Mapping[str, float] | None
    report: Report | None = None
    peak_memory_mb: float | None = None
    peak_device_memory_mb: float | None = None

    @property
    def metrics(self) -> Mapping[str, float]:
        """What presets are ranked by: the test part, or the validation pairs if there is none."""
        metrics = self.validation if self.test is None else self.test
        assert metrics is not None
        return metrics


@dataclass(frozen=True, eq=False)
class PresetResult:
    """A preset with its figures or, where it could not run, the reason in one line.

    `against_best` is its nDCG@20 minus that of the best preset, paired by test user.
    """

    preset: str
    settings: Mapping[str, Any] = field(repr=False)
    figures: Figures | None = None
    against_best: Difference | None = None
    error: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The result in plain types; what could not run has null for every figure."""
        against = self.against_best
        return {
            "preset": self.preset,
            **{name: getattr(self.figures, name, None) for name in _FIGURES},
            "against_best": None if against is None else against._asdict(),
            "error": self.error,
        }


Watch = Callable[[str], AbstractContextManager[Observer]]
"""Called with each preset's name before it is trained; gives who is told of its steps."""
Finish = Callable[[PresetResult, Artifact | None], None]
"""Called after each preset with its result and its model, which is not kept afterwards."""


def compare_presets(
    dataset: Dataset,
    presets: Sequence[str],
    *,
    seed: int = 0,
    device: str = "auto",
    options: FitOptions = FitOptions(),  # noqa: B008
    watch: Watch = lambda name: nullcontext(lambda event: None),
    finish: Finish = lambda result, model: None,
    stop_requested: Callable[[], bool] = lambda: False,
) -> list[PresetResult]:
    """Train and judge presets one after another; the results are in the order asked for.

    Args:
        dataset: Pairs; where there is a test part, it judges and chooses nothing.
        presets: Names of settings; see `ratiorec.presets`.
        seed: The same for every preset, and so are the pairs held out for validation.
        device: "cpu", "cuda", "cuda:1" or "auto".
        options: Those of each fit, budgets included; a log or checkpoints would be shared.
        watch: Told of every preset's beginning, and through what it gives, of every step.
        finish: Told of every preset's end.
        stop_requested: Asked after every step; True stops the whole comparison.

    Raises:
        StoppedError: It was asked to stop.
    """
    require_presets(presets)
    _require_comparable(dataset, options)
    place = find_device(device)
    load_torch_whole(str(place))
    test = dataset.test if dataset.test is not None and dataset.test.n_pairs else None
    train = partial(
        fit,
        Dataset(dataset.name, dataset.train),  # judged here: the report of a fit is not kept
        seed=seed,
        device=device,
        options=options,
        stop_requested=stop_requested,
    )

    def attempt(name: str) -> PresetResult:
        if stop_requested():
            raise _stopped(name)
        is_new_peak = release_memory(str(place))
        result, model = _attempt(name, train, test, watch, is_new_peak=is_new_peak)
        finish(result, model)
        return result

    return _against_best([attempt(name) for name in presets])


def with_test_part(dataset: Dataset, share: float, *, seed: int = 0, by: str = "random") -> Dataset:
    """The data set itself, or where it has no test part, with a share of the pairs as one.

    They are drawn in one of the ways of `VALIDATION_BY`. The pairs that choose when to stop favour
    whoever stops late by chance, so they cannot judge.
    """
    if share == 0 or (dataset.test is not None and dataset.test.n_pairs):
        return dataset
    if not 0 < share < 1:
        raise ConfigError(
            "the share of test pairs is out of range",
            where="--test-share",
            found=str(share),
            wanted="0, or a share below 1 such as 0.2",
        )
    require_trainable(dataset.train)
    split = hold_out(dataset.train, share, by=by, rng=np.random.default_rng(seed))
    return Dataset(dataset.name, split.train, split.judged if split.judged.n_pairs else None)


def require_presets(names: Sequence[str]) -> None:
    """Refuse a name that no preset has, or that comes twice."""
    for name in names:
        try:
            preset(name)
        except ConfigError as error:
            raise ConfigError(
                error.what, where="--presets", found=error.found, wanted=error.wanted
            ) from None
    if twice := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
        raise ConfigError(
            "a preset is listed twice",
            where="--presets",
            found=", ".join(twice),
            wanted="every preset once",
        )
    if not names:
        raise ConfigError(
            "there is nothing to compare", where="--presets", found="no name", wanted="a preset"
        )


def ranked(results: Sequence[PresetResult]) -> list[PresetResult]:
    """The results that have figures, by nDCG@20, the best first."""
    ran = [result for result in results if result.figures is not None]
    return sorted(ran, key=lambda result: -figures_of(result).metrics[RANKED_BY])


def figures_of(result: PresetResult) -> Figures:
    """The figures of a preset that did run."""
    assert result.figures is not None, f"{result.preset} could not run"
    return result.figures


def _require_comparable(dataset: Dataset, options: FitOptions) -> None:
    require_trainable(dataset.train)
    if not options.validation and (dataset.test is None or not dataset.test.n_pairs):
        raise ConfigError(
            "there is nothing to compare presets by",
            where="--validation",
            found=f"0, and no test part in {dataset.name}",
            wanted="data with a test part, or a share such as 0.1",
        )
    if options.checkpoints is not None or options.log is not None:
        raise ConfigError(
            "several fits cannot share one checkpoint or one log",
            where="options",
            found="checkpoints or a log",
            wanted="neither",
        )


def _attempt(
    name: str,
    train: Callable[..., Artifact],
    test: Interactions | None,
    watch: Watch,
    *,
    is_new_peak: bool,
) -> tuple[PresetResult, Artifact | None]:
    settings = to_table(preset(name))
    try:
        with watch(name) as observe:
            model = train(preset=name, observe=observe)
        model, report = _judged(model, test)
    except StoppedError:
        raise _stopped(name) from None
    # torch tells by a RuntimeError that memory has run out or that a device lacks an operation
    except (RatiorecError, MemoryError, RuntimeError) as error:
        return PresetResult(name, settings, error=_in_one_line(error)), None
    card = model.card
    figures = Figures(
        **{key: card[key] for key in ("seconds", "epochs", "steps", "validation", "test")},
        report=report,
        peak_memory_mb=card["peak_memory_mb"] if is_new_peak else None,
        peak_device_memory_mb=card.get("peak_device_memory_mb"),
    )
    return PresetResult(name, settings, figures), model


def _judged(model: Artifact, test: Interactions | None) -> tuple[Artifact, Report | None]:
    """The model with its test figures on its card, as after a fit, and the report on each user."""
    if test is None:
        return model, None
    started = time.monotonic()
    whole = model.evaluate(test, ks=(20,))
    report = replace(whole, per_user={name: whole.per_user[name] for name in METRICS}, coverage={})
    seconds = dict(model.card["seconds"])
    seconds["total"] = round(seconds["total"] + time.monotonic() - started, 3)
    figures = {name: report.value(name) for name in METRICS}
    return model.with_card({**model.card, "test": figures, "seconds": seconds}), report


def _against_best(results: list[PresetResult]) -> list[PresetResult]:
    reports = {result.preset: figures_of(result).report for result in ranked(results)}
    best = next(iter(reports.values()), None)
    differences = {
        name: compare(report, best).metrics[RANKED_BY]
        for name, report in reports.items()
        if report is not None and best is not None and report is not best
    }
    return [replace(result, against_best=differences.get(result.preset)) for result in results]


def _stopped(name: str) -> StoppedError:
    return StoppedError(
        "the comparison was stopped",
        where=name,
        found="a request to stop",
        wanted="the same command, which begins again, or one with the presets that are left",
    )


def _in_one_line(error: Exception) -> str:
    text = str(error) if isinstance(error, RatiorecError) else f"{type(error).__name__}: {error}"
    return " ".join(text.split()).removesuffix(":")
