from __future__ import annotations

import pytest

from ratiorec.data.interactions import Dataset, Interactions
from ratiorec.data.vocabulary import Vocabulary
from ratiorec.errors import DataError

USERS, ITEMS = Vocabulary.dense(3, kind="user"), Vocabulary.dense(4, kind="item")


def part(*pairs: tuple[int, int], items: Vocabulary = ITEMS) -> Interactions:
    users, indices = zip(*pairs, strict=True)
    return Interactions.from_indices(USERS, items, users, indices)


def test_parts_that_share_ids_and_no_pair_are_a_dataset() -> None:
    dataset = Dataset("toy", part((0, 1), (2, 3)), part((0, 2), (2, 1)))
    assert dataset.test is not None
    assert dataset.train.n_pairs == dataset.test.n_pairs == 2


def test_a_test_part_is_optional() -> None:
    assert Dataset("toy", part((0, 1))).test is None


def test_test_pairs_that_are_in_train_are_refused_and_counted() -> None:
    with pytest.raises(DataError, match="2 such pairs") as caught:
        Dataset("toy", part((0, 1), (2, 3), (1, 0)), part((2, 3), (0, 2), (1, 0)))
    assert "user 1 and item 0" in caught.value.found
    assert caught.value.where == "data set toy"


def test_parts_over_different_vocabularies_are_refused() -> None:
    with pytest.raises(DataError, match="do not share"):
        Dataset("toy", part((0, 1)), part((0, 2), items=Vocabulary.dense(4, kind="item")))
