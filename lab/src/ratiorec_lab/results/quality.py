"""Tables of quality: the paper's method, its rivals, and models that take new pairs in.

A line of a table stands for the records of one preset, data set and device, one for each seed.
"""

from __future__ import annotations

import itertools
import json
import statistics
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ratiorec.config import preset, to_table
from ratiorec.presets import PRESETS
from ratiorec_lab.reproduce.cells import VALIDATED
from ratiorec_lab.reproduce.exhibits import Measured
from ratiorec_lab.reproduce.plan import Findings, Plan
from ratiorec_lab.reproduce.published import METRICS, QUALITY, dataset_name, quality
from ratiorec_lab.reproduce.records import CellFiles, machine_of
from ratiorec_lab.reproduce.report import TARGETS, cells_of
from ratiorec_lab.reproduce.wording import difference_text, figure, listed
from ratiorec_lab.tables import in_seconds, markdown_table

Record = dict[str, Any]
SHORT = 0.03  # of a published figure
OUTDATED = "†"
OWN = ("dregn-cf", "dregn-cf-fast")


class Key(NamedTuple):
    """What lines of a table differ in."""

    dataset: str
    preset: str
    device: str


@dataclass(frozen=True)
class Line:
    """A preset on a data set and a device, with a record for each seed."""

    records: tuple[Record, ...]

    @property
    def key(self) -> Key:
        """Which line it is."""
        return key_of(self.records[0])

    @property
    def is_on_gpu(self) -> bool:
        return "accelerator" in self.records[0]["machine"]

    @property
    def is_outdated(self) -> bool:
        """Whether it was trained with a value that its preset has left since."""
        now = to_table(preset(self.key.preset))
        return any(has_other_values(record["settings"], now) for record in self.records)

    def measured(self, metric: str) -> Measured:
        """A test figure beside the published one."""
        values = tuple(record["test"][metric] for record in self.records)
        return Measured(values, quality(QUALITY, self.key.preset, self.key.dataset, metric))

    def mean(self, of: Callable[[Record], float]) -> float:
        """Over the seeds."""
        return statistics.fmean(map(of, self.records))


def key_of(record: Record) -> Key:
    """The line that a record belongs to."""
    return Key(record["dataset"], record["preset"], machine_of(record))


def has_other_values(then: Record, now: Record) -> bool:
    """Whether settings that both have differ; those of only one may just have got a name."""
    return any(
        has_other_values(then[name], now[name])
        if isinstance(then[name], dict) and isinstance(now[name], dict)
        else then[name] != now[name]
        for name in then.keys() & now.keys()
    )


def lines(folder: Path) -> list[Line]:
    """Cells where there are any, and other fits where there are none."""
    found = _by_key(_fits(folder)) | _by_key(_cells(folder))
    return [found[key] for key in sorted(found)]


def _fits(folder: Path) -> list[Record]:
    """What `ratiorec fit --record` wrote."""
    found = [json.loads(path.read_bytes()) for path in sorted(folder.glob("fit-*.json"))]
    return [record for record in found if record["protocol"] == VALIDATED]


def _cells(folder: Path) -> list[Record]:
    """The tables' cells of `ratiorec reproduce`, as far as its report would use them."""
    files = CellFiles(folder / "reproduce")
    paths = (files.folder / "cells" / VALIDATED).glob("*/*.json")
    datasets = sorted({path.parent.name for path in paths})
    if not datasets:
        return []
    plan = Plan(VALIDATED, tuple(datasets), tuple(files.known_seeds(VALIDATED, datasets)))
    tables = [TARGETS["table-effectiveness"], TARGETS["table-ablation"]]
    tested = (cell for cell in cells_of(tables, plan) if not cell.on_validation)
    return Findings(plan, files).records(tested)


def _by_key(records: Iterable[Record]) -> dict[Key, Line]:
    """Records that differ in nothing but the seed, together."""
    groups = itertools.groupby(sorted(records, key=key_of), key_of)
    return {key: Line(tuple(seeds)) for key, seeds in groups}


# Columns.


def _metric(name: str) -> Callable[[Line], str]:
    """A figure as the paper prints it."""
    return lambda line: with_interval(line.measured(name))


def with_interval(measured: Measured) -> str:
    """`.1813 ± .0004`: a mean with half of Student's interval, where there is one."""
    ends = measured.interval
    assert measured.mean is not None
    spread = "" if ends is None else f" ± {figure((ends[1] - ends[0]) / 2)}"
    return figure(measured.mean) + spread


def _published(line: Line) -> str:
    """The figures of others, or that there are none."""
    known = [line.measured(name).published for name in METRICS]
    told = [figure(value) for value in known if value is not None]
    return " / ".join(told) if len(told) == len(known) else "not published"


