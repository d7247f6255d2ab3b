"""The paper's claims one by one, and what the finished runs say of each.

A claim is checked on every data set that has the runs for it. All claims are judged by nDCG@20 and
by the same rules (`RULES`); no sentence here is written by hand for a result.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from scipy.stats import t as student

from ratiorec.settings import ModelSettings, Settings
from ratiorec_lab.reproduce import more_runs
from ratiorec_lab.reproduce.cells import BOUND, L2, PAPER, Cell, setting_in
from ratiorec_lab.reproduce.exhibits import CONFIDENCE
from ratiorec_lab.reproduce.figures import (
    FINISHED,
    SAME,
    TENTH,
    FigDns,
    FigStaticAdaptive,
)
from ratiorec_lab.reproduce.more_runs import Variant, official_lightgcn, variant_cells
from ratiorec_lab.reproduce.plan import Findings
from ratiorec_lab.reproduce.published import (
    PAPER_DATASETS,
    QUALITY,
    SELECTED_BY,
    STAND_IN,
    dataset_name,
    method_name,
    quality,
)
from ratiorec_lab.reproduce.records import (
    Record,
    convergence,
    seconds_per_step,
    seconds_to_converge,
    validations,
)
from ratiorec_lab.reproduce.tuning import BOUNDS, L2_VALUES, LARGE_BOUND, Search
from ratiorec_lab.reproduce.wording import figure

REPRODUCED, PARTLY, NOT_REPRODUCED = "reproduced", "partly", "not reproduced"
NOT_TESTED = "not tested"
STATUSES = (REPRODUCED, PARTLY, NOT_REPRODUCED, NOT_TESTED)

ONE_SEED = 0.03  # a difference of single runs below this may be chance
NO_DIFFERENCE = 0.001  # as in early stopping, where a smaller gain is none
CLOSE = 0.01
COMPETITIVE = 0.05
ORDER = 10.0  # of magnitude

HOLDS, OPEN, FAILS = "holds", "open", "fails"

RULES = (
    "All claims are judged by nDCG@20 unless they are about time or steps. A difference of two "
    "methods holds on a data set if it has the claimed sign and Welch's 95 % interval over the "
    "seeds leaves out 0; with one seed on a side it must be more than 3 %. It fails if the sign is "
    "the other one or the difference is below 0.1 %, and is open if chance is not ruled out. A "
    "ratio of times or steps must be above 1 for every pair of seeds, and times are open where one "
    "step is a CUDA graph and the other is not.",
    "«Stable» and «slightly» mean within 1 %, «competitive» and «comparable» within 5 %, "
    "«substantial», «sensitive», «far» and «large» more than 3 %, an order of magnitude a factor "
    "of 10.",
    "Reproduced: it holds on every data set of the paper that was run. Partly: it holds on some of "
    "them, or is open, or was seen on a part of Amazon-Book alone. Not reproduced: it fails "
    "wherever it was run. Not tested: the runs are not there.",
)


class Check(NamedTuple):
    """A claim on one data set; `figure` is what was found, in words."""

    dataset: str
    outcome: str
    figure: str


@dataclass(frozen=True)
class Claim:
    """A statement of the paper, where it stands, and which exhibit has the evidence."""

    id: str
    sentence: str
    where: str
    exhibit: str
    check: Callable[[Findings, str], Check | None]
    datasets: tuple[str, ...] = (*PAPER_DATASETS, STAND_IN)


@dataclass(frozen=True)
class Verdict:
    """What was found of a claim."""

    claim: Claim
    status: str
    checks: tuple[Check, ...]

    @property
    def figures(self) -> str:
        """The figure of each data set; a part of one is marked."""
        part = {STAND_IN: f"{STAND_IN} (a part)"}
        told = (f"{part.get(c.dataset, dataset_name(c.dataset))} {c.figure}" for c in self.checks)
        return "; ".join(told) or "not run yet"


def verdicts(findings: Findings, exhibits: Sequence[str]) -> tuple[Verdict, ...]:
    """A verdict on every claim whose exhibit is among these."""
    if findings.plan.is_quick:
        return ()
    return tuple(judged(findings, claim) for claim in CLAIMS if claim.exhibit in exhibits)


def judged(findings: Findings, claim: Claim) -> Verdict:
    """The verdict on one claim."""
    shown = [d for d in findings.plan.datasets if d in claim.datasets]
    found = (claim.check(findings, dataset) for dataset in shown)
    checks = tuple(check for check in found if check is not None)
    return Verdict(claim, status_of(checks), checks)


def status_of(checks: Sequence[Check]) -> str:
    """The status that follows from the data sets, by `RULES`."""
    whole = [check.outcome for check in checks if check.dataset != STAND_IN]
    outcomes = whole or [check.outcome for check in checks]
    if not outcomes:
        return NOT_TESTED
    if all(outcome == FAILS for outcome in outcomes):
        return NOT_REPRODUCED
    return REPRODUCED if whole and all(one == HOLDS for one in outcomes) else PARTLY


# Differences of figures over seeds


class Difference(NamedTuple):
    """(one − other)/other of two means, with its interval where both have two seeds or more."""

    share: float
    interval: tuple[float, float] | None

    @property
    def text(self) -> str:
        """`+2.6 % (+1.2 to +4.0 %)`."""
        if self.interval is None:
            return f"{_percent(self.share)} % (one seed)"
        low, high = map(_percent, self.interval)
        return f"{_percent(self.share)} % ({low} to {high} %)"

    def is_above(self, least: float = 0.0) -> str:
        """Whether one is above the other, by a share of more than `least`."""
        if self.share <= max(least, NO_DIFFERENCE):
            return FAILS
        if self.interval is None:
            return HOLDS if self.share > ONE_SEED else OPEN
        return HOLDS if self.interval[0] > 0 else OPEN


def difference(one: Sequence[float], other: Sequence[float]) -> Difference:
    """The relative difference of the means, with Welch's interval."""
    mean, base = statistics.fmean(one), statistics.fmean(other)
    share = mean / base - 1
    if min(len(one), len(other)) < 2:
        return Difference(share, None)
    parts = [statistics.variance(values) / len(values) for values in (one, other)]
    total = sum(parts)
    if total == 0:
        return Difference(share, (share, share))
    degrees = total**2 / sum(
        part**2 / (len(values) - 1) for part, values in zip(parts, (one, other), strict=True)
    )
    reach = float(student.ppf((1 + CONFIDENCE) / 2, degrees)) * math.sqrt(total) / base
    return Difference(share, (share - reach, share + reach))


