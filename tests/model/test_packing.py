from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratiorec.data.vocabulary import Vocabulary
from ratiorec.model.store import describe, pack, unpack

texts = st.lists(st.text(st.characters(codec=None), max_size=5), max_size=8, unique=True)


@given(texts, st.data())
def test_text_ids_and_names_come_back_as_they_were(ids: list[str], data: st.DataObject) -> None:
    names = data.draw(st.lists(st.text(max_size=5), min_size=len(ids), max_size=len(ids)))
    before = Vocabulary(np.array(ids, object), "item", np.array(names, object))
    after = unpack("item", describe(before), pack(before))
    assert after.ids.tolist() == ids
    assert after.names is not None
    assert after.names.tolist() == names
    assert after.kind == "item"


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=8, unique=True))
def test_whole_numbers_come_back_as_they_were(ids: list[int]) -> None:
    before = Vocabulary(np.array(ids, np.int64), "user")
    after = unpack("user", describe(before), pack(before))
    assert after.ids.tolist() == ids
    assert after.ids.dtype == np.int64
    assert after.names is None


@pytest.mark.parametrize("offsets", [[], [0], [0, 2], [0, 2, 1, 3], [1, 3], [-1, 3], [0, 4]])
def test_places_that_do_not_fit_the_text_are_refused(offsets: list[int]) -> None:
    arrays = {
        "item.ids.text": np.frombuffer(b"abc", np.uint8),
        "item.ids.offsets": np.array(offsets, np.int64),
    }
    with pytest.raises(ValueError, match="do not fit"):
        unpack("item", {"ids": "text", "names": False}, arrays)


def test_an_id_that_appears_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="twice"):
        unpack("item", {"ids": "int64", "names": False}, {"item.ids": np.array([4, 4])})


@pytest.mark.parametrize("ids", [np.zeros((2, 2), np.int64), np.array([1.5])])
def test_ids_that_are_no_list_of_int64_are_refused(ids: np.ndarray) -> None:
    with pytest.raises(ValueError, match="no list of int64"):
        unpack("item", {"ids": "int64", "names": False}, {"item.ids": ids})
