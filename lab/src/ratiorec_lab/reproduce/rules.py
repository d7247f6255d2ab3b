"""Rules that check a claim on one data set: differences, times, curves and sensitivity."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from ratiorec_lab.reproduce import more_runs
from ratiorec_lab.reproduce.cells import BOUND, L2, PAPER, Cell, setting_in
from ratiorec_lab.reproduce.figures import FINISHED, SAME, TENTH, FigDns, FigStaticAdaptive
from ratiorec_lab.reproduce.more_runs import Variant, official_lightgcn, variant_cells
from ratiorec_lab.reproduce.plan import Findings
from ratiorec_lab.reproduce.published import (
    QUALITY,
    SELECTED_BY,
    method_name,
    quality,
)
from ratiorec_lab.reproduce.records import (
    ON_CPU,
    ON_GPU,
    Record,
    Timing,
    convergence,
    seconds_per_step,
    seconds_to_converge,
    validations,
    whole_fit,
)
from ratiorec_lab.reproduce.tuning import BOUNDS, L2_VALUES, LARGE_BOUND, Search
from ratiorec_lab.reproduce.verdict import (
    CLOSE,
    FAILS,
    HOLDS,
    ONE_SEED,
    OPEN,
    Check,
    Difference,
    difference,
    percent,
)
from ratiorec_lab.reproduce.wording import figure
from ratiorec_lab.tables import in_seconds

# What a check may look at

Source = Callable[[Findings, str], Sequence[Cell]]


def preset(name: str) -> Source:
    """The runs of a preset in the tables."""
    return lambda findings, dataset: list(findings.plan.cells(name, dataset))


def chosen(name: str) -> Source:
    """The runs of what a search has chosen."""
    return lambda findings, dataset: Search().tested_cells(findings.plan, name, dataset)


def tuned(name: str) -> Source:
    """The runs of what a search has chosen where they are there, else the preset's."""

    def cells(findings: Findings, dataset: str) -> Sequence[Cell]:
        found = chosen(name)(findings, dataset)
        return found if findings.records(found) else preset(name)(findings, dataset)

    return cells


def variant(one: Variant) -> Source:
    """The runs of a variant."""
    return lambda findings, dataset: variant_cells(findings.plan, one, dataset)


def best_lightgcn(findings: Findings, dataset: str) -> Sequence[Cell]:
    """LightGCN by its authors' settings where it was run, else the preset."""
    official = official_lightgcn(findings.plan, dataset)
    return official if findings.records(official) else preset("lightgcn")(findings, dataset)


def _tested(findings: Findings, source: Source, dataset: str) -> list[float]:
    return [
        float(record["test"][SELECTED_BY])
        for record in findings.tested_records(source(findings, dataset))
        if record["test"]
    ]


def _compared(findings: Findings, one: Source, other: Source, dataset: str) -> Difference | None:
    values = [_tested(findings, source, dataset) for source in (one, other)]
    return difference(*values) if all(values) else None


Rule = Callable[[Findings, str], Check | None]


def above(one: Source, other: Source, *, least: float = 0.0) -> Rule:
    """One is above the other on the test part."""

    def check(findings: Findings, dataset: str) -> Check | None:
        found = _compared(findings, one, other, dataset)
        return None if found is None else Check(dataset, found.is_above(least), found.text)

    return check


def above_all(one: Source, others: Sequence[Source], *, least: float = 0.0) -> Rule:
    """One is above the best of the others."""

    def check(findings: Findings, dataset: str) -> Check | None:
        found = [_compared(findings, one, other, dataset) for other in others]
        known = [each for each in found if each is not None]
        if not known or len(known) < len(others):
            return None
        least_gain = min(known, key=lambda each: each.share)
        return Check(dataset, least_gain.is_above(least), f"{least_gain.text} over the next")

    return check


def close(one: Source, other: Source, within: float) -> Rule:
    """The two differ by no more than a share on the test part."""

    def check(findings: Findings, dataset: str) -> Check | None:
        found = _compared(findings, one, other, dataset)
        if found is None:
            return None
        return Check(dataset, HOLDS if abs(found.share) <= within else FAILS, found.text)

    return check


def slightly_below(one: Source, other: Source, within: float = CLOSE) -> Rule:
    """One is below the other, by no more than a share."""

    def check(findings: Findings, dataset: str) -> Check | None:
        found = _compared(findings, other, one, dataset)
        mine = _compared(findings, one, other, dataset)
        if found is None or mine is None:
            return None
        return Check(dataset, FAILS if found.share > within else found.is_above(), mine.text)

    return check


def not_below(one: Source, other: Source, within: float) -> Rule:
    """One reaches the other, up to a share."""

    def check(findings: Findings, dataset: str) -> Check | None:
        found = _compared(findings, one, other, dataset)
        if found is None:
            return None
        return Check(dataset, HOLDS if found.share >= -within else FAILS, found.text)

    return check


