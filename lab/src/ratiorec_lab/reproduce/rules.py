"""Rules that check a claim on one data set: differences, times, curves and sensitivity."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from ratiorec_lab.reproduce import more_runs
from ratiorec_lab.reproduce.cells import BOUND, L2, PAPER, VALIDATED, Cell, setting_in
from ratiorec_lab.reproduce.figures import FINISHED, SAME, TENTH, FigStaticAdaptive
from ratiorec_lab.reproduce.more_runs import Variant, official_lightgcn, variant_cells
from ratiorec_lab.reproduce.plan import Findings
from ratiorec_lab.reproduce.published import OF_THE_PAPER, SELECTED_BY, quality
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
    exactly,
    percent,
)
from ratiorec_lab.reproduce.wording import figure
from ratiorec_lab.tables import in_seconds

# What a check may look at


class Source(NamedTuple):
    """The runs of something on a data set, and what the paper prints of it."""

    cells: Callable[[Findings, str], Sequence[Cell]]
    printed: Callable[[str, str], float | None] = lambda dataset, metric: None


def preset(name: str) -> Source:
    """The runs of a preset in the tables."""
    return Source(
        lambda findings, dataset: list(findings.plan.cells(name, dataset)),
        lambda dataset, metric: quality(OF_THE_PAPER, name, dataset, metric),
    )


def chosen(name: str) -> Source:
    """The runs of what a search has chosen."""
    return Source(lambda findings, dataset: Search().tested_cells(findings.plan, name, dataset))


def tuned(name: str) -> Source:
    """The runs of what a search has chosen where they are there, else the preset's."""

    def cells(findings: Findings, dataset: str) -> Sequence[Cell]:
        found = chosen(name).cells(findings, dataset)
        return found if findings.records(found) else preset(name).cells(findings, dataset)

    return Source(cells)


def variant(one: Variant, *, row: str | None = None) -> Source:
    """The runs of a variant; where it stands for a row of the paper, what is printed there."""
    return Source(
        lambda findings, dataset: variant_cells(findings.plan, one, dataset),
        preset(row).printed if row else lambda dataset, metric: None,
    )


def _best_lightgcn(findings: Findings, dataset: str) -> Sequence[Cell]:
    official = official_lightgcn(findings.plan, dataset)
    return official if findings.records(official) else preset("lightgcn").cells(findings, dataset)


# by its authors' settings where it was run, else the preset
BEST_LIGHTGCN = Source(_best_lightgcn, preset("lightgcn").printed)


def _tested(
    findings: Findings, source: Source, dataset: str, metric: str = SELECTED_BY
) -> list[float]:
    return [
        float(record["test"][metric])
        for record in findings.tested_records(source.cells(findings, dataset))
        if record["test"]
    ]


def _compared(
    findings: Findings, one: Source, other: Source, dataset: str, metric: str = SELECTED_BY
) -> Difference | None:
    values = [_tested(findings, source, dataset, metric) for source in (one, other)]
    return difference(*values) if all(values) else None


def _printed(one: Source, other: Source, dataset: str, metric: str) -> Difference | None:
    mine, theirs = (source.printed(dataset, metric) for source in (one, other))
    return None if mine is None or theirs is None else exactly(mine, theirs)


Rule = Callable[[Findings, str], Check | None]
Outcome = Callable[[Difference], str]


def _own(found: Difference | None, outcome: Outcome) -> str:
    """What the paper's tables have, and whether that would pass the rule."""
    if found is None:
        return ""
    return f"{percent(found.share)} %" + ", fails this rule" * (outcome(found) == FAILS)


def _differs(one: Source, other: Source, outcome: Outcome, metric: str = SELECTED_BY) -> Rule:
    """What the difference of two on the test part says."""

    def check(findings: Findings, dataset: str) -> Check | None:
        found = _compared(findings, one, other, dataset, metric)
        if found is None:
            return None
        own = _own(_printed(one, other, dataset, metric), outcome)
        return Check(dataset, outcome(found), found.text, own)

    return check


def above(one: Source, other: Source, *, least: float = 0.0, metric: str = SELECTED_BY) -> Rule:
    """One is above the other on the test part; the difference is told from the first."""
    return _differs(one, other, lambda found: found.is_above(least), metric)


def below(one: Source, other: Source) -> Rule:
    """The same the other way round, told from the first, too."""
    return _differs(one, other, lambda found: found.reversed.is_above())


