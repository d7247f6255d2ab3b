"""Writes the result table of the README from the JSON files beside this one.

`python results/table.py` rewrites the README; with `--check` it only says whether it is up to
date, by its exit code.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
README = HERE.parent / "README.md"
BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"

# R@20 and nDCG@20 of DREGN-CF in the paper's table of effectiveness
PUBLISHED = {"gowalla": (0.1810, 0.1541), "yelp2018": (0.0687, 0.0564)}
COLUMNS = (
    "data set",
    "preset",
    "seed",
    "protocol",
    "R@20",
    "nDCG@20",
    "paper",
    "epochs",
    "training",
    "peak memory",
    "device",
)


def figure(value: float) -> str:
    """`.1813`, as the paper prints it."""
    return f"{value:.4f}".removeprefix("0")


def row(record: dict[str, Any]) -> str:
    """One line of the table."""
    test, machine = record["test"], record["machine"]
    published = PUBLISHED.get(record["dataset"])
    device = machine.get("accelerator") or f"{machine['cores']} cores, {machine['processor']}"
    cells = (
        record["dataset"],
        record["preset"],
        str(record["seed"]),
        record["protocol"],
        figure(test["recall@20"]),
        figure(test["ndcg@20"]),
        "/".join(map(figure, published)) if published else "not published",
        f"{record['epochs']:g}",
        f"{record['seconds']['train']:.0f} s",
        f"{record['peak_memory_mb'] / 1024:.1f} GiB",
        device,
    )
    return line(cells)


def line(cells: Iterable[str]) -> str:
    """Cells between bars."""
    return "| " + " | ".join(cells) + " |"


def table() -> str:
    """All fits under `results/`, by file name."""
    records = [json.loads(path.read_text()) for path in sorted(HERE.glob("fit-*.json"))]
    return "\n".join([line(COLUMNS), line("---" for _ in COLUMNS), *map(row, records)])


def with_table(text: str) -> str:
    """The README with its table renewed."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


def main(arguments: list[str]) -> int:
    """Rewrite, or only check."""
    old = README.read_text(encoding="utf-8")
    new = with_table(old)
    if "--check" in arguments:
        return int(old != new)
    README.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
