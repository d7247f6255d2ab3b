"""The table of the README: the default, the paper's method and the usual rivals side by side."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from pathlib import Path

from ratiorec_lab.reproduce.published import METRICS
from ratiorec_lab.reproduce.wording import figure
from ratiorec_lab.results.auto import BEST_PUBLISHED, NOT_MEASURED, auto_records, preset_records
from ratiorec_lab.results.quality import Line, lines
from ratiorec_lab.tables import markdown_table

PAPER = "dregn-cf"
RIVALS = ("lightgcn", "ease", "item-knn", "implicit-als", "popularity")


def summary_table(folder: Path) -> str:
    """R@20 / nDCG@20, means over seeds; a column for each data set with published figures."""
    found = {line.key[:2]: line for line in sorted(lines(folder), key=lambda x: x.is_on_gpu)}
    beside_all = _beside_all_presets(folder)
    rows = {
        "**the default**: a blend": _default(folder),
        "best published single model": {
            name: f"{figure(best.recall)} / {figure(best.ndcg)} ({best.model})"
            for name, best in BEST_PUBLISHED.items()
            if best is not None
        },
        f"the paper's method, `--preset {PAPER}`": _measured(found, PAPER),
        "the paper's method, published": _published(found),
        **{
            f"`--preset {name}`": beside_all.get(name, {}) | _measured(found, name)
            for name in RIVALS
        },
    }
    cells = [
        [name, *(row.get(dataset, _missing(name)) for dataset in BEST_PUBLISHED)]
        for name, row in rows.items()
    ]
    return markdown_table([" / ".join(METRICS.values()), *BEST_PUBLISHED], cells)


def _missing(row: str) -> str:
    return "none" if "published" in row else NOT_MEASURED


def _default(folder: Path) -> dict[str, str]:
    """On a GPU, where most of it was run."""
    records = [one for one in auto_records(folder) if "accelerator" in one["machine"]]
    tests: dict[str, list[Mapping[str, float]]] = {}
    for record in records:
        tests.setdefault(record["dataset"], []).append(record["test"])
    return {
        name: "**" + " / ".join(figure(statistics.fmean(t[m] for t in of)) for m in METRICS) + "**"
        for name, of in tests.items()
    }


def _beside_all_presets(folder: Path) -> dict[str, dict[str, str]]:
    """What the study of all presets found, with one seed, by preset and data set."""
    found: dict[str, dict[str, str]] = {}
    for dataset, presets in preset_records(folder).items():
        for name, line in presets.items():
            told = line["test"] and " / ".join(figure(line["test"][metric]) for metric in METRICS)
            found.setdefault(name, {})[dataset] = told or "did not fit"
    return found


def _measured(found: Mapping[tuple[str, str], Line], preset: str) -> dict[str, str]:
    return {
        dataset: " / ".join(figure(_mean(line, metric)) for metric in METRICS)
        for (dataset, name), line in found.items()
        if name == preset
    }


def _mean(line: Line, metric: str) -> float:
    return line.mean(lambda record: float(record["test"][metric]))


def _published(found: Mapping[tuple[str, str], Line]) -> dict[str, str]:
    known = {
        dataset: [line.measured(metric).published for metric in METRICS]
        for (dataset, name), line in found.items()
        if name == PAPER
    }
    return {
        dataset: " / ".join(figure(value) for value in values if value is not None)
        for dataset, values in known.items()
        if None not in values
    }