def _difference(line: Line) -> str:
    """How far ours are from the published ones."""
    both = [line.measured(name) for name in METRICS]
    return " / ".join(difference_text(m.mean, m.published) for m in both if m.published)


def _refit_times(record: Record) -> list[float]:
    """When each epoch of the refit ended, and before them when the search did."""
    ends = [line["seconds"] for line in record["curve"] if line["phase"] == "refit"]
    searched = [line["seconds"] for line in record["curve"] if line["phase"] == "search"]
    return searched[-1:] + ends


def _per_epoch(record: Record) -> float:
    """The median time of an epoch of the refit, where nothing is validated."""
    return statistics.median(b - a for a, b in itertools.pairwise(_refit_times(record)))


def _to_the_end(record: Record) -> float:
    """The time of the refit: training alone, as far as the chosen epoch."""
    ends = _refit_times(record)
    return ends[-1] - ends[0]


def _ended_by(line: Line) -> str:
    """What ended the search, with every seed."""
    return ", ".join(sorted({r.get("stopped_by") or "not recorded" for r in line.records}))


Columns = dict[str, Callable[[Line], str]]
_FIRST: Columns = {
    "data set": lambda line: line.key.dataset,
    "preset": lambda line: f"`{line.key.preset}`{OUTDATED * line.is_outdated}",
    "seeds": lambda line: str(len(line.records)),
    **{METRICS[name]: _metric(name) for name in METRICS},
    "published": _published,
    "difference": _difference,
    "epochs": lambda line: f"{line.mean(lambda r: r['epochs']):.0f}",
}
_METHOD: Columns = _FIRST | {
    "training": lambda line: f"{line.mean(lambda r: r['seconds']['train']):.0f} s",
    "peak memory": lambda line: f"{line.mean(lambda r: r['peak_memory_mb']) / 1024:.1f} GiB",
    "device": lambda line: line.key.device,
}
_RIVALS: Columns = _FIRST | {
    "search ended by": _ended_by,
    "an epoch": lambda line: in_seconds(line.mean(_per_epoch)),
    "to that epoch": lambda line: in_seconds(line.mean(_to_the_end)),
    "search and refit": lambda line: in_seconds(line.mean(lambda r: r["seconds"]["train"])),
    "device": lambda line: line.key.device,
}


def _table(columns: Columns, found: list[Line]) -> str:
    rows = [[cell(line) for cell in columns.values()] for line in found]
    note = f"\n\n{OUTDATED} with settings that the preset has left since."
    return markdown_table(list(columns), rows) + note * any(x.is_outdated for x in found)


# Tables.


def method_table(found: Iterable[Line]) -> str:
    """The paper's own method."""
    return _table(_METHOD, [line for line in found if line.key.preset in OWN])


def rivals_table(found: Iterable[Line]) -> str:
    """Every preset where there are rivals, what of it falls short, and what is not there."""
    shown = rival_lines(found)
    told = [*_short(shown), *_missing(shown)]
    heading = "Short of a published figure by more than 3 %, or without a record in this table:"
    return "\n\n".join([_table(_RIVALS, shown), *([heading, "\n".join(told)] if told else [])])


def rival_lines(found: Iterable[Line]) -> list[Line]:
    """Every preset where there are rivals, the best first: on a GPU if it was run on one."""
    chosen = {line.key[:2]: line for line in sorted(found, key=lambda line: line.is_on_gpu)}
    rivals_on = {dataset for dataset, name in chosen if name not in OWN}
    return sorted(
        (line for line in chosen.values() if line.key.dataset in rivals_on),
        key=lambda line: (line.key.dataset, -line.mean(lambda r: r["test"]["ndcg@20"])),
    )


def _short(found: Iterable[Line]) -> Iterator[str]:
    """A line for each preset that is below a published figure by more than 3 %."""
    for line in found:
        measured = {METRICS[name]: line.measured(name) for name in METRICS}
        below = [
            f"{title} {difference_text(one.mean, one.published)}"
            for title, one in measured.items()
            if (one.relative_difference or 0) < -SHORT
        ]
        if below:
            yield f"- {line.key.dataset}, `{line.key.preset}`: {listed(below)}."


def _missing(found: list[Line]) -> Iterator[str]:
    """The presets that were not run, with the data sets on which they were not."""
    run = {line.key[:2] for line in found}
    datasets = sorted({line.key.dataset for line in found})
    presets: dict[str, list[str]] = {}
    for name in PRESETS:
        where = listed([dataset for dataset in datasets if (dataset, name) not in run])
        presets.setdefault(where, []).append(f"`{name}`")
    for where, names in presets.items():
        if where:
            yield f"- {where}: {listed(names)} have none."


# New pairs, from the files of the study `fold_in_quality`.

