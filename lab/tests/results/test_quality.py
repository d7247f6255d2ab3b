"""Tables of quality from made-up records."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from lab_support.fake_cells import GPU, keep, know, metrics, record_of
from lab_support.markdown import rows
from ratiorec.presets import PRESETS
from ratiorec_lab.reproduce.cells import Cell, cell_of
from ratiorec_lab.reproduce.plan import Plan
from ratiorec_lab.reproduce.records import CellFiles
from ratiorec_lab.results.quality import (
    OUTDATED,
    alternatives_table,
    intake_table,
    lines,
    method_table,
    rivals_table,
    splits_table,
)

REFIT = [
    {"phase": "search", "epoch": 1, "step": 10, "seconds": 5.0},
    {"phase": "refit", "epoch": 1, "step": 10, "seconds": 7.0},
    {"phase": "refit", "epoch": 2, "step": 20, "seconds": 11.0},
]


def cell(preset: str, dataset: str = "gowalla", seed: int = 0, **options: Any) -> Cell:
    found = cell_of(preset, dataset, protocol="validated", seed=seed, **options)
    assert found is not None
    return found


def write_cells(folder: Path, cells: list[Cell], **given: Any) -> None:
    files = CellFiles(folder / "reproduce")
    keep(files, cells, **{"curve": REFIT, "peak_memory_mb": 2048, "commit": "c0ffee0", **given})
    know(files, *{one.dataset for one in cells})


def write_fit(folder: Path, preset: str, name: str = "fit-one.json", **given: Any) -> None:
    fit = record_of(cell(preset), curve=REFIT, peak_memory_mb=1024, **given)
    (folder / name).write_text(json.dumps(fit))


def test_a_line_is_the_mean_of_its_cells_with_students_interval(tmp_path: Path) -> None:
    for seed, ndcg in enumerate((0.10, 0.11, 0.12)):
        write_cells(tmp_path, [cell("ngcf", seed=seed)], test=metrics(ndcg, recall=0.1567))
    (row,) = rows(rivals_table(lines(tmp_path)))
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


def test_cells_come_before_fits_of_the_same_device(tmp_path: Path) -> None:
    write_fit(tmp_path, "ngcf", test=metrics(0.2))
    processor = {"device": "cpu", "cores": 2, "processor": "Some Processor"}
    write_fit(tmp_path, "ngcf", "fit-two.json", test=metrics(0.3), machine=processor)
    before = {line.key.device: line.measured("ndcg@20").values for line in lines(tmp_path)}
    assert before == {GPU["accelerator"]: (0.2,), "2 cores, Some Processor": (0.3,)}
    write_cells(tmp_path, [cell("ngcf", seed=5)], test=metrics(0.1))
    after = {line.key.device: line.measured("ndcg@20").values for line in lines(tmp_path)}
    assert after == before | {GPU["accelerator"]: (0.1,)}


def test_fits_that_differ_in_the_seed_are_one_line(tmp_path: Path) -> None:
    write_fit(tmp_path, "ngcf", test=metrics(0.2))
    write_fit(tmp_path, "ease", "fit-three.json")
    write_fit(tmp_path, "ngcf", "fit-two.json", test=metrics(0.4), seed=1)
    other, line = lines(tmp_path)
    assert (other.key.preset, line.key.preset) == ("ease", "ngcf")
    assert line.measured("ndcg@20").mean == (0.2 + 0.4) / 2


def test_what_is_no_run_of_a_preset_on_the_test_part_has_no_line(tmp_path: Path) -> None:
    changed = {"training.l2": 0.5}
    write_cells(tmp_path, [cell("dregn-cf", changes=changed, on_validation=True)], test=None)
    paper = cell_of("dregn-cf", "gowalla", protocol="paper", seed=0)
    assert paper is not None
    write_cells(tmp_path, [paper], test=metrics(0.2))
    assert lines(tmp_path) == []


def test_a_cell_that_the_report_leaves_out_has_no_line(tmp_path: Path) -> None:
    write_cells(tmp_path, [cell("ease"), cell("ngcf")])
    know(CellFiles(tmp_path / "reproduce"), "gowalla")
    write_cells(tmp_path, [cell("ease", "yelp2018")], data_sha256="cd" * 32)
    write_cells(tmp_path, [cell("ngcf")], settings=record_of(cell("enmf"))["settings"])
    assert [line.key[:2] for line in lines(tmp_path)] == [("gowalla", "ease")]


def test_settings_that_a_preset_has_left_are_marked(tmp_path: Path) -> None:
    write_fit(tmp_path, "dregn-cf")
    plain = method_table(lines(tmp_path))
    assert OUTDATED not in plain
    settings = record_of(cell("dregn-cf"))["settings"]
    write_fit(tmp_path, "dregn-cf", settings={**settings, "another": 1})
    assert method_table(lines(tmp_path)) == plain
    training = settings["training"]
    older = {**settings, "training": {**training, "l2": 2 * training["l2"]}}
    write_fit(tmp_path, "dregn-cf", settings=older)
    marked = method_table(lines(tmp_path))
    assert rows(marked)[0]["preset"] == "`dregn-cf`†"
    assert marked.endswith("† with settings that the preset has left since.")


def test_the_readme_has_the_method_and_nothing_else(tmp_path: Path) -> None:
    write_cells(tmp_path, [cell("dregn-cf"), cell("ngcf"), cell("dregn-cf-fast")])
    found = rows(method_table(lines(tmp_path)))
    assert [row["preset"] for row in found] == ["`dregn-cf`", "`dregn-cf-fast`"]
    assert found[0]["published"] == ".1810 / .1541"
    assert found[1]["published"] == "not published"
    assert (found[0]["peak memory"], found[0]["training"]) == ("2.0 GiB", "10 s")


def test_rivals_are_on_a_gpu_where_they_were_run_on_one_the_best_first(tmp_path: Path) -> None:
    write_cells(tmp_path, [cell("dregn-cf"), cell("dregn-cf", "yelp2018")], test=metrics(0.1))
    write_cells(tmp_path, [cell("ngcf"), cell("pu", "amazon-book-75")], test=metrics(0.2))
    processor = {"device": "cpu", "cores": 2, "processor": "Some Processor"}
    write_cells(tmp_path, [cell("wmf")], machine=processor, test=metrics(0.15))
    write_fit(tmp_path, "ngcf", machine=processor)
    found = rows(rivals_table(lines(tmp_path)))
    shown = [tuple(row[name] for name in ("data set", "preset", "published")) for row in found]
    assert shown == [
        ("amazon-book-75", "`pu`", "not published"),
        ("gowalla", "`ngcf`", ".1567 / .1325"),
        ("gowalla", "`wmf`", "not published"),
        ("gowalla", "`dregn-cf`", ".1810 / .1541"),
    ]
    assert ["Some Processor" in row["device"] for row in found] == [False, False, True, False]


def test_what_falls_short_and_what_is_missing_is_said(tmp_path: Path) -> None:
    far, near = 0.96 * 0.1325, 0.98 * 0.1340
    write_cells(tmp_path, [cell("ngcf")], test=metrics(far, recall=0.1567))
    write_cells(tmp_path, [cell("mult-vae")], test=metrics(near, recall=0.2))
    everything = [cell(name, "yelp2018") for name in PRESETS if name != "dre-mf"]
    write_cells(tmp_path, everything, test=metrics(0.2))
    told = rivals_table(lines(tmp_path)).splitlines()
    told = [line for line in told if line.startswith("- ")]
    assert told[0] == "- gowalla, `ngcf`: nDCG@20 −4.0 %."
    assert told[1].startswith("- gowalla: `dregn-cf`, `dregn-cf-fast`, `pu`, ")
    assert "mult-vae" not in told[1]
    (both,) = told[2:]  # presets that no target of the paper runs are not measured by cells
    assert both.startswith("- gowalla and yelp2018: ")
    assert both.endswith(" have none.")
    assert "`dre-mf`" in both
    assert "`lightgcn`" not in both


def test_the_tables_take_every_run_that_the_papers_tables_have(tmp_path: Path) -> None:
    plan = Plan(datasets=("gowalla",), seeds=(0, 1))
    presets = ("pu", "dre", "ngcf", "lightgcn", "ease", "dregn-cf-static")
    write_cells(tmp_path, [one for preset in presets for one in plan.cells(preset, "gowalla")])
    found = {line.key.preset: len(line.records) for line in lines(tmp_path)}
    assert found == dict.fromkeys(presets, 2) | {"ease": 1}


def test_what_comes_in_is_told_in_percent_with_intervals(tmp_path: Path) -> None:
    names = ("partial_fit", "update", "others_before", "others_update")
    splits = [
        {"ratios": {key: {"recall@20": recall, "ndcg@20": ndcg} for key in names}}
        for recall, ndcg in ((0.98, 1.0), (1.0, 1.0))
    ]
    result = {"data": "gowalla", "held_out": "users", "splits": splits}
    (tmp_path / "bench-fold_in_quality.json").write_text(json.dumps({"result": result}))
    found = intake_table(tmp_path).splitlines()[2:]
    assert len(found) == 4
    assert found[0].startswith("| Gowalla, a tenth of the users ([2 splits](../results/bench-")
    cell = "99.0 (86.3 to 111.7)"  # 12.706 times 1
    assert found[0].endswith(f"| theirs | R@20 |  | {cell} | {cell} |")
    assert found[3].split(" | ")[3] == "100.0 (100.0 to 100.0)"


def test_the_evidence_of_a_public_split_is_a_line(tmp_path: Path) -> None:
    drift = {"mean": 0.0812, "t": 18.73, "n_users": 3}
    found = {
        "dataset": "gowalla",
        "test_against_train": drift,
        "random_share_against_rest": drift | {"mean": -0.0015, "t": -0.4},
        "last_tenth_against_rest": drift,
        "neighbours": {"agreement": 0.5431, "compared": 41382},
        "place_and_share_in_test": {"correlation": 0.231, "items": 9},
        "recall@20": {"test": 0.164, "random tenth": 0.2114, "last tenth": 0.1733},
    }
    text = json.dumps({"result": {"datasets": [found]}})
    (tmp_path / "bench-public_splits.json").write_text(text)
    assert splits_table(tmp_path).splitlines()[2] == (
        "| gowalla | +0.081 (t = 18.7) | -0.002 (t = -0.4) | +0.081 (t = 18.7) | 54.3% of 41,382 "
        "| 0.23 | .2114 / .1733 / .1640 |"
    )


def test_alternatives_stand_beside_each_other_with_the_best_in_bold(tmp_path: Path) -> None:
    found = [
        {"encoder.n_layers": value, "seed": seed, "validation": {"ndcg@20": ndcg}}
        for value, seed, ndcg in [(1, 0, 0.1), (2, 0, 0.3), (1, 1, 0.3), (2, 1, 0.2)]
    ]
    rules = [{"seed": 0, "rules": {"mean": {"ndcg@20": 0.2}, "step": {"ndcg@20": 0.1}}}]
    for part, runs in {"layers": found, "fold-in": rules}.items():
        result = {"dataset": "gowalla", "part": part, "found": runs}
        path = tmp_path / f"bench-alternatives-gowalla-{part}.json"
        path.write_text(json.dumps({"result": result}))
    first, second = rows(alternatives_table(tmp_path))
    assert (first["what"], first["seeds"]) == ("fold-in", "1")
    assert first["validation nDCG@20 of each"] == "mean: **.2000**; step: .1000"
    assert (second["what"], second["seeds"]) == ("layers", "2")
    assert second["validation nDCG@20 of each"] == "1: .2000; 2: **.2500**"
