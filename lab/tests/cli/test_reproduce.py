from __future__ import annotations

import contextlib
import itertools
import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from lab_support.fake_cells import keep, know
from ratiorec import presets
from ratiorec.data import benchmarks
from ratiorec.training.checkpoint import FILE
from ratiorec.training.fit import EpochFinished, StepTaken
from ratiorec_lab.cli import reproduce as reproduce_progress
from ratiorec_lab.reproduce import run as running
from ratiorec_lab.reproduce.cells import Cell, cell_of
from ratiorec_lab.reproduce.plan import Plan
from ratiorec_lab.reproduce.published import EFFECTIVENESS, PAPER_DATASETS
from ratiorec_lab.reproduce.records import CellFiles
from ratiorec_lab.reproduce.report import TARGETS
from ratiorec_lab.reproduce.wording import figure
from support.command_line import CommandLine, everything_in
from support.forked_command import ForkedCommand
from support.quick_presets import MISSING, failing

QUICK = ("--quick", "--device", "cpu")
SMALL = "validated/synthetic-small"


def cell(preset: str = "dregn-cf") -> Cell:
    found = cell_of(preset, "synthetic-small", protocol="validated", seed=0)
    assert found is not None
    return found


def no_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "fit", lambda *_, **__: pytest.fail("training began"))


def without_times(folder: Path) -> dict[str, Any]:
    """Every finished cell of a reproduction, less what no two runs share."""
    found = {}
    for path in sorted((folder / "cells").rglob("*.json")):
        record = json.loads(path.read_bytes())
        for name in ("seconds", "peak_memory_mb"):
            del record[name]
        for epoch in record["curve"]:
            del epoch["seconds"]
        found[str(path.relative_to(folder))] = record
    return found


def test_everything_runs_quickly_and_a_second_time_everything_is_kept(cli: CommandLine) -> None:
    first = cli("reproduce", "all", *QUICK, "--json")
    assert first.code == 0, first.err
    found = first.json
    assert found.keys() == {
        *("target", "protocol", "quick", "seeds", "datasets", "cells"),
        *("verdicts", "facts", "exhibits", "chosen", "paths"),
    }
    assert (found["target"], found["protocol"], found["quick"]) == ("all", "validated", True)
    assert found["cells"]["failed"] == []
    assert len(found["cells"]["run"]) == len(list(Path("reproduced-quick/cells").rglob("*.json")))
    ids = [exhibit["id"] for exhibit in found["exhibits"]]
    assert ids == [
        *("table-datasets", "table-effectiveness", "fig-efficiency", "fig-efficiency-table"),
        *("table-ablation", "table-ablation-penalties", "fig-static-adaptive", "fig-dns"),
        *("fig-sensitivity", "search-synthetic-small", "more-runs"),
    ]
    assert "not run" not in json.dumps(found["exhibits"])
    assert "upper_bound" in found["chosen"]["synthetic-small"]
    for path in found["paths"].values():
        assert Path(path).is_file()
    html = Path("reproduced-quick/report.html").read_text()
    assert "Quick run, not a result" in html
    before = everything_in(Path("reproduced-quick"))
    second = cli("reproduce", "all", *QUICK, "--json").json
    assert second["cells"]["run"] == []
    assert second["cells"]["kept"] == found["cells"]["run"]
    assert everything_in(Path("reproduced-quick")) == before


def test_the_papers_protocol_lies_beside_the_other_and_is_never_mixed_with_it(
    cli: CommandLine,
) -> None:
    arguments = ("reproduce", "table-ablation", *QUICK, "--only", "dregn-cf", "--json")
    validated = cli(*arguments).json
    paper = cli(*arguments, "--protocol", "paper").json
    assert validated["cells"]["run"] == [f"{SMALL}/dregn-cf-seed0"]
    assert paper["cells"]["run"] == ["paper/synthetic-small/dregn-cf-seed0"]

    def figures(found: dict[str, Any]) -> Any:
        return next(r["entries"] for r in found["exhibits"][0]["rows"] if r["name"] == "(h) Full")

    assert figures(validated) != figures(paper)
    assert figures(cli(*arguments).json) == figures(validated)