def above_all(
    one: Source, others: Sequence[Source], *, least: float = 0.0, metric: str = SELECTED_BY
) -> Rule:
    """One is above the best of the others."""

    def check(findings: Findings, dataset: str) -> Check | None:
        found = [_compared(findings, one, other, dataset, metric) for other in others]
        known = [each for each in found if each is not None]
        if not known or len(known) < len(others):
            return None
        least_gain = min(known, key=lambda each: each.share)
        own = [_printed(one, other, dataset, metric) for other in others]
        printed = [each for each in own if each is not None]
        told = ""
        if len(printed) == len(others):
            least_printed = min(printed, key=lambda each: each.share)
            told = _own(least_printed, lambda each: each.is_above(least))
        figure = f"{least_gain.text} over the next"
        return Check(dataset, least_gain.is_above(least), figure, told)

    return check


def close(one: Source, other: Source, within: float) -> Rule:
    """The two differ by no more than a share on the test part."""
    return _differs(one, other, lambda found: HOLDS if abs(found.share) <= within else FAILS)


def slightly_below(one: Source, other: Source, within: float = CLOSE) -> Rule:
    """One is below the other, by no more than a share."""
    return _differs(
        one,
        other,
        lambda found: FAILS if -found.share > within else found.reversed.is_above(),
    )


def not_below_the_best(one: Source, others: Sequence[Source], within: float) -> Rule:
    """One reaches the best of those others that were run, up to a share."""

    def check(findings: Findings, dataset: str) -> Check | None:
        known = [other for other in others if _tested(findings, other, dataset)]
        if not known:
            return None
        best = max(known, key=lambda other: statistics.fmean(_tested(findings, other, dataset)))
        reaches = _differs(one, best, lambda found: HOLDS if found.share >= -within else FAILS)
        return reaches(findings, dataset)

    return check


def trained(rule: Rule, source: Source) -> Rule:
    """What a rule says, open where the source ranks below popularity: it has learnt nothing."""

    def check(findings: Findings, dataset: str) -> Check | None:
        found = rule(findings, dataset)
        values = _tested(findings, source, dataset)
        # counting users chooses nothing, so it is the same under every protocol
        counted = _under(findings, VALIDATED)
        bar = _tested(counted, preset("popularity"), dataset)
        if found is None or not values or not bar or statistics.fmean(values) >= max(bar):
            return found
        told = f"{found.figure}, where (a) ranks below popularity and has learnt nothing"
        return found._replace(outcome=OPEN, figure=told)

    return check


def or_by_the_paper(rule: Rule) -> Rule:
    """What a rule says; where the runs are not there, of those under the protocol `paper`."""

    def check(findings: Findings, dataset: str) -> Check | None:
        found = rule(findings, dataset)
        if found is not None or findings.plan.is_quick:
            return found
        found = rule(_under(findings, PAPER), dataset)
        return found and found._replace(figure=f"{found.figure} (protocol paper)")

    return check


def _under(findings: Findings, protocol: str) -> Findings:
    return replace(findings, plan=replace(findings.plan, protocol=protocol))


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


def gain_is_not_stable(one: Source, other: Source) -> Rule:
    """The gain of one over the other differs from that on Gowalla by more than a little."""

    def check(findings: Findings, dataset: str) -> Check | None:
        gains = [_compared(findings, one, other, name) for name in (dataset, "gowalla")]
        here, there = gains
        if here is None or there is None:
            return None
        told = f"{percent(here.share)} %, on Gowalla {percent(there.share)} %"
        return Check(dataset, HOLDS if abs(here.share - there.share) > ONE_SEED else FAILS, told)

    return check


def as_published(source: Source) -> Rule:
    """The figure of the full method is the paper's, to 1 %."""
    return lambda findings, dataset: _as_published(findings, dataset, source)


def _as_published(findings: Findings, dataset: str, source: Source) -> Check | None:
    values = _tested(findings, source, dataset)
    printed = preset("dregn-cf").printed(dataset, SELECTED_BY)
    if not values or printed is None:
        return None
    share = statistics.fmean(values) / printed - 1
    told = f"{figure(statistics.fmean(values))} against {figure(printed)}, {percent(share)} %"
    told += " (one seed)" * (len(values) == 1)
    return Check(dataset, HOLDS if abs(share) <= CLOSE else FAILS, told)


# Time and steps