_HELD_OUT = {
    "users": "a tenth of the users",
    "pairs": "3/10 of the pairs of 3/10 of the users",
    "items": "a tenth of the items",
}
_OTHERS = ("others_before", ("others_before", "others_update"))
_LISTS = {  # whose lists: what stands under before, `partial_fit` and `update`
    "users": {"theirs": ("", ("partial_fit", "update")), "the others'": _OTHERS},
    "pairs": {"theirs": ("before", ("partial_fit", "update")), "the others'": _OTHERS},
    "items": {
        "everybody's": ("", ("partial_fit", "update")),
        "everybody's, by the new items alone": ("", ("items_partial_fit", "items_update")),
    },
}


def intake_table(folder: Path) -> str:
    """Percent of the figures of a model trained on all pairs, with Student's 95 % intervals."""
    headers = ["what comes in", "whose lists", "figure", "before", "`partial_fit`", "`update`"]
    paths = sorted(folder.glob("bench-fold_in_quality*.json"), key=lambda path: path.stem)
    rows = [row for path in paths for row in _intake_rows(path)]
    return markdown_table(headers, rows)


def _intake_rows(path: Path) -> Iterator[list[str]]:
    """Of one file: whom the pairs are about, then the others."""
    result = json.loads(path.read_text(encoding="utf-8"))["result"]
    splits, held_out = result["splits"], result["held_out"]
    link = f"[{len(splits)} splits](../results/{path.name})"
    what = f"{dataset_name(result['data'])}, {_HELD_OUT[held_out]} ({link})"
    for whose, (before, ways) in _LISTS[held_out].items():
        for metric, label in METRICS.items():
            cells = [_percent(splits, key, metric) for key in (before, *ways)]
            yield [what, whose, label, *cells]
            what = ""


def _percent(splits: list[Record], key: str, metric: str) -> str:
    """A mean and its interval; nothing where there was nothing before."""
    if not key:
        return ""
    values = tuple(100 * split["ratios"][key][metric] for split in splits)
    found = Measured(values).interval
    assert found is not None
    return f"{statistics.fmean(values):.1f} ({found[0]:.1f} to {found[1]:.1f})"


# How the public test parts were drawn, from the file of the study `public_splits`.


def splits_table(folder: Path) -> str:
    """The evidence of each data set; a statistic stands in brackets behind its figure."""
    headers = [
        *("data set", "test against train", "random share", "last tenth of a line"),
        *("neighbours agree", "place and share in test", "R@20 random / last tenth / test"),
    ]
    result = json.loads((folder / "bench-public_splits.json").read_bytes())["result"]
    return markdown_table(headers, [_split_row(found) for found in result["datasets"]])


def _split_row(found: Record) -> list[str]:
    drifts = ("test_against_train", "random_share_against_rest", "last_tenth_against_rest")
    recall = found["recall@20"]
    return [
        found["dataset"],
        *(f"{found[name]['mean']:+.3f} (t = {found[name]['t']:.1f})" for name in drifts),
        f"{found['neighbours']['agreement']:.1%} of {found['neighbours']['compared']:,}",
        f"{found['place_and_share_in_test']['correlation']:.2f}",
        " / ".join(figure(recall[name]) for name in ("random tenth", "last tenth", "test")),
    ]


# Alternatives to what presets have, from the files of the study `alternatives`.


def alternatives_table(folder: Path) -> str:
    """Validation nDCG@20 of every value, the best of each data set in bold."""
    paths = sorted(folder.glob("bench-alternatives-*.json"))
    found = [json.loads(path.read_bytes())["result"] for path in paths]
    rows = [
        [one["part"], one["dataset"], str(len({run["seed"] for run in one["found"]})), _values(one)]
        for one in sorted(found, key=lambda one: (one["part"], one["dataset"]))
    ]
    return markdown_table(["what", "data set", "seeds", "validation nDCG@20 of each"], rows)


def _values(study: Record) -> str:
    """`0.05: .1008, 0.1: .0990`, means over the seeds."""
    by_value: dict[str, list[float]] = {}
    for run in study["found"]:
        rules = run.get("rules") or {_value(run): run["validation"]}
        for value, metrics in rules.items():
            by_value.setdefault(value, []).append(metrics["ndcg@20"])
    means = {value: statistics.fmean(found) for value, found in by_value.items()}
    best = max(means.values())
    told = {value: figure(mean) for value, mean in means.items()}
    return "; ".join(
        f"{value}: **{told[value]}**" if mean == best else f"{value}: {told[value]}"
        for value, mean in means.items()
    )


def _value(run: Record) -> str:
    """Of the one key that is the name of a setting."""
    (name,) = (key for key in run if "." in key)
    return f"{run[name]:g}"
