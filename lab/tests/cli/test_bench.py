from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lab_support.quick_bench import AT_ONCE, without_processes
from ratiorec.cli import options
from ratiorec.data.synthetic import Synthetic
from ratiorec.errors import StorageError
from ratiorec_lab.bench import clock, page
from ratiorec_lab.bench.growth_lines import AXES
from ratiorec_lab.bench.targets import TARGETS
from ratiorec_lab.cli import bench as bench_progress
from support.command_line import CommandLine

CPU = ("--device", "cpu")
KEYS = {
    *("name", "execution", "device", "size", "seconds", "floor_seconds"),
    *("peak_extra_mb", "ratio_to_reference"),
}


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "QUICK", AT_ONCE)
    without_processes(monkeypatch)


@pytest.fixture(scope="session")
def clicks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixty users and forty items."""
    data = Synthetic(n_users=60, n_items=40, mean_pairs=12)(rng=np.random.default_rng(0))
    train = data.dataset.train
    users, items = train.users.ids[train.pair_users], train.items.ids[train.indices]
    lines = [f"{user},{item}" for user, item in zip(users, items, strict=True)]
    path = tmp_path_factory.mktemp("data") / "clicks.csv"
    path.write_text("\n".join(["user_id,item_id", *lines]) + "\n")
    return path


def no_measuring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options, "load_data", lambda *_: pytest.fail("loading began"))


@pytest.mark.parametrize("target", TARGETS)
def test_every_target_has_the_keys_of_the_contract(
    cli: CommandLine, clicks: Path, target: str
) -> None:
    found = cli("bench", target, "--data", clicks, *CPU, "--quick", "--json").json
    assert found.keys() == {
        *("target", "dataset", "data_sha256", "cases", "ceilings", "left_out"),
        *("machine", "versions", "commit", "command"),
    }
    assert (found["target"], found["dataset"]) == (target, "clicks")
    assert (
        found["command"] == f"ratiorec bench {target} --data {clicks} --device cpu --quick --json"
    )
    assert found["cases"]
    for case in found["cases"]:
        assert case.keys() >= KEYS
        assert (case["target"], case["device"]) == (target, "cpu")
        assert case["seconds"] > 0
        assert case["spread"][0] <= case["seconds"] <= case["spread"][1]
    for ceilings in found["ceilings"]:
        assert ceilings["target"] == target
        assert ceilings["operations_per_second"] > 0
        assert ceilings["bytes_per_second"] > 0


@pytest.mark.parametrize("target", TARGETS)
def test_ratios_and_floors_are_consistent_with_the_seconds(
    cli: CommandLine, clicks: Path, target: str
) -> None:
    found = cli("bench", target, "--data", clicks, *CPU, "--quick", "--json").json
    for case in found["cases"]:
        alike = [one for one in found["cases"] if one["name"] == case["name"]]
        references = [one for one in alike if one["ratio_to_reference"] == 1]
        if not references:  # an extra is missing
            assert case["ratio_to_reference"] is None
            continue
        expected = case["seconds"] / references[0]["seconds"]
        assert case["ratio_to_reference"] == pytest.approx(expected, rel=1e-4)
        if rivals := [one["seconds"] for one in alike if one["rival"]]:
            assert case["ratio_to_rival"] == pytest.approx(case["seconds"] / min(rivals), rel=1e-4)
        if case["floor_seconds"]:
            expected = case["seconds"] / case["floor_seconds"]
            assert case["ratio_to_floor"] == pytest.approx(expected, rel=1e-4)
            (rates,) = found["ceilings"]
            least = max(
                case["operations"] / rates["operations_per_second"],
                case["bytes"] / rates["bytes_per_second"],
            )
            assert case["floor_seconds"] >= least * 0.99


def test_all_is_every_target_and_the_default(cli: CommandLine, clicks: Path) -> None:
    found = cli("bench", "--data", clicks, *CPU, "--quick", "--json", "--out", "out").json
    assert found["target"] == "all"
    assert list(dict.fromkeys(case["target"] for case in found["cases"])) == list(TARGETS)
    assert [one["target"] for one in found["ceilings"]] == list(TARGETS)
    html = Path("out/bench-all.html").read_text()
    assert html.count("<svg") == len(TARGETS) - 1 + 2 * len(AXES)  # growth has two for each axis


def test_a_table_is_printed_and_nothing_else(cli: CommandLine, clicks: Path) -> None:
    outcome = cli("bench", "propagation", "--data", clicks, *CPU, "--quick")
    title, head, *rows, rates = outcome.out.splitlines()
    assert title == "propagation"
    assert head.split()[:3] == ["time", "spread", "floor"]
    ways = ["ratiorec", "torch CSR", "torch COO", "scipy"]
    expected = [f"{name}, {way}" for name in ("product", "mean of layers") for way in ways]
    assert [row.split("  ")[0] for row in rows] == expected
    assert rates.startswith("cpu: ")
    assert outcome.code == 0


def test_the_embedded_data_are_measured_on_where_it_must_be_quick(cli: CommandLine) -> None:
    found = cli("bench", "risk", *CPU, "--quick", "--users", "50", "--json").json
    assert found["dataset"] == "synthetic"
    assert found["cases"][0]["size"]["users"] == 50


def test_growth_makes_its_own_data(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    no_measuring(monkeypatch)
    found = cli("bench", "growth", *CPU, "--quick", "--json").json
    assert found["dataset"] == "long-tailed pairs"
    assert {case["axis"] for case in found["cases"]} == set(AXES)


def test_out_has_a_page_with_the_plot_and_the_same_figures(cli: CommandLine, clicks: Path) -> None:
    outcome = cli("bench", "risk", "--data", clicks, *CPU, "--quick", "--out", "a/b", "--json")
    assert json.loads(Path("a/b/bench-risk.json").read_text()) == outcome.json
    html = Path("a/b/bench-risk.html").read_text()
    assert html.count("<svg") == 1
    assert "dense PyTorch" in html
    assert outcome.err.splitlines()[-1] == "page: a/b/bench-risk.html"


def test_a_record_is_what_was_printed_less_its_own_place(cli: CommandLine, clicks: Path) -> None:
    arguments = ("bench", "risk", "--data", clicks, *CPU, "--quick", "--json")
    outcome = cli(*arguments, "--record", "results/bench-risk.json")
    record = json.loads(Path("results/bench-risk.json").read_text())
    assert record == outcome.json
    assert record["command"] == " ".join(["ratiorec", *map(str, arguments)])


def test_an_unknown_target_is_answered_with_the_nearest(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    no_measuring(monkeypatch)
    refusal = cli("bench", "frontir", "--out", "out").refusal
    assert "unknown target (where: TARGET; found: 'frontir'; wanted: one of risk, " in refusal
    assert "did you mean frontier?" in refusal
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "where"),
    [
        (("--presets", "lightgnc"), "--presets"),
        (("--presets", "dre-mf,dre-mf"), "--presets"),
        (("--presets", "dre-mf:training.penalties=1"), "training"),
        (("--max-seconds", "0"), "--max-seconds"),
        (("--max-seconds", "nan"), "--max-seconds"),
        (("--device", "abacus"), "--device"),
        (("--record", "."), "--record"),
    ],
)
def test_options_out_of_range_are_refused_before_the_data_are_loaded(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], where: str
) -> None:
    no_measuring(monkeypatch)
    assert f"where: {where};" in cli("bench", "step", *arguments).refusal


def test_data_that_are_not_there_are_refused_with_the_command_that_fetches_them(
    cli: CommandLine,
) -> None:
    assert "ratiorec data fetch gowalla" in cli("bench", "risk", *CPU).refusal


def test_a_missing_extra_is_told_and_the_rest_is_measured(
    cli: CommandLine, clicks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "implicit.cpu.als", None)
    arguments = ("bench", "recommend", "--data", clicks, *CPU, "--quick")
    shown = cli(*arguments)
    assert shown.code == 0
    last = shown.out.splitlines()[-1]
    assert last.startswith("left out: implicit: implicit is not installed")
    assert "pip install 'ratiorec[rivals]'" in last
    (line,) = cli(*arguments, "--json").json["left_out"]
    assert (line["target"], line["execution"]) == ("recommend", "implicit")


def test_what_cannot_be_written_does_not_cost_the_figures(
    cli: CommandLine, clicks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise StorageError("no room", where="here", found="a full disk", wanted="room")

    monkeypatch.setattr(page, "write_page", refuse)
    outcome = cli("bench", "risk", "--data", clicks, *CPU, "--quick", "--json", "--out", "out")
    assert outcome.code == 2
    assert outcome.json["cases"]
    assert outcome.err.splitlines()[-1].startswith("ratiorec: no room")


def test_presets_and_rounds_are_those_asked_for(cli: CommandLine, clicks: Path) -> None:
    presets = ("--presets", "dre-mf, lightgcn:batches.n_pairs=64", "--repeats", "4")
    found = cli("bench", "step", "--data", clicks, *CPU, "--quick", *presets, "--json").json
    assert [case["name"] for case in found["cases"]] == ["dre-mf", "lightgcn:batches.n_pairs=64"]
    assert {case["rounds"] for case in found["cases"]} == {4}


def test_progress_tells_the_rate_and_the_time_that_is_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr(bench_progress.time, "monotonic", lambda: now[0])
    with bench_progress.BenchProgress() as progress:
        for seconds, done in ((0.0, 0.0), (5.0, 1.0), (20.0, 4.0), (21.0, 5.0), (40.0, 8.0)):
            now[0] = seconds
            progress("step: round 1, dre-mf", done, 10.0)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "step: round 1, dre-mf (4 of 10, 0.2/s, 30 s left)",
        "step: round 1, dre-mf (8 of 10, 0.2/s, 10 s left)",
    ]


def test_every_target_begins_anew_to_be_timed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr(bench_progress.time, "monotonic", lambda: now[0])
    with bench_progress.BenchProgress() as progress:
        for seconds, what, done in (
            (0.0, "risk: a", 0.0),
            (100.0, "fit: b", 0.5),
            (110.0, "fit: b", 1.0),
            (120.0, "fit: memory", 0.0),
        ):
            now[0] = seconds
            progress(what, done, 0.0 if "memory" in what else 2.0)
    assert capsys.readouterr().err.splitlines() == [
        "fit: b (0.5 of 2)",
        "fit: b (1 of 2, 0.1/s, 10 s left)",
        "fit: memory (running)",
    ]
