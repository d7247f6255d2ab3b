from __future__ import annotations

import numpy as np

from ratiorec.data.vocabulary import Vocabulary
from ratiorec.serve.models import Catalogue
from support.small_scorers import rows_of

NAMED = Vocabulary(np.array(["a1", "B2", "ab", "zz"], object), "item").with_names(
    ["Green Tea", "Black tea", "TEA", "Straße"]
)
SEEN = rows_of([[1, 2], [1, 2], [1], [3]])  # 0, 3, 2 and 1 users


def found(query: str, k: int = 10) -> list[str]:
    return [NAMED.ids[item] for item in Catalogue.of(NAMED, SEEN).find(query, k)]


def test_an_empty_query_finds_everything_with_most_users_first() -> None:
    assert found("") == ["B2", "ab", "zz", "a1"]
    assert found("", 2) == ["B2", "ab"]


def test_a_part_of_a_name_finds_whatever_its_capitals() -> None:
    assert found("BLACK T") == ["B2"]
    assert found("strasse") == ["zz"]


def test_an_exact_id_or_name_stands_first() -> None:
    assert found("tea") == ["ab", "B2", "a1"]
    assert found("A1") == ["a1"]


def test_what_nothing_has_finds_nothing() -> None:
    assert found("coffee") == []


def test_a_query_does_not_reach_from_an_id_into_its_name() -> None:
    assert found("a1Green") == []


def test_items_without_names_are_found_by_their_number() -> None:
    numbers = Vocabulary(np.array([10, 21, 110]), "item")
    assert Catalogue.of(numbers, rows_of([[2]])).find("10", 5) == [0, 2]
