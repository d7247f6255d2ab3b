"""Figure 1 of the paper: training time and steps to convergence.

Beside the times of the runs stand those with equal engineering: steps to convergence, which no
device changes, by the time of a step in one run of `ratiorec bench step`, where the steps of all
methods are made by the same loop, eagerly or as CUDA graphs.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ratiorec_lab.reproduce import records as facts
from ratiorec_lab.reproduce.cells import Cell
from ratiorec_lab.reproduce.exhibits import (
    AGREES,
    DIFFERS,
    NOT_RUN,
    NOTE,
    Bar,
    BarExhibit,
    BarPanel,
    Exhibit,
    Remark,
    Row,
    TableExhibit,
)
from ratiorec_lab.reproduce.plan import Findings, Plan
from ratiorec_lab.reproduce.published import PublishedEffort, dataset_name, effort, method_name
from ratiorec_lab.reproduce.records import ON_CPU, ON_GPU, TIMINGS, Timing, convergence
from ratiorec_lab.reproduce.remarks import absent, why_not_run
from ratiorec_lab.reproduce.wording import listed
from ratiorec_lab.tables import in_seconds

METHOD = "dregn-cf"


@dataclass(frozen=True)
class FigEfficiency:
    """Figure 1: training time and steps to convergence of six methods."""

    presets: tuple[str, ...] = ("lightgcn", "ngcf", "mult-vae", "enmf", METHOD, "dregn-cf-fast")

    def cells(self, plan: Plan) -> Iterator[Cell]:
        """Runs that have validations along the way."""
        for dataset in plan.datasets:
            for preset in self.presets:
                yield from plan.curves(preset, dataset)

    def exhibits(self, findings: Findings) -> Iterator[Exhibit]:
        """The bars of the paper, and a table of the same figures with their ratios."""
        by_dataset = [
            [effort_of(findings, preset, dataset) for preset in self.presets]
            for dataset in findings.datasets
        ]
        yield BarExhibit(
            id="fig-efficiency",
            title="Training time and steps to convergence",
            caption="Figure 1 of the paper. A run has converged at its first validation with 99 % "
            "of its best nDCG@20 on validation pairs; the time is that of so many steps, without "
            "set-up and validation. Published times are of a Tesla P100.",
            panels=tuple(panel for efforts in by_dataset for panel in _effort_panels(efforts)),
            remarks=(
                *(r for efforts in by_dataset for r in _effort_remarks(efforts)),
                *absent(findings),
            ),
        )
        yield TableExhibit(
            id="fig-efficiency-table",
            title="Training time and steps to convergence in numbers",
            caption="Medians over the seeds. «whole fit» has the search beyond convergence, "
            "validations, set-up and the refit in it.",
            columns=(
                *("steps to convergence", "paper", "a step", "paper"),
                *("training to convergence", "paper"),
                *("steps / DREGN-CF's", "time / DREGN-CF's", "whole fit"),
            ),
            rows=tuple(row for efforts in by_dataset for row in _effort_rows(efforts)),
            is_ranking=False,
            runs=tuple(
                (f"{dataset_name(e.dataset)}, {e.method}", e.files)
                for efforts in by_dataset
                for e in efforts
                if e.files
            ),
        )
        if not findings.plan.is_quick:
            yield _equally_made(findings)


@dataclass(frozen=True)
class MethodEffort:
    """Training of a method: medians over the seeds; None where nothing is known."""

    preset: str
    dataset: str
    steps: float | None
    seconds_per_step: float | None
    seconds: float | None  # to convergence: training alone
    whole_fit: float | None  # search and refit, set-up and validation among them
    machines: tuple[str, ...]
    is_rising: bool
    was_cut: bool
    why_missing: str
    files: tuple[str, ...]

    @property
    def method(self) -> str:
        """Name of the method."""
        return method_name(self.preset)

    @property
    def published(self) -> PublishedEffort:
        """What the paper says."""
        return effort(self.preset, self.dataset)


def effort_of(findings: Findings, preset: str, dataset: str) -> MethodEffort:
    """The training that the runs of a preset took."""
    cells = list(findings.plan.curves(preset, dataset))
    records = [r for r in findings.records(cells) if convergence(r) is not None]
    found = [c for r in records if (c := convergence(r)) is not None]
    return MethodEffort(
        preset,
        dataset,
        steps=_median([c.step for c in found]),
        seconds_per_step=_median([facts.seconds_per_step(r) for r in records]),
        seconds=_median([facts.seconds_to_converge(r) for r in records]),
        whole_fit=_median([facts.whole_fit(r) for r in records]),
        machines=tuple(dict.fromkeys(map(facts.machine_of, records))),
        is_rising=any(c.is_rising for c in found),
        was_cut=any(map(facts.was_cut, records)),
        why_missing="" if records else findings.why_missing(cells),
        files=tuple(facts.file_of(record, dataset) for record in records),
    )


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def _effort_panels(efforts: Sequence[MethodEffort]) -> Iterator[BarPanel]:
    dataset = dataset_name(efforts[0].dataset)
    times = tuple(Bar(e.method, e.seconds, e.published.seconds) for e in efforts)
    steps = tuple(Bar(e.method, e.steps, e.published.steps) for e in efforts)
    for title, label, bars in (("time", "seconds", times), ("steps", "steps", steps)):
        if any(bar.value is not None or bar.published is not None for bar in bars):
            yield BarPanel(f"{dataset}: {title} to convergence", label, bars, log=True)


def _effort_rows(efforts: Sequence[MethodEffort]) -> Iterator[Row]:
    ours = _ours(efforts)
    for e in efforts:
        printed = e.published
        entries = (
            NOT_RUN if e.steps is None else _count(e.steps),
            _count(printed.steps),
            in_seconds(e.seconds_per_step),
            in_seconds(printed.seconds_per_step),
            in_seconds(e.seconds),
            in_seconds(printed.seconds),
            _ratio(e, ours, lambda one: one.steps),
            _ratio(e, ours, lambda one: one.seconds),
            in_seconds(e.whole_fit),
        )
        yield Row(f"{dataset_name(e.dataset)}, {e.method}", entries)


def _effort_remarks(efforts: Sequence[MethodEffort]) -> Iterator[str]:
    dataset, ours = dataset_name(efforts[0].dataset), _ours(efforts)
    for e in efforts:
        if ours is not None and e is not ours:
            known = list(_ratios(e, ours))
            if known:
                told = f"{dataset}: {e.method} takes {listed(known)} of {ours.method}."
                sides = {word.side for word in known} - {NOTE}
                yield Remark(told, sides.pop() if len(sides) == 1 else DIFFERS if sides else NOTE)
    yield from _effort_warnings(dataset, efforts)


def _ours(efforts: Sequence[MethodEffort]) -> MethodEffort | None:
    return next((e for e in efforts if e.preset == METHOD), None)


def _ratios(other: MethodEffort, ours: MethodEffort) -> Iterator[Remark]:
    """The ratios, and whether they lean to the same side as the published ones."""
    for what, name in (("steps", "steps"), ("time", "seconds")):
        one, unit = getattr(other, name), getattr(ours, name)
        if not one or not unit:
            continue
        words, judged = f"{_times(one / unit)} the {what}", NOTE
        printed, printed_unit = getattr(other.published, name), getattr(ours.published, name)
        if printed and printed_unit:
            same_side = (one > unit) == (printed > printed_unit)
            side = "as in the paper" if same_side else "unlike in the paper"
            words += f" ({side}, which has {_times(printed / printed_unit)})"
            judged = AGREES if same_side else DIFFERS
        yield Remark(words, judged)


def _effort_warnings(dataset: str, efforts: Sequence[MethodEffort]) -> Iterator[str]:
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


# With equal engineering

TIMED = ("lightgcn", "lightgcn-dns", "ngcf", "bpr-mf", "mult-vae", "enmf", METHOD)
NOT_TIMED = "not timed"


def timed_seconds(findings: Findings, preset: str, dataset: str, timing: Timing) -> float | None:
    """Steps to convergence by the time of a step."""
    steps = effort_of(findings, preset, dataset).steps
    step = findings.step_time(preset, dataset, timing)
    return None if steps is None or step is None else steps * step.median


def _equally_made(findings: Findings) -> TableExhibit:
    shown = [d for d in findings.datasets if any(findings.timed_steps(d, t) for t in TIMINGS)]
    columns = ("a step", "to convergence", "time / DREGN-CF's")
    return TableExhibit(
        id="fig-efficiency-steps",
        title="Training to convergence with equal engineering",
        caption="The same runs, read by steps that are made alike for all methods: eagerly on a "
        "CPU and on a GPU, and recorded as CUDA graphs there. The time of a step is the median of "
        "one run of ratiorec bench step for each data set and machine, with the presets' own "
        "batches; on the CPU it is processor time, that of all cores together, which other "
        "programs hardly change. The steps to convergence are those of the runs above.",
        columns=(
            "steps to convergence",
            *(f"{timing.title}: {what}" for timing in TIMINGS for what in columns),
        ),
        rows=tuple(_timed_row(findings, preset, d) for d in shown for preset in TIMED),
        is_ranking=False,
        remarks=tuple(
            _how_timed(findings, dataset, timing)
            for dataset in findings.datasets
            for timing in (ON_CPU, ON_GPU)  # eager steps and graphs of a GPU are in one file
        ),
    )


def _how_timed(findings: Findings, dataset: str, timing: Timing) -> str:
    record, where = findings.timed_steps(dataset, timing), timing.title.partition(",")[0]
    if record is None:
        return f"{dataset_name(dataset)}: no step was timed on a {where}."
    machine = f"{facts.machine_of(record)}, commit {record['commit']}"
    return f"{dataset_name(dataset)}, {where}: steps timed by {record['command']} ({machine})."


def _timed_row(findings: Findings, preset: str, dataset: str) -> Row:
    steps = effort_of(findings, preset, dataset).steps
    timed = (entry for t in TIMINGS for entry in _timed_entries(findings, preset, dataset, t))
    return Row(
        f"{dataset_name(dataset)}, {method_name(preset)}",
        (NOT_RUN if steps is None else _count(steps), *timed),
    )


def _timed_entries(
    findings: Findings, preset: str, dataset: str, timing: Timing
) -> tuple[str, str, str]:
    step = findings.step_time(preset, dataset, timing)
    if step is None:
        return NOT_TIMED, "", ""
    seconds, ours = (timed_seconds(findings, p, dataset, timing) for p in (preset, METHOD))
    ratio = "" if not seconds or not ours else _times(seconds / ours)
    return in_seconds(step.median), in_seconds(seconds), ratio
