"""How long the cells that are left will take, by those that are finished."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence

from ratiorec_lab.reproduce.cells import Cell


def seconds_left(
    missing: Iterable[Cell], spent: Mapping[Cell, float], *, max_seconds: float
) -> float | None:
    """The sum of what alike cells took, or None where nothing is finished.

    Alike are cells of the same preset on the same data, else of the same preset, else on the
    same data, else all; no cell takes longer than its budget.
    """
    if not spent:
        return None
    return sum(min(_expected(cell, spent), max_seconds) for cell in missing)


def _expected(cell: Cell, spent: Mapping[Cell, float]) -> float:
    ways: Sequence[tuple[str, ...]] = (("preset", "dataset"), ("preset",), ("dataset",), ())
    for way in ways:
        alike = [
            seconds
            for other, seconds in spent.items()
            if all(getattr(other, name) == getattr(cell, name) for name in way)
        ]
        if alike:
            return statistics.median(alike)
    raise AssertionError("all cells are alike in nothing")


def in_words(seconds: float | None) -> str:
    """A time that is left.

    >>> in_words(42), in_words(600), in_words(9000), in_words(None)
    ('about 42 s left', 'about 10 min left', 'about 2.5 h left', 'time left not known yet')
    """
    if seconds is None:
        return "time left not known yet"
    if seconds < 100:
        return f"about {seconds:.0f} s left"
    if seconds < 5400:
        return f"about {seconds / 60:.0f} min left"
    return f"about {seconds / 3600:.1f} h left"
