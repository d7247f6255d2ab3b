"""The tables of the page on installing from a made-up record."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lab_support.markdown import rows
from ratiorec_lab.results.install import RECORD, tables

RESULTS = Path(__file__).parents[3] / "results"


def case(name: str, python: str, n_commands: int, **versions: str) -> dict[str, Any]:
    return {
        "set": name,
        "python": python,
        "seconds": 20.8,
        "megabytes": 1146,
        "packages": 18,
        "versions": versions,
        "import_seconds": 0.0176,
        "first_hour": ["doctor"] * n_commands,
    }


def test_every_installation_has_a_row_and_every_interpreter_one(tmp_path: Path) -> None:
    cases = [
        case("ratiorec", "3.11.7", 8, numpy="2.4.6"),
        case("torch, then ratiorec[torch]", "3.11.7", 7, numpy="2.4.6", torch="2.13.0"),
        case("ratiorec", "3.12.1", 8, numpy="2.4.6"),
    ]
    record = {"result": {"cases": cases}, "machine": {"system": "Linux x86_64"}}
    (tmp_path / RECORD).write_text(json.dumps(record))
    found = tables(tmp_path)
    first, second, third = rows(found["install"])
    assert (first["in a fresh environment"], first["MB on disk"]) == ("`ratiorec`", "1,146")
    assert second["in a fresh environment"] == "torch 2.13.0, then `ratiorec[torch]`"
    assert (second["seconds"], third["import, s"]) == ("21", "0.018")
    older, newer = rows(found["versions"])
    assert (older["torch"], older["what ran"]) == (
        "2.13.0",
        "7 commands with each of 2 installations",
    )
    assert (newer["Python"], newer["torch"]) == ("3.12.1", "not installed")


def test_a_plain_install_keeps_its_promise() -> None:
    cases = json.loads((RESULTS / RECORD).read_text())["result"]["cases"]
    plain = [case for case in cases if case["set"] == "ratiorec"]
    assert plain
    assert all(case["megabytes"] <= 300 and case["import_seconds"] <= 0.05 for case in plain)