def _percent(share: float) -> str:
    return f"{100 * share:+.1f}".replace("-", "−")


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
        for record in findings.records(source(findings, dataset))
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
        told = f"{here.text}, elsewhere {_percent(max(elsewhere))} % at most"
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
    told = f"{figure(statistics.fmean(values))} against {figure(printed)}, {_percent(share)} %"
    return Check(dataset, HOLDS if abs(share) <= CLOSE else FAILS, told)


# Time and steps

Effort = Callable[[Record], float | None]


def steps(record: Record) -> float | None:
    """Steps to convergence."""
    found = convergence(record)
    return None if found is None else float(found.step)


def whole_fit(record: Record) -> float | None:
    """Seconds from the first to the last step, with the search, validations and the refit."""
    return float(record["seconds"]["train"])


def times(slower: str, faster: str, of: Effort, *, least: float = 1.0) -> Rule:
    """One method takes so many times the effort of the other."""

    def check(findings: Findings, dataset: str) -> Check | None:
        efforts = [_efforts(findings, name, dataset, of) for name in (slower, faster)]
        if not all(efforts):
            return None
        mine, theirs = efforts
        ratio = statistics.median(mine) / statistics.median(theirs)
        low, high = min(mine) / max(theirs), max(mine) / min(theirs)
        spread = f" ({low:.3g} to {high:.3g})" if len(mine) * len(theirs) > 1 else " (one seed)"
        outcome = HOLDS if ratio >= least and low > 1 else OPEN if ratio >= least else FAILS
        if of is not steps and not _is_equally_made(findings, slower, faster, dataset):
            return Check(dataset, OPEN, f"{ratio:.3g} ×{spread}, an eager step and a CUDA graph")
        return Check(dataset, outcome, f"{ratio:.3g} ×{spread}")

    return check


def _is_equally_made(findings: Findings, one: str, other: str, dataset: str) -> bool:
    """Whether the steps of both are recorded as CUDA graphs, or those of neither."""
    cells = (next(findings.plan.curves(name, dataset)) for name in (one, other))
    return len({_is_recorded(cell.settings) for cell in cells}) == 1


