from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratiorec.data.describe import DegreeSummary, describe, gini
from ratiorec.data.interactions import Interactions
from ratiorec.data.vocabulary import Vocabulary


def over(n_users: int, n_items: int, pairs: list[tuple[int, int]]) -> Interactions:
    users, items = zip(*pairs, strict=True) if pairs else ((), ())
    return Interactions.from_indices(
        Vocabulary.dense(n_users, kind="user"), Vocabulary.dense(n_items, kind="item"), users, items
    )


def test_counts_density_and_degrees_are_those_of_the_pairs() -> None:
    description = describe(over(3, 4, [(0, 0), (0, 1), (0, 2), (1, 0)]))
    assert (description.n_users, description.n_items, description.n_pairs) == (3, 4, 4)
    assert description.density == 4 / (3 * 4)
    assert description.user_degrees == DegreeSummary(0, 1.0, 4 / 3, 1 + 0.8 * (3 - 1), 3)
    assert description.item_degrees.p90 == pytest.approx(1 + 0.7 * (2 - 1))
    assert description.n_users_with_one_pair == 1
    assert description.n_items_with_one_pair == 2
    assert description.n_users_without_pair == 1
    assert description.n_items_without_pair == 1


def test_each_weakness_has_its_own_line() -> None:
    warnings = describe(over(3, 4, [(0, 0), (0, 1), (0, 2), (1, 0)])).warnings
    assert [warning.split(" with")[0] for warning in warnings] == [
        "1 user of 3",
        "1 user of 3",
        "2 items of 4",
        "1 item of 4",
    ]
    assert all("\n" not in warning for warning in warnings)


def test_data_without_weakness_have_no_warning() -> None:
    assert describe(over(2, 2, [(0, 0), (0, 1), (1, 0), (1, 1)])).warnings == ()


def test_one_user_only_is_warned_about() -> None:
    assert "too few users" in describe(over(1, 2, [(0, 0), (0, 1)])).warnings[0]


def test_weights_that_look_like_times_are_warned_about() -> None:
    data = Interactions.from_pairs([1, 1, 2, 2], [1, 2, 1, 2], weights=[9e8, 9e8, 8e8, 9e8])
    assert any("timestamp" in warning for warning in describe(data).warnings)
    modest = Interactions.from_pairs([1, 1, 2, 2], [1, 2, 1, 2], weights=[9e8, 9e8, 1, 9e8])
    assert describe(modest).warnings == ()


def test_no_pairs_give_zeros_and_no_failure() -> None:
    description = describe(over(0, 0, []))
    assert description.item_gini == description.density == 0.0
    assert description.user_degrees == DegreeSummary(0, 0.0, 0.0, 0.0, 0)


def test_the_json_form_is_plain_and_complete() -> None:
    description = describe(over(2, 2, [(0, 0), (1, 1)]))
    plain = description.to_json()
    assert json.loads(json.dumps(plain)) == plain
    assert plain["user_degrees"] == {"min": 1, "median": 1.0, "mean": 1.0, "p90": 1.0, "max": 1}
    assert plain["has_weights"] is False
    assert len(plain["warnings"]) == 2


@given(st.lists(st.integers(0, 100), min_size=1, max_size=20).filter(any))
def test_gini_is_the_mean_difference_over_twice_the_mean(counts: list[int]) -> None:
    difference = sum(abs(a - b) for a in counts for b in counts) / len(counts) ** 2
    mean = sum(counts) / len(counts)
    assert gini(np.array(counts)) == pytest.approx(difference / (2 * mean), abs=1e-12)
