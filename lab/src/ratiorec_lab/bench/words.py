"""Measurements in writing, for a terminal."""

from __future__ import annotations

from ratiorec_lab.bench.case import Case, Measured
from ratiorec_lab.bench.growth_lines import MEMORY, Growth, growths

_HEADERS = ("", "time", "spread", "floor", "× floor", "× reference", "× rival", "extra MB", "")
_GROWTH_HEADERS = ("", "first", "middle", "last", "exponent", "last interval")


def lines(measured: Measured) -> list[str]:
    """A table, and below it the ceilings and what was left out."""
    rows = table(measured)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    # figures to the right; names and remarks, whose columns have no header, to the left
    sides = [str.rjust if header else str.ljust for header in rows[0]]
    columns = list(zip(sides, widths, strict=True))
    aligned = [
        "  ".join(side(cell, width) for cell, (side, width) in zip(row, columns, strict=True))
        for row in rows
    ]
    return [title_of(measured), *map(str.rstrip, aligned), *rates(measured), *left_out(measured)]


def table(measured: Measured) -> list[list[str]]:
    """Headers and a row for each case, without the columns in which nothing stands.

    Where cases lie along an axis, a row is what one of their figures does from end to end.
    """
    if grown := growths(measured.to_json()):
        return [list(_GROWTH_HEADERS), *map(_growth_row, grown)]
    rows = [list(_HEADERS), *(_row(measured, case) for case in measured.cases)]
    told = [place < 2 or any(column[1:]) for place, column in enumerate(zip(*rows, strict=True))]
    return [[cell for cell, shown in zip(row, told, strict=True) if shown] for row in rows]


def title_of(measured: Measured) -> str:
    """The target, and what it does where that is one kind of work with a name of its own."""
    names = {case.name for case in measured.cases} - {measured.target}
    return f"{measured.target}: {names.pop()}" if len(names) == 1 else measured.target


def label_of(measured: Measured, case: Case) -> str:
    """How, and what where a target does more than one kind of work."""
    several = len({one.name for one in measured.cases}) > 1
    return f"{case.name}, {case.execution}" if several else case.execution


def _row(measured: Measured, case: Case) -> list[str]:
    floor = measured.floor_seconds(case)
    return [
        label_of(measured, case),
        in_seconds(case.seconds),
        f"{in_seconds(case.times.low)} to {in_seconds(case.times.high)}"
        if case.times.rounds[1:]
        else "",
        "" if floor is None else in_seconds(floor),
        _ratio(measured.ratio_to_floor(case)),
        _ratio(measured.ratio_to_reference(case)),
        _ratio(measured.ratio_to_rival(case)),
        "" if case.peak_extra_mb is None else f"{case.peak_extra_mb:,.0f}",
        remark(case),
    ]


def _growth_row(line: Growth) -> list[str]:
    written = in_megabytes if line.figure == MEMORY else in_seconds
    slopes = [f"{slope:.2f}" for slope in line.exponents or ()] or ["", ""]
    return [f"{line.range}: {line.name}", *map(written, line.shown), *slopes]


def remark(case: Case) -> str:
    """What else is worth knowing of a case."""
    figures = case.figures
    told = []
    if "users_per_second" in figures:
        told.append(f"{figures['users_per_second']:,.0f} users/s")
    if figures.get("recall@20") is not None:
        told.append(f"R@20 {figures['recall@20']:.4f}")
    if "epochs" in figures:
        told.append(f"{figures['epochs']:g} epochs by {figures['chosen_by']}")
    if figures.get("search_seconds") is not None:
        told.append(f"found in {in_seconds(figures['search_seconds'])}")
    return ", ".join(told)


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


def in_seconds(value: float) -> str:
    """Three digits with a unit.

    >>> in_seconds(0.01234), in_seconds(75)
    ('12.3 ms', '75 s')
    """
    if value < 1e-3:
        return f"{value * 1e6:.3g} µs"
    if value < 1:
        return f"{value * 1e3:.3g} ms"
    return f"{value:.3g} s" if value < 100 else f"{value:,.0f} s"


def in_megabytes(value: float) -> str:
    """Three digits with the unit.

    >>> in_megabytes(2.345), in_megabytes(1234)
    ('2.35 MB', '1,234 MB')
    """
    return f"{value:.3g} MB" if value < 100 else f"{value:,.0f} MB"


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}" if value < 100 else f"{value:,.0f}"
