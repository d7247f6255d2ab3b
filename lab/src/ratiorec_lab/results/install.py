"""The tables of the page on installing: what it takes, and what was run with which versions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ratiorec_lab.tables import markdown_table

RECORD = "bench-install.json"


def tables(folder: Path) -> dict[str, str]:
    """The tables by name."""
    record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    cases = record["result"]["cases"]
    return {"install": _sizes(cases), "versions": _versions(cases, record["machine"])}


def _sizes(cases: list[dict[str, Any]]) -> str:
    rows = [
        [
            _named(case),
            case["python"],
            f"{case['megabytes']:,}",
            str(case["packages"]),
            f"{case['seconds']:.0f}",
            f"{case['import_seconds']:.3f}",
        ]
        for case in cases
    ]
    heads = ["in a fresh environment", "Python", "MB on disk", "packages", "seconds", "import, s"]
    return markdown_table(heads, rows)


def _named(case: dict[str, Any]) -> str:
    """The set; of torch with its build, since that decides about gigabytes."""
    first, comma, then = case["set"].partition(", then ")
    if not comma:
        return f"`{first}`"
    return f"{first} {case['versions'][first]}, then `{then}`"


def _versions(cases: list[dict[str, Any]], machine: dict[str, Any]) -> str:
    """A row for each interpreter; what it ran is the commands of every set."""
    rows = []
    for python in dict.fromkeys(case["python"] for case in cases):
        own = [case for case in cases if case["python"] == python]
        found = {name: version for case in own for name, version in case["versions"].items()}
        packages = [found.get(name, "not installed") for name in ("torch", "numpy", "scipy")]
        n_commands = min(len(case["first_hour"]) for case in own)
        ran = f"{n_commands} commands with each of {len(own)} installations"
        rows.append([python, *packages, machine["system"], ran])
    return markdown_table(["Python", "torch", "numpy", "scipy", "system", "what ran"], rows)
