from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from ratiorec_lab.bench.case import Case, Measured
from ratiorec_lab.bench.clock import Ceilings, Floor, Times
from ratiorec_lab.bench.frontier_chart import frontier_chart
from ratiorec_lab.bench.page import _TITLES, write_page
from ratiorec_lab.bench.targets import TARGETS

CEILINGS = {"cpu": Ceilings({"float32": 1e11}, 2e10)}
CURVE = [{"seconds": 1.0, "recall@20": 0.1}, {"seconds": 2.0, "recall@20": 0.2}]
RECORD: dict[str, Any] = {
    "dataset": "gowalla",
    "machine": {"cores": 2, "processor": "<P>"},
    "command": "ratiorec bench",
    "commit": None,
}


def measured(target: str) -> Measured:
    case = Case(
        "work",
        "dre-mf:solver.factors=3",
        "cpu",
        {},
        Times((1.0, 2.0)),
        Floor.of(n_bytes=1e10),
        figures={"curve": CURVE, "recall@20": 0.2} if target == "frontier" else {},
    )
    return Measured(target, [case], CEILINGS, {"implicit": "not <installed>"})


def written(tmp_path: Path, *targets: str) -> str:
    path = tmp_path / "page.html"
    write_page([measured(target) for target in targets], RECORD, path)
    return path.read_text()


# growth has one for each axis
@pytest.mark.parametrize("target", [target for target in TARGETS if target != "growth"])
def test_every_target_has_a_plot_and_a_table(tmp_path: Path, target: str) -> None:
    html = written(tmp_path, target)
    assert html.count("<svg") == 1
    assert _TITLES[target].split()[0] in html
    assert "<table" in html
    assert "dre-mf 3" in html


def test_a_page_says_what_was_left_out_and_what_the_machine_gave(tmp_path: Path) -> None:
    html = written(tmp_path, "risk")
    assert "left out: implicit: not &lt;installed&gt;" in html
    assert "100 Gflop/s" in html
    assert "2 cores, &lt;P&gt;" in html
    assert "ratiorec bench (commit unknown)" in html


def test_several_targets_are_sections_of_one_page(tmp_path: Path) -> None:
    assert written(tmp_path, "risk", "step", "frontier").count("<svg") == 3


def model(name: str, *points: tuple[float, float]) -> dict[str, Any]:
    curve = [{"seconds": seconds, "recall@20": quality} for seconds, quality in points]
    return {"execution": name, "curve": curve}


def dots(*cases: dict[str, Any]) -> tuple[list[int], set[str]]:
    """How many dots each line has, and what is written."""
    root = ET.fromstring(frontier_chart(cases, title="T"))
    lines = [group for group in root.iter("g") if group.get("class") == "line"]
    written = {text.text or "" for text in root.iter("text")}
    return [len([*line.iter("circle")]) for line in lines], written


def test_the_beginning_of_a_curve_is_left_out_and_its_end_never() -> None:
    best = model("best", (1.0, 0.01), (2.0, 0.15), (4.0, 0.2))
    assert dots(best)[0] == [2]
    counts, written = dots(best, model("poor", (1.0, 0.01), (2.0, 0.05)))
    assert counts == [2, 1]
    assert {"best", "poor"} <= written


def test_models_that_are_solved_are_points_with_their_names() -> None:
    solved = [model(f"p{k}", (1.0 + k, 0.1 + k / 100)) for k in range(8)]
    counts, written = dots(*solved)
    assert counts == [1] * 8
    assert {f"p{k}" for k in range(8)} <= written


def test_automatic_choices_are_one_line_and_so_is_the_best_of_the_rival() -> None:
    counts, written = dots(
        model("auto@30", (28.0, 0.19)),
        model("implicit-als:solver.dimension=64", (4.0, 0.14)),
        model("auto@5", (4.5, 0.18)),
        model("implicit-als:solver.dimension=128", (8.0, 0.16)),
        model("item-knn", (3.0, 0.15)),
    )
    assert counts == [2, 4, 1]
    assert {"auto", "implicit-als, best so far", "item-knn"} <= written


def test_models_without_a_curve_are_no_data() -> None:
    assert "no data" in frontier_chart([], title="T")
    assert "no data" in frontier_chart([model("a")], title="T")
