from __future__ import annotations

import numpy as np
import pytest

from ratiorec.catalogue.columns import Kind, Numbers, Tags
from ratiorec.catalogue.kinds import column_of, found_kind
from ratiorec.catalogue.raw import Cells

MANY = [f"value {n}" for n in range(100)]


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["1", "2.5", "-3e2", None], "number"),
        (["true", "False", None], "number"),
        (["1", "2", "x"], "category"),
        (["007", "12"], "category"),
        (["1_000", "2"], "category"),
        (["inf", "1"], "category"),
        (["٣", "٤"], "category"),
        (["0", "0.5", "-0.5"], "number"),
        ([None, None], "category"),
        (["tea", "jam"] * 100, "category"),
        (MANY, "text"),
        ([*MANY, *MANY], "category"),
        (["x" * 101, "y"], "text"),
        (["Action|Comedy", "Comedy", "Drama"], "tags"),
        (["red; blue", "blue", "blue;green"], "tags"),
        ([f"{n}|{n + 1000}" for n in range(100)], "text"),
        ([*["tea"] * 99, "green|tea"], "category"),
        (["one sentence; and another that goes on for longer than any tag does", "x"], "category"),
    ],
)
def test_the_kind_is_found_from_all_values(cells: Cells, kind: Kind) -> None:
    assert found_kind(cells, is_text=True) == kind


def test_text_that_was_written_as_text_is_no_number() -> None:
    assert found_kind(["1", "2"], is_text=False) == "category"
    column, faults = column_of(["1", "2.5", None], "number", is_text=False)
    assert (column.plain(), faults) == ([1, 2.5, None], {})


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("category", ["1", "2.5", None]),
        ("text", ["1", "2.5", None]),
        ("tags", [["1"], ["2.5"], []]),
        ("number", [1, 2.5, None]),
        (None, [1, 2.5, None]),
    ],
)
def test_numbers_become_what_is_asked_for(kind: Kind | None, values: list[object]) -> None:
    column, _ = column_of(Numbers(np.array([1, 2.5, np.nan])), kind, is_text=False)
    assert column.plain() == values


def test_tags_become_what_is_asked_for() -> None:
    rows = Tags.of([["b", "a"], [], ["c"]])
    assert column_of(rows, None, is_text=False)[0] is rows
    assert column_of(rows, "text", is_text=False)[0].plain() == ["a|b", None, "c"]


def test_tags_are_split_at_commas_only_where_they_are_asked_for() -> None:
    cells: Cells = ["red, blue", "blue", None]
    assert found_kind(cells, is_text=True) == "category"
    column, _ = column_of(cells, "tags", is_text=True)
    assert column.plain() == [["blue", "red"], ["blue"], []]


def test_what_is_no_number_is_told_by_its_row() -> None:
    column, faults = column_of(["3,50", None, "4", "inf"], "number", is_text=True)
    assert column.plain() == [None, None, 4, None]
    assert {row: fault.found for row, fault in faults.items()} == {0: "'3,50'", 3: "'inf'"}
    _, faults = column_of(Numbers(np.array([1, np.inf])), None, is_text=False)
    assert list(faults) == [1]
