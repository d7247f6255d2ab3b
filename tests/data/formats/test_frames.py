"""Frames, columns of ids and sparse matrices."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse

from ratiorec.data.interactions import Interactions
from ratiorec.errors import DataError
from support.matrices import dense_matrix

TABLE = {
    "user_id": ["zoe", "ann", "zoe", "zoe"],
    "item_id": [30, 10, 10, 30],
    "rating": [1.0, 2.0, 3.0, 0.5],
    "ts": [5, 6, 7, 9],
}
FRAMES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "arrow": pa.table,
    "batch": lambda table: pa.RecordBatch.from_pydict(table),
}
UUIDS = [uuid.UUID(int=7), uuid.UUID(int=5)]
CANONICAL = [str(value) for value in UUIDS]


def pairs_of(data: Interactions) -> set[tuple[Any, Any]]:
    user_ids, item_ids = data.users.ids[data.pair_users], data.items.ids[data.indices]
    return set(zip(user_ids.tolist(), item_ids.tolist(), strict=True))


def refusal(call: Callable[[], object]) -> DataError:
    with pytest.raises(DataError) as caught:
        call()
    return caught.value


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
def test_every_kind_of_frame_gives_the_same_pairs(make: Callable[[Any], Any]) -> None:
    data = Interactions.from_frame(make(TABLE))
    assert data.users.ids.tolist() == ["zoe", "ann"]
    assert data.items.ids.tolist() == [10, 30]
    assert pairs_of(data) == {("zoe", 10), ("zoe", 30), ("ann", 10)}
    assert data.weights is not None
    assert data.timestamps is not None
    assert data.weights.tolist() == [3.0, 1.0 + 0.5, 2.0]
    assert data.timestamps.tolist() == [7, 9, 6]


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
def test_columns_of_a_frame_are_given_by_name_or_position(make: Callable[[Any], Any]) -> None:
    data = Interactions.from_frame(make(TABLE), user="item_id", item=0, weight="", timestamp="ts")
    assert pairs_of(data) == {(10, "zoe"), (30, "zoe"), (10, "ann")}
    assert data.weights is None


def test_a_frame_with_numbers_for_names_is_read_by_position() -> None:
    frame = pd.DataFrame([["ann", 1], ["bob", 2]])
    assert pairs_of(Interactions.from_frame(frame, user=0, item=1)) == {("ann", 1), ("bob", 2)}


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (pd.Series(["b", "a"], dtype="category"), ["b", "a"]),
        (pd.Series(pd.Categorical(["b", "a"], categories=["x", "a", "b"])), ["b", "a"]),
        (pd.Series(pd.Categorical([9, 7], categories=[3, 7, 9])), [7, 9]),
        (pd.Series(["b", "a"], dtype=object), ["b", "a"]),
        (pd.Series(UUIDS, dtype=object), CANONICAL),
        (pd.Series([7, 3], dtype="Int64"), [3, 7]),
        (pd.Series([7, 3], dtype="uint8"), [3, 7]),
        (pd.Series([7.0, 3.0]), [3, 7]),
        (pd.Series([7, 3], dtype=object), [3, 7]),
    ],
)
def test_ids_in_pandas(ids: Any, expected: list[Any]) -> None:
    data = Interactions.from_frame(pd.DataFrame({"user": ids, "item": [1, 2]}))
    assert data.users.ids.tolist() == expected


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (pl.Series(["b", "a"], dtype=pl.Categorical), ["b", "a"]),
        (pl.Series(["b", "a"], dtype=pl.Enum(["a", "b", "c"])), ["b", "a"]),
        (pl.Series(UUIDS, dtype=pl.Object), CANONICAL),
        (pl.Series([7, 3], dtype=pl.UInt64), [3, 7]),
        (pl.Series([7, 3], dtype=pl.Int8), [3, 7]),
        (pl.Series([2**64 - 1, 3], dtype=pl.UInt64), ["18446744073709551615", "3"]),
    ],
)
def test_ids_in_polars(ids: Any, expected: list[Any]) -> None:
    data = Interactions.from_frame(pl.DataFrame({"user": ids, "item": [1, 2]}))
    assert data.users.ids.tolist() == expected


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (pa.array([u.bytes for u in UUIDS], pa.binary(16)), CANONICAL),
        (pa.array([u.bytes for u in UUIDS], pa.uuid()), CANONICAL),
        (pa.array([text.upper() for text in CANONICAL]), CANONICAL),
        (pa.array(["b", "a"], pa.string_view()), ["b", "a"]),
        (pa.array(["b", "a"], pa.large_string()), ["b", "a"]),
        (pa.array([b"b", b"a"]), ["b", "a"]),
        (pa.array([b"bb", b"aa"], pa.binary(2)), ["bb", "aa"]),
        (pa.array(["7", "07"]), ["7", "07"]),
        (pa.array(["7", "3"]), ["7", "3"]),
        (pa.array([Decimal(7), Decimal(3)]), [3, 7]),
        (pa.array([Decimal(10**30), Decimal(3)]), [str(10**30), "3"]),
        (pa.array([7, 3], pa.uint16()).dictionary_encode(), [3, 7]),
    ],
)
def test_ids_in_arrow(ids: Any, expected: list[Any]) -> None:
    data = Interactions.from_frame(pa.table({"user": ids, "item": [1, 2]}))
    assert data.users.ids.tolist() == expected


def test_a_category_nobody_uses_may_be_empty_or_null() -> None:
    ids = pa.DictionaryArray.from_arrays(pa.array([2, 3]), pa.array(["", None, "a", "b"]))
    data = Interactions.from_frame(pa.table({"user": ids, "item": [1, 2]}))
    assert data.users.ids.tolist() == ["a", "b"]


def test_the_order_of_ids_does_not_depend_on_the_pieces_of_a_column() -> None:
    pieces = [["c", "a"], ["b", "a"], [], ["d", "c"]]
    column = pa.chunked_array([pa.array(piece, pa.string()) for piece in pieces])
    whole = pa.table({"user": column.combine_chunks(), "item": range(6)})
    cut = pa.table({"user": column, "item": range(6)})
    encoded = pa.table(
        {
            "user": pa.chunked_array([chunk.dictionary_encode() for chunk in column.chunks]),
            "item": range(6),
        }
    )
    orders = [Interactions.from_frame(table).users.ids.tolist() for table in (whole, cut, encoded)]
    assert orders == [["c", "a", "b", "d"]] * 3


@pytest.mark.parametrize(
    ("ids", "found"),
    [
        ([1.0, float("nan")], "nan"),
        (["a", None], "null"),
        (["a", ""], "''"),
        (["a", "  "], "'  '"),
        ([uuid.UUID(int=1), None], "null"),
        (pd.Series([1, None], dtype="Int64"), "null"),
        (np.array([1.0, np.nan]), "nan"),
        (pd.Series([1, None]), "nan"),
        (pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["a", None])), "None"),
    ],
)
def test_a_missing_id_is_refused_by_row(ids: Any, found: str) -> None:
    error = refusal(lambda: Interactions.from_pairs(ids, [1, 2]))
    assert error.what == "missing user id"
    assert "row 2" in error.where
    assert error.found in (found, "null")  # some columns turn nan into null on their way


@pytest.mark.parametrize("make", [FRAMES["pandas"], FRAMES["polars"]], ids=["pandas", "polars"])
def test_a_nan_id_in_a_frame_is_refused_by_row(make: Callable[[Any], Any]) -> None:
    frame = make({"user": ["a", "b", "c"], "item": [1.0, 2.0, float("nan")]})
    error = refusal(lambda: Interactions.from_frame(frame))
    assert error.what == "missing item id"
    assert error.where == "data frame, row 3 (the first is row 1)"


@pytest.mark.parametrize("value", [1.5, float("inf"), 2.0**53])
def test_a_float_that_is_no_exact_integer_is_refused_by_row(value: float) -> None:
    error = refusal(lambda: Interactions.from_pairs([1.0, value], [1, 2]))
    assert error.what == "user id is not a whole number"
    assert (error.found, "row 2" in error.where) == (repr(value), True)


@pytest.mark.parametrize(
    "ids",
    [
        [True, False],
        [dt.date(2024, 1, 1)] * 2,
        [Decimal("1.5"), Decimal("2.5")],
        [[1], [2]],
        [object()] * 2,
    ],
)
def test_values_that_cannot_be_ids_are_refused_by_type(ids: list[Any]) -> None:
    error = refusal(lambda: Interactions.from_pairs(ids, [1, 2]))
    assert error.what == "the user column cannot hold ids"
    assert "type" in error.found


@pytest.mark.parametrize("ids", [["a", 1], [1, "a"], [b"a", "a"]])
def test_ids_of_two_kinds_are_refused(ids: list[Any]) -> None:
    error = refusal(lambda: Interactions.from_frame(pd.DataFrame({"user": ids, "item": [1, 2]})))
    assert error.what == "the user column is not of one kind"


def test_text_that_no_file_can_hold_is_refused() -> None:
    error = refusal(lambda: Interactions.from_pairs(["a\ud800", "b"], [1, 2]))
    assert "surrogates" in error.found


def test_bytes_that_are_not_utf_8_are_refused_by_row() -> None:
    error = refusal(lambda: Interactions.from_pairs([b"ok", b"\xff", b"ok"], [1, 2, 3]))
    assert error.what == "user id is not UTF-8"
    assert "row 2" in error.where


def test_the_text_nan_is_an_id_where_null_can_be_written() -> None:
    assert Interactions.from_pairs(["nan", "b"], [1, 2]).users.ids.tolist() == ["nan", "b"]


@pytest.mark.parametrize("weight", [-1.0, float("nan"), None, "much"])
def test_a_weight_that_is_no_weight_is_refused_by_row(weight: Any) -> None:
    table = pa.table({"user": [1], "item": [1], "weight": pa.array([weight])})
    assert "row 1" in refusal(lambda: Interactions.from_frame(table)).where


def test_a_weight_of_zero_is_no_pair_and_its_ids_are_none() -> None:
    data = Interactions.from_pairs([1, 2, 2], [1, 2, 3], weights=[0, 3, 0])
    assert data.weights is not None
    assert data.weights.tolist() == [3.0]
    assert (data.users.ids.tolist(), data.items.ids.tolist()) == ([2], [2])
    assert data.reading is not None
    assert data.reading.n_zero_weight == 2
    assert "3 rows, 2 left out for a weight of 0" in data.reading.lines()[0]


@pytest.mark.parametrize(
    "weights", [[True, True], [2, 1], [Decimal("1.5"), Decimal(2)], ["1", "2"]]
)
def test_every_number_can_be_a_weight(weights: list[Any]) -> None:
    data = Interactions.from_pairs([1, 2], [1, 2], weights=weights)
    assert data.weights is not None
    assert data.weights.tolist() == [float(weight) for weight in weights]


EPOCH = dt.datetime(1970, 1, 1)


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ([dt.date(1970, 1, 2), dt.date(1970, 1, 1)], [86_400 * 10**6, 0]),
        ([EPOCH + dt.timedelta(microseconds=3), EPOCH], [3, 0]),
        ([EPOCH.replace(tzinfo=dt.UTC), EPOCH.replace(tzinfo=dt.UTC)], [0, 0]),
        (np.array([1500, 999], dtype="datetime64[ns]"), [1, 0]),
        ([1.5, 2.5], [1.5, 2.5]),
        (np.array([3, 4], dtype=np.uint32), [3, 4]),
    ],
)
def test_times_of_every_kind(times: Any, expected: list[float]) -> None:
    data = Interactions.from_pairs([1, 2], [1, 2], timestamps=times)
    assert data.timestamps is not None
    assert data.timestamps.tolist() == expected


@pytest.mark.parametrize("times", [[1, None], [1.0, float("nan")], [dt.date(2024, 1, 1), None]])
def test_a_missing_time_is_refused_by_row(times: list[Any]) -> None:
    error = refusal(lambda: Interactions.from_pairs([1, 2], [1, 2], timestamps=times))
    assert error.what == "a timestamp is missing"
    assert "row 2" in error.where


def test_columns_of_different_length_are_refused() -> None:
    error = refusal(lambda: Interactions.from_pairs([1, 2], [1, 2], weights=[1.0]))
    assert (error.where, error.found) == ("weight column", "1 rows")


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
def test_a_frame_without_rows_is_refused(make: Callable[[Any], Any]) -> None:
    error = refusal(lambda: Interactions.from_frame(make({"user": [], "item": []})))
    assert error.what == "there are no rows"


@pytest.mark.parametrize(
    "frame",
    [
        [1, 2],
        pl.LazyFrame({"user": [1], "item": [1]}),
        pd.DataFrame([[1, 2]], columns=["user", "user"]),
    ],
    ids=["list", "lazy", "repeated"],
)
def test_what_is_no_frame_is_refused(frame: Any) -> None:
    assert refusal(lambda: Interactions.from_frame(frame)).where == "data frame"


MATRIX = np.array([[0, 2.5, 0], [1, 0, 0]])


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil", "dok", "bsr"])
def test_a_sparse_matrix_of_any_format_gives_its_pairs(form: str) -> None:
    data = Interactions.from_csr(scipy.sparse.coo_array(MATRIX).asformat(form))
    np.testing.assert_array_equal(dense_matrix(data), MATRIX)
    assert (data.n_users, data.n_items) == (2, 3)


def test_a_matrix_of_ones_has_no_weights() -> None:
    assert Interactions.from_csr(scipy.sparse.csr_matrix(MATRIX > 0)).weights is None


def test_stored_zeros_are_no_pairs_and_repeats_add_up() -> None:
    entries = ([0.0, 1.0, 1.0], ([0, 1, 1], [0, 2, 2]))
    data = Interactions.from_csr(scipy.sparse.coo_array(entries, shape=(2, 3)))
    assert pairs_of(data) == {(1, 2)}
    assert data.weights is not None
    assert data.weights.tolist() == [1.0 + 1.0]


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int16, np.bool_])
@pytest.mark.parametrize("form", ["coo", "csr"])
def test_repeats_add_up_whatever_numbers_the_matrix_holds(dtype: Any, form: str) -> None:
    n = 40_000
    if form == "coo":
        places = np.zeros((2, n), np.int32)
        matrix = scipy.sparse.coo_array((np.ones(n, dtype), tuple(places)), shape=(1, 1))
    else:
        entries = (np.ones(n, dtype), np.zeros(n, np.int32), [0, n])
        matrix = scipy.sparse.csr_array(entries, shape=(1, 1))
    data = Interactions.from_csr(matrix)
    assert data.weights is not None
    assert data.weights.tolist() == [n]


def test_the_matrix_of_the_caller_is_left_alone() -> None:
    matrix = scipy.sparse.csr_array(([1.0, 0.0], [2, 1], [0, 2]), shape=(1, 3))
    Interactions.from_csr(matrix)
    assert matrix.indices.tolist() == [2, 1]
    assert matrix.data.tolist() == [1.0, 0.0]


def test_ids_of_a_matrix_are_kept_in_their_order() -> None:
    data = Interactions.from_csr(
        scipy.sparse.csr_array(MATRIX), user_ids=["z", "a"], item_ids=[9, 3, 5]
    )
    assert pairs_of(data) == {("z", 3), ("a", 9)}
    assert data.items.ids.tolist() == [9, 3, 5]


@pytest.mark.parametrize("value", [-1.0, np.nan, np.inf])
def test_a_negative_or_infinite_value_of_a_matrix_is_refused(value: float) -> None:
    matrix = scipy.sparse.coo_array(([1.0, value], ([0, 1], [0, 2])), shape=(2, 3))
    error = refusal(lambda: Interactions.from_csr(matrix))
    assert error.where == "matrix, row 1, column 2"


@pytest.mark.parametrize("matrix", [MATRIX, scipy.sparse.csr_array(MATRIX.astype(complex))])
def test_what_is_no_sparse_matrix_of_numbers_is_refused(matrix: Any) -> None:
    assert refusal(lambda: Interactions.from_csr(matrix)).where == "matrix"


def test_ids_that_do_not_fit_the_matrix_are_refused() -> None:
    matrix = scipy.sparse.csr_array(MATRIX)
    error = refusal(lambda: Interactions.from_csr(matrix, user_ids=["a", "b", "c"]))
    assert error.wanted.startswith("2,")
