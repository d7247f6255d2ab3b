from __future__ import annotations

from dataclasses import replace

import pytest

from ratiorec_lab.bench.case import Case, Measured
from ratiorec_lab.bench.clock import Ceilings, Floor, Times
from ratiorec_lab.bench.words import label_of, lines, remark, table

CEILINGS = {"cpu": Ceilings({"float32": 1e11}, 2e10)}
OURS = Case(
    "product",
    "ours",
    "cpu",
    {},
    Times((0.010, 0.012, 0.014)),
    Floor.of(n_operations=4e8),
    1234.5,
    figures={"users_per_second": 45678.9},
)
PLAIN = replace(OURS, backend="plain", times=Times((0.024,)), is_reference=True, figures={})


def test_a_table_has_the_time_the_floor_and_the_ratios() -> None:
    assert table(Measured("test", [OURS, PLAIN], CEILINGS)) == [
        ["", "time", "spread", "floor", "× floor", "× reference", "extra MB", ""],
        ["ours", "12 ms", "11 ms to 13 ms", "4 ms", "3", "0.5", "1,234", "45,679 users/s"],
        ["plain", "24 ms", "", "4 ms", "6", "1", "1,234", ""],
    ]


def test_columns_stand_under_one_another() -> None:
    title, *rows = lines(Measured("test", [OURS, PLAIN], CEILINGS))[:4]
    assert title == "test: product"
    ends = {
        row.index(word) + len(word)
        for row, word in zip(rows, ("floor", " 4 ms", " 4 ms"), strict=True)
    }
    assert len(ends) == 1


def test_the_rates_and_what_was_left_out_are_told() -> None:
    found = Measured("test", [OURS], CEILINGS, {"implicit": "not installed"})
    assert lines(found)[-2:] == [
        "cpu: 100 Gflop/s (float32), 20 GB/s (copy)",
        "left out: implicit: not installed",
    ]


def test_the_work_is_named_where_there_is_more_than_one_kind() -> None:
    other = replace(OURS, name="sum")
    assert label_of(Measured("test", [OURS, PLAIN], CEILINGS), OURS) == "ours"
    assert label_of(Measured("test", [OURS, other], CEILINGS), OURS) == "product, ours"


def test_a_target_named_after_its_work_is_not_named_twice() -> None:
    found = Measured("product", [OURS, PLAIN], CEILINGS)
    assert lines(found)[0] == "product"
    assert lines(Measured("test", [OURS, replace(OURS, name="sum")], CEILINGS))[0] == "test"


def test_a_target_that_found_nothing_still_has_a_table() -> None:
    assert table(Measured("test", [], CEILINGS)) == [["", "time"]]


@pytest.mark.parametrize(
    ("figures", "expected"),
    [
        ({"recall@20": 0.18123, "ndcg@20": 0.1, "curve": []}, "R@20 .1812"),
        ({"recall@20": None}, ""),
        (
            {"epochs": 60.0, "chosen_by": "validation, until no gain", "search_seconds": 75.0},
            "60 epochs by validation, until no gain, found in 75 s",
        ),
    ],
)
def test_a_remark_has_what_else_is_known(figures: dict[str, object], expected: str) -> None:
    assert remark(figures) == expected
