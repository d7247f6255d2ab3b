from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from pyarrow import parquet

from ratiorec.catalogue.attributes import Attributes
from ratiorec.catalogue.columns import Categories, Numbers, Tags
from ratiorec.data.vocabulary import Vocabulary
from ratiorec.errors import DataError, MissingExtraError, StorageError
from ratiorec.scorers import table as tables
from ratiorec.scorers.table import Recommendations, csv_lines, flat_names, write_parquet
from ratiorec.scorers.topk import Ranking

ITEMS = Vocabulary(np.array([10, 20, 30]), "item")
TITLES = ITEMS.with_names(["Ten", "Twenty", "Thirty"])


def table(items: Vocabulary = ITEMS, *, users: tuple[str, str] = ("ann", "bob")) -> Recommendations:
    ranking = Ranking(
        np.array([0, 1]),
        np.array([[2, 0], [1, -1]]),
        np.array([[0.5, 0.25], [2, -np.inf]], np.float32),
    )
    return Recommendations.of(ranking, np.array(users, object), items)


ROWS = [
    {"user_id": "ann", "item_id": 30, "score": 0.5, "rank": 1},
    {"user_id": "ann", "item_id": 10, "score": 0.25, "rank": 2},
    {"user_id": "bob", "item_id": 20, "score": 2.0, "rank": 1},
]


def test_empty_places_are_no_rows() -> None:
    assert table().to_dicts() == ROWS
    assert len(table()) == 3
    assert table().n_users == 2


def test_names_are_a_column_where_items_have_names() -> None:
    assert [row["item_name"] for row in table(TITLES).to_dicts()] == ["Thirty", "Ten", "Twenty"]
    assert list(table(TITLES).columns()) == ["user_id", "item_id", "item_name", "score", "rank"]


def test_a_row_says_whether_it_is_personal_cold_or_a_fallback() -> None:
    ranking = Ranking(np.array([0, -1]), np.array([[2, 0], [2, -1]]), np.zeros((2, 2), np.float32))
    cold = np.array([True, False, False])
    marked = Recommendations.of(ranking, np.array([7, 8]), ITEMS, cold=cold)
    assert [row["kind"] for row in marked.to_dicts()] == ["personal", "cold", "fallback"]


DESCRIBED = Attributes(
    3,
    {
        "price": Numbers(np.array([1.0, np.nan, 2.5])),
        "kind": Categories.of(["tea", None, "jam, sweet"]),
        "labels": Tags.of([[], ["new"], ["fair", "new"]]),
    },
)


def described() -> Recommendations:
    ranking = Ranking(np.array([0]), np.array([[2, 0, 1]]), np.array([[3, 2, 1]], np.float32))
    return Recommendations.of(ranking, np.array(["ann"], object), ITEMS, attributes=DESCRIBED)


def test_attributes_stand_inside_a_row_and_in_columns_of_a_flat_table() -> None:
    found = described()
    assert [row["attributes"] for row in found.to_dicts()] == [
        {"price": 2.5, "kind": "jam, sweet", "labels": ["fair", "new"]},
        {"price": 1, "kind": "tea", "labels": []},
        {"price": None, "kind": None, "labels": ["new"]},
    ]
    assert found.to_arrow().select(["price", "item_kind", "labels"]).to_pylist() == [
        {"price": 2.5, "item_kind": "jam, sweet", "labels": ["fair", "new"]},
        {"price": 1.0, "item_kind": "tea", "labels": []},
        {"price": None, "item_kind": None, "labels": ["new"]},
    ]
    assert b"".join(csv_lines(found.columns())).decode().splitlines() == [
        "user_id,item_id,score,rank,price,item_kind,labels",
        'ann,30,3.0,1,2.5,"jam, sweet",fair|new',
        "ann,10,2.0,2,1.0,tea,",
        "ann,20,1.0,3,,,new",
    ]
    assert found.to_pandas()["labels"].tolist() == [["fair", "new"], [], ["new"]]
    assert "fair|new" in repr(found)


def test_attributes_have_the_same_types_in_every_block() -> None:
    ranking = Ranking(np.array([0]), np.full((1, 2), -1), np.full((1, 2), -np.inf, np.float32))
    empty = Recommendations.of(ranking, np.array(["ann"], object), ITEMS, attributes=DESCRIBED)
    assert empty.to_arrow().schema == described().to_arrow().schema


def test_names_of_attributes_never_clash_with_columns_of_lists_or_one_another() -> None:
    assert flat_names(["Score", "price", "item_kind", "kind", "Price"]) == [
        *("item_Score", "price", "item_kind", "item_item_kind", "item_Price"),
    ]


def test_rows_are_plain_enough_for_json() -> None:
    assert json.loads(json.dumps(table(TITLES).to_dicts()))[0]["score"] == 0.5


def test_arrow_pandas_and_polars_hold_the_same_rows() -> None:
    assert table().to_arrow().to_pylist() == ROWS
    assert table().to_pandas().to_dict("records") == ROWS
    assert table().to_polars().to_dicts() == ROWS


def test_an_empty_table_keeps_its_column_types() -> None:
    ranking = Ranking(np.array([0]), np.full((1, 2), -1), np.full((1, 2), -np.inf, np.float32))
    empty = Recommendations.of(ranking, np.array(["ann"], object), ITEMS)
    assert len(empty) == 0
    assert empty.to_arrow().schema == table().to_arrow().schema


def test_a_printed_table_is_aligned_and_says_how_much_is_left_out() -> None:
    lines = repr(table(TITLES)).splitlines()
    assert lines[0].split() == ["user_id", "item_id", "item_name", "score", "rank"]
    assert lines[1].split() == ["ann", "30", "Thirty", "0.5000", "1"]
    assert len({len(line) for line in lines}) == 1
    many = Ranking(np.arange(99), np.zeros((99, 1), np.int64), np.zeros((99, 1), np.float32))
    printed = repr(Recommendations.of(many, np.arange(99), ITEMS)).splitlines()
    assert printed[-1] == "… 89 more rows"
    assert len(printed) == 1 + 10 + 1


@pytest.mark.parametrize("name", ["pandas", "polars"])
def test_a_data_frame_library_that_is_missing_is_named(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtraError, match=f"{name} is not installed.*pip install {name}"):
        getattr(table(), f"to_{name}")()


def test_blocks_are_joined_into_one_parquet_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "_ROWS_IN_A_GROUP", 7)
    path = tmp_path / "lists.parquet"
    assert write_parquet((table(TITLES) for _ in range(10)), path) == 30
    assert parquet.read_table(path).to_pylist() == table(TITLES).to_dicts() * 10
    assert parquet.ParquetFile(path).metadata.num_row_groups == 4  # 9 + 9 + 9 + 3 rows


def test_when_a_block_fails_the_old_file_stands(tmp_path: Path) -> None:
    def blocks() -> Iterator[Recommendations]:
        yield table()
        raise ZeroDivisionError

    path = tmp_path / "lists.parquet"
    path.write_bytes(b"old")
    with pytest.raises(ZeroDivisionError):
        write_parquet(blocks(), path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_is_told_and_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    path = tmp_path / "lists.parquet"
    path.write_bytes(b"old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match="No space left"):
        write_parquet([table()], path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_nothing_to_write_is_told_before_a_file_is_made(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nothing to write"):
        write_parquet([], tmp_path / "lists.parquet")
    assert list(tmp_path.iterdir()) == []