def test_people_are_shown_tables_remarks_and_where_the_report_is(cli: CommandLine) -> None:
    outcome = cli("reproduce", "table-effectiveness", *QUICK, "--only", "popularity", "--out", "r")
    assert outcome.code == 0
    lines = outcome.out.splitlines()
    assert lines[0] == "Quick run, not a result (protocol validated): table-effectiveness"
    (row,) = [line.split() for line in lines if line.startswith(" popularity ")]
    assert len(row) == 3
    assert "1 cells run, 0 kept, 0 failed" in lines
    assert lines[-3:] == ["html: r/report.html", "markdown: r/report.md", "json: r/report.json"]
    begun, ended = outcome.err.splitlines()
    assert begun == "1/1 synthetic-small, popularity, seed 0 (time left not known yet)"
    assert ended.startswith("synthetic-small, popularity, seed 0: test recall@20 0.")


def test_every_remark_is_shown(cli: CommandLine) -> None:
    arguments = ("reproduce", "all", "--report-only", "--out", "nothing")
    shown = cli(*arguments).out.splitlines()
    for exhibit in cli(*arguments, "--json").json["exhibits"]:
        place = shown.index(exhibit["title"])
        told = [f"  {remark}" for remark in exhibit["remarks"]]
        assert any(shown[k : k + len(told)] == told for k in range(place, len(shown)))