class Effort(NamedTuple):
    """What training takes: a value for each run of a preset on a data set, and how one is told.

    `least` is what is certain of it, where values are known only up to a validation.
    """

    values: Callable[[Findings, str, str], Sequence[float]]
    text: Callable[[float], str]
    least: Callable[[Findings, str, str], Sequence[float]] | None = None


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


def _steps_before(record: Record) -> float | None:
    """The steps after which it had not converged yet, by its validations."""
    found = convergence(record)
    if found is None:
        return None
    return float(max((one.step for one in validations(record) if one.step < found.step), default=1))


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


STEPS = Effort(each_run(steps), "{:,.0f}".format, each_run(_steps_before))
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
        certain = (of.least or of.values)(findings, slower, dataset)
        medians = [statistics.median(values) for values in efforts]
        ratio = medians[0] / medians[1]
        low, high = min(certain) / max(theirs), max(mine) / min(theirs)
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
        bar = _first_model(findings, dataset, static)
        if static is None or bar is None:
            return None
        epochs = setting_in(static["settings"], "first.training.epochs")
        found = Difference(_best(static) / bar - 1, None)
        outcome = FAILS if found.share > 0 else HOLDS if found.share < -ONE_SEED else OPEN
        told = f"{percent(found.share)} % against uniform weights of {epochs} epochs"
        return Check(dataset, outcome, told)

    return check


def _first_model(findings: Findings, dataset: str, static: Record | None) -> float | None:
    """The best of uniform weights in as many epochs as the first model had."""
    first = findings.record(findings.plan.first_curve("dregn-cf-uniform", dataset))
    if static is None or first is None:
        return None
    epochs = setting_in(static["settings"], "first.training.epochs")
    before = [v.metrics[SELECTED_BY] for v in validations(first) if v.epoch <= epochs]
    return max(before, default=None)


def _static(findings: Findings, dataset: str, line: str) -> Record | None:
    """The static run with a finished first model, else the one with a shorter."""
    records = findings.named_records(FigStaticAdaptive().named(findings.plan, dataset))
    return records.get(f"{line}, {FINISHED}", records.get(line))


def deteriorates_early(line: str) -> Rule:
    """The first validation of the second model is far below the first model."""

    def check(findings: Findings, dataset: str) -> Check | None:
        static = _static(findings, dataset, line)
        bar = _first_model(findings, dataset, static)
        if static is None or bar is None:
            return None
        begun = validations(static)[0]
        share = begun.metrics[SELECTED_BY] / bar - 1
        told = f"{percent(share)} % against the first model at its first validation"
        return Check(dataset, HOLDS if share < -ONE_SEED else FAILS, told)

    return check


def same_rate_ends_lower(findings: Findings, dataset: str) -> Check | None:
    """With the same rate the second model ends below that with a tenth of it."""
    same, tenth = (_static(findings, dataset, line) for line in (SAME, TENTH))
    if same is None or tenth is None:
        return None
    last = [validations(record)[-1].metrics[SELECTED_BY] for record in (same, tenth)]
    found = Difference(1 - last[0] / last[1], None)
    return Check(dataset, found.is_above(), f"{percent(-found.share)} % at the end")


def most_speed_is_pointwise(findings: Findings, dataset: str) -> Check | None:
    """Fewer steps are due to the pointwise loss rather than to its weights."""
    names = ("lightgcn", "dregn-cf-uniform", "dregn-cf")
    counts = [STEPS.values(findings, name, dataset) for name in names]
    if not all(counts):
        return None
    pairwise, uniform, weighted = map(statistics.median, counts)
    by_loss, by_weights = pairwise / uniform, uniform / weighted
    told = f"{by_loss:.3g} × by the loss, {by_weights:.3g} × by the weights"
    return Check(dataset, HOLDS if by_loss > by_weights else FAILS, told)


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
    """The smallest λ of the paper's range is below the method's own, on the test part."""
    smallest = min(L2_VALUES)
    small, own = variant(more_runs.WITH_L2[smallest]), preset("dregn-cf")
    harms = _differs(small, own, lambda found: found.reversed.is_above(CLOSE))
    found = harms(findings, dataset)
    return None if found is None else found._replace(figure=f"λ {smallest:g}: {found.figure}")


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
        findings = _under(findings, PAPER)
    exact = variant(more_runs.EXACT)
    is_run = bool(_tested(findings, exact, dataset))
    return as_published(exact if is_run else preset("dregn-cf"))(findings, dataset)
