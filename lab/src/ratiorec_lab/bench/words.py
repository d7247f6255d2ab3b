"""Measurements in writing, from cases as they stand in JSON: for a terminal, a page, the docs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from ratiorec_lab.bench.case import Case, Measured
from ratiorec_lab.bench.growth_lines import MEMORY, Growth, growths
from ratiorec_lab.tables import aligned, in_digits, in_megabytes, in_seconds

JsonCase = Mapping[str, Any]
MILESTONES = (0.14, 0.16, 0.18)  # of R@20 on the way up, as judged


def remark(case: JsonCase) -> str:
    """What else is worth knowing of a case: users a second, quality, how long it was trained."""
    return ", ".join(_remarks(case))


def _remarks(case: JsonCase) -> Iterator[str]:
    if "users_per_second" in case:
        yield f"{case['users_per_second']:,.0f} users/s"
    if case.get("recall@20") is not None:
        yield f"R@20 {_share(case['recall@20'])}"
    if len(curve := case.get("curve", [])) > 1:
        yield from milestones(curve)
    if case.get("test"):
        yield f"test R@20 {_share(case['test']['recall@20'])}"
    if "epochs" in case:
        yield f"{case['epochs']:g} epochs by {case['chosen_by']}"
    if case.get("search_seconds") is not None:
        yield f"found in {in_seconds(case['search_seconds'])}"


def milestones(curve: Sequence[JsonCase]) -> Iterator[str]:
    """When a curve was first judged to stand above some levels."""
    for level in MILESTONES:
        passed = [point["seconds"] for point in curve if point["recall@20"] >= level]
        if passed:
            yield f"≥ {_share(level, 2)} after {in_seconds(passed[0])}"


def _share(value: float, places: int = 4) -> str:
    return f"{value:.{places}f}".removeprefix("0")


def _spread(case: JsonCase) -> str:
    return " to ".join(map(in_seconds, case["spread"])) if case["rounds"] > 1 else ""


COLUMNS: Mapping[str, Callable[[JsonCase], str]] = MappingProxyType(
    {
        "time": lambda case: in_seconds(case["seconds"]),
        "spread": _spread,
        "floor": lambda case: in_seconds(case["floor_seconds"]),
        "× floor": lambda case: in_digits(case["ratio_to_floor"]),
        "× reference": lambda case: in_digits(case["ratio_to_reference"]),
        "× rival": lambda case: in_digits(case["ratio_to_rival"]),
        "extra MB": lambda case: "" if (mb := case["peak_extra_mb"]) is None else f"{mb:,.0f}",
        "": remark,
    }
)
"""What is told of a case, by header."""

GROWTH_HEADERS = ("first", "middle", "last", "exponent", "last interval")


def growth_cells(line: Growth) -> list[str]:
    """What is told of a line: figures at three points, and the exponents where they are known."""
    written = in_megabytes if line.figure == MEMORY else in_seconds
    slopes = [f"{slope:.2f}" for slope in line.exponents or ()] or ["", ""]
    return [*map(written, line.shown), *slopes]


def lines(measured: Measured) -> list[str]:
    """A table, and below it the ceilings and what was left out."""
    rows = aligned(table(measured))
    return [title_of(measured), *rows, *rates(measured), *left_out(measured)]


def table(measured: Measured) -> list[list[str]]:
    """Headers and a row for each case, without the columns in which nothing stands.

    Where cases lie along an axis, a row is what one of their figures does from end to end.
    """
    cases = measured.to_json()
    if grown := growths(cases):
        rows = [[f"{line.range}: {line.name}", *growth_cells(line)] for line in grown]
        return [["", *GROWTH_HEADERS], *rows]
    labels = [label_of(measured, case) for case in measured.cases]
    rows = [["", *COLUMNS]]
    for label, case in zip(labels, cases, strict=True):
        rows.append([label, *(written(case) for written in COLUMNS.values())])
    told = [place < 2 or any(column[1:]) for place, column in enumerate(zip(*rows, strict=True))]
    return [[cell for cell, shown in zip(row, told, strict=True) if shown] for row in rows]


def title_of(measured: Measured) -> str:
    """The target, and what it does where that is one kind of work with a name of its own."""
    names = {case.name for case in measured.cases} - {measured.target}
    return f"{measured.target}: {names.pop()}" if len(names) == 1 else measured.target


def label_of(measured: Measured, case: Case) -> str:
    """How, and what where a target does more than one kind of work."""
    several = len({one.name for one in measured.cases}) > 1
    return f"{case.name}, {case.backend}" if several else case.backend


def rates(measured: Measured) -> list[str]:
    """What the machine gave meanwhile."""
    return [
        f"{device}: "
        + ", ".join(f"{rate / 1e9:,.3g} Gflop/s ({name})" for name, rate in found.products.items())
        + f", {found.bytes_per_second / 1e9:,.3g} GB/s (copy)"
        for device, found in measured.ceilings.items()
    ]


def left_out(measured: Measured) -> list[str]:
    """Who could not run, and why."""
    return [f"left out: {name}: {reason}" for name, reason in measured.left_out.items()]
