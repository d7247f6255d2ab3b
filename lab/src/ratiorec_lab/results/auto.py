"""Tables of the automatic choice: beside what was published, taken apart, and beside all presets.

They come from `results/auto/*.json` (`ratiorec fit --record`), `results/presets/*.json` (the study
`compare_all`), `results/bench-blend_ablation-*.json` and `results/bench-telescoping-*.json`.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from ratiorec.config import preset as settings_of
from ratiorec.config import to_table
from ratiorec.presets import AUTO, PRESETS
from ratiorec_lab.reproduce.exhibits import Measured
from ratiorec_lab.reproduce.published import METRICS
from ratiorec_lab.reproduce.records import machine_of
from ratiorec_lab.reproduce.wording import difference_text, figure
from ratiorec_lab.results.quality import OUTDATED, has_other_values, with_interval
from ratiorec_lab.tables import in_seconds, markdown_table

Record = dict[str, Any]
NOT_MEASURED = "not measured"
CUT = "‡"
RECALL, NDCG = METRICS


class Published(NamedTuple):
    """The best figures that others report of a test part, and the model that has them."""

    model: str
    recall: float
    ndcg: float


# in the order of the tables
BEST_PUBLISHED: Mapping[str, Published | None] = MappingProxyType(
    {
        "gowalla": Published("ChebyCF", 0.1941, 0.1617),
        "yelp2018": Published("EGCF", 0.0749, 0.0619),
        "amazon-cds": Published("SimpleX", 0.1763, 0.1145),
        "amazon-book-75": None,
    }
)


def tables(folder: Path) -> dict[str, str]:
    """The tables of docs/auto.md by the names of their places."""
    runs = ablations(folder)
    return {
        "auto-presets": presets_table(folder),
        "auto-ablation": ablation_table(runs),
        "auto-validation": validation_table(runs),
    }


def auto_records(folder: Path) -> list[Record]:
    """Automatic fits that a test part has judged."""
    found = [json.loads(path.read_bytes()) for path in sorted(folder.glob("auto/*.json"))]
    return [record for record in found if record["test"]]


def preset_records(folder: Path) -> dict[str, dict[str, Record]]:
    """The line of every preset, by data set; `auto` is one of them."""
    found = [json.loads(path.read_bytes()) for path in sorted(folder.glob("presets/*.json"))]
    by_name = {record["dataset"]: record["results"] for record in found}
    return {
        name: {line["preset"]: line for line in by_name[name]}
        for name in sorted(by_name, key=_place)
    }


def ablations(folder: Path) -> list[Record]:
    """All runs of the study, each with its data set."""
    paths = sorted(folder.glob("bench-blend_ablation-*.json"))
    results = [json.loads(path.read_bytes())["result"] for path in paths]
    return [{"dataset": found["dataset"], **run} for found in results for run in found["runs"]]


def _place(dataset: str) -> tuple[int, str]:
    """Where a data set stands: those with published figures come first."""
    known = [*BEST_PUBLISHED]
    return known.index(dataset) if dataset in known else len(known), dataset


def default_table(folder: Path) -> str:
    """The default beside the best published figures and the best preset alone."""
    presets = preset_records(folder)
    records = sorted(auto_records(folder), key=_order)
    groups = {key: list(found) for key, found in groupby(records, _order)}
    rows = [_default_row(found, presets) for found in groups.values()]
    measured = {record["dataset"] for record in records}
    rows += [
        [name, "", NOT_MEASURED, "", _published_text(published), *[""] * 4]
        for name, published in BEST_PUBLISHED.items()
        if name not in measured
    ]
    headers = [
        *("data set", "seeds", *METRICS.values(), "best published", "difference"),
        *("best preset alone", "fit", "the blend"),
    ]
    return markdown_table(headers, rows)


def _order(record: Record) -> tuple[tuple[int, str], str]:
    """A line for each data set and device."""
    return _place(record["dataset"]), machine_of(record)


def _default_row(found: Sequence[Record], presets: Mapping[str, Mapping[str, Record]]) -> list[str]:
    name = found[0]["dataset"]
    published = BEST_PUBLISHED.get(name)
    best = _best_alone(presets.get(name, {}))
    seconds = statistics.fmean(record["seconds"]["total"] for record in found)
    mean = {key: statistics.fmean(record["test"][key] for record in found) for key in METRICS}
    beside = zip(mean.values(), published[1:], strict=True) if published else ()
    return [
        name,
        str(len(found)),
        *(_spread(record["test"][key] for record in found) for key in METRICS),
        _published_text(published),
        " / ".join(difference_text(ours, theirs) for ours, theirs in beside),
        NOT_MEASURED if best is None else f"{_both(best['test'])} (`{best['preset']}`)",
        f"{seconds:.0f} s, {machine_of(found[0])}",
        _weights(record["members"] for record in found),
    ]


def _published_text(published: Published | None) -> str:
    if published is None:
        return "none"
    return f"{figure(published.recall)} / {figure(published.ndcg)} ({published.model})"


def _best_alone(lines: Mapping[str, Record]) -> Record | None:
    """The single model that is best on the test part."""
    alone = [line for name, line in lines.items() if name != AUTO and line["test"]]
    return max(alone, key=lambda line: float(line["test"][NDCG]), default=None)


def _spread(values: Iterable[float]) -> str:
    return with_interval(Measured(tuple(values)))


def _both(metrics: Mapping[str, float]) -> str:
    return " / ".join(figure(metrics[key]) for key in METRICS)


def _spreads(found: Sequence[Mapping[str, float]]) -> str:
    """Both metrics over several seeds."""
    return " / ".join(_spread(metrics[key] for metrics in found) for key in METRICS)


def _weights(seeds: Iterable[Sequence[Record]]) -> str:
    """`softmax .60, walk .40`: mean weights over the seeds, the largest first."""
    found = list(seeds)
    sums: dict[str, float] = {}
    for members in found:
        for member in members:
            sums[member["name"]] = sums.get(member["name"], 0.0) + member["weight"]
    ordered = sorted(sums.items(), key=lambda named: -named[1])
    shares = [
        (name, f"{total / len(found):.2f}".removeprefix("0")) for name, total in ordered if total
    ]
    return ", ".join(f"{name} {share}" for name, share in shares)


# The blend taken apart.


def _by_way(runs: Iterable[Record]) -> Iterator[list[Record]]:
    """Runs that differ in the seed alone; data sets in the order of the tables."""

    def key(run: Record) -> tuple[tuple[int, str], str]:
        return _place(run["dataset"]), run["validation_by"]

    for _, found in groupby(sorted(runs, key=key), key):
        yield list(found)


def ablation_table(runs: Iterable[Record]) -> str:
    """Each member alone, and the blend without it."""
    headers = [
        *("data set, held out", "model", "weight", "validation nDCG@20"),
        *("test R@20 / nDCG@20 alone", "the blend without it", "nDCG@20 changes by"),
    ]
    rows = [row for found in _by_way(runs) for row in _ablation_rows(found)]
    return markdown_table(headers, rows) if rows else f"{NOT_MEASURED.capitalize()}."


def _ablation_rows(found: Sequence[Record]) -> Iterator[list[str]]:
    first = found[0]
    seeds = f"{len(found)} seed{'s' * (len(found) > 1)}"
    blend = [run["chosen"] for run in found]
    yield [
        f"{first['dataset']}, {first['validation_by']} ({seeds})",
        "**the blend**",
        "",
        _spread(run["validation"][NDCG] for run in blend),
        _spreads([run["test"] for run in blend]),
        "",
        "",
    ]
    for name in dict.fromkeys(line["left_out"] for run in found for line in run["without"]):
        yield ["", name, *_member_cells(name, found)]


def _member_cells(name: str, found: Sequence[Record]) -> list[str]:
    """Weight and figures of a member, or of members left out together, over the seeds."""
    parts = name.split(" and ")
    alone = [one for run in found for one in run["members"] if one["name"] == name and one["test"]]
    weights = [
        sum(one["weight"] for one in run["members"] if one["name"] in parts) for run in found
    ]
    pairs = [
        (line["test"], run["chosen"]["test"])
        for run in found
        for line in run["without"]
        if line["left_out"] == name
    ]
    change = statistics.fmean(without[NDCG] / chosen[NDCG] - 1 for without, chosen in pairs)
    return [
        f"{statistics.fmean(weights):.2f}".removeprefix("0"),
        _spread(one["validation"][NDCG] for one in alone) if alone else "",
        _spreads([one["test"] for one in alone]) if alone else "",
        _spreads([without for without, _ in pairs]),
        difference_text(1 + change, 1.0),
    ]


def validation_table(runs: Iterable[Record]) -> str:
    """What each way to draw validation pairs chooses, and what the test part says of it."""
    headers = [
        *("data set", "held out", "seeds", "validation R@20 / nDCG@20", "test R@20 / nDCG@20"),
        *("weights", "automatic fit"),
    ]
    rows = [
        [
            found[0]["dataset"],
            found[0]["validation_by"],
            str(len(found)),
            _spreads([run["chosen"]["validation"] for run in found]),
            _spreads([run["chosen"]["test_of_model"] for run in found]),
            _weights(run["members"] for run in found),
            in_seconds(statistics.fmean(run["seconds"]["auto"] for run in found)),
        ]
        for found in _by_way(runs)
    ]
    return markdown_table(headers, rows) if rows else f"{NOT_MEASURED.capitalize()}."


# A base inside the risk, in the place of a blend.

_TELESCOPED = {
    "plain": "plain",
    "base": "base",
    "telescoped": "telescoped",
    "blend": "blend of plain and base",
    "with_telescoped": "blend of these and telescoped",
    "with_second_plain": "blend of these and a second plain",
}
_GAPS = {
    ("telescoped", "plain"): "telescoped less plain",
    ("telescoped", "blend"): "telescoped less blend",
    ("with_telescoped", "blend"): "blend with telescoped less blend",
}


def telescoping_table(folder: Path) -> str:
    """nDCG@20 of users who chose nothing, and differences between two models for these users."""
    paths = sorted(folder.glob("bench-telescoping-*.json"))
    if not paths:
        return f"{NOT_MEASURED.capitalize()}."
    found = [json.loads(path.read_bytes())["result"] for path in paths]
    headers = [
        f"[{' '.join(filter(None, (one['dataset'], one.get('part'))))}](../results/{path.name})"
        for path, one in zip(paths, found, strict=True)
    ]
    columns = [_telescoping_cells(one["runs"]) for one in found]
    rows = [[name, *(cells[name] for cells in columns)] for name in columns[0]]
    return markdown_table(["nDCG@20", *headers], rows)


def _telescoping_cells(runs: Sequence[Record]) -> dict[str, str]:
    """A column of the table."""
    users = sorted({run["users"]["judging"] for run in runs})
    return {
        "seeds, users who judge": f"{len(runs)}, {users[0]:,} at least",
        "chosen base": ", ".join(sorted({run["base"]["chosen"] for run in runs})),
        "chosen κ": ", ".join(f"{run['telescoped']['kappa']:g}" for run in runs),
        **{
            title: _spread(run["judged"][model][NDCG] for run in runs)
            for model, title in _TELESCOPED.items()
        },
        **{title: _gap(runs, *pair) for pair, title in _GAPS.items()},
    }


def _gap(runs: Sequence[Record], of: str, other: str) -> str:
    """The mean over seeds with its interval, and in how many seeds users alone tell it from 0."""
    found = [
        gap for run in runs for gap in run["differences"] if (gap["of"], gap["from"]) == (of, other)
    ]
    means = [gap["mean"] for gap in found]
    ends = Measured(tuple(means)).interval
    spread = "" if ends is None else f" ± {figure((ends[1] - ends[0]) / 2)}"
    signs = [(gap["interval"][0] > 0) - (gap["interval"][1] < 0) for gap in found]
    seeds = f"{signs.count(1)} above 0, {signs.count(-1)} below"
    mean = statistics.fmean(means)
    return f"{'−' if mean < 0 else '+'}{figure(abs(mean))}{spread} ({seeds})"


# All presets.


def presets_table(folder: Path) -> str:
    """`auto` and every preset on every data set, with what could not run under it."""
    presets = preset_records(folder)
    if not presets:
        return f"{NOT_MEASURED.capitalize()}."
    autos = {name: _auto_fits(name, lines, folder) for name, lines in presets.items()}
    rows = [["**`auto`**", *map(_auto_cell, autos.values())]]
    rows += [
        [f"`{preset}`", *(_preset_cell(lines.get(preset)) for lines in presets.values())]
        for preset in PRESETS
    ]
    notes = [_against_best(name, autos[name], lines) for name, lines in presets.items()]
    notes += [
        f"{name}, `{line['preset']}`: {line['error']}"
        for name, lines in presets.items()
        for line in lines.values()
        if line["error"]
    ]
    text = markdown_table(["R@20 / nDCG@20, seconds of the fit", *presets], rows)
    marks = [f"{CUT} stopped by its time budget."] if CUT in text else []
    marks += (
        [f"{OUTDATED} with settings that the preset has left since."] if OUTDATED in text else []
    )
    return "\n\n".join([text, *marks, "\n".join(f"- {note}" for note in notes if note)]).strip()


def _auto_fits(name: str, lines: Mapping[str, Record], folder: Path) -> list[Record]:
    """The fits of `auto`: those with several seeds, or the one beside the presets."""
    found = [record for record in auto_records(folder) if record["dataset"] == name]
    return found or [line for line in [lines.get(AUTO)] if line and line["test"]]


def _auto_cell(found: Sequence[Record]) -> str:
    if not found:
        return NOT_MEASURED
    seconds = statistics.fmean(record["seconds"]["total"] for record in found)
    return f"{_spreads([record['test'] for record in found])}, {in_seconds(seconds)}"


def _preset_cell(line: Record | None) -> str:
    if line is None:
        return NOT_MEASURED
    if line["error"]:
        return "could not run"
    cut = CUT * (line["stopped_by"] == "time budget")
    left = OUTDATED * has_other_values(line["settings"], to_table(settings_of(line["preset"])))
    return f"{_both(line['test'])}, {in_seconds(line['seconds']['total'])}{cut}{left}"


def _against_best(name: str, found: Sequence[Record], lines: Mapping[str, Record]) -> str:
    """How far `auto` is from the best preset, by nDCG@20 of the test part."""
    best = _best_alone(lines)
    if not found or best is None:
        return ""
    ours = statistics.fmean(record["test"][NDCG] for record in found)
    change = difference_text(ours, best["test"][NDCG])
    return f"{name}: nDCG@20 of `auto` is {figure(ours)}, {change} beside `{best['preset']}` alone."
