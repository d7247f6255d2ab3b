"""What a verdict on a claim of the paper is, and the rules by which all claims are judged.

A claim is checked on every data set that has the runs for it. All claims are judged by nDCG@20 and
by the same rules (`RULES`); no sentence is written by hand for a result.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from scipy.stats import t as student

from ratiorec_lab.reproduce.exhibits import CONFIDENCE
from ratiorec_lab.reproduce.plan import Findings
from ratiorec_lab.reproduce.published import PAPER_DATASETS, STAND_IN, dataset_name

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
    "All claims are judged by nDCG@20 unless they name R@20 or are about time or steps. A "
    "difference of two methods holds on a data set if it has the claimed sign and Welch's 95 % "
    "interval over the seeds leaves out 0; with one seed on a side it must be more than 3 %. It "
    "fails if the sign is the other one, or the difference is below 0.1 % or below the least that "
    "the claim needs, and is open if chance is not ruled out. So with one seed «slightly below» "
    "can be open at best.",
    "A ratio of times or steps must be above 1 for every pair of seeds, and with the quartiles of "
    "a step where steps were timed by themselves. A run is validated now and then, so that the "
    "steps of the slower method count from the validation before it had converged.",
    "«Has the paper's nDCG@20», «stable» and «slightly» mean within 1 %, «does harm» more than "
    "1 %, «competitive» and «comparable» within 5 %, «substantial», «sensitive», «far» and "
    "«large» more than 3 %, an order of magnitude a factor of 10; D̄ is large from 50 on. «Largest» "
    "compares means. What the paper's own tables say of a comparison stands below the place where "
    "it says so; «fails this rule» marks what its own figures would not pass.",
    "Reproduced: it holds on every data set of the paper that was run. Partly: it holds on some of "
    "them, or is open, or was seen on a part of Amazon-Book alone. Not reproduced: it fails "
    "wherever it was run, be that a part of Amazon-Book. Not tested: the runs are not there.",
)


class Check(NamedTuple):
    """A claim on one data set; `figure` is what was found, `own` what the paper's tables have."""

    dataset: str
    outcome: str
    figure: str
    own: str = ""


@dataclass(frozen=True)
class Claim:
    """A statement of the paper, where it stands, and which exhibits have the evidence.

    The first exhibit decides which reports have it. Another reading of a statement (by another
    clock, with other settings) is not the paper's.
    """

    id: str
    sentence: str
    where: str
    exhibit: str
    check: Callable[[Findings, str], Check | None]
    datasets: tuple[str, ...] = (*PAPER_DATASETS, STAND_IN)
    also: tuple[str, ...] = ()
    is_papers: bool = True


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

    @property
    def where(self) -> str:
        """The place in the paper, and what its own tables have."""
        own = (f"{dataset_name(c.dataset)} {c.own}" for c in self.checks if c.own)
        return "; ".join((self.claim.where, *own))


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


def summary(found: Sequence[Verdict]) -> str:
    """How many claims have each status, in words."""
    counts = {status: sum(one.status == status for one in found) for status in STATUSES}
    return ", ".join(f"{n} {status}" for status, n in counts.items())


# Differences of figures over seeds


class Difference(NamedTuple):
    """(one − other)/other of two means, with its interval where both have two seeds or more."""

    share: float
    interval: tuple[float, float] | None

    @property
    def text(self) -> str:
        """`+2.6 % (+1.2 to +4.0 %)`."""
        if self.interval is None:
            return f"{percent(self.share)} % (one seed)"
        low, high = map(percent, self.interval)
        return f"{percent(self.share)} % ({low} to {high} %)"

    @property
    def reversed(self) -> Difference:
        """(other − one)/one."""
        ends = None if self.interval is None else self.interval[::-1]
        low_high = None if ends is None else (1 / (1 + ends[0]) - 1, 1 / (1 + ends[1]) - 1)
        return Difference(1 / (1 + self.share) - 1, low_high)

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


def exactly(one: float, other: float) -> Difference:
    """The difference of two printed figures, which have no seeds."""
    return Difference(one / other - 1, (one / other - 1,) * 2)


def percent(share: float) -> str:
    """`+2.6`, with a minus sign that is one."""
    return f"{100 * share:+.1f}".replace("-", "−")
