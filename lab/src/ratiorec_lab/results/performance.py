"""Tables and images of docs/performance.md, from what `ratiorec bench --record` wrote."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ratiorec_lab.bench.frontier_lines import automatic, beside, best_until
from ratiorec_lab.bench.growth_lines import MEMORY, TIME, Growth, growths
from ratiorec_lab.bench.targets import TARGETS
from ratiorec_lab.bench.words import COLUMNS, GROWTH_HEADERS, growth_cells
from ratiorec_lab.tables import in_seconds, markdown_table

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
    frontier = cases_of("frontier", found)
    return {f"bench-{target}": table(target, found) for target in TARGETS} | {
        "auto-budgets": budgets_part(frontier),
        "auto-members": members_part(frontier),
    }


def steps_table(folder: Path) -> str:
    """The time of a whole training step of each preset, a column for each machine and way."""
    times: dict[str, dict[str, str]] = {}
    for row in cases_of("step", records(folder)):
        case, way = row.case, row.case["execution"]
        if ":" not in way:  # the parts of a step stand under its way
            place = f"{row.record['dataset']}, {row.device}, {way}"
            times.setdefault(place, {})[case["name"]] = in_seconds(case["seconds"])
    presets = dict.fromkeys(name for found in times.values() for name in found)
    rows = [[f"`{name}`", *(found.get(name, "") for found in times.values())] for name in presets]
    return markdown_table(["preset", *times], rows)


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


def _by_record(rows: list[Row]) -> list[list[Row]]:
    """Cases of one run each, of runs in which an automatic choice took part."""
    runs: dict[int, list[Row]] = {}
    for row in rows:
        runs.setdefault(id(row.record), []).append(row)
    return [run for run in runs.values() if automatic(row.case for row in run)]


def budgets_part(rows: list[Row]) -> str:
    """The automatic choice by budget beside the best rival that was there in time, and a plot."""
    cells = [cell for run in _by_record(rows) for cell in _budget_rows(run)]
    if not cells:
        return "Not measured yet."
    headers = [
        *("data set", "device", "budget", "wall clock", "R@20 of `auto`", "nDCG@20"),
        *("`implicit`'s best by then", "best of the others by then"),
    ]
    images = [
        f"![R@20 against seconds of training, on {kind}](frontier-{kind}.svg)"
        for kind in _frontiers(rows)
    ]
    return "\n\n".join([markdown_table(headers, cells), *images])


def _budget_rows(run: list[Row]) -> Iterator[list[str]]:
    cases = [row.case for row in run]
    for seconds, case in automatic(cases):
        device = next(row.device for row in run if row.case is case)
        in_time = [best_until(models, seconds) for models in beside(cases)]
        yield [
            run[0].record["dataset"],
            device,
            f"{seconds:g} s",
            in_seconds(case["seconds"]),
            *(f"{case[name]:.4f}".removeprefix("0") for name in ("recall@20", "ndcg@20")),
            *(
                "none" if p is None else f"{p.recall:.4f} ({p.model})".removeprefix("0")
                for p in in_time
            ),
        ]


def members_part(rows: list[Row]) -> str:
    """Seconds of search and refit of every member, a column for each budget."""
    parts = []
    for run in _by_record(rows):
        chosen = automatic(row.case for row in run)
        names = dict.fromkeys(m["name"] for _, case in chosen for m in case["members"])
        cells = [
            [name, *(_member_cell(name, case["members"]) for _, case in chosen)] for name in names
        ]
        device = next(row.device for row in run if row.case is chosen[0][1])
        headers = [f"{run[0].record['dataset']}, {device}"]
        headers += [f"within {seconds:g} s" for seconds, _ in chosen]
        parts.append(markdown_table(headers, cells))
    return "\n\n".join(parts) or "Not measured yet."


def _member_cell(name: str, members: list[Record]) -> str:
    """`1.2 s + 0.8 s, weight .40`, or why it was not tried."""
    member = next((one for one in members if one["name"] == name), None)
    if member is None:
        return ""
    if not member["validation"]:
        return str(member["why"])
    weight = f"{member['weight']:.2f}".removeprefix("0")
    refit = f" + {in_seconds(member['refit_seconds'])}, weight {weight}" if member["weight"] else ""
    return in_seconds(member["seconds"]) + refit


def _frontiers(rows: list[Row]) -> dict[str, list[Record]]:
    """The cases of the runs with an automatic choice, by the kind of device of that choice."""
    found: dict[str, list[Record]] = {}
    for run in _by_record(rows):
        (_, chosen), *_ = automatic(row.case for row in run)
        found[chosen["device"]] = [row.case for row in run]
    return found


def images(folder: Path) -> dict[str, str]:
    """The images that the page shows, by file name."""
    found = records(folder)
    return _growth_images(cases_of("growth", found)) | _frontier_images(cases_of("frontier", found))


def _frontier_images(rows: list[Row]) -> dict[str, str]:
    from ratiorec_lab.bench.frontier_chart import frontier_chart
    from ratiorec_lab.bench.growth_chart import drawing

    title = "Quality of the lists for time spent on training, on the test part"
    return {
        f"frontier-{kind}.svg": drawing(
            [frontier_chart(cases, title=title)],
            description=f"R@20 against seconds of training, on {kind}",
        )
        for kind, cases in _frontiers(rows).items()
    }


def _growth_images(rows: list[Row]) -> dict[str, str]:
    from ratiorec_lab.bench.growth_chart import drawing, growth_charts

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


def serving_table(folder: Path) -> str:
    """A served model beside a served blend; of all rounds the one with the smallest p99."""
    paths = {"one model": "bench-serve_load.json", "blend": "bench-serve_load-blend.json"}
    found = {
        name: json.loads((folder / path).read_text())["result"]
        for name, path in paths.items()
        if (folder / path).exists()
    }
    cells = {name: _served(result) for name, result in found.items()}
    rows = list(dict.fromkeys(row for column in cells.values() for row in column))
    lines = [[row, *(column.get(row, "not measured") for column in cells.values())] for row in rows]
    heads = [f"{name}: {_parts(result['model'])}" for name, result in found.items()]
    return markdown_table(["load", *heads], lines)


def _parts(model: Record) -> str:
    if "dimension" in model:
        return f"{model['dimension']} dimensions"
    narrowed = (
        f"{model['joined_dimensions']:,} joined dimensions narrowed to {model['narrowed_to']}"
    )
    others = [kind for kind in model["members"] if kind != "inner_product"]
    return f"{len(model['members'])} members ({', '.join(others)}, {narrowed})"


def _served(result: Record) -> dict[str, str]:
    """What was measured of one server, a line each."""
    lines = {}
    for run in result["closed"]:
        plural = "s" if run["connections"] > 1 else ", one request after the other"
        lines[f"{run['connections']} connection{plural}"] = _latency(run)
    for run in result["open"]:
        lines[f"{run['asked_per_second']:g} a second, whatever the answers do"] = _latency(run)
    starts, swaps = result["seconds_to_first_answer"], result["swaps"]
    memory, end = result["memory"], result["end"]
    return lines | {
        "from the start of the process to its first answer": f"{min(starts):.1f} s",
        "memory after many requests": f"{memory['resident_mb'][-1]:,.0f} MB after "
        f"{memory['requests']:,}, {memory['failed']} failed",
        "swaps of models one after the other under load": f"{swaps['swaps']}, "
        f"{swaps['failed']} of {swaps['requests']:,} requests failed, slowest "
        f"{swaps['max_ms']:.0f} ms",
        "SIGTERM under load": f"{end['failed']} failed, gone after {end['seconds_to_end']} s",
    }


def _latency(run: Record) -> str:
    best = run["best"]
    low, high = min(run["p99_ms"]), max(run["p99_ms"])
    rates = f"{best['per_second']:,.0f}/s, p50 {best['p50_ms']:.1f} ms, p99 {best['p99_ms']:.1f} ms"
    return f"{rates} ({low:.0f} to {high:.0f})"
