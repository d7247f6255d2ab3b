"""Where growth is measured: around a base point, along one axis at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ratiorec_lab.bench.case import Size

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

    base: Size
    factors: Mapping[str, tuple[float, ...]]

    def places(self) -> dict[str, dict[str, int]]:
        """The size of every point by the name of its place, each once."""
        names = [name for axis in AXES for name in self.along(axis)]
        return {name: size_at(name, self.base) for name in dict.fromkeys(names)}

    def along(self, axis: str) -> Iterator[str]:
        """The names of the places on one axis."""
        for factor in self.factors[axis]:
            yield BASE if factor == 1 else f"{axis}*{factor:g}"


def size_at(place: str, base: Size) -> dict[str, int]:
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
