from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lab_support.markdown import cells, rows
from ratiorec_lab.bench.targets import TARGETS
from ratiorec_lab.bench.words import milestones
from ratiorec_lab.results import performance

ROOT = Path(__file__).parents[3]
CASE: dict[str, Any] = {
    "target": "recommend",
    "name": "top-k",
    "execution": "ratiorec",
    "device": "cpu",
    "seconds": 0.0123,
    "floor_seconds": 0.004,
    "ratio_to_floor": 3.075,
    "ratio_to_reference": 0.5,
    "ratio_to_rival": None,
    "peak_extra_mb": 20.1,
    "users_per_second": 4567.8,
}
RECORD = {
    "target": "all",
    "dataset": "gowalla",
    "machine": {"cores": 2, "processor": "AMD", "accelerator": "H200"},
    "ceilings": [],
    "cases": [CASE, CASE | {"device": "cuda", "execution": "GPU", "seconds": 1500.0}],
}


def test_a_table_has_the_cases_of_its_target(tmp_path: Path) -> None:
    (tmp_path / "bench-a.json").write_text(json.dumps(RECORD))
    (tmp_path / "bench-other.json").write_text(json.dumps({"target": "bench x", "result": {}}))
    tables = performance.tables(tmp_path)
    assert tables["bench-risk"] == "Not measured yet."
    head, _, on_cpu, on_gpu = tables["bench-recommend"].splitlines()
    assert head.split(" | ")[3:6] == ["time", "floor", "× floor"]
    assert on_cpu == (
        "| gowalla | 2 cores, AMD | top-k, ratiorec | 12.3 ms | 4 ms | 3.08 | 0.5 |  | 20 "
        "| 4,568 users/s |"
    )
    assert on_gpu.startswith("| gowalla | H200 | top-k, GPU | 1,500 s | ")


def test_a_curve_tells_when_it_first_stood_above_a_level() -> None:
    recalls = [0.1, 0.15, 0.139, 0.17]
    curve = [{"seconds": 2.0 * n, "recall@20": recall} for n, recall in enumerate(recalls)]
    assert list(milestones(curve)) == ["≥ .14 after 2 s", "≥ .16 after 6 s"]


def growing(value: int, seconds: float, mb: float) -> dict[str, Any]:
    """A step at a point of the axis of users."""
    along = {"target": "growth", "work": "step", "axis": "users", "value": value}
    return CASE | along | {"execution": "tiled", "seconds": seconds, "peak_extra_mb": mb}


GROWING = RECORD | {
    "cases": [growing(10, 0.002, 5.0), growing(100, 0.002, 5.0), growing(1000, 0.2, 500.0)]
}


def test_growth_is_told_by_lines_with_their_exponents(tmp_path: Path) -> None:
    (tmp_path / "bench-growth-cpu.json").write_text(json.dumps(GROWING))
    _, _, time, memory, _, *images = performance.tables(tmp_path)["bench-growth"].splitlines()
    line = "| 2 cores, AMD | users 10 to 1,000 | step, tiled"
    assert time == f"{line} | 2 ms | 2 ms | 200 ms | 1.00 | 2.00 |"
    assert memory == f"{line}, memory | 5 MB | 5 MB | 500 MB | 1.00 | 2.00 |"
    assert [image.partition("](")[2] for image in images if image] == [
        "growth-time-cpu.svg)",
        "growth-memory-cpu.svg)",
    ]


def test_every_image_of_growth_is_drawn(tmp_path: Path) -> None:
    on_gpu = GROWING | {"cases": [case | {"device": "cuda"} for case in GROWING["cases"]]}
    (tmp_path / "bench-growth-cpu.json").write_text(json.dumps(GROWING))
    (tmp_path / "bench-growth-gpu.json").write_text(json.dumps(on_gpu))
    images = performance.images(tmp_path)
    assert list(images) == [
        f"growth-{name}-{kind}.svg" for kind in ("cpu", "cuda") for name in ("time", "memory")
    ]
    text = performance.tables(tmp_path)["bench-growth"]
    for name, image in images.items():
        assert f"({name})" in text
        assert "tiled" in image


