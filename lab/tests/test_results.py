"""Every figure on the pages comes from a file under results/, and every file says from where."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab_support.fake_cells import keep, know
from ratiorec.config import named_settings, preset, read_toml, settings_in
from ratiorec.errors import ConfigError
from ratiorec_lab.bench.race import require_contenders
from ratiorec_lab.reproduce.cells import cell_of
from ratiorec_lab.reproduce.plan import Plan
from ratiorec_lab.reproduce.records import CellFiles
from ratiorec_lab.reproduce.report import cells_of, named
from ratiorec_lab.results.__main__ import main

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
REPRODUCED = RESULTS / "reproduce"
KEYS = {
    *("target", "dataset", "data_sha256", "preset", "settings", "protocol", "seed", "steps"),
    *("seconds", "validation", "test", "curve", "machine", "versions", "commit", "command"),
}
PLACE_ON_A_MACHINE = re.compile(r"""(?:^|[\s"'=(])(?:~?/\w|[A-Z]:\\\\)""")


def test_the_tables_on_the_pages_are_those_the_results_give(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["results", str(ROOT), "--check"])
    assert (main(), capsys.readouterr().err) == (0, "")


def faults(path: Path) -> Iterator[str]:
    """What a record lacks to say how it was obtained; a cell also where it belongs."""
    record = json.loads(path.read_bytes())
    if missing := KEYS - record.keys():
        yield f"no {missing}"
        return
    is_cell = "cell" in record
    command = "ratiorec reproduce " if is_cell else "ratiorec fit "
    if not record["command"].startswith(command):
        yield f"command {record['command']}"
    if not re.fullmatch("[0-9a-f]{7,40}", record["commit"]):
        yield f"commit {record['commit']}"
    if not re.fullmatch("[0-9a-f]{64}", record["data_sha256"]):
        yield f"data_sha256 {record['data_sha256']}"
    if not 0 < record["seconds"].get("train", -1) <= record["seconds"].get("total", -1):
        yield f"seconds {record['seconds']}"
    for part in ("validation", "test"):
        if not all(0 <= value <= 1 for value in (record[part] or {}).values()):
            yield f"{part} {record[part]}"
    try:
        settings_in(record["settings"], complete=True)
    except ConfigError as error:
        yield str(error)
    if is_cell:
        yield from faults_of_cell(path, record)


def faults_of_cell(path: Path, record: dict[str, Any]) -> Iterator[str]:
    """In what a cell is not where its content says, or was on other data, or names a machine."""
    dataset, protocol = path.parent, path.parents[1]
    here = (f"{record['cell']}-seed{record['seed']}", record["dataset"], record["protocol"])
    if (path.stem, dataset.name, protocol.name) != here:
        yield f"the place of {here}"
    seen = json.loads((protocol.parents[1] / "datasets" / f"{dataset.name}.json").read_bytes())
    if seen["data_sha256"] != record["data_sha256"]:
        yield "other data than the reproduction saw"
    if "max_seconds" not in record:
        yield "no max_seconds"
    if place := PLACE_ON_A_MACHINE.search(path.read_text()):
        yield f"a place on a machine: {place[0]}"


def test_every_record_says_how_it_was_obtained() -> None:
    fits = [*RESULTS.glob("fit-*.json"), *RESULTS.glob("auto/*.json")]
    records = [*fits, *(REPRODUCED / "cells").rglob("*.json")]
    bad = {path.name: told for path in records if (told := list(faults(path)))}
    assert records
    assert bad == {}


@pytest.mark.parametrize(
    "fault",
    [
        {"command": "ratiorec fit gowalla"},
        {"commit": "c0ffee0-modified"},
        {"seed": 1},
        {"dataset": "yelp2018"},
        {"protocol": "paper"},
        {"cell": "enmf"},
        {"data_sha256": "cd" * 32},
        {"seconds": {"train": 1.0}},
        {"test": {"recall@20": 1.2}},
        {"settings": {"solver": {"kind": "popularity"}}},
        {"settings": {"encoder": {"initial": "xavier"}}},
        {"command": "ratiorec reproduce all --out /somewhere/else"},
        {"command": "ratiorec reproduce all --data-dir=~/data"},
        {"versions": {"ratiorec": "C:\\somewhere"}},
    ],
    ids=str,
)
def test_a_cell_that_does_not_say_how_it_was_obtained_is_found(
    tmp_path: Path, fault: dict[str, Any]
) -> None:
    files = CellFiles(tmp_path)
    cell = cell_of("ngcf", "gowalla", protocol="validated", seed=0)
    assert cell is not None
    keep(files, [cell], commit="c0ffee0")
    know(files, "gowalla", "yelp2018")
    path = files.record_path(cell)
    record = json.loads(path.read_bytes())
    assert list(faults(path)) == []
    path.write_text(json.dumps(record | fault))
    assert list(faults(path)) != []


def test_lines_that_may_stand_for_cells_are_those_of_cells_that_are_there_twice() -> None:
    files = CellFiles(REPRODUCED)
    plan = Plan(datasets=tuple(files.known_datasets()))
    tables = [named("table-effectiveness")[0], named("table-ablation")[0]]
    cells = [cell for cell in cells_of(tables, plan) if not cell.on_validation]
    twice = {cell.path: (files.finished(cell), files.compared(cell)) for cell in cells}
    whole = {
        path: (one["test"]["ndcg@20"], other["test"]["ndcg@20"])
        for path, (one, other) in twice.items()
        if one and other and "time budget" not in (one["stopped_by"], other["stopped_by"])
    }
    assert len(whole) >= 35
    # a GPU adds in no fixed order, so that a run may stop a validation sooner or later
    unlike = {path: pair for path, pair in whole.items() if abs(pair[0] / pair[1] - 1) > 0.005}
    assert unlike == {}


def test_no_failure_tells_a_place_on_a_machine() -> None:
    failures = (REPRODUCED / "failures").rglob("*.json")
    assert [path for path in failures if PLACE_ON_A_MACHINE.search(path.read_text())] == []


def test_every_settings_file_can_be_laid_over_a_preset() -> None:
    files = [*(ROOT / "experiments").glob("*.toml"), *(REPRODUCED / "chosen").glob("*.toml")]
    assert files
    for file in files:
        name = "lightgcn" if "n_pairs" in read_toml(file).get("batches", {}) else "dregn-cf"
        assert named_settings(name, file=file)[1] != preset(name), file


def test_every_case_that_is_a_preset_can_be_measured_again() -> None:
    for path in RESULTS.glob("bench-*.json"):
        for case in json.loads(path.read_bytes()).get("cases", []):
            label = case["name"] if case["target"] == "step" else case["execution"]
            if case["target"] in ("step", "fit", "frontier"):
                require_contenders([label.replace("+results/", f"+{RESULTS}/")])


def test_the_gains_of_a_ridge_by_length_are_those_of_the_study() -> None:
    page = (RESULTS.parent / "docs" / "decisions.md").read_text(encoding="utf-8")
    study = json.loads((RESULTS / "bench-fold_in_quality.json").read_bytes())["result"]["mean"]
    gains = [study[f"from_{n}_by_length_to_one_ridge"]["recall@20"]["value"] - 1 for n in (1, 2, 4)]
    told = "R@20 from one item is higher by {} %, from two by {} %, from four by {} % on"
    assert told.format(*(f"{100 * gain:.1f}" for gain in gains)) in page


def test_figures_in_the_prose_on_the_reproduction_are_those_of_its_reports() -> None:
    page = (RESULTS.parent / "docs" / "reproduce.md").read_text(encoding="utf-8")
    start = page.index("## Where the order is not the paper's")
    prose = page[start : page.index("**Efficiency.**")]
    reports = "".join((REPRODUCED / f"report{end}.md").read_text() for end in ("", "-paper"))
    figures = set(re.findall(r"(?<![\d.])\.\d{4}", prose))
    assert len(figures) > 20
    assert sorted(one for one in figures if one not in reports) == []
