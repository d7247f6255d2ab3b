"""Attributes become rows of features that do not depend on process, order or units."""

from __future__ import annotations

import subprocess
import sys
from math import log, sqrt

import numpy as np
import pytest

from ratiorec.catalogue.attributes import Attributes
from ratiorec.catalogue.columns import Categories, Column, Numbers, OwnVectors, Tags, Texts
from ratiorec.catalogue.content import MOST_COLUMNS, Content, hashed

ALL = np.ones(4, bool)


def features_of(column: Column, teaches: np.ndarray = ALL) -> np.ndarray:
    content = Content.of(Attributes(len(column), {"one": column}), teaches)
    return content.features.toarray()


def texts(*values: str | None) -> Texts:
    return Texts(np.array([*values, None], object)[:-1])


def test_numbers_are_standardised_by_those_that_teach_and_missing_ones_are_flagged() -> None:
    teaches = np.array([True, True, True, False])
    found = features_of(Numbers(np.array([1.0, 3.0, np.nan, 4.0])), teaches)
    assert found.tolist() == [[-1, 0], [1, 0], [0, 1], [2, 0]]


def test_a_number_far_outside_counts_as_three_standard_deviations() -> None:
    teaches = np.array([True, True, False, False])
    found = features_of(Numbers(np.array([-1.0, 1.0, 1e9, -50.0])), teaches)
    assert found[:, 0].tolist() == [-1, 1, 3, -3]


def test_the_largest_numbers_of_all_are_features_like_others() -> None:
    most = float(np.finfo(np.float64).max)
    column = Numbers(np.array([-most, most, 1.0, 1e-300]))
    assert features_of(column)[:, 0] == pytest.approx([-sqrt(2), sqrt(2), 0, 0])
    few = np.array([False, False, True, True])
    assert features_of(column, few)[:, 0].tolist() == [-3, 3, 1, -1]
    tiny = Numbers(np.array([-1e-320, 1e-320, 0, 0]))
    assert features_of(tiny)[:, 0] == pytest.approx([-sqrt(2), sqrt(2), 0, 0])


def test_tags_are_weighed_by_rarity_and_rows_have_length_one() -> None:
    found = features_of(Tags.of([["a", "b"], ["a"], ["a", "b"], []]))
    a, b = log(5 / 4) + 1, log(5 / 3) + 1
    length = sqrt(a**2 + b**2)
    both = [a / length, b / length]
    assert found == pytest.approx(np.array([both, [1, 0], both, [0, 0]]))


def test_a_category_is_a_column_and_a_missing_one_is_no_column() -> None:
    found = features_of(Categories.of(["tea", "jam", None, "tea"]))
    assert found.tolist() == [[0, 1], [1, 0], [0, 0], [0, 1]]


def test_words_are_counted_without_capitals_or_punctuation() -> None:
    found = features_of(texts("Red tea, red!", "tea red RED", None, "blue"))
    assert found[0] == pytest.approx(found[1])
    assert (found[2] == 0).all()
    ratio = sqrt(2) * (log(5 / 3) + 1) / (log(5 / 3) + 1)  # red is there twice, tea once
    assert sorted(found[0][found[0] > 0])[1] / sorted(found[0][found[0] > 0])[0] == pytest.approx(
        ratio
    )


def test_vectors_have_length_one_and_zeros_where_one_is_missing() -> None:
    values = np.array([[3, 4], [0, 2], [np.nan, 1], [0, 0]], np.float32)
    wanted = np.array([[0.6, 0.8], [0, 1], [0, 0], [0, 0]])
    assert features_of(OwnVectors(values)) == pytest.approx(wanted)


def test_what_nobody_who_teaches_has_is_no_feature() -> None:
    teaches = np.array([True, True, False, False])
    found = features_of(Tags.of([["a"], ["b"], ["c"], ["a", "c"]]), teaches)
    assert found.shape == (4, 2)
    assert (found[2] == 0).all()


def test_names_beyond_the_most_columns_are_hashed() -> None:
    n = MOST_COLUMNS + 100
    column = Categories.of([f"name{place}" for place in range(n)])
    content = Content.of(Attributes(n, {"one": column}), np.ones(n, bool))
    assert content.features.shape[1] <= MOST_COLUMNS
    assert content.features.sum(axis=1).tolist() == [1] * n


def test_a_word_has_the_same_column_in_every_process() -> None:
    script = "from ratiorec.catalogue.content import hashed; print(hashed('tea'))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) == hashed("tea")


def test_each_attribute_is_weighed_by_itself() -> None:
    table = Attributes(4, {"a": Tags.of([["x"], ["y"], [], []]), "b": Numbers(np.arange(4.0))})
    content = Content.of(table, ALL)
    plain, less = content.features.toarray(), content.weighted({"b": 0.5}).toarray()
    of_b = content.block_of == 1
    assert of_b.tolist() == [False, False, True]  # none is missing, so that there is no flag
    assert less[:, ~of_b].tolist() == plain[:, ~of_b].tolist()
    assert less[:, of_b].tolist() == (plain[:, of_b] / 2).tolist()


def test_no_attributes_are_no_features() -> None:
    assert Content.of(Attributes.none(4), ALL).features.shape == (4, 0)


COLUMNS: dict[str, Column] = {
    "number": Numbers(np.array([1.5, np.nan])),
    "category": Categories.of(["tea", None]),
    "tags": Tags.of([["b", "c"], []]),
    "text": texts("one", None),
    "vector": OwnVectors(np.array([[1, 2], [np.nan, np.nan]], np.float32)),
}
MORE: dict[str, Column] = {
    "number": Numbers(np.array([2.5])),
    "category": Categories.of(["jam"]),
    "tags": Tags.of([["a", "c"]]),
    "text": texts("two"),
    "vector": OwnVectors(np.array([[3, 4]], np.float32)),
}


def test_tables_are_joined_row_by_row_whatever_their_names() -> None:
    one, two = Attributes(2, COLUMNS), Attributes(1, MORE)
    both = one.followed_by(two)
    assert [both.row(place) for place in range(3)] == [one.row(0), one.row(1), two.row(0)]


@pytest.mark.parametrize("name", list(COLUMNS))
def test_a_column_that_one_table_lacks_is_missing_there(name: str) -> None:
    with_it, without = Attributes(2, {name: COLUMNS[name]}), Attributes.none(1)
    nothing: object = [] if name == "tags" else None
    after = with_it.followed_by(without)
    assert [row[name] for row in after.rows(range(3))] == [
        *[row[name] for row in with_it.rows(range(2))],
        nothing,
    ]
    assert without.followed_by(with_it).row(0) == {name: nothing}


def test_vectors_are_the_same_again_from_their_arrays() -> None:
    table = Attributes(2, {"own": COLUMNS["vector"]})
    again = Attributes.from_arrays(2, table.describe(), table.arrays("t."), "t.")
    assert again.kinds == {"own": "vector"}
    assert again.rows(range(2)) == [{"own": [1.0, 2.0]}, {"own": None}]