def gains_most_on_amazon(one: Source, other: Source) -> Rule:
    """The gain of one over the other is larger here than on the paper's other data sets."""

    def check(findings: Findings, dataset: str) -> Check | None:
        here = _compared(findings, one, other, dataset)
        elsewhere = [
            found.share
            for name in ("gowalla", "yelp2018")
            if (found := _compared(findings, one, other, name)) is not None
        ]
        if here is None or not elsewhere:
            return None
        told = f"{here.text}, elsewhere {percent(max(elsewhere))} % at most"
        return Check(dataset, HOLDS if here.share > max(elsewhere) else FAILS, told)

    return check


def as_published(source: Source) -> Rule:
    """The figure of the full method is the paper's, to 1 %."""
    return lambda findings, dataset: _as_published(findings, dataset, source)


def _as_published(findings: Findings, dataset: str, source: Source) -> Check | None:
    values = _tested(findings, source, dataset)
    printed = quality(QUALITY, "dregn-cf", dataset, SELECTED_BY)
    if not values or printed is None:
        return None
    share = statistics.fmean(values) / printed - 1
    told = f"{figure(statistics.fmean(values))} against {figure(printed)}, {percent(share)} %"
    told += " (one seed)" * (len(values) == 1)
    return Check(dataset, HOLDS if abs(share) <= CLOSE else FAILS, told)


# Time and steps


class Effort(NamedTuple):
    """What training takes: a value for each run of a preset on a data set, and how one is told."""

    values: Callable[[Findings, str, str], Sequence[float]]
    text: Callable[[float], str]


def each_run(of: Callable[[Record], float | None]) -> Callable[[Findings, str, str], list[float]]:
    """A fact of the record of each run with a curve."""

    def values(findings: Findings, name: str, dataset: str) -> list[float]:
        records = findings.records(findings.plan.curves(name, dataset))
        return [found for record in records if (found := of(record)) is not None]

    return values


def steps(record: Record) -> float | None:
    """Steps to convergence."""
    found = convergence(record)
    return None if found is None else float(found.step)


def timed_step(timing: Timing) -> Effort:
    """The time of a step made alike for all methods: the median with its quartiles."""
    return Effort(
        lambda findings, name, dataset: findings.step_time(name, dataset, timing) or (), in_seconds
    )


def timed_convergence(timing: Timing) -> Effort:
    """The least, the median and the most time that the runs' steps to convergence take."""

    def values(findings: Findings, name: str, dataset: str) -> list[float]:
        step, counts = (
            findings.step_time(name, dataset, timing),
            STEPS.values(findings, name, dataset),
        )
        if step is None or not counts:
            return []
        return [
            min(counts) * step.lower_quartile,
            statistics.median(counts) * step.median,
            max(counts) * step.upper_quartile,
        ]

    return Effort(values, in_seconds)


STEPS = Effort(each_run(steps), "{:,.0f}".format)
RUN_STEP = Effort(each_run(seconds_per_step), in_seconds)
RUN_TIME = Effort(each_run(seconds_to_converge), in_seconds)
WHOLE_FIT = Effort(each_run(whole_fit), in_seconds)
READINGS = {"gpu": ON_GPU, "cpu": ON_CPU}  # beside the runs, which record CUDA graphs on a GPU


def times(slower: str, faster: str, of: Effort, *, least: float = 1.0) -> Rule:
    """One method takes so many times the effort of the other."""

    def check(findings: Findings, dataset: str) -> Check | None:
        efforts = [of.values(findings, name, dataset) for name in (slower, faster)]
        if not all(efforts):
            return None
        mine, theirs = efforts
        medians = [statistics.median(values) for values in efforts]
        ratio = medians[0] / medians[1]
        low, high = min(mine) / max(theirs), max(mine) / min(theirs)
        spread = f" ({low:.3g} to {high:.3g})" if len(mine) * len(theirs) > 1 else " (one seed)"
        told = f"{ratio:.3g} ×{spread}, {' against '.join(map(of.text, medians))}"
        outcome = HOLDS if ratio >= least and low > 1 else OPEN if ratio >= least else FAILS
        return Check(dataset, outcome, told)

    return check


def all_of(*rules: Rule) -> Rule:
    """Every rule holds; the figures stand side by side."""

    def check(findings: Findings, dataset: str) -> Check | None:
        found = [rule(findings, dataset) for rule in rules]
        known = [one for one in found if one is not None]
        if len(known) < len(rules):
            return None
        outcomes = {one.outcome for one in known}
        worst = next(one for one in (FAILS, OPEN, HOLDS) if one in outcomes)
        return Check(dataset, worst, ", and ".join(one.figure for one in known))

    return check


# Weights, curves and sensitivity


def spread_over_alpha(findings: Findings, dataset: str) -> Check | None:
    """How much the exponent of popularity matters, from the best to the worst of those run."""
    found = {
        alpha: statistics.fmean(values)
        for alpha, one in more_runs.WITH_ALPHA.items()
        if (values := _tested(findings, variant(one), dataset))
    }
    if len(found) < len(more_runs.ALPHAS):
        return None
    best, worst = max(found, key=lambda a: found[a]), min(found, key=lambda a: found[a])
    share = found[best] / found[worst] - 1
    told = f"α {best:g} is {percent(share)} % above α {worst:g}"
    return Check(dataset, HOLDS if share > ONE_SEED else FAILS, told)


