from __future__ import annotations

import pytest

from ratiorec.data.formats import Columns
from ratiorec.errors import DataError


def by_role(positions: dict[str, int]) -> tuple[int | None, ...]:
    return tuple(positions.get(role) for role in ("user", "item", "weight", "timestamp"))


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["user", "item"], (0, 1, None, None)),
        (["timestamp", "rating", "item_id", "user_id"], (3, 2, 1, 0)),
        (["userId", "movieId", "rating", "timestamp"], (0, 1, 2, 3)),
        (["User-ID", "ISBN", "Book-Rating"], (0, 1, None, None)),
        (["VISITOR ID", "Product ID", "count", "event_time"], (0, 1, 2, 3)),
        (["customer_id", "sku", "title", "unix_time"], (0, 1, None, 3)),
        (["", "uid", "iid"], (1, 2, None, None)),
        (["user_id:token", "item_id:token", "rating:float", "timestamp:float"], (0, 1, 2, 3)),
        (["reviewerID", "asin", "overall", "unixReviewTime"], (0, 1, 2, 3)),
    ],
)
def test_usual_names_are_found(names: list[str], expected: tuple[int | None, ...]) -> None:
    assert by_role(Columns().among(names, where="table")) == expected


def test_the_surer_of_two_usual_names_is_taken() -> None:
    positions = Columns().among(["session_id", "user_id", "artist", "item"], where="table")
    assert by_role(positions) == (1, 3, None, None)


@pytest.mark.parametrize("item", ["thing", "THING", 2, "2"])
def test_a_column_is_given_by_name_or_position(item: str | int) -> None:
    names = ["user_id", "item_id", "thing"]
    assert Columns(item=item).among(names, where="table")["item"] == 2


def test_a_name_goes_before_a_position() -> None:
    assert Columns(item="0").among(["user", "x", "0"], where="table")["item"] == 2


def test_an_empty_name_leaves_an_optional_column_out() -> None:
    names = ["user", "item", "rating", "date"]
    assert Columns(weight="", timestamp="").among(names, where="table") == {"user": 0, "item": 1}


def test_a_missing_column_is_refused_with_the_columns_found() -> None:
    with pytest.raises(DataError, match="no item column") as caught:
        Columns().among(["user_id", "thing"], where="pairs.csv")
    assert caught.value.where == "pairs.csv"
    assert caught.value.found == "the columns 'user_id', 'thing'"


@pytest.mark.parametrize("user", ["who", 2, -1, "7"])
def test_a_column_that_is_not_there_is_refused_with_the_columns_found(user: str | int) -> None:
    with pytest.raises(DataError, match="no such user column") as caught:
        Columns(user=user).among(["user_id", "item_id"], where="pairs.csv")
    assert "'user_id', 'item_id'" in caught.value.found
    assert repr(user) in caught.value.wanted


def test_one_column_for_two_roles_is_refused() -> None:
    with pytest.raises(DataError, match="two things") as caught:
        Columns(user="item_id").among(["user_id", "item_id"], where="pairs.csv")
    assert caught.value.found == "column 1 as user and as item"


@pytest.mark.parametrize(
    ("columns", "usable", "expected"),
    [
        (Columns(), [True] * 2, (0, 1, None, None)),
        (Columns(), [True] * 5, (0, 1, 2, 3)),
        (Columns(), [True, True, False, True], (0, 1, None, 3)),
        (Columns(timestamp=2), [True] * 3, (0, 1, None, 2)),
        (Columns(weight=""), [True] * 4, (0, 1, None, 3)),
        (Columns(user=3, item="2"), [True] * 4, (3, 2, None, None)),
    ],
)
def test_without_names_the_order_is_user_item_weight_timestamp(
    columns: Columns, usable: list[bool], expected: tuple[int | None, ...]
) -> None:
    assert by_role(columns.in_order(len(usable), where="x.csv", usable=usable)) == expected


def test_without_names_a_taken_place_is_not_guessed_anew() -> None:
    with pytest.raises(DataError, match="no item column"):
        Columns(user=1).in_order(3, where="x.csv", usable=[True] * 3)
