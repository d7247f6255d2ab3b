from __future__ import annotations

import uuid

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratiorec.data.vocabulary import Vocabulary
from ratiorec.errors import DataError, UnknownIdError

CANONICAL = "12345678-9abc-def0-1234-56789abcdef0"


def test_a_dense_vocabulary_holds_each_index_as_its_id() -> None:
    vocabulary = Vocabulary.dense(3, kind="user")
    assert vocabulary.ids.tolist() == [0, 1, 2]
    assert vocabulary.is_dense


@pytest.mark.parametrize("ids", [[0, 2], [1, 0], ["0", "1"]])
def test_gaps_another_order_and_text_are_not_dense(ids: list[object]) -> None:
    assert not Vocabulary.from_ids(ids, kind="item").is_dense


@given(st.lists(st.text(min_size=1).filter(str.strip), unique=True, min_size=1))
def test_the_index_of_an_id_leads_back_to_it(ids: list[str]) -> None:
    vocabulary = Vocabulary(np.array(ids, dtype=object), "item")
    assert vocabulary.ids[vocabulary.indices(reversed(ids))].tolist() == ids[::-1]


def test_an_unknown_id_is_refused_by_name() -> None:
    with pytest.raises(UnknownIdError) as caught:
        Vocabulary.from_ids(["ann"], kind="user").indices(["ann", "eve"])
    assert caught.value.found == "'eve'"
    assert caught.value.what == "1 unknown user id(s)"


@pytest.mark.parametrize("vocabulary", [Vocabulary.dense(2, kind="user")])
@pytest.mark.parametrize("ids", [np.array([1, 7, -1]), [1, 7, -1]])
def test_an_unknown_id_is_minus_one_when_skipped(vocabulary: Vocabulary, ids: object) -> None:
    assert vocabulary.indices(ids, on_unknown="skip").tolist() == [1, -1, -1]  # type: ignore[arg-type]


def test_an_unknown_integer_in_an_array_is_refused() -> None:
    with pytest.raises(UnknownIdError, match="7"):
        Vocabulary.dense(2, kind="user").indices(np.array([1, 7]))


def test_an_integer_id_is_found_by_its_text_and_as_a_whole_float() -> None:
    vocabulary = Vocabulary.from_ids([30, 7], kind="item")
    assert vocabulary.indices(["7", 7.0, np.int32(30), np.uint64(7)]).tolist() == [1, 1, 0, 1]


def test_a_text_id_is_found_by_the_number_it_spells() -> None:
    vocabulary = Vocabulary.from_ids(["x", "7"], kind="item")
    assert vocabulary.indices([7, 7.0, np.int64(7)]).tolist() == [1, 1, 1]


@pytest.mark.parametrize("text", ["007", "1_0", " 7", "+7", "٧", "9" * 5000])
def test_text_that_only_resembles_an_integer_id_is_unknown(text: str) -> None:
    vocabulary = Vocabulary.from_ids([7, 10], kind="item")
    assert vocabulary.indices([text], on_unknown="skip").tolist() == [-1]


def test_a_uuid_is_found_as_object_and_in_capitals() -> None:
    vocabulary = Vocabulary.from_ids([uuid.UUID(CANONICAL)], kind="user")
    assert vocabulary.ids.tolist() == [CANONICAL]
    assert vocabulary.indices([uuid.UUID(CANONICAL), CANONICAL.upper()]).tolist() == [0, 0]


def test_other_text_is_not_found_in_capitals() -> None:
    assert Vocabulary.from_ids(["ann"], kind="user").indices(["ANN"], on_unknown="skip") == -1


@pytest.mark.parametrize("ids", [np.array([5, 6, 5]), np.array(["a", "b", "a"], dtype=object)])
def test_a_repeated_id_is_refused(ids: np.ndarray) -> None:
    with pytest.raises(DataError, match="twice") as caught:
        Vocabulary(ids, "item")
    assert caught.value.found == repr(ids.tolist()[0])


def test_from_ids_keeps_the_order_given() -> None:
    assert Vocabulary.from_ids([9, 3, 5], kind="item").ids.tolist() == [9, 3, 5]


def test_from_ids_refuses_a_repeated_id_by_name() -> None:
    with pytest.raises(DataError) as caught:
        Vocabulary.from_ids(["b", "a", "b"], kind="item")
    assert caught.value.found == "'b'"


@pytest.mark.parametrize("ids", [[None, "a"], ["", "a"], [float("nan"), 1.0]])
def test_from_ids_refuses_a_missing_id(ids: list[object]) -> None:
    with pytest.raises(DataError, match="missing"):
        Vocabulary.from_ids(ids, kind="item")


def test_narrow_integers_and_fixed_text_are_stored_in_one_way() -> None:
    assert Vocabulary(np.array([3, 4], dtype=np.int8), "item").ids.dtype == np.int64
    assert Vocabulary(np.array(["a", "bc"]), "item").ids.dtype == object


def test_hashes_beyond_int64_are_kept_as_text() -> None:
    vocabulary = Vocabulary(np.array([2**64 - 1, 1], dtype=np.uint64), "item")
    assert vocabulary.ids.tolist() == ["18446744073709551615", "1"]
    assert vocabulary.indices([2**64 - 1]).tolist() == [0]


def test_a_name_is_shown_where_there_is_one_and_the_id_elsewhere() -> None:
    plain = Vocabulary.from_ids([7, 8], kind="item")
    assert plain.name(1) == "8"
    assert plain.with_names(["Heat", "Alien"]).name(1) == "Alien"


def test_names_must_fit_the_ids() -> None:
    with pytest.raises(DataError) as caught:
        Vocabulary.dense(2, kind="item").with_names(["one"])
    assert caught.value.found == "1 names"