def _best(record: Record) -> float:
    return max(one.metrics[SELECTED_BY] for one in validations(record))


def never_reaches_first(line: str) -> Rule:
    """A static run stays below the first model of its own kind, on validation pairs."""

    def check(findings: Findings, dataset: str) -> Check | None:
        static = _static(findings, dataset, line)
        first = findings.record(findings.plan.first_curve("dregn-cf-uniform", dataset))
        if static is None or first is None:
            return None
        epochs = setting_in(static["settings"], "first.training.epochs")
        before = [v.metrics[SELECTED_BY] for v in validations(first) if v.epoch <= epochs]
        if not before:
            return None
        bar = max(before)
        found = Difference(_best(static) / bar - 1, None)
        outcome = FAILS if found.share > 0 else HOLDS if found.share < -ONE_SEED else OPEN
        told = f"{percent(found.share)} % against uniform weights of {epochs} epochs"
        return Check(dataset, outcome, told)

    return check


def _static(findings: Findings, dataset: str, line: str) -> Record | None:
    """The static run with a finished first model, else the one with a shorter."""
    records = findings.named_records(FigStaticAdaptive().named(findings.plan, dataset))
    return records.get(f"{line}, {FINISHED}", records.get(line))


def same_rate_ends_lower(findings: Findings, dataset: str) -> Check | None:
    """With the same rate the second model ends below that with a tenth of it."""
    same, tenth = (_static(findings, dataset, line) for line in (SAME, TENTH))
    if same is None or tenth is None:
        return None
    last = [validations(record)[-1].metrics[SELECTED_BY] for record in (same, tenth)]
    found = Difference(1 - last[0] / last[1], None)
    return Check(dataset, found.is_above(), f"{percent(-found.share)} % at the end")


def sooner(faster: str, slower: str) -> Rule:
    """One curve of Figure 3 converges in fewer steps than another."""

    def check(findings: Findings, dataset: str) -> Check | None:
        records = findings.named_records(FigDns().shown(findings, dataset))
        found = {name: steps(record) for name, record in records.items()}
        one, other = (found.get(method_name(name)) for name in (faster, slower))
        if not one or not other:
            return None
        return Check(dataset, HOLDS if one < other else FAILS, f"{one:,.0f} against {other:,.0f}")

    return check


def _by_value(findings: Findings, dataset: str, setting: str) -> dict[float, float]:
    values = L2_VALUES if setting == L2 else BOUNDS
    records = {
        value: findings.record(findings.plan.changed("dregn-cf", dataset, {setting: value}))
        for value in values
    }
    found = {v: float(r["validation"][SELECTED_BY]) for v, r in records.items() if r}
    return found if len(found) == len(values) else {}


def end_of_l2_harms(end: Callable[[Sequence[float]], float]) -> Rule:
    """The smallest or the largest λ is more than 1 % below the best, on validation pairs."""

    def check(findings: Findings, dataset: str) -> Check | None:
        found = _by_value(findings, dataset, L2)
        if not found:
            return None
        value = end(list(found))
        share = found[value] / max(found.values()) - 1
        told = f"λ {value:g} is {percent(share)} % from the best"
        return Check(dataset, HOLDS if share < -CLOSE else FAILS, told)

    return check


def small_l2_harms_on_test(findings: Findings, dataset: str) -> Check | None:
    """The smallest λ that was tested is below the method's own, on the test part."""
    smallest = more_runs.WITH_L2[min(more_runs.SMALL_L2)]
    return above(preset("dregn-cf"), variant(smallest), least=CLOSE)(findings, dataset)


def bound_is_stable(findings: Findings, dataset: str) -> Check | None:
    """nDCG@20 hardly varies once D̄ is large, on validation pairs."""
    found = _by_value(findings, dataset, BOUND)
    large = [value for bound, value in found.items() if bound >= LARGE_BOUND]
    if not large:
        return None
    spread = max(large) / min(large) - 1
    return Check(dataset, HOLDS if spread <= CLOSE else FAILS, f"varies by {100 * spread:.1f} %")


def l2_matters_more(findings: Findings, dataset: str) -> Check | None:
    """Figures vary more over λ than over D̄, on validation pairs."""
    spreads = [
        max(found.values()) / min(found.values()) - 1
        for setting in (L2, BOUND)
        if (found := _by_value(findings, dataset, setting))
    ]
    if len(spreads) < 2:
        return None
    told = f"{100 * spreads[0]:.1f} % over λ, {100 * spreads[1]:.1f} % over D̄"
    return Check(dataset, HOLDS if spreads[0] > spreads[1] else FAILS, told)


def enough_in_the_papers_steps(findings: Findings, dataset: str) -> Check | None:
    """The method has its figure after the paper's number of steps, whichever protocol is shown.

    Those are runs of the protocol `paper`, which chooses nothing.
    """
    if not findings.plan.is_quick:
        findings = replace(findings, plan=replace(findings.plan, protocol=PAPER))
    exact = variant(more_runs.EXACT)
    is_run = bool(_tested(findings, exact, dataset))
    return as_published(exact if is_run else preset("dregn-cf"))(findings, dataset)