def frontier_record() -> dict[str, Any]:
    """A race of two automatic choices with a rival and one more."""

    def raced(name: str, seconds: float, recall: float, **more: Any) -> dict[str, Any]:
        curve = [{"seconds": seconds, "recall@20": recall}]
        figures = {"recall@20": recall, "ndcg@20": recall, "curve": curve}
        return CASE | {"target": "frontier", "execution": name, "seconds": seconds} | figures | more

    walk = {"name": "walk", "why": "chosen", "validation": {"ndcg@20": 0.1}, "weight": 1.0}
    walk |= {"seconds": 2.0, "refit_seconds": 0.5}
    late = {"name": "softmax", "why": "left out: about 40 s needed, 3 s left", "validation": None}
    late |= {"seconds": 0.0, "refit_seconds": 0.0, "weight": 0.0}
    judged = late | {"validation": {"ndcg@20": 0.1}, "seconds": 12.0, "refit_seconds": 3.0}
    halves = [walk | {"weight": 0.4}, judged | {"weight": 0.6}]
    cases = [
        raced("auto@30", 29.0, 0.19, members=halves),
        raced("auto@5", 4.9, 0.18, members=[walk, late]),
        raced("implicit-als:solver.dimension=64", 4.0, 0.14),
        raced("implicit-als:solver.dimension=128", 8.0, 0.16),
        raced("item-knn", 6.0, 0.165),
    ]
    return RECORD | {"target": "frontier", "cases": cases}


def test_every_budget_stands_beside_the_best_that_was_there_by_then(tmp_path: Path) -> None:
    (tmp_path / "bench-frontier-cpu.json").write_text(json.dumps(frontier_record()))
    text = performance.tables(tmp_path)["auto-budgets"]
    short, long = rows(text)
    assert short == {
        "data set": "gowalla",
        "device": "2 cores, AMD",
        "budget": "5 s",
        "wall clock": "4.9 s",
        "R@20 of `auto`": ".1800",
        "nDCG@20": ".1800",
        "`implicit`'s best by then": ".1400 (implicit-als 64)",
        "best of the others by then": "none",
    }
    assert long["`implicit`'s best by then"] == ".1600 (implicit-als 128)"
    assert long["best of the others by then"] == ".1650 (item-knn)"
    assert text.endswith("(frontier-cpu.svg)")


def test_the_seconds_of_each_member_stand_under_its_budget(tmp_path: Path) -> None:
    (tmp_path / "bench-frontier-cpu.json").write_text(json.dumps(frontier_record()))
    assert cells(performance.tables(tmp_path)["auto-members"]) == [
        ["gowalla, 2 cores, AMD", "within 5 s", "within 30 s"],
        ["walk", "2 s + 500 ms, weight 1.00", "2 s + 500 ms, weight .40"],
        ["softmax", "left out: about 40 s needed, 3 s left", "12 s + 3 s, weight .60"],
    ]


def test_the_frontier_is_drawn_where_an_automatic_choice_took_part(tmp_path: Path) -> None:
    (tmp_path / "bench-frontier-cpu.json").write_text(json.dumps(frontier_record()))
    without = frontier_record()
    without["cases"] = [case | {"device": "cuda"} for case in without["cases"][2:]]
    (tmp_path / "bench-frontier-gpu.json").write_text(json.dumps(without))
    assert list(performance.images(tmp_path)) == ["frontier-cpu.svg"]
    assert "implicit-als, best so far" in performance.images(tmp_path)["frontier-cpu.svg"]
    assert len(rows(performance.tables(tmp_path)["auto-budgets"])) == 2


def test_without_measurements_there_are_no_images(tmp_path: Path) -> None:
    assert performance.images(tmp_path) == {}
    assert performance.tables(tmp_path)["auto-members"] == "Not measured yet."


