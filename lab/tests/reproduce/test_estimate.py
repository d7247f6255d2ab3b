from __future__ import annotations

import math

from ratiorec_lab.reproduce.cells import Cell, cell_of
from ratiorec_lab.reproduce.estimate import seconds_left


def cell(preset: str, dataset: str = "gowalla", seed: int = 0) -> Cell:
    found = cell_of(preset, dataset, protocol="validated", seed=seed)
    assert found is not None
    return found


def test_nothing_is_known_before_a_cell_is_finished() -> None:
    assert seconds_left([cell("ease")], {}, max_seconds=math.inf) is None


def test_nothing_is_left_when_nothing_is_missing() -> None:
    assert seconds_left([], {cell("ease"): 5.0}, max_seconds=math.inf) == 0


def test_a_cell_takes_as_long_as_those_most_alike() -> None:
    spent = {
        cell("dregn-cf"): 10.0,
        cell("dregn-cf", seed=1): 12.0,
        cell("dregn-cf", "yelp2018"): 100.0,
        cell("ease"): 1000.0,
    }

    def expected(one: Cell) -> float | None:
        return seconds_left([one], spent, max_seconds=math.inf)

    assert expected(cell("dregn-cf", seed=2)) == (10 + 12) / 2
    assert expected(cell("ease", "yelp2018")) == 1000
    assert expected(cell("enmf", "yelp2018")) == 100
    assert expected(cell("enmf", "amazon-book")) == (12 + 100) / 2


def test_no_cell_is_expected_to_exceed_its_budget() -> None:
    missing = [cell("ease", seed=1), cell("ease", seed=2)]
    assert seconds_left(missing, {cell("ease"): 500.0}, max_seconds=60) == 2 * 60