def _is_recorded(settings: ModelSettings) -> bool:
    return isinstance(settings, Settings) and settings.risk.supports_cuda_graph


def _efforts(findings: Findings, name: str, dataset: str, of: Effort) -> list[float]:
    records = findings.records(findings.plan.curves(name, dataset))
    return [found for record in records if (found := of(record)) is not None]


def all_of(*rules: Rule) -> Rule:
    """Every rule holds; the figures stand side by side."""

    def check(findings: Findings, dataset: str) -> Check | None:
        found = [rule(findings, dataset) for rule in rules]
        known = [one for one in found if one is not None]
        if len(known) < len(rules):
            return None
        outcomes = {one.outcome for one in known}
        worst = next(one for one in (FAILS, OPEN, HOLDS) if one in outcomes)
        return Check(dataset, worst, ", ".join(one.figure for one in known))

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
    told = f"α {best:g} is {_percent(share)} % above α {worst:g}"
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
        told = f"{_percent(found.share)} % against uniform weights of {epochs} epochs"
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
    return Check(dataset, found.is_above(), f"{_percent(-found.share)} % at the end")


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
        told = f"λ {value:g} is {_percent(share)} % from the best"
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
    """Under the protocol `paper` the method has its figure after the paper's number of steps."""
    if findings.plan.protocol != PAPER:
        return None
    exact = variant(more_runs.EXACT)
    is_run = bool(_tested(findings, exact, dataset))
    return as_published(exact if is_run else DREGN)(findings, dataset)


# The claims, in the paper's order

DREGN, UNIFORM = preset("dregn-cf"), preset("dregn-cf-uniform")
POPULARITY, STATIC = preset("dregn-cf-popularity"), preset("dregn-cf-static")
DRE, PU, DNS = preset("dre"), preset("pu"), tuned("lightgcn-dns")
MULT_VAE, ENMF, NGCF = preset("mult-vae"), preset("enmf"), preset("ngcf")
AMAZON = ("amazon-book", STAND_IN)
FIRST_TWO = ("gowalla", "yelp2018")
T2, T3, F1 = "table-effectiveness", "table-ablation", "fig-efficiency"
F2, F3, F45, MORE = "fig-static-adaptive", "fig-dns", "fig-sensitivity", "more-runs"


