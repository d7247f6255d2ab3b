"""Every figure in the README comes from a file under results/."""

import json
import math
import re
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from ratiorec_lab.reproduce.cell_files import CellFiles

from lab_support.fake_cells import GPU, keep, know, metrics, record_of
from ratiorec_lab.reproduce.cells import cell_of
from ratiorec_lab.reproduce.plan import Plan
from support.command_line import CommandLine

ROOT = Path(__file__).parent.parent
RECORDS = sorted((ROOT / "results").glob("fit-*.json"))
REPRODUCED = ROOT / "results" / "reproduce"
CELLS = sorted((REPRODUCED / "cells").rglob("*.json"))
FAILURES = sorted((REPRODUCED / "failures").rglob("*.json"))
KEYS = {
    "target",
    "dataset",
    "data_sha256",
    "preset",
    "settings",
    "protocol",
    "seed",
    "steps",
    "seconds",
    "validation",
    "test",
    "curve",
    "machine",
    "versions",
    "commit",
    "command",
}
PLACE_ON_A_MACHINE = re.compile(r"""(?:^|[\s"'=(])(?:~?/\w|[A-Z]:\\\\)""")


def test_the_tables_on_the_pages_are_those_the_results_give():
    done = subprocess.run([sys.executable, ROOT / "results" / "table.py", "--check"], check=False)
    assert done.returncode == 0


def assert_origin(record, command):
    assert record.keys() >= KEYS
    assert {"train", "total"} <= record["seconds"].keys()
    assert record["command"].startswith(command)
    assert re.fullmatch("[0-9a-f]{7,40}", record["commit"])


def assert_cell(path):
    """A cell is where its content says, on the data that the reproduction saw, from anywhere."""
    record = json.loads(path.read_bytes())
    assert_origin(record, "ratiorec reproduce ")
    assert record.keys() >= {"cell", "max_seconds"}
    dataset = path.parent
    assert dataset.name == record["dataset"]
    assert dataset.parent.name == record["protocol"]
    assert path.stem == f"{record['cell']}-seed{record['seed']}"
    seen = json.loads((dataset.parents[2] / "datasets" / f"{dataset.name}.json").read_bytes())
    assert seen["data_sha256"] == record["data_sha256"]
    assert not PLACE_ON_A_MACHINE.search(path.read_text())


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.name)
def test_a_fit_record_says_how_it_was_obtained(path):
    assert_origin(json.loads(path.read_text()), "ratiorec fit ")


def test_there_are_records():
    assert RECORDS + CELLS


