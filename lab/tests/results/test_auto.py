"""Tables of the automatic choice from made-up records, and one from a real fit."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lab_support.fake_cells import GPU, metrics
from lab_support.markdown import cells, rows
from ratiorec.data.synthetic import Synthetic
from ratiorec.presets import PRESETS
from ratiorec.settings import SolverSettings
from ratiorec.solvers.settings import ItemKNN
from ratiorec.training import auto as automatic
from ratiorec.training.experiment import fit, result_record
from ratiorec.training.fit import FitOptions
from ratiorec.training.portfolio import Candidate
from ratiorec_lab.results import auto

HALF = 4.302653 / math.sqrt(3)  # Student's quantile of two degrees of freedom, over √n


def member(name: str, weight: float, ndcg: float | None = 0.1) -> dict[str, Any]:
    figures = None if ndcg is None else metrics(ndcg)
    return {"name": name, "weight": weight, "validation": figures, "test": figures}


def write(path: Path, record: dict[str, Any]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(record))


def write_fit(folder: Path, dataset: str, seed: int, ndcg: float, **given: Any) -> None:
    record = {
        "dataset": dataset,
        "seed": seed,
        "test": metrics(ndcg, recall=0.2),
        "members": [member("walk", 0.25), member("softmax", 0.75), member("ease", 0.0)],
        "seconds": {"train": 50.0, "total": 60.0 + seed},
        "machine": GPU,
    }
    write(folder / "auto" / f"{dataset}-{seed}.json", record | given)


def line(preset: str, ndcg: float | None, **given: Any) -> dict[str, Any]:
    error = None if ndcg else "DataError: too many items"
    found = {
        "preset": preset,
        "settings": {},
        "error": error,
        "stopped_by": "no gain",
        "test": metrics(ndcg) if ndcg else None,
        "seconds": {"train": 1.0, "total": 2.0},
    }
    return found | given


def write_presets(folder: Path, dataset: str, *lines: dict[str, Any]) -> None:
    record = {"dataset": dataset, "results": lines}
    write(folder / "presets" / f"{dataset}.json", record)


def test_the_default_stands_beside_the_best_published_and_the_best_preset(tmp_path: Path) -> None:
    for seed, ndcg in enumerate((0.16, 0.17, 0.18)):
        write_fit(tmp_path, "gowalla", seed, ndcg)
    write_presets(
        tmp_path,
        "gowalla",
        line("auto", 0.3),
        line("ease", 0.1),
        line("walk", 0.15),
        line("wmf", None),
    )
    first, *others = rows(auto.default_table(tmp_path))
    assert (first["data set"], first["seeds"], first["R@20"]) == ("gowalla", "3", ".2000 ± .0000")
    assert first["nDCG@20"] == ".1700 ± " + f"{0.01 * HALF:.4f}"[1:]
    assert first["best published"] == ".1941 / .1617 (ChebyCF)"
    assert (
        first["difference"]
        == f"+{100 * (0.2 / 0.1941 - 1):.1f} % / +{100 * (0.17 / 0.1617 - 1):.1f} %"
    )
    assert first["best preset alone"] == ".1500 / .1500 (`walk`)"
    assert first["fit"] == "61 s, Some GPU"
    assert first["the blend"] == "softmax .75, walk .25"
    assert [row["R@20"] for row in others] == ["not measured"] * 3


def test_every_device_has_a_line_of_its_own(tmp_path: Path) -> None:
    write_fit(tmp_path, "gowalla", 0, 0.16)
    write_fit(tmp_path, "gowalla", 1, 0.1, machine={"device": "cpu", "cores": 2, "processor": "P"})
    found = [row for row in rows(auto.default_table(tmp_path)) if row["data set"] == "gowalla"]
    assert {row["fit"].partition(", ")[2]: row["nDCG@20"] for row in found} == {
        "Some GPU": ".1600",
        "2 cores, P": ".1000",
    }


def run(
    seed: int, *, way: str = "last", blend: float = 0.2, without: float = 0.1
) -> dict[str, Any]:
    return {
        "seed": seed,
        "validation_by": way,
        "seconds": {"auto": 100.0, "total": 120.0},
        "chosen": {
            "validation": metrics(0.11),
            "test": metrics(blend),
            "test_of_model": metrics(blend + 0.01),
        },
        "members": [
            member("walk", 0.4, 0.05),
            member("softmax", 0.6, 0.07),
            member("wmf", 0.0, None),
        ],
        "without": [
            {"left_out": "walk", "weights": {"softmax": 1.0}, "test": metrics(without)},
            {"left_out": "softmax", "weights": {"walk": 1.0}, "test": metrics(0.05)},
            {"left_out": "walk and softmax", "weights": {}, "test": metrics(0.01)},
        ],
    }


def write_runs(folder: Path, dataset: str, name: str, *runs: dict[str, Any]) -> None:
    result = {"dataset": dataset, "runs": runs}
    write(folder / f"bench-blend_ablation-{name}.json", {"result": result})


def test_members_stand_alone_and_left_out_with_their_means(tmp_path: Path) -> None:
    write_runs(tmp_path, "yelp2018", "yelp2018", run(0, way="random"))
    seeds = [run(seed, without=0.1 + 0.02 * seed) for seed in range(3)]
    write_runs(tmp_path, "gowalla", "gowalla-last", *seeds)
    text = auto.tables(tmp_path)["auto-ablation"]
    header, *found = cells(text)
    members = ["walk", "softmax", "walk and softmax"]
    assert [row[0] or row[1] for row in found] == [
        *("gowalla, last (3 seeds)", *members),
        *("yelp2018, random (1 seed)", *members),
    ]
    assert found[0][3:5] == [".1100 ± .0000", ".2000 ± .0000 / .2000 ± .0000"]
    spread = f".1200 ± {0.02 * HALF:.4f}".replace(" 0.", " .")
    assert found[1][2:] == [
        *(".40", ".0500 ± .0000", ".0500 ± .0000 / .0500 ± .0000"),
        *(f"{spread} / {spread}", "−40.0 %"),
    ]
    assert found[3][2] == "1.00"
    assert header[-1] == "nDCG@20 changes by"


def test_both_ways_of_validating_stand_side_by_side(tmp_path: Path) -> None:
    ways = [run(0, way="random", blend=0.19), run(0, blend=0.21)]
    write_runs(tmp_path, "gowalla", "gowalla-random-last", *ways)
    last, random = rows(auto.tables(tmp_path)["auto-validation"])
    assert (last["held out"], random["held out"]) == ("last", "random")
    assert last["test R@20 / nDCG@20"] == ".2200 / .2200"
    assert random["test R@20 / nDCG@20"] == ".2000 / .2000"
    assert last["weights"] == "softmax .60, walk .40"


def test_auto_is_set_beside_all_presets_and_what_failed_is_named(tmp_path: Path) -> None:
    cut = line("lightgcn", 0.12, stopped_by="time budget")
    write_presets(tmp_path, "ml-100k", line("auto", 0.21), line("ease", 0.2))
    left = line("wmf", 0.1, settings={"solver": {"kind": "wmf", "dimension": 1}})
    write_presets(tmp_path, "gowalla", line("ease", None), line("walk", 0.15), cut, left)
    for seed, ndcg in enumerate((0.14, 0.15)):
        write_fit(tmp_path, "gowalla", seed, ndcg)
    table, *marks, told = auto.tables(tmp_path)["auto-presets"].split("\n\n")
    found = {row.pop("R@20 / nDCG@20, seconds of the fit"): row for row in rows(table)}
    assert list(found) == ["**`auto`**", *(f"`{name}`" for name in PRESETS)]
    assert found["**`auto`**"]["gowalla"].endswith("/ .1450 ± .0635, 60.5 s")
    assert found["**`auto`**"]["ml-100k"] == ".2100 / .2100, 2 s"
    assert found["`ease`"] == {"gowalla": "could not run", "ml-100k": ".2000 / .2000, 2 s"}
    assert found["`lightgcn`"]["gowalla"] == f".1200 / .1200, 2 s{auto.CUT}"
    assert found["`walk`"]["ml-100k"] == "not measured"
    assert found["`wmf`"]["gowalla"] == f".1000 / .1000, 2 s{auto.OUTDATED}"
    assert [mark[0] for mark in marks] == [auto.CUT, auto.OUTDATED]
    assert told.splitlines() == [
        "- gowalla: nDCG@20 of `auto` is .1450, −3.3 % beside `walk` alone.",
        "- ml-100k: nDCG@20 of `auto` is .2100, +5.0 % beside `ease` alone.",
        "- gowalla, `ease`: DataError: too many items",
    ]


def test_where_nothing_was_measured_the_tables_say_so(tmp_path: Path) -> None:
    assert set(auto.tables(tmp_path).values()) == {"Not measured."}
    assert auto.telescoping_table(tmp_path) == "Not measured."
    assert {row["R@20"] for row in rows(auto.default_table(tmp_path))} == {"not measured"}


def test_a_telescoped_model_stands_beside_the_blend_with_its_differences(tmp_path: Path) -> None:
    runs = [
        {
            "users": {"judging": 1000},
            "base": {"chosen": "walk"},
            "telescoped": {"kappa": kappa},
            "judged": {name: metrics(0.1 + gap) for name in auto._TELESCOPED},
            "differences": [
                {"of": a, "from": b, "mean": -gap, "interval": [-gap - 0.004, -gap + 0.004]}
                for a, b in auto._GAPS
            ],
        }
        for kappa, gap in [(0.1, 0.001), (0.3, 0.005), (1.0, 0.006)]
    ]
    record = {"result": {"dataset": "gowalla", "runs": runs}}
    write(tmp_path / "bench-telescoping-gowalla.json", record)
    lines = rows(auto.telescoping_table(tmp_path))
    found = {line["nDCG@20"]: [*line.values()][1] for line in lines}
    half = HALF * np.std([0.001, 0.005, 0.006], ddof=1)
    spread = f"± {half:.4f}".replace("0.", ".")
    assert found["chosen κ"] == "0.1, 0.3, 1"
    assert found["telescoped"] == f".1040 {spread}"
    assert found["telescoped less blend"] == f"−.0040 {spread} (0 above 0, 2 below)"


def test_the_record_of_a_fit_has_what_the_table_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    candidates = [
        Candidate("popularity", (PRESETS["popularity"],), is_floor=True),
        Candidate("item-knn", (SolverSettings(ItemKNN(20)),)),
    ]
    monkeypatch.setattr(automatic, "portfolio", lambda data, device: candidates)
    drawn = Synthetic(n_users=200, n_items=80, mean_pairs=16)(rng=np.random.default_rng(1))
    model = fit(drawn.dataset, device="cpu", options=FitOptions(max_seconds=60))
    record = result_record(
        model, target="fit", protocol="validated", command="ratiorec fit", commit=None
    )
    write(tmp_path / "auto" / "one.json", record)
    (found,) = [row for row in rows(auto.default_table(tmp_path)) if row["seeds"]]
    weights = {one["name"]: one["weight"] for one in model.card["members"]}
    best = max(weights, key=lambda name: weights[name])
    assert found["the blend"].startswith(f"{best} ")
    assert found["R@20"] == f"{model.card['test']['recall@20']:.4f}"[1:]
