from __future__ import annotations

from typing import Any

from ratiorec_lab.bench.frontier_lines import (
    Point,
    automatic,
    beside,
    best_until,
    envelope,
    frontier_lines,
)


def case(name: str, *points: tuple[float, float]) -> dict[str, Any]:
    curve = [{"seconds": seconds, "recall@20": recall} for seconds, recall in points]
    return {"execution": name, "curve": curve}


CASES = [
    case("auto@30", (29.0, 0.19)),
    case("implicit-als:solver.dimension=64", (4.0, 0.14)),
    case("implicit-als:solver.dimension=128", (8.0, 0.16)),
    case("implicit-als:solver.dimension=32", (9.0, 0.12)),
    case("dregn-cf-fast", (2.0, 0.1), (10.0, 0.17)),
    case("auto@5", (4.9, 0.18)),
]


def test_automatic_choices_are_in_the_order_of_their_budgets() -> None:
    assert [seconds for seconds, _ in automatic(CASES)] == [5, 30]


def test_the_best_of_the_others_is_the_best_that_was_there_in_time() -> None:
    theirs, others = beside(CASES)
    assert best_until(theirs, 5) == Point(4, 0.14, "implicit-als 64")
    assert best_until(theirs, 30) == Point(8, 0.16, "implicit-als 128")
    assert best_until(theirs, 3) is None
    assert best_until(others, 9) == Point(2, 0.1, "dregn-cf-fast")
    assert best_until(others, 10) == Point(10, 0.17, "dregn-cf-fast")


def test_the_best_so_far_never_falls_and_reaches_the_end() -> None:
    theirs, _ = beside(CASES)
    found = [Point(*point) for point in [(8.0, 0.16), (4.0, 0.14), (9.0, 0.12)]]
    stairs = [(4, 0.14), (8, 0.14), (8, 0.16), (29, 0.16)]
    assert [point[:2] for point in envelope(found, 29.0)] == stairs
    assert envelope([], 29.0) == []
    assert len(theirs) == 3


def test_without_an_automatic_choice_every_model_has_its_own_line() -> None:
    names = [line.name for line in frontier_lines(CASES[1:5])]
    assert names == ["implicit-als 64", "implicit-als 128", "implicit-als 32", "dregn-cf-fast"]
    names = [line.name for line in frontier_lines(CASES)]
    assert names == ["auto", "implicit-als, best so far", "dregn-cf-fast"]