@pytest.mark.parametrize("width", [60, 100, 300])
def test_a_wide_table_is_shown_in_parts_that_fit(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    files = CellFiles(Path("results"))
    know(files, *PAPER_DATASETS)
    plan = Plan(seeds=(0, 1))
    for dataset in PAPER_DATASETS:
        keep(files, plan.cells("lightgcn", dataset))
    arguments = ("reproduce", "table-effectiveness", "--report-only", "--out", "results")
    (first, *_) = cli(*arguments, "--json").json["exhibits"][0]["remarks"]
    table = cli(*arguments).out.partition(f"\n  {first}\n")[0].splitlines()
    assert all(len(line) <= width for line in table)
    rows = " ".join(line for line in table if line.startswith(" LightGCN "))
    for printed, metric in itertools.product(EFFECTIVENESS["lightgcn"].values(), (0, 1)):
        assert f".1000 ± .0000 ({figure(printed[metric])}, " in rows
    assert rows.count("LightGCN ") == {60: 6, 100: 3, 300: 1}[width]


def test_several_seeds_give_an_interval(cli: CommandLine) -> None:
    arguments = ("--only", "wmf", "--seeds", "0,1,2")
    found = cli("reproduce", "table-effectiveness", *QUICK, *arguments, "--json").json
    row = next(row for row in found["exhibits"][0]["rows"] if row["name"] == "WMF")
    assert len(row["entries"][0]["values"]) == 3
    low, high = row["entries"][0]["interval"]
    assert low < row["entries"][0]["mean"] < high


def test_a_report_alone_runs_nothing_and_needs_no_data(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_training(monkeypatch)
    files = CellFiles(Path("results"))
    know(files, "gowalla", "amazon-book-75")
    keep(files, Plan(datasets=("gowalla",)).cells("dregn-cf", "gowalla"))
    arguments = ("reproduce", "table-effectiveness", "--report-only", "--out", "results")
    found = cli(*arguments, "--json").json
    assert found["datasets"] == ["gowalla", "yelp2018", "amazon-book", "amazon-book-75"]
    assert found["cells"] == {"run": [], "kept": [], "failed": []}
    row = next(row for row in found["exhibits"][0]["rows"] if row["name"] == "DREGN-CF")
    assert row["entries"][0]["values"] == [0.1]
    assert len(row["entries"]) == 4  # of the two data sets that were ever there
    assert (
        "Amazon-Book: not run: no verified copy of it was found." in found["exhibits"][0]["remarks"]
    )
    assert cli(*arguments, "--datasets", "gowalla", "--json").json["datasets"] == ["gowalla"]


def test_a_report_alone_shows_every_seed_of_the_files_unless_told(cli: CommandLine) -> None:
    files = CellFiles(Path("results"))
    know(files, "gowalla")
    arguments = ("reproduce", "table-effectiveness", "--report-only", "--out", "results", "--json")
    assert cli(*arguments).json["seeds"] == [0]
    keep(files, Plan(datasets=("gowalla",), seeds=(1, 3)).cells("dregn-cf", "gowalla"))
    assert cli(*arguments).json["seeds"] == [1, 3]
    assert cli(*arguments, "--seeds", "3").json["seeds"] == [3]


def test_a_report_alone_is_the_same_whatever_data_the_machine_has(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ("reproduce", "table-effectiveness", "--report-only", "--out", "results", "--json")
    bare = cli(*arguments).json
    there = benchmarks.Listing("amazon-book-75", 1, 1, 1, 1, "somewhere", "")
    monkeypatch.setattr(benchmarks, "available", lambda *_, **__: [there])
    assert cli(*arguments).json == bare
    told = cli(*arguments, "--datasets", "amazon-book,amazon-book-75").json
    assert told["datasets"] == ["amazon-book", "amazon-book-75"]


def test_what_could_not_run_is_shown_and_is_no_bug(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(presets, "PRESETS", {**presets.PRESETS, "ease": failing()})
    arguments = ("--only", "ease,popularity", "--json")
    outcome = cli("reproduce", "table-effectiveness", *QUICK, *arguments)
    assert outcome.code == 0
    (failure,) = outcome.json["cells"]["failed"]
    assert failure == {"where": f"{SMALL}/ease-seed0", "reason": str(MISSING), "is_bug": False}
    assert outcome.json["cells"]["run"] == [f"{SMALL}/popularity-seed0"]


def test_a_bug_in_one_cell_costs_no_other_and_ends_with_1(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = failing(TypeError("a bug"))
    monkeypatch.setattr(presets, "PRESETS", {**presets.PRESETS, "ease": broken})
    arguments = ("--only", "ease,popularity", "--json")
    outcome = cli("reproduce", "table-effectiveness", *QUICK, *arguments)
    assert outcome.code == 1
    assert "Traceback" in outcome.err
    assert outcome.json["cells"]["failed"][0]["is_bug"] is True
    assert Path("reproduced-quick/report.html").is_file()


@pytest.mark.parametrize(
    ("arguments", "where"),
    [
        (("table-ablations",), "TARGET"),
        (("all", "--protocol", "both"), "--protocol"),
        (("all", "--seeds", "0,x"), "--seeds"),
        (("all", "--seeds", "1,1"), "--seeds"),
        (("all", "--only", "dregncf"), "--only"),
        (("all", "--max-seconds", "0"), "--max-seconds"),
        (("all", "--checkpoint-seconds", "-1"), "--checkpoint-seconds"),
        (("all", "--device", "abacus"), "--device"),
        (("all", "--datasets", "gowalla"), "--datasets"),
    ],
)
def test_a_mistake_is_refused_before_anything_is_written(
    cli: CommandLine,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    arguments: tuple[str, ...],
    where: str,
) -> None:
    no_training(monkeypatch)
    assert f"where: {where};" in cli("reproduce", *arguments, "--quick").refusal
    assert list(tmp_path.iterdir()) == []


def test_data_that_are_not_there_are_refused_with_the_command_that_fetches_them(
    cli: CommandLine, tmp_path: Path
) -> None:
    assert "ratiorec data fetch gowalla" in cli("reproduce", "all").refusal
    named = cli("reproduce", "all", "--datasets", "yelp2018").refusal
    assert "wanted: ratiorec data fetch yelp2018" in named
    assert "with a test part" in cli("reproduce", "all", "--datasets", "ml-100k").refusal
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_stops_cleanly_and_the_same_command_goes_on(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = reproduce_progress.ReproduceProgress.__call__
    taken = 0

    def watched(self: Any, event: StepTaken | EpochFinished) -> None:
        nonlocal taken
        plain(self, event)
        taken += isinstance(event, StepTaken)
        if taken == 10 and isinstance(event, StepTaken):
            signal.raise_signal(signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    arguments = ("reproduce", "table-ablation", *QUICK, "--only", "dregn-cf,dregn-cf-uniform")
    with monkeypatch.context() as patch:
        patch.setattr(reproduce_progress.ReproduceProgress, "__call__", watched)
        outcome = cli(*arguments)
    assert outcome.code == 130
    assert outcome.out == ""
    assert outcome.err.splitlines()[-1] == (
        "ratiorec: the reproduction was stopped (where: synthetic-small, dregn-cf, seed 0; found: "
        "a request to stop; wanted: the same command, which goes on from here)"
    )
    assert signal.getsignal(signal.SIGINT) == before
    assert not Path("reproduced-quick/report.html").exists()
    again = cli(*arguments)
    assert again.code == 0
    assert "1/2 synthetic-small, dregn-cf, seed 0: goes on after epoch 2" in again.err


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_process_that_was_ended_in_the_middle_of_a_cell_goes_on_to_the_same_files(
    cli: CommandLine, tmp_path: Path, number: signal.Signals
) -> None:
    arguments = ("reproduce", "table-ablation", *QUICK, "--only", "dregn-cf,dregn-cf-static")
    assert cli(*arguments, "--out", "whole").code == 0
    command = (*arguments, "--out", "cut", "--checkpoint-seconds", "0")
    process = ForkedCommand(*command)
    files = CellFiles(tmp_path / "cut")
    checkpoint = files.checkpoints(cell()).folder / FILE
    while not checkpoint.exists():
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.001)
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(number)
    process.communicate()
    assert process.returncode == {signal.SIGKILL: -9, signal.SIGINT: 130}[number]
    assert checkpoint.exists()
    assert not files.record_path(cell()).exists()
    assert cli(*command).code == 0
    assert without_times(Path("cut")) == without_times(Path("whole"))
    assert not Path("cut/checkpoints").exists()
    assert {path.name for path in Path("cut").iterdir()} == {
        path.name for path in Path("whole").iterdir()
    }


def test_a_plain_report_tells_no_place_on_this_machine(cli: CommandLine, tmp_path: Path) -> None:
    out = tmp_path / "somewhere"
    assert cli("reproduce", "all", *QUICK, "--only", "popularity", "--out", out).code == 0
    for path in out.rglob("*"):
        if path.is_file():
            assert str(tmp_path).encode() not in path.read_bytes(), path


def test_every_target_can_be_asked_for_alone(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_training(monkeypatch)
    shown: list[Any] = []
    for target in TARGETS:
        outcome = cli("reproduce", target, "--quick", "--report-only", "--json")
        assert outcome.code == 0
        shown.append(outcome.json["exhibits"])
    assert all(shown)


def test_progress_tells_now_and_then_how_far_a_long_cell_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr(reproduce_progress.time, "monotonic", lambda: now[0])
    with reproduce_progress.ReproduceProgress() as progress:
        progress.begin(cell(), place=2, n_cells=9, seconds_left=600)
        for seconds, step in ((10.0, 100), (40.0, 400), (50.0, 500)):
            now[0] = seconds
            progress(StepTaken("search", 1, step, 1000, 0.5))
            metrics = {"recall@20": 0.2, "ndcg@20": 0.1}
            progress(EpochFinished({"epoch": 1, "validation": metrics}))
    assert capsys.readouterr().err.splitlines() == [
        "2/9 synthetic-small, dregn-cf, seed 0 (about 10 min left)",
        "2/9 synthetic-small, dregn-cf, seed 0: search 400/1000 steps · validation nDCG@20 0.1000",
    ]
