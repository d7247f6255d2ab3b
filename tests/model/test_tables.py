"""Tables beside the ids of a model: what is known, unknown and missing, and what stays."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ratiorec.catalogue.columns import Numbers
from ratiorec.catalogue.tables import IdTable
from ratiorec.data.interactions import Interactions
from ratiorec.errors import DataError, UnknownChoiceError
from ratiorec.model.artifact import Artifact
from ratiorec.model.tables import attach, same_tables
from ratiorec.sinks import Job
from support.small_models import numbered_model, small_model

ITEMS = IdTable.read(
    {
        "id": ["item3", "new", "item0"],
        "title": ["Three", "New", None],
        "price": [3.0, 9.0, None],
        "tags": [["a", "b"], ["c"], ["b"]],
    }
)
USERS = IdTable.read({"id": ["user1", "user2"], "segment": ["gold", "new"]}, kind="user")


def test_rows_are_aligned_with_the_ids_and_counted() -> None:
    model, attached = attach(small_model(), ITEMS, USERS)
    assert model.item_table.row(3) == {"price": 3, "tags": ["a", "b"]}
    assert model.item_table.row(0) == {"price": None, "tags": ["b"]}
    assert model.item_table.row(1) == {"price": None, "tags": []}
    assert model.user_table.rows([0, 1]) == [{"segment": None}, {"segment": "gold"}]
    assert attached.to_json() == {
        "items": {
            "known": 2,
            "unknown": 1,
            "missing": 28,
            "columns": {"price": "number", "tags": "tags"},
        },
        "users": {"known": 2, "unknown": 0, "missing": 18, "columns": {"segment": "category"}},
    }
    assert next(side.line() for side in attached) == (
        "items: 2 known, 1 without pairs, 28 of the model without a row"
    )


def test_rows_without_pairs_become_cold_items_and_new_users() -> None:
    users = IdTable.read({"id": ["user1", "zoe"], "segment": ["gold", "new"]}, kind="user")
    model, _ = attach(small_model(), ITEMS, users)
    assert model.items.ids[model.cold_items].tolist()[-1:] == ["new"]
    assert (model.n_cold, model.items.name(30)) == (1, "New")
    assert model.item_table.row(30) == {"price": 9, "tags": ["c"]}
    assert model.new_users is not None
    assert model.new_users.ids.tolist() == ["zoe"]
    again, _ = attach(model, ITEMS.take(np.array([0, 2])), users.take(np.array([0])))
    assert (again.n_cold, len(again.items), again.new_users) == (0, 30, None)
    assert same_tables(attach(model, ITEMS, users)[0], model)
    assert not same_tables(again, model)


def test_an_item_without_a_title_is_called_by_its_id_and_names_stay_without_titles() -> None:
    model, _ = attach(small_model(), ITEMS)
    assert model.items.names is not None
    assert model.items.names[[3, 0, 1]].tolist() == ["Three", "item0", "item1"]
    other, _ = attach(model, IdTable.read({"id": ["item1"], "price": [1.0]}))
    assert other.items.names is not None
    assert other.items.names.tolist() == model.items.names[:30].tolist()


def test_ids_fit_however_they_are_written(tmp_path: Path) -> None:
    (tmp_path / "items.csv").write_text("id,price\n7,1\n9,2\n", encoding="utf-8")
    for source in (tmp_path / "items.csv", {"id": ["7", "9"], "price": [1, 2]}):
        model, attached = attach(numbered_model(), IdTable.read(source))
        assert model.item_table.columns["price"].plain()[:3] == [1, None, 2]
        assert attached.items is not None
        assert attached.items.n_known == 2


def test_a_table_of_another_shop_is_refused() -> None:
    other = IdTable.read({"sku": ["tea", "jam"], "price": [1, 2]})
    with pytest.raises(DataError, match=r"none of the model's items.*'tea', 'jam'.*'item0'"):
        attach(small_model(), other)


def test_tables_are_saved_with_a_model(tmp_path: Path) -> None:
    model, _ = attach(small_model(), ITEMS, USERS)
    model.save(tmp_path / "model")
    again = Artifact.load(tmp_path / "model")
    assert same_tables(model, again)
    assert not same_tables(small_model(), again)
    assert not same_tables(attach(again, users=USERS.take(np.array([0])))[0], again)
    assert "item attributes: price (number), tags (tags)" in repr(again)
    assert "user attributes: segment (category)" in repr(again)


def test_a_model_with_other_attributes_keeps_its_map() -> None:
    model = small_model()
    assert model.item_map is not None
    assert attach(model, ITEMS.take(np.array([0, 2])))[0].item_map is model.item_map


@pytest.mark.parametrize("way", ["update", "partial_fit"])
def test_new_users_and_items_have_no_attributes_and_the_others_keep_theirs(way: str) -> None:
    model, _ = attach(small_model(), ITEMS, USERS)
    pairs = Interactions.from_pairs(["user1", "zoe"], ["jam", "item3"])
    grown: Artifact = getattr(model, way)(pairs)
    assert (len(grown.items), len(grown.users), grown.n_cold) == (32, 21, 1)
    assert grown.item_table.rows(range(30)) == model.item_table.rows(range(30))
    assert grown.item_table.rows([30, 31]) == [
        {"price": None, "tags": []},
        model.item_table.row(30),
    ]
    assert grown.user_table.rows([1, 20]) == [{"segment": "gold"}, {"segment": None}]
    assert (grown.items.name(30), grown.items.name(31)) == ("jam", "New")
    listed = grown.recommend("zoe", k=30, attributes="all").to_dicts()
    wanted = dict(zip(grown.items.ids.tolist(), grown.item_table.rows(range(32)), strict=True))
    assert all(row["attributes"] == wanted[row["item_id"]] for row in listed)


def test_lists_have_the_attributes_that_are_asked_for() -> None:
    model, _ = attach(small_model(), ITEMS)
    table = dict(zip(model.items.ids.tolist(), model.item_table.rows(range(31)), strict=True))
    every = list(model.recommend_blocks(model.users.ids, k=30, attributes=["price"]))
    for row in [row for block in every for row in block.to_dicts()]:
        assert row["attributes"] == {"price": table[row["item_id"]]["price"]}
    for found in (
        model.recommend_to([["item1"]], k=30, attributes=("all",)),
        model.similar("item1", 29, attributes="all"),
    ):
        for row in found.to_dicts():
            assert row["attributes"] == table[row.get("similar_id", row["item_id"])]
    assert "attributes" not in model.recommend("user1").to_dicts()[0]


def test_an_attribute_that_is_not_there_is_refused() -> None:
    model, _ = attach(small_model(), ITEMS)
    with pytest.raises(
        UnknownChoiceError, match=r"'prise'.*one of price, tags; did you mean price"
    ):
        model.recommend("user1", attributes=["prise"])
    with pytest.raises(UnknownChoiceError, match="none, as there is none"):
        small_model().similar("item1", attributes=["price"])


def test_a_bulk_job_knows_the_attributes_that_it_writes() -> None:
    def identity(table: IdTable, **options: Any) -> str:
        model, _ = attach(small_model(), table.take(np.array([0, 2])))
        return Job.of(model, model.users.ids, **options).identity

    raised = {"price": Numbers(ITEMS.attributes.columns["price"].values + 1)}  # type: ignore[union-attr]
    other = replace(ITEMS, attributes=replace(ITEMS.attributes, columns=raised))
    assert identity(ITEMS) == identity(other), "what is not given changes no row"
    given = [identity(table, attributes=["price"]) for table in (ITEMS, other)]
    assert len({identity(ITEMS), *given, identity(ITEMS, attributes="all")}) == 4
    assert identity(ITEMS, attributes="all") == identity(ITEMS, attributes=["price", "tags"])
