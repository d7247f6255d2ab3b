"""Tables of the page on the reproduction, from made-up files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lab_support.fake_cells import curve, keep, know, time_steps
from lab_support.fake_cells import metrics as figures
from ratiorec.files import write_json
from ratiorec_lab.reproduce.plan import Plan
from ratiorec_lab.reproduce.records import CellFiles
from ratiorec_lab.results.reproduction import (
    bpr_mf_table,
    clamp_table,
    held_out_table,
    orders_table,
    other_sets_table,
    timed_table,
)


def metrics(ndcg: float) -> dict[str, float]:
    return {"recall@20": 2 * ndcg, "ndcg@20": ndcg}


def member(name: str, validation: float, test: float) -> dict[str, Any]:
    return {"name": name, "validation": metrics(validation), "test": metrics(test)}


def preset(name: str, validation: float, test: float | None) -> dict[str, Any]:
    found = None if test is None else metrics(test)
    return {
        "preset": name,
        "validation": metrics(validation),
        "validation_by": "random",
        "test": found,
    }


def test_models_are_ranked_by_each_judge_and_compared_with_test(tmp_path: Path) -> None:
    judged = {"random": (0.1, 0.2, 0.3), "last": (0.3, 0.2, 0.1)}
    for dataset in ("gowalla", "yelp2018"):
        for part, values in judged.items():
            members = [
                member(name, value, test)
                for name, value, test in zip("abc", values, (0.33, 0.22, 0.11), strict=True)
            ]
            path = tmp_path / f"bench-blend_ablation-{dataset}-{part}.json"
            write_json(path, {"result": {"runs": [{"members": members}]}})
    (tmp_path / "presets").mkdir()
    lines = orders_table(tmp_path).splitlines()
    assert lines[2] == "| gowalla | `a` | .1000 (3) | .3000 (1) | .3300 (1) |"
    assert lines[5] == "| gowalla | rank correlation with test | -1.00 | 1.00 |  |"


def test_what_is_ahead_of_the_method_is_bold_and_what_failed_is_said(tmp_path: Path) -> None:
    (tmp_path / "presets").mkdir()
    for name in ("amazon-book-75", "amazon-cds"):
        found = [preset("dregn-cf", 0.1, 0.1), preset("ease", 0.1, 0.2), preset("wmf", 0.1, None)]
        tied = preset("dregn-cf-fast", 0.1, 0.10001)
        path = tmp_path / "presets" / f"{name}.json"
        write_json(path, {"dataset": name, "results": [*found, tied]})
    table = other_sets_table(tmp_path)
    assert "| `ease` | **.4000 / .2000** | **.4000 / .2000** |" in table
    assert "| `dregn-cf-fast` | .2000 / .1000 | .2000 / .1000 |" in table
    assert "| `wmf` | not measured | not measured |" in table
    assert "Ahead of `dregn-cf` on amazon-cds: `ease`." in table


def test_a_run_of_the_reproduction_comes_before_one_that_was_cut(tmp_path: Path) -> None:
    (tmp_path / "presets").mkdir()
    cut = {"max_seconds": 60, "stopped_by": "time budget"}
    for name in ("amazon-book-75", "amazon-cds"):
        found = [preset("dregn-cf", 0.1, 0.1), preset("lightgcn", 0.1, 0.05) | cut]
        write_json(tmp_path / "presets" / f"{name}.json", {"dataset": name, "results": found})
    folder = tmp_path / "reproduce" / "cells" / "validated" / "amazon-book-75"
    folder.mkdir(parents=True)
    write_json(folder / "lightgcn-seed0.json", preset("lightgcn", 0.1, 0.06))
    assert "| `lightgcn` | .1200 / .0600 | .1000 / .0500 ‡ |" in other_sets_table(tmp_path)


def test_clamped_users_are_shares_by_bound(tmp_path: Path) -> None:
    bounds = ("5", "10", "20", "30", "50", "60", "70", "90")
    one = {"step": 1200, "largest_threshold": 64.37, "clamped": dict.fromkeys(bounds, 0.0123)}
    path = tmp_path / "bench-clamp-gowalla.json"
    path.write_text(json.dumps({"result": {"epochs": [one]}}), encoding="utf-8")
    row = clamp_table(tmp_path).splitlines()[-1]
    assert row == f"| 1,200 | {' | '.join(['1.23 %'] * 8)} | 64.4 |"


def test_tables_of_cells_have_what_was_run_beside_what_was_published(tmp_path: Path) -> None:
    files, plan = CellFiles(tmp_path / "reproduce"), Plan(datasets=("gowalla",))
    know(files, "gowalla", "yelp2018")
    for preset_name in ("bpr-mf", "enmf", "dregn-cf"):
        cells = list(plan.cells(preset_name, "gowalla"))
        keep(files, cells, curve=curve([None, 0.1], n_steps=50), test=figures(0.12, 0.15))
    assert held_out_table(tmp_path) == "Not run yet."
    last = Plan("validated-last", ("gowalla",)).cells("enmf", "gowalla")
    keep(files, last, validation=figures(0.09), test=figures(0.11))
    time_steps(files, "gowalla", {"enmf": (0.1, 0.2, 0.3), "dregn-cf": (0.3, 0.4, 0.5)})
    assert "| ENMF | 200 ms: 0.5 × |  |  |" in timed_table(tmp_path)
    assert "| Gowalla | **here** | .1500 | .1200 |" in bpr_mf_table(tmp_path)
    assert "| Gowalla | GRecX, github.com/maenzhier/GRecX | not told | .1400 |" in bpr_mf_table(
        tmp_path
    )
    assert "| ENMF | .1000 | .0900 | .1200 | .1100 |" in held_out_table(tmp_path)
