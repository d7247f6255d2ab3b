"""Frontier of quality over time: automatic choices by budget, beside the best rival up to it.

From cases of the target `frontier` as they stand in JSON.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ratiorec.presets import AUTO
from ratiorec_lab.bench.race import budget_of

JsonCase = Mapping[str, Any]
RIVAL = "implicit-als"


class Point(NamedTuple):
    """R@20 that a model had after so long."""

    seconds: float
    recall: float
    model: str = ""


class Line(NamedTuple):
    """Points under one name, in the order of time."""

    name: str
    points: tuple[Point, ...]


def automatic(cases: Iterable[JsonCase]) -> list[tuple[float, JsonCase]]:
    """The automatic choices with their budgets, the smallest first."""
    budgets = [(budget_of(case["execution"]), case) for case in cases]
    found = [(seconds, case) for seconds, case in budgets if seconds is not None]
    return sorted(found, key=lambda pair: pair[0])


def points(case: JsonCase) -> list[Point]:
    """Where a model was judged."""
    name = short_name(case["execution"])
    return [Point(one["seconds"], one["recall@20"], name) for one in case["curve"]]


def beside(cases: Iterable[JsonCase]) -> tuple[list[JsonCase], list[JsonCase]]:
    """`implicit`'s models, and all others that are no automatic choice."""
    single = [case for case in cases if budget_of(case["execution"]) is None]
    theirs = [case for case in single if case["execution"].startswith(RIVAL)]
    return theirs, [case for case in single if case not in theirs]


def best_until(cases: Iterable[JsonCase], seconds: float) -> Point | None:
    """The best model that was there in time."""
    in_time = [point for case in cases for point in points(case) if point.seconds <= seconds]
    return max(in_time, key=lambda point: point.recall, default=None)


def envelope(found: Sequence[Point], until: float) -> list[Point]:
    """The best so far as stairs, up to the end of the axis."""
    stairs: list[Point] = []
    for point in sorted(found):
        if not stairs or point.recall > stairs[-1].recall:
            stairs += [Point(point.seconds, one.recall) for one in (*stairs[-1:], point)]
    return [*stairs, Point(until, stairs[-1].recall)] if stairs else []


def frontier_lines(cases: Sequence[JsonCase]) -> list[Line]:
    """What a plot shows; automatic choices are one line and so is the best of `implicit`.

    Without automatic choices every model has a line of its own.
    """
    chosen = automatic(cases)
    if not chosen:
        return [Line(short_name(case["execution"]), tuple(points(case))) for case in cases]
    until = max((point.seconds for case in cases for point in points(case)), default=0.0)
    theirs, others = beside(cases)
    best = envelope([point for case in theirs for point in points(case)], until)
    return [
        Line(AUTO, tuple(point for _, case in chosen for point in points(case))),
        Line(f"{RIVAL}, best so far", tuple(best)),
        *(Line(short_name(case["execution"]), tuple(points(case))) for case in others),
    ]


def short_name(label: str) -> str:
    """A label with the values of settings in place of `:SETTING=VALUE`.

    >>> short_name("implicit-als:solver.dimension=128"), short_name("dregn-cf, eager: risk")
    ('implicit-als 128', 'dregn-cf, eager: risk')
    """
    return re.sub(r":[\w.]+=", " ", label)
