"""A comparison of presets as a page: quality, cost, what could not run, data and settings."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ratiorec.data.interactions import Dataset
from ratiorec.training.compare import RANKED_BY, PresetResult, figures_of, ranked
from ratiorec_lab.report import charts, page
from ratiorec_lab.report.page import Cell, Estimate, Table
from ratiorec_lab.report.writing import format_column

_LEAST_SECONDS = 0.001  # what is trained at once still needs a place on a logarithmic axis


def write_report(
    results: Sequence[PresetResult], dataset: Dataset, path: Path, *, seed: int, device: str
) -> None:
    """One HTML file with everything that is known about a comparison."""
    order = ranked(results)
    sections = [
        page.Section(
            "At a glance",
            [page.Columns([_quality_figure(order, dataset.name), _time_figure(order)])],
        ),
        _quality_section(order),
        *([_lists_section(order)] if _has_test(order) else []),
        _cost_section(order),
    ]
    if failed := [result for result in results if result.error is not None]:
        sections.append(_failure_section(failed))
    sections += [_data_section(dataset), _settings_section(results)]
    page.write(
        page.Page(
            title=f"Presets on {dataset.name}",
            lead=f"{len(results)} presets, trained one after another on the same pairs with seed "
            f"{seed} on {device}.",
            sections=sections,
            footer="Made by ratiorec compare.",
        ),
        path,
    )


def _quality_figure(order: Sequence[PresetResult], name: str) -> page.Figure:
    estimates = [(result.preset, _estimate(result, RANKED_BY)) for result in order]
    chart = charts.bar_chart(
        [charts.Bar(preset, one.value, low=one.low, high=one.high) for preset, one in estimates],
        title=f"nDCG@20 on {name}",
        value_label=f"nDCG@20, {_judged_by(order)}",
        write=format_column([one.value for _, one in estimates]),
    )
    if not _has_test(order):
        return page.Figure(chart, "The best first.")
    return page.Figure(chart, f"The best first, with 95 % {_kind_of_interval(order)}.")


def _kind_of_interval(order: Sequence[PresetResult]) -> str:
    n_folds = len(figures_of(order[0]).folds)
    return f"intervals over {n_folds} folds" if n_folds else "bootstrap intervals over the users"


def _time_figure(order: Sequence[PresetResult]) -> page.Figure:
    seconds = [max(figures_of(result).seconds["train"], _LEAST_SECONDS) for result in order]
    chart = charts.bar_chart(
        [charts.Bar(one.preset, value) for one, value in zip(order, seconds, strict=True)],
        title="Training time",
        value_label="seconds, logarithmic",
        write=format_column(seconds),
        log=True,
    )
    return page.Figure(chart, "In the same order: the best lists first.")


def _quality_section(order: Sequence[PresetResult]) -> page.Section:
    against = ["nDCG@20 against the best", "p"] if _has_test(order) else []
    table = Table(
        ["", "nDCG@20", "Recall@20", *against],
        [_quality_row(result)[: 3 + len(against)] for result in order],
        f"Mean over users, {_judged_by(order)}, with 95 % {_kind_of_interval(order)}"
        if _has_test(order)
        else f"Mean over users, {_judged_by(order)}",
        highest=(1, 2),
    )
    return page.Section("Whose lists are best?", [page.Paragraph(_how_to_read(order)), table])


def _judged_by(order: Sequence[PresetResult]) -> str:
    return "test pairs" if _has_test(order) else "pairs held out for validation"


def _has_test(order: Sequence[PresetResult]) -> bool:
    return any(figures_of(result).test is not None for result in order)


def _how_to_read(order: Sequence[PresetResult]) -> str:
    if not _has_test(order):
        return (
            "The data have no test part, so these are the pairs that chose when each preset "
            "stopped: all figures are a little too high."
        )
    if figures_of(order[0]).folds:
        return (
            "Each fold of the pairs was judged by models of the others. Differences to the best "
            "are paired by fold; the folds share most of their training pairs, so that intervals "
            "and p, that of a paired t-test, are a little too sure."
        )
    return (
        "The intervals of two presets may overlap although one is surely better than the other. "
        "So each preset is paired with the best one user by user; p is that of a paired t-test, "
        "not corrected for the number of presets."
    )


def _estimate(result: PresetResult, metric: str) -> Estimate:
    """A metric with its interval; where there is no test part, without one."""
    figures = figures_of(result)
    interval = (math.nan, math.nan) if figures.intervals is None else figures.intervals[metric]
    return Estimate(figures.metrics[metric], *interval)


def _quality_row(result: PresetResult) -> list[Cell]:
    row: list[Cell] = [result.preset]
    for metric in (RANKED_BY, "recall@20"):
        estimate = _estimate(result, metric)
        row.append(estimate.value if math.isnan(estimate.low) else estimate)
    if result.against_best is None:
        return [*row, None, None]
    difference, low, high, p_value = result.against_best
    return [*row, Estimate(difference, low, high), _p_value(p_value)]


def _p_value(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


_LIKE = {
    "novelty@20": ("novelty, bits", "mean self-information of the items: rare ones have more"),
    "diversity@20": ("diversity", "1 − mean cosine of two items of a list, by their users"),
    "coverage@20": ("coverage", "share of all items that are in a list"),
    "gini@20": ("Gini", "inequality of how often items are listed; 0 is even"),
    "popularity@20": ("popularity", "mean share of users who have a listed item"),
    "popularity_lift@20": ("lift", "popularity of the lists over that of the histories, − 1"),
    "miscalibration@20": ("miscalibration", "distance of head, middle and tail from the histories"),
}


def _lists_section(order: Sequence[PresetResult]) -> page.Section:
    """Accuracy against novelty, and the figures beyond accuracy."""
    told = [(result, figures_of(result)) for result in order]
    lines = [(result.preset, figures, figures.beyond) for result, figures in told if figures.beyond]
    chart = charts.line_chart(
        [
            charts.Series(name, [beyond["novelty@20"].value], [figures.metrics[RANKED_BY]])
            for name, figures, beyond in lines
            if beyond is not None
        ],
        title="Accuracy against novelty",
        x_label="novelty@20, bits",
        y_label=f"nDCG@20, {_judged_by(order)}",
    )
    caption = "Up is more accurate; to the right, lists hold items that fewer users have."
    table = Table(
        ["", *(short for short, _ in _LIKE.values())],
        [[name, *(_cell(beyond[key]) for key in _LIKE)] for name, _, beyond in lines if beyond],
        "The first 20 places, with 95 % intervals where there are any",
    )
    words = page.Listing("What the columns are", [*_LIKE.values()])
    content = [page.Columns([page.Figure(chart, caption), words]), table]
    return page.Section("What are the lists like?", content)


def _cell(estimate: tuple[float, float, float]) -> Cell:
    value, low, high = estimate
    return value if math.isnan(low) else Estimate(value, low, high)


def _cost_section(order: Sequence[PresetResult]) -> page.Section:
    headers = ["", "training, s", "in all, s", "epochs", "steps", "peak memory, MB"]
    if any(figures_of(result).peak_device_memory_mb is not None for result in order):
        headers.append("on the device, MB")
    table = Table(
        headers,
        [_cost_row(result)[: len(headers)] for result in order],
        "Training includes the search for the stopping step; the time in all, the test as well",
        lowest=(1, 2),
    )
    return page.Section("What do they cost?", [table])


def _cost_row(result: PresetResult) -> list[Cell]:
    figures = figures_of(result)
    return [
        result.preset,
        figures.seconds["train"],
        figures.seconds["total"],
        figures.epochs,
        figures.steps,
        figures.peak_memory_mb,
        figures.peak_device_memory_mb,
    ]


def _failure_section(failed: Sequence[PresetResult]) -> page.Section:
    rows = [[result.preset, result.error] for result in failed]
    table = Table(["", "reason"], rows, "Presets without figures")
    return page.Section("What could not run?", [table])


def _data_section(dataset: Dataset) -> page.Section:
    train, test = dataset.train, dataset.test
    facts: dict[str, Cell] = {
        "users": train.n_users,
        "items": train.n_items,
        "training pairs": train.n_pairs,
        "density": train.density,
    }
    if test is not None:
        facts["test pairs"] = test.n_pairs
        facts["test users"] = int((test.user_degrees > 0).sum())
    return page.Section("On which data?", [page.KeyValues(facts)])


def _settings_section(results: Sequence[PresetResult]) -> page.Section:
    groups = [page.Listing(result.preset, [*_flat(result.settings)]) for result in results]
    return page.Section("With which settings?", [page.Columns(groups)])


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Every setting by its path; the kind of a part stands for the part itself."""
    for name, value in table.items():
        path = prefix.removesuffix(".") if name == "kind" else prefix + name
        if isinstance(value, Mapping):
            yield from _flat(value, f"{path}.")
        else:
            yield path, str(value).lower() if isinstance(value, bool) else str(value)
