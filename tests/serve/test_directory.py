from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratiorec.data.vocabulary import Vocabulary
from ratiorec.serve.models import Directory

IDS = ["zada", "Ada", "ada", "adam", "bob", "a\nd", "Straße"]


def users_of(ids: list[str]) -> Vocabulary:
    return Vocabulary(np.array(ids, object), "user")


def found(query: str, k: int = 10) -> list[str]:
    users = users_of(IDS)
    return [users.ids[user] for user in Directory.of(users).find(query, k)]


def test_this_very_id_is_first_then_other_capitals_then_beginnings_then_parts() -> None:
    assert found("ada") == ["ada", "Ada", "adam", "zada"]
    assert found("Ada") == ["Ada", "ada", "adam", "zada"]
    assert found("ADA") == ["Ada", "ada", "adam", "zada"]


def test_no_more_are_found_than_asked_for() -> None:
    assert found("ada", 2) == ["ada", "Ada"]
    assert found("", 3) == IDS[:3]


def test_without_a_query_everybody_is_found_in_the_order_of_the_model() -> None:
    assert found("") == IDS


def test_capitals_are_of_no_account() -> None:
    assert found("STRASSE") == ["Straße"]


def test_a_query_does_not_reach_from_one_id_into_the_next() -> None:
    assert found("adamb") == []
    assert found("adam\nbob") == []


def test_an_id_with_a_line_end_is_one_id() -> None:
    assert found("a\nd") == ["a\nd"]
    assert found("d", 10)[-1] == "a\nd"


def test_a_number_is_found_by_its_digits_and_zeros_before_it_count() -> None:
    directory = Directory.of(Vocabulary(np.array([107, 7, 1007, 70]), "user"))
    assert directory.find("7", 9) == [1, 3, 0, 2]
    assert directory.find("007", 9) == [2]


def test_nobody_is_found_among_nobody() -> None:
    assert Directory.of(users_of([])).find("", 5) == []
    assert Directory.of(users_of([])).find("a", 5) == []


@pytest.mark.parametrize("query", ["*", ".", "[a", "\\"])
def test_a_query_is_no_pattern(query: str) -> None:
    assert found(query) == []


@given(
    st.lists(st.text("aAb\n", min_size=1, max_size=4), unique=True, max_size=12),
    st.text("aAb\n", max_size=3),
    st.integers(1, 14),
)
def test_what_is_found_is_what_going_through_all_ids_finds(
    ids: list[str], query: str, k: int
) -> None:
    def plain(text: str) -> str:
        return text.casefold().replace("\n", " ")

    def rank(user: int) -> tuple[bool, bool, bool, int]:
        text, wanted = plain(ids[user]), plain(query)
        return ids[user] != query, text != wanted, not text.startswith(wanted), user

    matching = [user for user in range(len(ids)) if plain(query) in plain(ids[user])]
    assert Directory.of(users_of(ids)).find(query, k) == sorted(matching, key=rank)[:k]
