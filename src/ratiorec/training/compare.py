"""Several presets on the same data: each is trained, judged, and set against the best.

A preset that cannot run here does not lose the others: its result holds the reason in place of
figures.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from ratiorec.config import preset, to_table
from ratiorec.data.interactions import Dataset, Interactions, require_trainable
from ratiorec.data.split import Folds, hold_out
from ratiorec.errors import ConfigError, DataError, RatiorecError, StoppedError
from ratiorec.evaluation.compare import Difference, compare, paired_p_value
from ratiorec.evaluation.evaluate import Report
from ratiorec.evaluation.intervals import Estimate, Interval
from ratiorec.machine import load_torch, release_memory
from ratiorec.model.artifact import Artifact
from ratiorec.training.experiment import find_device, fit
from ratiorec.training.fit import FitOptions, Observer

METRICS = ("recall@20", "ndcg@20")
RANKED_BY = "ndcg@20"
BEYOND = (
    *("novelty@20", "diversity@20", "coverage@20", "gini@20"),
    *("popularity@20", "popularity_lift@20", "miscalibration@20"),
)
_FIGURES = (
    *("seconds", "validation", "test", "epochs", "steps"),
    *("peak_memory_mb", "peak_device_memory_mb"),
)


@dataclass(frozen=True, eq=False)
class Figures:
    """What came of training one preset.

    `report` has the two metrics for every test user, `intervals` those of their means, and
    `beyond` what the lists are like (`BEYOND`). With cross-validation all are means over `folds`,
    the intervals are over the folds, and there is no report. `peak_memory_mb` is the most memory
    that the process held meanwhile, and None where the system cannot tell it apart from an earlier
    peak.
    """

    seconds: Mapping[str, float]
    epochs: float
    steps: float
    validation: Mapping[str, float] | None
    test: Mapping[str, float] | None
    report: Report | None = None
    peak_memory_mb: float | None = None
    peak_device_memory_mb: float | None = None
    intervals: Mapping[str, Interval] | None = None
    beyond: Mapping[str, Estimate] | None = None
    folds: Sequence[Figures] = ()

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
        against, figures = self.against_best, self.figures
        folds = () if figures is None else figures.folds
        return {
            "preset": self.preset,
            **{name: getattr(figures, name, None) for name in _FIGURES},
            "against_best": None if against is None else against._asdict(),
            "intervals": _plain(getattr(figures, "intervals", None)),
            "beyond": _plain(getattr(figures, "beyond", None)),
            "folds": [{name: getattr(fold, name) for name in _FIGURES} for fold in folds] or None,
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
    load_torch(str(place))
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


def compare_folds(
    dataset: Dataset, presets: Sequence[str], n_folds: int, *, seed: int = 0, **how: Any
) -> list[PresetResult]:
    """Cross-validation: each fold of the training part judges models of the others.

    The figures are means over the folds, with Student's intervals, and so is the difference to the
    best. The folds share most of their training pairs, so these intervals are a little too narrow.
    `how` is as for `compare_presets`.
    """
    require_presets(presets)
    require_trainable(dataset.train)
    folds = Folds(n_folds)(dataset.train, rng=np.random.default_rng(seed))
    if not all(fold.held_out.n_pairs for fold in folds):
        raise DataError(
            "a fold has no pair",
            where="--folds",
            found=f"{n_folds} folds of {dataset.train.n_pairs:,} pairs",
            wanted="fewer folds",
        )
    rounds = [
        compare_presets(Dataset(dataset.name, fold.train, fold.held_out), presets, seed=seed, **how)
        for fold in folds
    ]
    means = [_mean_of_folds(results) for results in zip(*rounds, strict=True)]
    best = next(iter(ranked(means)), None)
    return [
        replace(result, against_best=_over_folds(result, best))
        if best is not None and result.figures is not None and result is not best
        else result
        for result in means
    ]


def with_test_part(dataset: Dataset, share: float, *, seed: int = 0, by: str = "random") -> Dataset:
    """The data set itself, or where it has no test part, with a share of the pairs as one.

    They are drawn in one of the ways of `VALIDATION_BY`. The pairs that choose when to stop favour
    whoever stops late by chance, so they cannot judge.
    """
    if share == 0 or (dataset.test is not None and dataset.test.n_pairs):
        return dataset
    require_test_share(share)
    require_trainable(dataset.train)
    split = hold_out(dataset.train, share, by=by, rng=np.random.default_rng(seed))
    return Dataset(dataset.name, split.train, split.judged if split.judged.n_pairs else None)


def require_test_share(share: float) -> None:
    """Refuse what is no share of the pairs."""
    if not 0 < share < 1:
        raise ConfigError(
            "the share of test pairs is out of range",
            where="--test-share",
            found=str(share),
            wanted="0, or a share below 1 such as 0.2",
        )


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
        **({} if report is None else _lists_figures(report)),
        peak_memory_mb=card["peak_memory_mb"] if is_new_peak else None,
        peak_device_memory_mb=card.get("peak_device_memory_mb"),
    )
    return PresetResult(name, settings, figures), model


def _judged(model: Artifact, test: Interactions | None) -> tuple[Artifact, Report | None]:
    """The model with its test figures on its card, as after a fit, and the report on each user."""
    if test is None:
        return model, None
    started = time.monotonic()
    report = model.evaluate(test, ks=(20,))
    seconds = dict(model.card["seconds"])
    seconds["total"] = round(seconds["total"] + time.monotonic() - started, 3)
    figures = {name: report.value(name) for name in METRICS}
    return model.with_card({**model.card, "test": figures, "seconds": seconds}), report


def _lists_figures(report: Report) -> dict[str, Any]:
    """What is kept of a report: the two metrics of each user, and all means with intervals."""
    ends = report.intervals | dict.fromkeys(report.coverage, Interval(math.nan, math.nan))
    return {
        "report": replace(
            report, per_user={name: report.per_user[name] for name in METRICS}, coverage={}
        ),
        "intervals": {name: ends[name] for name in METRICS},
        "beyond": {name: Estimate(report.value(name), *ends[name]) for name in BEYOND},
    }


def _mean_of_folds(results: Sequence[PresetResult]) -> PresetResult:
    """One result for those of all folds; the error where a fold has one."""
    if failed := [result for result in results if result.figures is None]:
        return failed[0]
    folds = [figures_of(result) for result in results]
    first, peaks = folds[0], [fold.peak_memory_mb for fold in folds]
    test = {name: over_folds([fold.metrics[name] for fold in folds]) for name in METRICS}
    figures = Figures(
        seconds={key: _mean([fold.seconds[key] for fold in folds]) for key in first.seconds},
        epochs=_mean([fold.epochs for fold in folds]),
        steps=_mean([fold.steps for fold in folds]),
        validation=first.validation
        and {
            name: _mean([fold.validation[name] for fold in folds if fold.validation])
            for name in METRICS
        },
        test={name: one.value for name, one in test.items()},
        peak_memory_mb=max((peak for peak in peaks if peak is not None), default=None),
        peak_device_memory_mb=first.peak_device_memory_mb,
        intervals={name: Interval(one.low, one.high) for name, one in test.items()},
        beyond={
            name: over_folds([fold.beyond[name].value for fold in folds if fold.beyond])
            for name in BEYOND
        },
        folds=folds,
    )
    return replace(results[0], figures=figures, against_best=None)


def over_folds(values: Sequence[float]) -> Estimate:
    """The mean over folds with Student's 95 % interval.

    >>> [round(float(end), 3) for end in over_folds([0.1, 0.2, 0.3])]
    [0.2, -0.048, 0.448]
    """
    from scipy.special import stdtrit

    n, mean = len(values), _mean(values)
    half = float(stdtrit(n - 1, 0.975)) * float(np.std(values, ddof=1)) / math.sqrt(n)
    return Estimate(mean, mean - half, mean + half)


def _over_folds(result: PresetResult, best: PresetResult) -> Difference:
    ours, theirs = (figures_of(one).folds for one in (result, best))
    gaps = np.array(
        [a.metrics[RANKED_BY] - b.metrics[RANKED_BY] for a, b in zip(ours, theirs, strict=True)]
    )
    return Difference(*over_folds(gaps.tolist()), paired_p_value(gaps))


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))


def _plain(lines: Mapping[str, Interval] | Mapping[str, Estimate] | None) -> dict[str, Any] | None:
    """Figures and intervals by name; what is not known is None."""
    if lines is None:
        return None
    return {
        name: {key: None if math.isnan(end) else end for key, end in line._asdict().items()}
        for name, line in lines.items()
    }


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
