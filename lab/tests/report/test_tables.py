from __future__ import annotations

import math
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from ratiorec_lab.report.tables import Estimate, Table, cell_text


def parse(table: Table) -> ET.Element:
    return ET.fromstring(table.html(3))


def best(table: Table) -> list[str]:
    cells = parse(table).iter("td")
    return ["".join(cell.itertext()) for cell in cells if "best" in cell.get("class", "")]


def test_headers_have_a_scope():
    root = parse(Table(["Model", "Recall"], [["a", 0.1], ["b", 0.2]], "C"))
    assert [e.get("scope") for e in root.iter("th")] == ["col", "col", "row", "row"]


def test_a_column_of_numbers_is_set_to_the_right_and_words_are_not():
    root = parse(Table(["m", "words", "n"], [["a", "x", 1], ["b", "y", np.int64(20)]], "C"))
    assert [e.get("class") for e in root.iter("td")] == [None, "number", None, "number"]


def test_the_highest_value_of_a_column_is_marked():
    rows = [["a", 0.1], ["b", 0.3], ["c", math.nan], ["d", None]]
    assert best(Table(["m", "r"], rows, "C", highest=[1])) == ["0.3000 (best)"]


def test_the_lowest_value_of_a_column_is_marked():
    rows = [["a", 3.61], ["b", 0.02]]
    assert best(Table(["m", "s"], rows, "C", lowest=[1])) == ["0.02 (best)"]


def test_equal_bests_are_both_marked():
    assert len(best(Table(["m", "r"], [["a", 1], ["b", 1]], "C", highest=[1]))) == 2


def test_estimates_compare_by_value_and_show_their_interval():
    rows = [["a", Estimate(0.2, 0.1, 0.9)], ["b", Estimate(0.3, 0.2, 0.4)]]
    assert best(Table(["m", "r"], rows, "C", highest=[1])) == ["0.3000 0.2000 to 0.4000 (best)"]


def test_nothing_is_best_alone_or_unasked():
    assert best(Table(["m", "r"], [["a", 0.1]], "C", highest=[1])) == []
    assert best(Table(["m", "r"], [["a", 0.1], ["b", 0.2]], "C")) == []


def test_a_wide_table_scrolls_by_itself_and_the_keyboard_reaches_it():
    root = parse(Table(["a"], [["b"]], "C"))
    assert (root.get("class"), root.get("tabindex"), root.get("aria-label")) == ("scroll", "0", "C")


def test_a_table_without_rows_says_so():
    assert "no rows" in "".join(parse(Table(["a", "b"], [], "C")).itertext())


def test_a_ragged_row_is_refused():
    with pytest.raises(ValueError, match="row 1 of «C» has 1 cells"):
        Table(["a", "b"], [["x", 1], ["y"]], "C")


def test_cells_are_escaped():
    script = "<script>"
    assert script not in Table([script], [[script]], script).html(3)


@pytest.mark.parametrize(
    ("cell", "text"), [(True, "yes"), (None, ""), ("x", "x"), (0.5, "0.5"), (np.float32(2), "2")]
)
def test_a_single_cell_in_writing(cell, text):
    assert cell_text(cell) == text
