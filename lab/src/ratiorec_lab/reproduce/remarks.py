"""Plain sentences about every place where figures differ from the published ones."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ratiorec_lab.reproduce.exhibits import NOT_RUN, Measured
from ratiorec_lab.reproduce.names import METRICS, STAND_IN, dataset_name, figure, listed
from ratiorec_lab.reproduce.wording import difference_text

TOLERANCE = 0.01  # relative


@dataclass(frozen=True)
class Figure:
    """One figure of a table with the places it stands in."""

    method: str
    dataset: str
    metric: str
    measured: Measured
    is_papers: bool = True  # whether the published figure is the paper's


def of_table(figures: Sequence[Figure]) -> Iterator[str]:
    """What differs, what is ordered otherwise, what was cut, what was not run."""
    yield from differences(figures)
    for dataset, metric in _panels(figures):
        yield from swaps([f for f in figures if (f.dataset, f.metric) == (dataset, metric)])
    yield from caveats(figures)
    yield from not_run(figures)
    if any(f.dataset == STAND_IN for f in figures):
        yield f"{STAND_IN} is a part of Amazon-Book; no published figure compares with those on it."


def differences(figures: Iterable[Figure]) -> Iterator[str]:
    """A sentence for each method and data set where a figure is off by more than 1 %."""
    groups = itertools.groupby(
        sorted(figures, key=lambda f: f.dataset), key=lambda f: (f.dataset, f.method)
    )
    n_compared, n_off = 0, 0
    for (dataset, method), group in groups:
        compared = [f for f in group if f.measured.relative_difference is not None]
        n_compared += len(compared)
        off = [f for f in compared if abs(_share(f)) > TOLERANCE]
        n_off += len(off)
        if off:
            yield f"{dataset_name(dataset)}, {method}: {', '.join(map(_difference, off))}."
    if n_compared and not n_off:
        yield f"All {n_compared} figures are within 1 % of the published ones."


def swaps(figures: Sequence[Figure]) -> Iterator[str]:
    """A sentence for each pair of methods that the paper has in the other order."""
    known = [f for f in figures if _is_comparable(f)]
    for one, other in itertools.combinations(known, 2):
        above, below = (one, other) if _printed(one) > _printed(other) else (other, one)
        if _printed(above) == _printed(below) or _mean(above) > _mean(below):
            continue
        yield (
            f"{dataset_name(one.dataset)}, {METRICS[one.metric]}: the paper has {above.method} "
            f"above {below.method} ({figure(_printed(above))} and {figure(_printed(below))}), "
            f"ours are {_relation(above, below)}."
        )


def _is_comparable(f: Figure) -> bool:
    return f.is_papers and f.measured.published is not None and bool(f.measured.values)


def _relation(above: Figure, below: Figure) -> str:
    ours = f"{figure(_mean(above))} and {figure(_mean(below))}"
    ends = above.measured.interval, below.measured.interval
    if ends[0] is None or ends[1] is None:
        return f"the other way round ({ours}; too few seeds to say whether by chance)"
    if ends[0][1] >= ends[1][0]:
        return f"the other way round ({ours}; their 95 % intervals overlap)"
    return f"the other way round ({ours}; their 95 % intervals do not overlap)"


def caveats(figures: Iterable[Figure]) -> Iterator[str]:
    """What must be known of figures that there are, with all methods it holds for."""
    for (dataset, remark), methods in _by_remark(f for f in figures if f.measured.values).items():
        if remark:
            yield f"{dataset_name(dataset)}, {listed(methods)}: {remark}"


def not_run(figures: Iterable[Figure]) -> Iterator[str]:
    """A sentence for each reason on each data set."""
    planned = list(figures)
    missing = _by_remark(f for f in planned if not f.measured.values)
    for (dataset, reason), methods in missing.items():
        everyone = {f.method for f in planned if f.dataset == dataset}
        yield why_not_run(dataset, [] if set(methods) == everyone else methods, reason)


def _by_remark(figures: Iterable[Figure]) -> dict[tuple[str, str], list[str]]:
    """The methods for each data set and remark, by data set."""
    found: dict[tuple[str, str], list[str]] = {}
    for f in figures:
        methods = found.setdefault((f.dataset, f.measured.remark), [])
        methods += [] if f.method in methods else [f.method]
    return found


def why_not_run(dataset: str, methods: list[str], reason: str) -> str:
    """That methods, or without any everything, were not run on a data set, and why."""
    who = ", ".join([dataset_name(dataset), *([listed(methods)] if methods else [])])
    if not reason:
        return f"{who}: {NOT_RUN} yet."
    return f"{who}: {NOT_RUN}: {reason.removesuffix('.')}."


def within_or_above(figures: Sequence[Figure]) -> Iterator[str]:
    """For each data set, whether a method reaches the published figures to 1 %."""
    compared = [f for f in figures if f.measured.relative_difference is not None]
    for dataset in dict.fromkeys(f.dataset for f in compared):
        own = [f for f in compared if f.dataset == dataset]
        reaches = all(_share(f) >= -TOLERANCE for f in own)
        shares = listed(
            [f"{METRICS[f.metric]} {difference_text(_mean(f), _printed(f))}" for f in own]
        )
        verdict = (
            "is within 1 % of the paper or above it" if reaches else "falls short of the paper"
        )
        yield f"{dataset_name(dataset)}: {own[0].method} {verdict} ({shares})."


def beyond(ours: float, than: float) -> str:
    """By how much one figure is above or below another.

    >>> beyond(0.11, 0.1), beyond(0.09, 0.1)
    ('10.0 % above', '10.0 % below')
    """
    share = ours / than - 1
    return f"{100 * abs(share):.1f} % {'above' if share >= 0 else 'below'}"


def _difference(f: Figure) -> str:
    printed = _printed(f)
    text = f"{METRICS[f.metric]} {figure(_mean(f))} is {beyond(_mean(f), printed)} the published "
    interval = f.measured.interval
    inside = interval is not None and interval[0] <= printed <= interval[1]
    return text + figure(printed) + (" (inside our 95 % interval)" if inside else "")


def _panels(figures: Iterable[Figure]) -> list[tuple[str, str]]:
    return list(dict.fromkeys((f.dataset, f.metric) for f in figures))


def _share(f: Figure) -> float:
    share = f.measured.relative_difference
    assert share is not None
    return share


def _mean(f: Figure) -> float:
    mean = f.measured.mean
    assert mean is not None
    return mean


def _printed(f: Figure) -> float:
    assert f.measured.published is not None
    return f.measured.published
