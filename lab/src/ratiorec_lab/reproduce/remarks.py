"""Remarks: plain sentences about where figures agree with the published ones and where not."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ratiorec_lab.reproduce.cells import Cell
from ratiorec_lab.reproduce.exhibits import AGREES, DIFFERS, NOT_RUN, Measured, Remark
from ratiorec_lab.reproduce.plan import ABSENT, Findings
from ratiorec_lab.reproduce.published import METRICS, STAND_IN, dataset_name
from ratiorec_lab.reproduce.wording import difference_text, figure, listed

TOLERANCE = 0.01  # relative


@dataclass(frozen=True)
class TableFigure:
    """One figure of a table with the places it stands in."""

    method: str
    dataset: str
    metric: str
    measured: Measured
    is_papers: bool = True  # whether the published figure is the paper's

    @property
    def mean(self) -> float:
        """Our mean, of a figure that there is."""
        mean = self.measured.mean
        assert mean is not None
        return mean

    @property
    def published(self) -> float:
        """The published figure, where there is one."""
        assert self.measured.published is not None
        return self.measured.published

    @property
    def difference(self) -> float:
        """Relative difference, where there is one."""
        return self.mean / self.published - 1

    @property
    def is_compared(self) -> bool:
        """Whether there is our figure and a published one."""
        return self.measured.relative_difference is not None


def of_table(figures: Sequence[TableFigure]) -> Iterator[str]:
    """All differences, other orders, what was cut and what was not run."""
    yield from differences(figures)
    for dataset, metric in dict.fromkeys((f.dataset, f.metric) for f in figures):
        yield from swaps([f for f in figures if (f.dataset, f.metric) == (dataset, metric)])
    yield from caveats(figures)
    yield from not_run(figures)
    if any(f.dataset == STAND_IN for f in figures):
        yield f"{STAND_IN} is a part of Amazon-Book; no published figure compares with those on it."


def differences(figures: Iterable[TableFigure]) -> Iterator[str]:
    """A sentence for each method and data set where a figure is off by more than 1 %."""
    compared = sorted((f for f in figures if f.is_compared), key=lambda f: f.dataset)
    off = [f for f in compared if abs(f.difference) > TOLERANCE]
    for (dataset, method), group in itertools.groupby(off, key=lambda f: (f.dataset, f.method)):
        told = ", ".join(map(_difference, group))
        yield Remark(f"{dataset_name(dataset)}, {method}: {told}.", DIFFERS)
    if compared and not off:
        told = f"All {len(compared)} figures are within 1 % of the published ones."
        yield Remark(told, AGREES)


def _difference(f: TableFigure) -> str:
    relation = f"{beyond(f.mean, f.published)} the published {figure(f.published)}"
    interval = f.measured.interval
    inside = interval is not None and interval[0] <= f.published <= interval[1]
    note = " (inside our 95 % interval)" if inside else ""
    return f"{METRICS[f.metric]} {figure(f.mean)} is {relation}{note}"


def swaps(figures: Sequence[TableFigure]) -> Iterator[str]:
    """A sentence for each pair of methods that the paper has in the other order."""
    known = [f for f in figures if f.is_papers and f.is_compared]
    for one, other in itertools.combinations(known, 2):
        above, below = (one, other) if one.published > other.published else (other, one)
        if above.published == below.published or above.mean > below.mean:
            continue
        yield Remark(
            f"{dataset_name(one.dataset)}, {METRICS[one.metric]}: the paper has {above.method} "
            f"above {below.method} ({figure(above.published)} and {figure(below.published)}), "
            f"ours are the other way round ({figure(above.mean)} and {figure(below.mean)}; "
            f"{_chance(above.measured, below.measured)}).",
            DIFFERS,
        )


def _chance(above: Measured, below: Measured) -> str:
    if above.interval is None or below.interval is None:
        return "too few seeds to say whether by chance"
    overlap = "overlap" if above.interval[1] >= below.interval[0] else "do not overlap"
    return f"their 95 % intervals {overlap}"


def caveats(figures: Iterable[TableFigure]) -> Iterator[str]:
    """A sentence for each remark on figures that there are, with all methods it holds for."""
    for (dataset, remark), methods in _by_remark(f for f in figures if f.measured.values).items():
        if remark:
            yield f"{dataset_name(dataset)}, {listed(methods)}: {remark}"


def not_run(figures: Iterable[TableFigure]) -> Iterator[str]:
    """A sentence for each reason on each data set."""
    planned = list(figures)
    missing = _by_remark(f for f in planned if not f.measured.values)
    for (dataset, reason), methods in missing.items():
        everyone = {f.method for f in planned if f.dataset == dataset}
        yield why_not_run(dataset, [] if set(methods) == everyone else methods, reason)


def _by_remark(figures: Iterable[TableFigure]) -> dict[tuple[str, str], list[str]]:
    """The methods for each data set and remark, by data set."""
    found: dict[tuple[str, str], dict[str, None]] = {}
    for f in figures:
        found.setdefault((f.dataset, f.measured.remark), {})[f.method] = None
    return {place: list(methods) for place, methods in found.items()}


def missing_lines(
    findings: Findings, dataset: str, cells: Mapping[str, Cell | None]
) -> Iterator[str]:
    """A sentence for each reason why named runs are not there."""
    reasons: dict[str, list[str]] = {}
    for name, cell in cells.items():
        if findings.record(cell) is None:
            reasons.setdefault(findings.why_missing([cell]), []).append(name)
    for reason, names in reasons.items():
        yield why_not_run(dataset, [] if len(names) == len(cells) else names, reason)


def why_not_run(dataset: str, methods: list[str], reason: str) -> str:
    """That methods, or without any everything, were not run on a data set, and why."""
    who = ", ".join([dataset_name(dataset), *([listed(methods)] if methods else [])])
    if not reason:
        return f"{who}: {NOT_RUN} yet."
    return f"{who}: {NOT_RUN}: {reason.removesuffix('.')}."


def absent(findings: Findings) -> Iterator[str]:
    """A sentence for each data set that no figure can be had of."""
    for dataset in findings.absent:
        yield why_not_run(dataset, [], ABSENT)


def within_or_above(figures: Sequence[TableFigure]) -> Iterator[str]:
    """For each data set, whether a method reaches the published figures to 1 %."""
    compared = [f for f in figures if f.is_compared]
    for dataset in dict.fromkeys(f.dataset for f in compared):
        own = [f for f in compared if f.dataset == dataset]
        reaches = all(f.difference >= -TOLERANCE for f in own)
        verdict = (
            "is within 1 % of the paper or above it" if reaches else "falls short of the paper"
        )
        shares = [f"{METRICS[f.metric]} {difference_text(f.mean, f.published)}" for f in own]
        told = f"{dataset_name(dataset)}: {own[0].method} {verdict} ({listed(shares)})."
        yield Remark(told, AGREES if reaches else DIFFERS)


def as_or_unlike(words: str, holds: bool, papers: str = "") -> Remark:
    """What was found, and whether it is as in the paper, which has `papers`.

    >>> as_or_unlike("a is above b", False)
    'a is above b, unlike in the paper.'
    """
    side = "as in the paper" if holds else "unlike in the paper"
    told = ", ".join(filter(None, (words, side, papers)))
    return Remark(f"{told}.", AGREES if holds else DIFFERS)


def beyond(ours: float, than: float) -> str:
    """The share by which one figure is above or below another.

    >>> beyond(0.11, 0.1), beyond(0.09, 0.1)
    ('10.0 % above', '10.0 % below')
    """
    share = ours / than - 1
    return f"{100 * abs(share):.1f} % {'above' if share >= 0 else 'below'}"