@pytest.mark.parametrize("path", CELLS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_cell_says_how_it_was_obtained(path):
    assert_cell(path)


def test_no_failure_tells_a_place_on_a_machine():
    assert [path for path in FAILURES if PLACE_ON_A_MACHINE.search(path.read_text())] == []


def test_the_commits_of_all_records_are_in_the_history():
    told = {json.loads(path.read_bytes())["commit"] for path in RECORDS + CELLS}
    git = ["git", "-C", str(ROOT)]
    shallow = subprocess.run(
        [*git, "rev-parse", "--is-shallow-repository"], capture_output=True, text=True, check=False
    )
    if shallow.stdout.strip() != "false":
        pytest.skip("the history of this tree is not here")
    history = subprocess.run([*git, "rev-list", "HEAD"], capture_output=True, text=True, check=True)
    known = history.stdout.split()
    assert [c for c in told if not any(commit.startswith(c) for commit in known)] == []


@pytest.mark.parametrize(
    ("protocol", "report"), [("validated", "report.md"), ("paper", "report-paper.md")]
)
def test_each_report_follows_from_the_files_alone(protocol, report, tmp_path, monkeypatch, capsys):
    for name in ("cells", "datasets", "failures"):
        if (REPRODUCED / name).exists():
            shutil.copytree(REPRODUCED / name, tmp_path / name)
    cli = CommandLine(monkeypatch, capsys)
    told = cli("reproduce", "all", "--report-only", "--protocol", protocol, "--out", tmp_path)
    assert told.code == 0
    assert (tmp_path / report).read_text() == (REPRODUCED / report).read_text()


# The rest is about tables from made-up records.

REFIT = [
    {"phase": "search", "epoch": 1, "step": 10, "seconds": 5.0},
    {"phase": "refit", "epoch": 1, "step": 10, "seconds": 7.0},
    {"phase": "refit", "epoch": 2, "step": 20, "seconds": 11.0},
]


@pytest.fixture
def table(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "results")
    return import_module("table")


@pytest.fixture
def lines(table):
    return table.lines


def cell(preset, dataset="gowalla", seed=0, **options):
    return cell_of(preset, dataset, protocol="validated", seed=seed, **options)


def write_cells(folder, cells, **given):
    files = CellFiles(folder / "reproduce")
    keep(files, cells, **{"curve": REFIT, "peak_memory_mb": 2048, "commit": "c0ffee0", **given})
    know(files, *{one.dataset for one in cells})


def write_fit(folder, preset, name="fit-one.json", **given):
    fit = record_of(cell(preset), curve=REFIT, peak_memory_mb=1024, **given)
    (folder / name).write_text(json.dumps(fit))


def rows(text):
    """The rows of a table, by column."""
    header, _, *found = (line.strip("| ").split(" | ") for line in text.splitlines() if "|" in line)
    return [dict(zip(header, row, strict=True)) for row in found]


def test_a_line_is_the_mean_of_its_cells_with_students_interval(tmp_path, table, lines):
    for seed, ndcg in enumerate((0.10, 0.11, 0.12)):
        write_cells(tmp_path, [cell("ngcf", seed=seed)], test=metrics(ndcg, recall=0.1567))
    (row,) = rows(table.rivals(table.rival_lines(lines(tmp_path))))
    half = 4.302653 * 0.01 / math.sqrt(3)  # the quantile of two degrees of freedom
    assert (row["preset"], row["seeds"]) == ("`ngcf`", "3")
    assert row["R@20"] == ".1567 ± .0000"
    assert row["nDCG@20"] == ".1100 ± " + f"{half:.4f}"[1:]
    assert row["published"] == ".1567 / .1325"
    assert row["difference"] == f"0.0 % / −{100 * (1 - 0.11 / 0.1325):.1f} %"
    assert (row["an epoch"], row["to that epoch"], row["search and refit"]) == (
        "3 s",
        "6 s",
        "10 s",
    )
    assert row["search ended by"] == "no gain"


def test_cells_come_before_fits_of_the_same_device(tmp_path, lines):
    write_fit(tmp_path, "ngcf", test=metrics(0.2))
    processor = {"device": "cpu", "cores": 2, "processor": "Some Processor"}
    write_fit(tmp_path, "ngcf", "fit-two.json", test=metrics(0.3), machine=processor)
    before = {line.key.device: line.measured("ndcg@20").values for line in lines(tmp_path)}
    assert before == {GPU["accelerator"]: (0.2,), "2 cores, Some Processor": (0.3,)}
    write_cells(tmp_path, [cell("ngcf", seed=5)], test=metrics(0.1))
    after = {line.key.device: line.measured("ndcg@20").values for line in lines(tmp_path)}
    assert after == before | {GPU["accelerator"]: (0.1,)}


def test_fits_that_differ_in_the_seed_are_one_line(tmp_path, lines):
    write_fit(tmp_path, "ngcf", test=metrics(0.2))
    write_fit(tmp_path, "ease", "fit-three.json")
    write_fit(tmp_path, "ngcf", "fit-two.json", test=metrics(0.4), seed=1)
    other, line = lines(tmp_path)
    assert (other.key.preset, line.key.preset) == ("ease", "ngcf")
    assert line.measured("ndcg@20").mean == (0.2 + 0.4) / 2


def test_what_is_no_run_of_a_preset_on_the_test_part_has_no_line(tmp_path, lines):
    changed = {"training.l2": 0.5}
    write_cells(tmp_path, [cell("dregn-cf", changes=changed, on_validation=True)], test=None)
    paper = cell_of("dregn-cf", "gowalla", protocol="paper", seed=0)
    write_cells(tmp_path, [paper], test=metrics(0.2))
    assert lines(tmp_path) == []


def test_a_cell_that_the_report_leaves_out_has_no_line(tmp_path, lines):
    write_cells(tmp_path, [cell("ease"), cell("ngcf")])
    know(CellFiles(tmp_path / "reproduce"), "gowalla")
    write_cells(tmp_path, [cell("ease", "yelp2018")], data_sha256="cd" * 32)
    write_cells(tmp_path, [cell("ngcf")], settings=record_of(cell("enmf"))["settings"])
    assert [line.key[:2] for line in lines(tmp_path)] == [("gowalla", "ease")]


def test_settings_that_a_preset_has_left_are_marked(tmp_path, table, lines):
    write_fit(tmp_path, "ease")
    plain = table.table(table.METHOD, lines(tmp_path))
    assert table.OUTDATED not in plain
    settings = record_of(cell("ease"))["settings"]
    write_fit(tmp_path, "ease", settings={**settings, "another": 1})
    assert table.table(table.METHOD, lines(tmp_path)) == plain
    solver = settings["solver"]
    older = {**settings, "solver": {**solver, "penalty": 2 * solver["penalty"]}}
    write_fit(tmp_path, "ease", settings=older)
    marked = table.table(table.METHOD, lines(tmp_path))
    assert rows(marked)[0]["preset"] == "`ease`†"
    assert marked.endswith("† with settings that the preset has left since.")


def test_the_readme_has_the_method_and_nothing_else(tmp_path, table, lines):
    write_cells(tmp_path, [cell("dregn-cf"), cell("ngcf"), cell("dregn-cf-fast")])
    found = rows(table.table(table.METHOD, table.method_lines(lines(tmp_path))))
    assert [row["preset"] for row in found] == ["`dregn-cf`", "`dregn-cf-fast`"]
    assert found[0]["published"] == ".1810 / .1541"
    assert found[1]["published"] == "not published"
    assert (found[0]["peak memory"], found[0]["training"]) == ("2.0 GiB", "10 s")


def test_rivals_are_on_a_gpu_where_they_were_run_on_one_the_best_first(tmp_path, table, lines):
    write_cells(tmp_path, [cell("dregn-cf"), cell("dregn-cf", "yelp2018")], test=metrics(0.1))
    write_cells(tmp_path, [cell("ngcf"), cell("pu", "amazon-book-75")], test=metrics(0.2))
    processor = {"device": "cpu", "cores": 2, "processor": "Some Processor"}
    write_cells(tmp_path, [cell("wmf")], machine=processor, test=metrics(0.15))
    write_fit(tmp_path, "ngcf", machine=processor)
    found = rows(table.rivals(table.rival_lines(lines(tmp_path))))
    shown = [tuple(row[name] for name in ("data set", "preset", "published")) for row in found]
    assert shown == [
        ("amazon-book-75", "`pu`", "not published"),
        ("gowalla", "`ngcf`", ".1567 / .1325"),
        ("gowalla", "`wmf`", "not published"),
        ("gowalla", "`dregn-cf`", ".1810 / .1541"),
    ]
    assert ["Some Processor" in row["device"] for row in found] == [False, False, True, False]


def test_what_falls_short_and_what_is_missing_is_said(tmp_path, table, lines):
    far, near = 0.96 * 0.1325, 0.98 * 0.1340
    write_cells(tmp_path, [cell("ngcf")], test=metrics(far, recall=0.1567))
    write_cells(tmp_path, [cell("mult-vae")], test=metrics(near, recall=0.2))
    everything = [cell(name, "yelp2018") for name in table.PRESETS if name != "dre-mf"]
    write_cells(tmp_path, everything, test=metrics(0.2))
    told = table.rivals(table.rival_lines(lines(tmp_path))).splitlines()
    told = [line for line in told if line.startswith("- ")]
    assert told[0] == "- gowalla, `ngcf`: nDCG@20 −4.0 %."
    assert told[1].startswith("- gowalla: `dregn-cf`, `dregn-cf-fast`, `pu`, ")
    assert "mult-vae" not in told[1]
    assert told[2:] == ["- gowalla and yelp2018: `dre-mf` not measured."]


def test_the_tables_take_every_run_that_the_papers_tables_have(tmp_path, lines):
    plan = Plan(datasets=("gowalla",), seeds=(0, 1))
    presets = ("pu", "dre", "ngcf", "lightgcn", "ease", "dregn-cf-static")
    write_cells(tmp_path, [one for preset in presets for one in plan.cells(preset, "gowalla")])
    found = {line.key.preset: len(line.records) for line in lines(tmp_path)}
    assert found == dict.fromkeys(presets, 2) | {"ease": 1}


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
        {"command": "ratiorec reproduce all --out /somewhere/else"},
        {"command": "ratiorec reproduce all --data-dir=~/data"},
        {"versions": {"ratiorec": "C:\\somewhere"}},
    ],
    ids=str,
)
def test_a_cell_that_does_not_say_how_it_was_obtained_is_found(tmp_path, fault):
    write_cells(tmp_path, [cell("ngcf")])
    (path,) = (tmp_path / "reproduce" / "cells").rglob("*.json")
    record = json.loads(path.read_bytes())
    assert_cell(path)
    path.write_text(json.dumps(record | fault))
    with pytest.raises(AssertionError):
        assert_cell(path)


def test_what_comes_in_is_told_in_percent_with_intervals(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "results")
    intake = import_module("intake")
    names = ("partial_fit", "update", "others_before", "others_update")
    splits = [
        {"ratios": {key: {"recall@20": recall, "ndcg@20": ndcg} for key in names}}
        for recall, ndcg in ((0.98, 1.0), (1.0, 1.0))
    ]
    result = {"data": "gowalla", "held_out": "users", "splits": splits}
    (tmp_path / "bench-fold_in_quality.json").write_text(json.dumps({"result": result}))
    monkeypatch.setattr(intake, "HERE", tmp_path)
    found = intake.table().splitlines()[2:]
    assert len(found) == 4
    assert found[0].startswith("| Gowalla, a tenth of the users ([2 splits](../results/bench-")
    cell = "99.0 (86.3 to 111.7)"  # 12.706 times 1
    assert found[0].endswith(f"| theirs | R@20 |  | {cell} | {cell} |")
    assert found[3].split(" | ")[3] == "100.0 (100.0 to 100.0)"
