"""Writes the result tables of README and docs, and their images, from the JSON files beside this.

`python results/table.py` rewrites them; with `--check` it only says whether they are up to date,
by its exit code.
"""

from __future__ import annotations

import functools
import itertools
import json
import statistics
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import performance

HERE = Path(__file__).parent
ROOT = HERE.parent

# R@20 and nDCG@20 on the same splits: those of the paper's table of effectiveness for its own
# method and its baselines, and of later reproducibility studies for EASE and item-kNN
PUBLISHED = {
    ("dregn-cf", "gowalla"): (0.1810, 0.1541),
    ("dregn-cf", "yelp2018"): (0.0687, 0.0564),
    ("lightgcn", "gowalla"): (0.1828, 0.1551),
    ("lightgcn", "yelp2018"): (0.0651, 0.0532),
    ("ngcf", "gowalla"): (0.1567, 0.1325),
    ("ngcf", "yelp2018"): (0.0575, 0.0474),
    ("mult-vae", "gowalla"): (0.1644, 0.1340),
    ("mult-vae", "yelp2018"): (0.0589, 0.0458),
    ("enmf", "gowalla"): (0.1512, 0.1306),
    ("enmf", "yelp2018"): (0.0622, 0.0513),
    ("ease", "gowalla"): (0.1765, 0.1467),
    ("ease", "yelp2018"): (0.0657, 0.0552),
    ("item-knn", "gowalla"): (0.1570, 0.1214),
    ("item-knn", "yelp2018"): (0.0639, 0.0531),
}
Record = dict[str, Any]


def figure(value: float) -> str:
    """`.1813`, as the paper prints it."""
    return f"{value:.4f}".removeprefix("0")


def seconds(value: float) -> str:
    """Three digits where there are as many."""
    return f"{value:.3g} s" if value < 100 else f"{value:.0f} s"


def published(record: Record) -> str:
    """The figures of others, or that there are none."""
    known = PUBLISHED.get((record["preset"], record["dataset"]))
    return "/".join(map(figure, known)) if known else "not published"


def difference(record: Record) -> str:
    """How far ours are from the published ones."""
    known = PUBLISHED.get((record["preset"], record["dataset"]))
    if known is None:
        return ""
    ours = record["test"]["recall@20"], record["test"]["ndcg@20"]
    return " / ".join(f"{100 * (a / b - 1):+.1f} %" for a, b in zip(ours, known, strict=True))


def device(record: Record) -> str:
    """The graphics card, or else the processor."""
    machine = record["machine"]
    return machine.get("accelerator") or f"{machine['cores']} cores, {machine['processor']}"


def refit_times(record: Record) -> list[float]:
    """When each epoch of the refit ended, and before them when the search did."""
    ends = [line["seconds"] for line in record["curve"] if line["phase"] == "refit"]
    searched = [line["seconds"] for line in record["curve"] if line["phase"] == "search"]
    return searched[-1:] + ends


def per_epoch(record: Record) -> str:
    """The median time of an epoch of the refit, where nothing is validated."""
    ends = refit_times(record)
    return seconds(statistics.median(b - a for a, b in itertools.pairwise(ends)))


def to_the_end(record: Record) -> str:
    """The time of the refit: training alone, as far as the chosen epoch."""
    ends = refit_times(record)
    return seconds(ends[-1] - ends[0])


Column = Callable[[Record], str]
METHOD: dict[str, Column] = {
    "data set": lambda r: r["dataset"],
    "preset": lambda r: r["preset"],
    "seed": lambda r: str(r["seed"]),
    "protocol": lambda r: r["protocol"],
    "R@20": lambda r: figure(r["test"]["recall@20"]),
    "nDCG@20": lambda r: figure(r["test"]["ndcg@20"]),
    "paper": published,
    "epochs": lambda r: f"{r['epochs']:g}",
    "training": lambda r: f"{r['seconds']['train']:.0f} s",
    "peak memory": lambda r: f"{r['peak_memory_mb'] / 1024:.1f} GiB",
    "device": device,
}
RIVALS: dict[str, Column] = {
    "data set": lambda r: r["dataset"],
    "preset": lambda r: f"`{r['preset']}`",
    "R@20": lambda r: figure(r["test"]["recall@20"]),
    "nDCG@20": lambda r: figure(r["test"]["ndcg@20"]),
    "published": published,
    "difference": difference,
    "epoch": lambda r: f"{r['epochs']:g}",
    "search ended by": lambda r: r.get("stopped_by") or "not recorded",
    "an epoch": per_epoch,
    "to that epoch": to_the_end,
    "search and refit": lambda r: seconds(r["seconds"]["train"]),
}


def records() -> list[Record]:
    """All fits under `results/`, by file name."""
    return [json.loads(path.read_text()) for path in sorted(HERE.glob("fit-*.json"))]


def method_records() -> list[Record]:
    """The paper's own method."""
    return [record for record in records() if record["preset"] in ("dregn-cf", "dregn-cf-fast")]


def rival_records() -> list[Record]:
    """One run of every preset on the paper's data sets on a graphics card, the best first."""
    chosen = [
        record
        for record in records()
        if record["dataset"] in ("gowalla", "yelp2018")
        and record["seed"] == 0
        and record["machine"].get("accelerator")
    ]
    return sorted(chosen, key=lambda r: (r["dataset"], -r["test"]["ndcg@20"]))


def table(columns: dict[str, Column], lines: Iterable[Record]) -> str:
    """A table in Markdown."""
    rows = [[cell(record) for cell in columns.values()] for record in lines]
    return "\n".join(map(line, [list(columns), ["---"] * len(columns), *rows]))


def line(cells: Iterable[str]) -> str:
    """Cells between bars."""
    return "| " + " | ".join(cells) + " |"


def with_table(text: str, name: str, content: str) -> str:
    """A page with one of its tables renewed."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n{content}\n{end}{after}"


def pages() -> dict[Path, str]:
    """The pages as they should be."""
    readme, rivals = ROOT / "README.md", ROOT / "docs" / "rivals.md"
    speed = ROOT / "docs" / "performance.md"
    images = {ROOT / "docs" / name: image for name, image in performance.images().items()}
    return images | {
        readme: with_table(
            readme.read_text(encoding="utf-8"), "results", table(METHOD, method_records())
        ),
        rivals: with_table(
            rivals.read_text(encoding="utf-8"), "rivals", table(RIVALS, rival_records())
        ),
        speed: functools.reduce(
            lambda text, named: with_table(text, *named),
            performance.tables().items(),
            speed.read_text(encoding="utf-8"),
        ),
    }


def main(arguments: list[str]) -> int:
    """Rewrite, or only check."""
    for page, text in pages().items():
        if "--check" not in arguments:
            page.write_text(text, encoding="utf-8")
        elif not page.exists() or page.read_text(encoding="utf-8") != text:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
