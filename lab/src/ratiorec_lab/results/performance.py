"""Tables and images of docs/performance.md, from what `ratiorec bench --record` wrote."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from ratiorec_lab.bench.growth_lines import MEMORY, TIME, Growth, growths
from ratiorec_lab.bench.targets import TARGETS
from ratiorec_lab.bench.words import COLUMNS, GROWTH_HEADERS, growth_cells
from ratiorec_lab.tables import markdown_table

Record = dict[str, Any]
IMAGES = {"time": TIME, "memory": MEMORY}
_CASE_COLUMNS = {header: cell for header, cell in COLUMNS.items() if header != "spread"}


class Row(NamedTuple):
    """A case and the record it stands in."""

    case: Record
    record: Record

    @property
    def device(self) -> str:
        """The GPU, or else the CPU."""
        machine = self.record["machine"]
        if self.case["device"] == "cuda":
            return str(machine["accelerator"])
        return f"{machine['cores']} cores, {machine['processor']}"

    @property
    def kind_of_device(self) -> str:
        """`cpu` or `cuda`."""
        return str(self.case["device"])


def records(folder: Path) -> list[Record]:
    """The measurements, by file name; studies have no ceilings."""
    found = [json.loads(path.read_text()) for path in sorted(folder.glob("bench-*.json"))]
    return [record for record in found if "ceilings" in record]


def cases_of(target: str, found: list[Record]) -> list[Row]:
    """The cases of a target with their records."""
    return [
        Row(case, record)
        for record in found
        for case in record["cases"]
        if case["target"] == target
    ]


def tables(folder: Path) -> dict[str, str]:
    """The table of each target, by the name of its place on the page."""
    found = records(folder)
    return {f"bench-{target}": table(target, found) for target in TARGETS}


def table(target: str, found: list[Record]) -> str:
    """All cases of a target in Markdown, or that there are none."""
    rows = cases_of(target, found)
    if not rows:
        return "Not measured yet."
    if target == "growth":
        return _growth_part(rows)
    cells = [
        [
            row.record["dataset"],
            row.device,
            f"{row.case['name']}, {row.case['execution']}",
            *(written(row.case) for written in _CASE_COLUMNS.values()),
        ]
        for row in rows
    ]
    return markdown_table(["data set", "device", "case", *_CASE_COLUMNS], cells)


def _growth_part(rows: list[Row]) -> str:
    """A table by lines, and the images that show them."""
    cells = [
        [place, line.range, line.name, *growth_cells(line)]
        for place, lines in _growths_by(lambda row: row.device, rows).items()
        for line in lines
    ]
    images = [
        f"![{name.capitalize()} along each axis, on {kind}](growth-{name}-{kind}.svg)"
        for kind in _growths_by(lambda row: row.kind_of_device, rows)
        for name in IMAGES
    ]
    headers = ["device", "from … to", "what", *GROWTH_HEADERS]
    return "\n\n".join([markdown_table(headers, cells), *images])


def images(folder: Path) -> dict[str, str]:
    """The images that the page shows, by file name."""
    from ratiorec_lab.bench.growth_chart import drawing, growth_charts

    rows = cases_of("growth", records(folder))
    return {
        f"growth-{name}-{kind}.svg": drawing(
            growth_charts(lines, figure), description=f"How {name} grows along each axis, on {kind}"
        )
        for kind, lines in _growths_by(lambda row: row.kind_of_device, rows).items()
        for name, figure in IMAGES.items()
    }


def _growths_by(key: Callable[[Row], str], rows: list[Row]) -> dict[str, list[Growth]]:
    """What grows, device by device."""
    places = dict.fromkeys(map(key, rows))
    return {place: growths(row.case for row in rows if key(row) == place) for place in places}
