"""Figure 1: total training time and steps to convergence."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ratiorec_lab.reproduce.cells import Cell
from ratiorec_lab.reproduce.efforts import MethodEffort, effort_of
from ratiorec_lab.reproduce.exhibits import (
    NOT_RUN,
    Bar,
    BarExhibit,
    BarPanel,
    Exhibit,
    Row,
    TableExhibit,
)
from ratiorec_lab.reproduce.findings import Findings
from ratiorec_lab.reproduce.names import dataset_name, listed
from ratiorec_lab.reproduce.plan import Plan
from ratiorec_lab.reproduce.remarks import why_not_run

METHOD = "dregn-cf"
COLUMNS = (
    *("steps to convergence", "paper", "a step", "paper", "training to convergence", "paper"),
    *("steps / DREGN-CF's", "time / DREGN-CF's", "whole fit"),
)


@dataclass(frozen=True)
class FigEfficiency:
    """The paper's five methods, and the quicker start of ours."""

    presets: tuple[str, ...] = ("lightgcn", "ngcf", "mult-vae", "enmf", METHOD, "dregn-cf-fast")

    def cells(self, plan: Plan) -> Iterator[Cell]:
        """Runs that have validations along the way."""
        for dataset in plan.datasets:
            for preset in self.presets:
                yield from plan.curves(preset, dataset)

    def exhibits(self, findings: Findings) -> Iterator[Exhibit]:
        """The bars of the paper, and a table of the same figures with their ratios."""
        by_dataset = {
            dataset: [effort_of(findings, preset, dataset) for preset in self.presets]
            for dataset in findings.plan.datasets
        }
        yield BarExhibit(
            id="fig-efficiency",
            title="Training time and steps to convergence",
            caption="Figure 1 of the paper. A run has converged at its first validation with 99 % "
            "of its best nDCG@20 on validation pairs; the time is that of so many steps, without "
            "set-up and validation. Published times are of a Tesla P100.",
            panels=tuple(panel for efforts in by_dataset.values() for panel in _panels(efforts)),
            remarks=tuple(r for efforts in by_dataset.values() for r in _remarks(efforts)),
        )
        yield TableExhibit(
            id="fig-efficiency-table",
            title="Training time and steps to convergence in numbers",
            caption="Medians over the seeds. «whole fit» has the search beyond convergence, "
            "validations, set-up and the refit in it.",
            columns=COLUMNS,
            rows=tuple(row for efforts in by_dataset.values() for row in _rows(efforts)),
            is_ranking=False,
        )


def _panels(efforts: Sequence[MethodEffort]) -> Iterator[BarPanel]:
    dataset = dataset_name(efforts[0].dataset)
    times = tuple(Bar(e.method, e.seconds, e.published.seconds) for e in efforts)
    steps = tuple(Bar(e.method, e.steps, e.published.steps) for e in efforts)
    for title, label, bars in (("time", "seconds", times), ("steps", "steps", steps)):
        if any(bar.value is not None or bar.published is not None for bar in bars):
            yield BarPanel(f"{dataset}: {title} to convergence", label, bars, log=True)


def _rows(efforts: Sequence[MethodEffort]) -> Iterator[Row]:
    ours = next((e for e in efforts if e.preset == METHOD), None)
    for e in efforts:
        printed = e.published
        name = f"{dataset_name(e.dataset)}, {e.method}"
        if e.steps is None:
            known = (_count(printed.steps), "", _time(printed.seconds_per_step), "")
            yield Row(name, (NOT_RUN, *known, _time(printed.seconds), "", "", ""))
            continue
        yield Row(
            name,
            (
                _count(e.steps),
                _count(printed.steps),
                _time(e.seconds_per_step),
                _time(printed.seconds_per_step),
                _time(e.seconds),
                _time(printed.seconds),
                _ratio(e, ours, lambda one: one.steps),
                _ratio(e, ours, lambda one: one.seconds),
                _time(e.whole_fit),
            ),
        )


def _remarks(efforts: Sequence[MethodEffort]) -> Iterator[str]:
    dataset = dataset_name(efforts[0].dataset)
    ours = next((e for e in efforts if e.preset == METHOD), None)
    if ours is not None and ours.steps is not None:
        for e in efforts:
            if e is not ours and e.steps is not None:
                yield from _compared(dataset, e, ours)
    yield from _warnings(dataset, efforts)


def _compared(dataset: str, other: MethodEffort, ours: MethodEffort) -> Iterator[str]:
    """The ratios, and whether they lean to the same side as the published ones."""
    quantities: tuple[tuple[str, float | None, float | None, float | None, float | None], ...] = (
        ("steps", other.steps, ours.steps, other.published.steps, ours.published.steps),
        ("time", other.seconds, ours.seconds, other.published.seconds, ours.published.seconds),
    )
    told = [_one_ratio(*quantity) for quantity in quantities]
    known = [words for words in told if words]
    if known:
        yield f"{dataset}: {other.method} takes {listed(known)} of {ours.method}."


def _one_ratio(
    what: str,
    other: float | None,
    ours: float | None,
    printed_other: float | None,
    printed_ours: float | None,
) -> str:
    if not other or not ours:
        return ""
    ratio = other / ours
    words = f"{_times(ratio)} the {what}"
    if not printed_other or not printed_ours:
        return words
    printed = printed_other / printed_ours
    side = "as in the paper" if (ratio > 1) == (printed > 1) else "unlike in the paper"
    return f"{words} ({side}, which has {_times(printed)})"


def _warnings(dataset: str, efforts: Sequence[MethodEffort]) -> Iterator[str]:
    ran = [e for e in efforts if e.steps is not None]
    if rising := [e.method for e in ran if e.is_rising or e.was_cut]:
        yield (
            f"{dataset}, {listed(rising)}: the last validation was the best or the time budget "
            "ended the run, so that convergence may be later than stated."
        )
    if len({machine for e in ran for machine in e.machines}) > 1:
        yield f"{dataset}: not all runs were on the same machine, so their times do not compare."
    if unknown := [e.method for e in ran if e.seconds is None]:
        yield f"{dataset}, {listed(unknown)}: no epoch without a validation to time a step by."
    reasons: dict[str, list[str]] = {}
    for e in efforts:
        if e.steps is None:
            reasons.setdefault(e.why_missing, []).append(e.method)
    for reason, methods in reasons.items():
        who = [] if len(methods) == len(efforts) else methods
        yield why_not_run(efforts[0].dataset, who, reason)


def _ratio(
    e: MethodEffort, ours: MethodEffort | None, of: Callable[[MethodEffort], float | None]
) -> str:
    value, unit = of(e), None if ours is None else of(ours)
    return "" if not value or not unit else _times(value / unit)


def _times(ratio: float) -> str:
    """`2.5 ×`."""
    return f"{ratio:.3g} ×" if ratio < 1000 else f"{ratio:,.0f} ×"


def _count(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"


def _time(seconds: float | None) -> str:
    if seconds is None:
        return ""
    if seconds < 1:
        return f"{seconds * 1000:.3g} ms"
    return f"{seconds:.3g} s" if seconds < 100 else f"{seconds:,.0f} s"
