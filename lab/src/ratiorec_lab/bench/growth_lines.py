"""Points along axes, and how a figure grows from point to point: by which power of the axis."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

AXES: Mapping[str, str] = MappingProxyType(
    {
        "users": "users",
        "items": "items",
        "pairs": "pairs",
        "dimension": "dimensions",
        "batch": "users a batch",
    }
)
"""The axes, and what is counted along each."""

BASE = "base"
_LEAST = 2  # of anything, where next to nothing is made smaller still


@dataclass(frozen=True)
class Plan:
    """A base point, and by which factors each of its axes is stretched while the others stay.

    Users bring their pairs with them, so that a batch of as many users holds as many pairs.
    """

    base: Mapping[str, int]
    factors: Mapping[str, tuple[float, ...]]

    def places(self) -> dict[str, dict[str, int]]:
        """The size of every point by the name of its place, each once."""
        names = [name for axis in AXES for name in self.along(axis)]
        return {name: size_at(name, self.base) for name in dict.fromkeys(names)}

    def along(self, axis: str) -> Iterator[str]:
        """The names of the places on one axis."""
        for factor in self.factors[axis]:
            yield BASE if factor == 1 else f"{axis}*{factor:g}"


def size_at(place: str, base: Mapping[str, int]) -> dict[str, int]:
    """The size at a place such as `users*10`.

    >>> size_at("users*10", {"users": 100, "pairs": 3000, "items": 50})
    {'users': 1000, 'pairs': 30000, 'items': 50}
    """
    size = dict(base)
    if place == BASE:
        return size
    axis, factor = place.split("*")
    for stretched in {axis, "pairs"} if axis == "users" else {axis}:
        size[stretched] = max(_LEAST, round(float(factor) * size[stretched]))
    return size


_DECADES = (0.1, 0.3, 1, 3, 10)
USUAL = Plan(
    {"users": 10_000, "items": 10_000, "pairs": 300_000, "dimension": 64, "batch": 1_000},
    dict.fromkeys(AXES, _DECADES) | {"dimension": (1 / 16, 1 / 4, 1, 4, 8)},
)
QUICK = Plan(
    {"users": 200, "items": 200, "pairs": 2_000, "dimension": 16, "batch": 50},
    dict.fromkeys(AXES, (1 / 4, 1, 4)),
)

# Lines through the points.

TIME, MEMORY = "seconds", "peak_extra_mb"
"""The figures of a case that grow."""


class Exponents(NamedTuple):
    """The slope of log figure by log axis, from end to end and over the last interval."""

    whole: float
    last: float


@dataclass(frozen=True)
class Growth:
    """One figure of one work in one backend, point by point along an axis."""

    axis: str
    work: str
    backend: str
    figure: str
    points: tuple[tuple[float, float], ...]

    @property
    def name(self) -> str:
        """What grows."""
        told = ", memory" if self.figure == MEMORY else ""
        return f"{self.work}, {self.backend}{told}"

    @property
    def range(self) -> str:
        """Along what, and how far.

        >>> Growth("users", "step", "tiled", TIME, ((10, 0.1), (1000, 0.2))).range
        'users 10 to 1,000'
        """
        return f"{self.axis} {self.points[0][0]:,} to {self.points[-1][0]:,}"

    @property
    def shown(self) -> tuple[float, float, float]:
        """The first figure, that in the middle, and the last."""
        figures = [figure for _, figure in self.points]
        return figures[0], figures[len(figures) // 2], figures[-1]

    @property
    def exponents(self) -> Exponents | None:
        """Unknown where there are not two points, or where a figure is 0.

        >>> Growth("users", "step", "tiled", TIME, ((1, 2), (10, 2), (100, 200))).exponents
        Exponents(whole=1.0, last=2.0)
        """
        if len(self.points) < 2 or any(figure <= 0 for _, figure in self.points):
            return None
        first, *_, before, last = self.points[:1] + self.points
        return Exponents(_slope(first, last), _slope(before, last))

    def ends_with(self, case: Mapping[str, Any]) -> bool:
        """Whether this is the case of the last point."""
        kind = (self.axis, self.work, self.backend)
        return _kind(case) == kind and case["value"] == self.points[-1][0]


def growths(cases: Iterable[Mapping[str, Any]]) -> list[Growth]:
    """What grows in cases as they stand in JSON; those of other targets have no axis."""
    lines: dict[tuple[str, str, str, str], list[tuple[float, float]]] = {}
    for case in cases:
        for figure in (TIME, MEMORY) if "axis" in case else ():
            if case[figure] is not None:
                points = lines.setdefault((*_kind(case), figure), [])
                points.append((case["value"], case[figure]))
    return [Growth(*key, tuple(sorted(points))) for key, points in lines.items()]


def _kind(case: Mapping[str, Any]) -> tuple[str, str, str]:
    return case["axis"], case["work"], case["execution"]


def _slope(start: tuple[float, float], end: tuple[float, float]) -> float:
    return math.log(end[1] / start[1]) / math.log(end[0] / start[0])