def _claims() -> Iterator[Claim]:
    yield Claim(
        "figures",
        "DREGN-CF has the nDCG@20 that the paper prints",
        "Table 2",
        T2,
        as_published(DREGN),
    )
    yield Claim(
        "figures-tuned",
        "The same with λ, D̄ and rate chosen on validation pairs of each data set",
        "5.1.2, Table 2",
        "search-tested",
        as_published(chosen("dregn-cf")),
    )
    for name, source in (("NGCF", NGCF), ("Mult-VAE", MULT_VAE), ("ENMF", ENMF)):
        yield Claim(
            f"above-{name.lower()}",
            f"DREGN-CF ranks better than {name}",
            "5.2, Table 2",
            T2,
            above(DREGN, source),
        )
    yield Claim(
        "above-lightgcn",
        "DREGN-CF ranks better than LightGCN by a substantial margin on Yelp2018 and Amazon-Book",
        "5.2, Table 2",
        T2,
        above(DREGN, best_lightgcn, least=ONE_SEED),
        ("yelp2018", *AMAZON),
    )
    yield Claim(
        "near-lightgcn",
        "On Gowalla LightGCN is ahead of DREGN-CF, not substantially",
        "5.2, Table 2",
        T2,
        slightly_below(DREGN, best_lightgcn, ONE_SEED),
        ("gowalla",),
    )
    yield Claim(
        "vae-amazon",
        "On Amazon-Book Mult-VAE is comparable to LightGCN",
        "5.2, Table 2",
        T2,
        close(MULT_VAE, best_lightgcn, COMPETITIVE),
        AMAZON,
    )
    yield Claim(
        "enmf-amazon",
        "On Amazon-Book ENMF falls far behind LightGCN",
        "5.2, Table 2",
        T2,
        above(best_lightgcn, ENMF, least=ONE_SEED),
        AMAZON,
    )
    yield Claim(
        "gain-amazon",
        "The gain over LightGCN is largest on Amazon-Book",
        "5.2, Table 2",
        T2,
        gains_most_on_amazon(DREGN, best_lightgcn),
        AMAZON,
    )
    for name in ("lightgcn", "ngcf", "mult-vae"):
        yield Claim(
            f"time-{name}",
            f"DREGN-CF converges one to two orders of magnitude sooner than "
            f"{method_name(name)}, by training time",
            "abstract, 5.3, Figure 1",
            F1,
            times(name, "dregn-cf", seconds_to_converge, least=ORDER),
        )
        yield Claim(
            f"fit-{name}",
            f"The same by the time of a whole fit, against {method_name(name)}",
            "abstract, 5.3",
            F1,
            times(name, "dregn-cf", whole_fit, least=ORDER),
        )
    yield Claim(
        "steps-lightgcn",
        "DREGN-CF needs far fewer steps than LightGCN",
        "5.3, Figure 1",
        F1,
        times("lightgcn", "dregn-cf", steps),
    )
    yield Claim(
        "steps-enmf",
        "On Gowalla and Yelp2018 DREGN-CF needs more steps than ENMF",
        "5.3, Figure 1",
        F1,
        times("dregn-cf", "enmf", steps),
        FIRST_TWO,
    )
    yield Claim(
        "step-enmf",
        "A step of ENMF takes longer than one of DREGN-CF",
        "5.3",
        F1,
        times("enmf", "dregn-cf", seconds_per_step),
        FIRST_TWO,
    )
    yield Claim(
        "time-enmf",
        "ENMF takes longer than DREGN-CF in all, to convergence",
        "5.3, Figure 1",
        F1,
        times("enmf", "dregn-cf", seconds_to_converge),
        FIRST_TWO,
    )
    yield Claim(
        "amazon-enmf",
        "On Amazon-Book DREGN-CF is ahead of ENMF in steps, in the time of a step and in all",
        "5.3, Figure 1",
        F1,
        all_of(
            *(
                times("enmf", "dregn-cf", of)
                for of in (steps, seconds_per_step, seconds_to_converge)
            )
        ),
        AMAZON,
    )
    yield Claim(
        "amazon-vae",
        "On Amazon-Book Mult-VAE takes longer than DREGN-CF, in the time of a step and in all",
        "5.3, Figure 1",
        F1,
        all_of(
            *(times("mult-vae", "dregn-cf", of) for of in (seconds_per_step, seconds_to_converge))
        ),
        AMAZON,
    )
    yield Claim(
        "steps-paper",
        "DREGN-CF has converged after 240 steps (Gowalla) and 480 (Yelp2018, "
        "Amazon-Book) of the paper's batches",
        "5.3 (protocol paper)",
        T2,
        enough_in_the_papers_steps,
    )
    yield Claim(
        "dre-pu",
        "DRE (b) ranks better than PU regression (a) with the same uniform weights",
        "5.4.1, Table 3",
        MORE,
        above(DRE, variant(more_runs.EQUAL_WEIGHTS)),
    )
    yield Claim(
        "dre-pu-weighted",
        "The same where a positive of (a) counts as 3,000 unlabelled pairs (not in the paper)",
        "5.4.1, Table 3",
        T3,
        above(DRE, PU),
    )
    yield Claim(
        "dre-lightgcn",
        "DRE (b) ranks below LightGCN's pairwise loss",
        "5.4.1",
        T3,
        above(best_lightgcn, DRE),
    )
    yield Claim(
        "no-is",
        "(c) without the sampling correction ranks better than (h)",
        "5.4.2, Table 3",
        T3,
        above(preset("dregn-cf-no-is"), DREGN),
    )
    yield Claim(
        "no-nn",
        "(d) without the non-negative correction ranks slightly below (h)",
        "5.4.2, Table 3",
        T3,
        slightly_below(preset("dregn-cf-no-nn"), DREGN),
    )
    yield Claim(
        "popularity",
        "(f) popularity weights rank better than (e) uniform ones",
        "5.4.3, Table 3",
        T3,
        above(POPULARITY, UNIFORM),
    )
    yield Claim(
        "popularity-rivals",
        "(f) is competitive with LightGCN",
        "5.4.3",
        T3,
        not_below(POPULARITY, best_lightgcn, COMPETITIVE),
    )
    yield Claim(
        "popularity-amazon",
        "The gain of (f) over (e) is largest on Amazon-Book",
        "5.4.3",
        T3,
        gains_most_on_amazon(POPULARITY, UNIFORM),
        AMAZON,
    )
    yield Claim(
        "hard-samples",
        "(h) hard-sample weights rank better than (e) and (f) by a large margin",
        "5.4.3, Table 3",
        T3,
        above_all(DREGN, (UNIFORM, POPULARITY), least=ONE_SEED),
    )
    yield Claim("alpha", "(f) is quite sensitive to α", "5.4.3", MORE, spread_over_alpha)
    yield Claim(
        "static",
        "(g) static weights of a finished first model collapse: (g) is below (e)",
        "5.4.4, Table 3",
        MORE,
        above(UNIFORM, variant(more_runs.FINISHED)),
    )
    yield Claim(
        "static-continued",
        "The same where the second model starts from the first (a second reading)",
        "5.4.4",
        MORE,
        above(UNIFORM, variant(more_runs.CONTINUED)),
    )
    yield Claim(
        "static-early",
        "(g) is below (e) where the first model stops after 5 epochs (the "
        "preset; under `paper` as long as the second)",
        "5.4.4, Table 3",
        T3,
        above(UNIFORM, STATIC),
    )
    yield Claim(
        "static-same-rate",
        "With the same rate static weights end lower than with a tenth of it",
        "5.4.4, Figure 2",
        F2,
        same_rate_ends_lower,
        ("yelp2018",),
    )
    for line, words in ((SAME, "the same rate"), (TENTH, "a tenth of the rate")):
        yield Claim(
            f"static-first-{'same' if line == SAME else 'tenth'}",
            f"Static weights with {words} never reach the first model",
            "5.4.4, Figure 2",
            F2,
            never_reaches_first(line),
            ("yelp2018",),
        )
    yield Claim(
        "dns-lightgcn",
        "DNS improves LightGCN's final ranking",
        "5.5, Figure 3",
        F3,
        above(DNS, preset("lightgcn")),
    )
    yield Claim(
        "dns-steps",
        "DNS shortens LightGCN's convergence",
        "5.5, Figure 3",
        F3,
        sooner("lightgcn-dns", "lightgcn"),
    )
    yield Claim(
        "uniform-last",
        "Uniform weights rank below LightGCN, LightGCN-DNS and DREGN-CF",
        "5.5, Figure 3",
        F3,
        all_of(*(above(one, UNIFORM) for one in (best_lightgcn, DNS, DREGN))),
    )
    yield Claim(
        "uniform-steps",
        "Uniform weights converge in fewer steps than LightGCN",
        "5.5, Figure 3",
        F3,
        sooner("dregn-cf-uniform", "lightgcn"),
    )
    yield Claim(
        "dregn-dns",
        "DREGN-CF ranks better than LightGCN-DNS by a large margin",
        "5.5, Figure 3",
        F3,
        above(DREGN, DNS, least=ONE_SEED),
    )
    yield Claim(
        "dregn-dns-steps",
        "DREGN-CF converges in fewer steps than LightGCN-DNS",
        "5.5, Figure 3",
        F3,
        sooner("dregn-cf", "lightgcn-dns"),
    )
    yield Claim(
        "dregn-uniform-steps",
        "DREGN-CF converges in fewer steps than uniform weights",
        "5.5, Figure 3",
        F3,
        sooner("dregn-cf", "dregn-cf-uniform"),
    )
    yield Claim("large-l2", "A large λ does harm", "5.6, Figure 4", F45, end_of_l2_harms(max))
    yield Claim(
        "small-l2",
        "A small λ does harm, most of all on Gowalla (validation pairs, as in the paper)",
        "5.6, Figure 4",
        F45,
        end_of_l2_harms(min),
    )
    yield Claim(
        "small-l2-test",
        "The same on the test part (not in the paper)",
        "5.6",
        MORE,
        small_l2_harms_on_test,
    )
    yield Claim(
        "bound", "Figures are stable once D̄ is large", "5.6, Figure 5", F45, bound_is_stable
    )
    yield Claim("l2-bound", "λ matters more than D̄", "5.6", F45, l2_matters_more)


CLAIMS: tuple[Claim, ...] = tuple(_claims())


def summary(found: Sequence[Verdict]) -> str:
    """How many claims have each status, in a sentence."""
    counts = {status: sum(one.status == status for one in found) for status in STATUSES}
    told = ", ".join(f"{n} {status}" for status, n in counts.items())
    return f"{len(found)} statements, the paper's and some beside them that say so: {told}."
