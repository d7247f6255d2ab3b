"""Tables and images of docs/performance.md, from what `ratiorec bench --record` wrote here."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from ratiorec_lab.bench.growth_chart import drawing, growth_charts
from ratiorec_lab.bench.growth_lines import MEMORY, TIME, Growth, growths

HERE = Path(__file__).parent
TARGETS = ("risk", "propagation", "step", "fit", "recommend", "evaluate", "frontier", "growth")
MILESTONES = (0.14, 0.16, 0.18)  # of R@20 on the way up, as judged
Record = dict[str, Any]


class Row(NamedTuple):
    """A case and the record it stands in."""

    case: Record
    record: Record


def records(folder: Path = HERE) -> list[Record]:
    """The measurements, by file name; other benchmarks have no ceilings."""
    found = [json.loads(path.read_text()) for path in sorted(folder.glob("bench-*.json"))]
    return [record for record in found if "ceilings" in record]


def seconds(value: float | None) -> str:
    """Three digits with a unit."""
    if value is None:
        return ""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if value >= size:
            return f"{value / size:.3g} {unit}" if value < 1000 else f"{value:,.0f} s"
    return f"{value / 1e-6:.3g} µs"


def ratio(value: float | None) -> str:
    """Three digits, or nothing where there is nothing to compare with."""
    return "" if value is None else f"{value:.3g}"


def megabytes(value: float | None) -> str:
    """Whole ones."""
    return "" if value is None else f"{value:,.0f}"


def device(row: Row) -> str:
    """The graphics card, or else the processor."""
    machine = row.record["machine"]
    if row.case["device"] == "cuda":
        return str(machine["accelerator"])
    return f"{machine['cores']} cores, {machine['processor']}"


def remark(row: Row) -> str:
    """Users a second, quality, or how long it was trained."""
    case = row.case
    told = []
    if "users_per_second" in case:
        told.append(f"{case['users_per_second']:,.0f} users/s")
    if case.get("recall@20") is not None:
        told.append(f"R@20 {case['recall@20']:.4f}".replace("0.", ".", 1))
    if len(case.get("curve", [])) > 1:
        told += milestones(case["curve"])
    if case.get("test"):
        told.append(f"test R@20 {case['test']['recall@20']:.4f}".replace("0.", ".", 1))
    if "epochs" in case:
        told.append(f"{case['epochs']:g} epochs by {case['chosen_by']}")
    return ", ".join(told)


def milestones(curve: list[Record]) -> list[str]:
    """When a curve was first judged to stand above some levels."""
    told = []
    for level in MILESTONES:
        passed = [point["seconds"] for point in curve if point["recall@20"] >= level]
        if passed:
            told.append(f"≥ {level:.2f} after {seconds(passed[0])}")
    return [text.replace("0.", ".", 1) for text in told]


COLUMNS: dict[str, Callable[[Row], str]] = {
    "data set": lambda row: row.record["dataset"],
    "device": device,
    "case": lambda row: f"{row.case['name']}, {row.case['execution']}",
    "time": lambda row: seconds(row.case["seconds"]),
    "floor": lambda row: seconds(row.case["floor_seconds"]),
    "× floor": lambda row: ratio(row.case["ratio_to_floor"]),
    "× reference": lambda row: ratio(row.case["ratio_to_reference"]),
    "× rival": lambda row: ratio(row.case["ratio_to_rival"]),
    "extra MB": lambda row: megabytes(row.case["peak_extra_mb"]),
    "": remark,
}


GROWTH_COLUMNS: dict[str, Callable[[Growth], str]] = {
    "from … to": lambda line: line.range,
    "what": lambda line: line.name,
    "first": lambda line: growth_figure(line, 0),
    "middle": lambda line: growth_figure(line, 1),
    "last": lambda line: growth_figure(line, 2),
    "exponent": lambda line: exponent(line, 0),
    "last interval": lambda line: exponent(line, 1),
}
IMAGES = {"time": TIME, "memory": MEMORY}


def growth_figure(line: Growth, place: int) -> str:
    """A time or an amount of memory, with its unit."""
    value = line.shown[place]
    if line.figure == TIME:
        return seconds(value)
    return f"{value:.3g} MB" if value < 100 else f"{megabytes(value)} MB"


def exponent(line: Growth, place: int) -> str:
    """Two decimals, or nothing where it is not known."""
    return "" if line.exponents is None else f"{line.exponents[place]:.2f}"


def cases_of(target: str, found: list[Record]) -> list[Row]:
    """The cases of a target with their records."""
    return [
        Row(case, record)
        for record in found
        for case in record["cases"]
        if case["target"] == target
    ]


def table(target: str, found: list[Record]) -> str:
    """All cases of a target in Markdown, or that there are none."""
    rows = cases_of(target, found)
    if not rows:
        return "Not measured yet."
    if target == "growth":
        return growth_part(rows)
    return markdown(list(COLUMNS), [[cell(row) for cell in COLUMNS.values()] for row in rows])


def growth_part(rows: list[Row]) -> str:
    """A table by lines, and the images that show them."""
    cells = [
        [place, *(cell(line) for cell in GROWTH_COLUMNS.values())]
        for place, lines in growths_by(device, rows).items()
        for line in lines
    ]
    images = [
        f"![{name.capitalize()} along each axis, on {kind}](growth-{name}-{kind}.svg)"
        for kind in growths_by(kind_of_device, rows)
        for name in IMAGES
    ]
    return "\n\n".join([markdown(["device", *GROWTH_COLUMNS], cells), *images])


def kind_of_device(row: Row) -> str:
    """`cpu` or `cuda`."""
    return str(row.case["device"])


def growths_by(key: Callable[[Row], str], rows: list[Row]) -> dict[str, list[Growth]]:
    """What grows, device by device."""
    places = dict.fromkeys(map(key, rows))
    return {place: growths(row.case for row in rows if key(row) == place) for place in places}


def markdown(headers: list[str], cells: list[list[str]]) -> str:
    """A table."""
    lines = [headers, ["---"] * len(headers), *cells]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def tables(folder: Path = HERE) -> dict[str, str]:
    """The table of each target, by the name of its place on the page."""
    found = records(folder)
    return {f"bench-{target}": table(target, found) for target in TARGETS}


def images(folder: Path = HERE) -> dict[str, str]:
    """The images that the page shows, by file name."""
    rows = cases_of("growth", records(folder))
    return {
        f"growth-{name}-{kind}.svg": drawing(
            growth_charts(lines, figure), description=f"How {name} grows along each axis, on {kind}"
        )
        for kind, lines in growths_by(kind_of_device, rows).items()
        for name, figure in IMAGES.items()
    }
