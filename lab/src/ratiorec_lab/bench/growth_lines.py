"""How one figure grows along one axis: its values, and the power of the axis that they follow."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

TIME, MEMORY = "seconds", "peak_extra_mb"
"""The figures of a case that grow."""


class Exponents(NamedTuple):
    """The slope of log figure by log axis, from end to end and over the last interval."""

    whole: float
    last: float


@dataclass(frozen=True)
class Growth:
    """One figure of one work in one execution, point by point along an axis."""

    axis: str
    work: str
    execution: str
    figure: str
    points: tuple[tuple[float, float], ...]

    @property
    def name(self) -> str:
        """What grows."""
        told = ", memory" if self.figure == MEMORY else ""
        return f"{self.work}, {self.execution}{told}"

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
        kind = (self.axis, self.work, self.execution)
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