def test_every_target_has_its_place_on_the_page() -> None:
    text = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    for target in TARGETS:
        assert text.count(f"<!-- bench-{target}: begin -->") == 1
        assert text.count(f"<!-- bench-{target}: end -->") == 1
        assert f"\n## {target}\n" in text


def served(p99: list[float], *, model: dict[str, Any], rate: float) -> dict[str, Any]:
    best = {"per_second": 1234.4, "p50_ms": 1.94, "p99_ms": min(p99)}
    run = {"best": best, "p99_ms": p99}
    return {
        "model": model,
        "closed": [run | {"connections": 1}, run | {"connections": 4}],
        "open": [run | {"asked_per_second": rate}],
        "seconds_to_first_answer": [2.0, 1.14],
        "swaps": {"swaps": 3, "failed": 0, "requests": 3800, "max_ms": 143.2},
        "memory": {"resident_mb": [100.0, 194.6], "requests": 100_000, "failed": 1},
        "end": {"failed": 0, "seconds_to_end": 0.3},
    }


def test_a_served_blend_stands_beside_a_served_model(tmp_path: Path) -> None:
    single = served([2.8, 4.8], model={"dimension": 64}, rate=400.0)
    blend = {"members": ["popularity", "inner_product"], "joined_dimensions": 1152}
    other = served([13.0], model=blend | {"narrowed_to": 512}, rate=40.0)
    (tmp_path / "bench-serve_load.json").write_text(json.dumps({"result": single}))
    (tmp_path / "bench-serve_load-blend.json").write_text(json.dumps({"result": other}))
    head, *lines = cells(performance.serving_table(tmp_path))
    assert head[1:] == [
        "one model: 64 dimensions",
        "blend: 2 members (popularity, 1,152 joined dimensions narrowed to 512)",
    ]
    by_load = {line[0]: line[1:] for line in lines}
    assert by_load["4 connections"][0] == "1,234/s, p50 1.9 ms, p99 2.8 ms (3 to 5)"
    assert by_load["40 a second, whatever the answers do"][0] == "not measured"
    assert by_load["from the start of the process to its first answer"] == ["1.1 s"] * 2
    assert by_load["memory after many requests"][0] == "195 MB after 100,000, 1 failed"


def test_ray_workers_stand_beside_one_process_with_what_they_cost(tmp_path: Path) -> None:
    assert performance.engines_table(tmp_path) == "Not measured yet."
    one = {
        "users_per_second": 9000,
        "users_per_second_of_each_turn": [9100, 8000, 9000],
        "ratio_to_one_process": 1.0,
        "seconds": 4.0,
        "processor_seconds": 3.0,
    }
    sent = {"worker_bytes": 450.0, "block_bytes": 201.0, "most_in_store_bytes": 0.0}
    costs = {"start_seconds": 5.04, "first_block_seconds": 2.0, "block_overhead_ms": 1.25}
    size = {"users": 40_000, "items": 9, "dimension": 8, "pairs": 1, "k": 2, "block_users": 2_000}
    ways = {"one process": one, "Ray": one | sent | costs | {"ratio_to_one_process": 1.5}}
    record = {
        "result": {"size": size, "turns": 3, "ways": ways},
        "machine": {"cores": 2, "processor": "some"},
    }
    (tmp_path / "bench-engines.json").write_text(json.dumps(record))
    table, about = performance.engines_table(tmp_path).split("\n\n")
    _, first, second = cells(table)
    assert first == ["one process", "9,000", "8,000 to 9,100", "1.00", "", "", ""]
    assert second[3:] == ["1.50", "5.04 s", "2 s", "1.25 ms"]
    assert "blocks of 2,000 users; 2 cores (some), medians of 3 turns" in about
    assert "once: 450 bytes; for each block and its answer: 201." in about
    assert "ranking alone on one core had 75% of one" in about
