from __future__ import annotations

import json
from pathlib import Path

import pytest
from lab_support.fake_cells import CARD, keep, know
from ratiorec_lab.reproduce.cell_files import CellFiles
from ratiorec_lab.reproduce.findings import Findings
from ratiorec_lab.reproduce.names import PAPER_DATASETS, SMALL
from ratiorec_lab.reproduce.plain import MOST_WIDTH, lines
from ratiorec_lab.reproduce.plan import Plan
from ratiorec_lab.reproduce.report import Report, build, write
from ratiorec_lab.reproduce.targets import named

from ratiorec.data import benchmarks

PLAN = Plan(datasets=("gowalla", "amazon-book"), seeds=(0, 1))


@pytest.fixture
def files(tmp_path: Path) -> CellFiles:
    files = CellFiles(tmp_path / "cells")
    know(files, "gowalla", SMALL)
    keep(files, PLAN.cells("dregn-cf", "gowalla"))
    return files


def report_of(files: CellFiles, target: str = "all", plan: Plan = PLAN) -> Report:
    return build(target, named(target), Findings(plan, files))


def test_a_report_needs_no_data(files: CellFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmarks, "load", lambda *_, **__: pytest.fail("data were loaded"))
    assert report_of(files).exhibits


def test_the_same_files_give_the_same_report(files: CellFiles, tmp_path: Path) -> None:
    for name in ("one", "other"):
        write(report_of(files), tmp_path / name, protocol="validated")
    written = sorted((tmp_path / "one").rglob("*"))
    assert {"report.html", "report.md", "report.json"} <= {path.name for path in written}
    for path in written:
        assert (
            path.read_bytes()
            == (tmp_path / "other" / path.relative_to(tmp_path / "one")).read_bytes()
        )


def test_the_facts_say_how_it_was_obtained(files: CellFiles) -> None:
    seed0, seed1 = PLAN.cells("dregn-cf", "gowalla")
    keep(files, [seed1], machine=CARD | {"accelerator": "Another Card"}, commit=None)
    facts = report_of(files, "table-ablation").facts
    assert facts["machine"] == "Another Card; Some Card"
    assert facts["commit"] == "c0ffee; not known"
    assert facts["seeds"] == "0, 1"
    assert facts["runs"] == f"2 of {2 * 8 * 2 + 2 * 8 * 3} finished"
    assert facts["data sets"] == "Gowalla (sha256 abababababab…); Amazon-Book (not on the machine)"
    assert "nothing is chosen on test pairs" in facts["protocol"]
    assert facts["command"] == (
        "ratiorec reproduce table-ablation --protocol validated --seeds 0,1 "
        "--datasets gowalla,amazon-book"
    )
    assert seed0.seed == 0


def test_a_quick_report_says_what_it_is_in_title_and_facts(files: CellFiles) -> None:
    quick = report_of(files, plan=Plan(datasets=(SMALL,)))
    assert quick.title.startswith("Quick run, not a result")
    assert "only that everything works" in quick.facts["what this is"]
    assert quick.facts["command"].endswith("--quick")


def test_in_json_a_figure_has_its_mean_interval_and_difference(files: CellFiles) -> None:
    told = report_of(files, "table-effectiveness").to_json()
    assert json.loads(json.dumps(told, allow_nan=False))["title"] == told["title"]
    (table,) = told["exhibits"]
    assert table["kind"] == "table"
    row = next(row for row in table["rows"] if row["name"] == "DREGN-CF")
    assert row["entries"][0] == {
        "values": (0.1, 0.1),
        "published": 0.1810,
        "remark": "",
        "mean": 0.1,
        "interval": (0.1, 0.1),
        "relative_difference": 0.1 / 0.1810 - 1,
    }
    kinds = {exhibit["kind"] for exhibit in report_of(files).to_json()["exhibits"]}
    assert kinds == {"table", "curve", "bar"}


def test_every_remark_is_told_on_a_terminal(files: CellFiles) -> None:
    for exhibit in report_of(files).exhibits:
        told = lines(exhibit)
        assert told[0] == exhibit.title
        last = told[len(told) - len(exhibit.remarks) :]
        assert [line.strip() for line in last] == list(exhibit.remarks)


def test_a_wide_table_is_told_in_parts_that_fit(files: CellFiles) -> None:
    plan = Plan(datasets=PAPER_DATASETS)
    (exhibit,) = report_of(files, "table-effectiveness", plan).exhibits
    told = lines(exhibit)[: -len(exhibit.remarks)]
    assert all(len(line) <= MOST_WIDTH + 2 for line in told)
    for dataset in ("Gowalla", "Yelp2018", "Amazon-Book"):
        assert sum(f"{dataset} R@20" in line for line in told) == 1
    assert sum(line.startswith("  EASE ") for line in told) == told.count("") + 1


def test_a_report_on_nothing_has_every_exhibit(tmp_path: Path) -> None:
    empty = report_of(CellFiles(tmp_path / "nothing"), plan=Plan(datasets=PAPER_DATASETS))
    write(empty, tmp_path / "out", protocol="validated")
    assert empty.facts["runs"].startswith("0 of ")
    assert "machine" not in empty.facts
    assert len(empty.exhibits) == 8 + 1 + 3
