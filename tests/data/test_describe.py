from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratiorec.data.describe import (
    DegreeSummary,
    describe,
    gini,
    neighbour_agreement,
    order_evidence,
    order_note,
    popularity_drift,
)
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


def in_lines(lines: list[list[int]], n_items: int) -> Interactions:
    """One line of items a user, in this order."""
    users = [user for user, line in enumerate(lines) for _ in line]
    return Interactions.from_indices(
        Vocabulary.dense(len(lines), kind="user"),
        Vocabulary.dense(n_items, kind="item"),
        users,
        [item for line in lines for item in line],
        order=np.arange(len(users)),
    )


def drawn_lines(rng: np.random.Generator, n_users: int = 400) -> list[list[int]]:
    """Lines in random order, of items of which some are popular."""
    share = 1 / np.arange(2, 42)
    return [
        rng.choice(40, size=rng.integers(2, 25), replace=False, p=share / share.sum()).tolist()
        for _ in range(n_users)
    ]


@pytest.mark.parametrize("seed", range(4))
def test_lines_in_random_order_look_like_chance(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lines = [rng.permutation(line).tolist() for line in drawn_lines(rng)]
    evidence = order_evidence(in_lines(lines, 40))
    assert not evidence.is_informative
    assert evidence.sentence.startswith("the order of the pairs looks like chance")


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("key", ["id", "popularity", "anything"])
def test_lines_sorted_by_one_key_say_nothing_of_time(key: str, reverse: bool) -> None:
    rng = np.random.default_rng(0)
    keys = {"id": range(40), "popularity": range(40, 0, -1), "anything": rng.permutation(40)}
    lines = drawn_lines(rng)
    data = in_lines(
        [sorted(line, key=keys[key].__getitem__, reverse=reverse) for line in lines], 40
    )
    evidence = order_evidence(data)
    assert evidence.agreement == 1
    assert not evidence.is_informative
    assert "sorted" in evidence.sentence


def test_a_few_lines_that_are_not_sorted_do_not_hide_that_the_others_are() -> None:
    rng = np.random.default_rng(0)
    lines = [sorted(line) if user > 2 else line for user, line in enumerate(drawn_lines(rng))]
    assert not order_evidence(in_lines(lines, 40)).is_informative


def test_lines_whose_items_come_into_fashion_count_as_time() -> None:
    rng = np.random.default_rng(0)
    epochs = rng.random(40) * 3
    lines = [sorted(x, key=lambda item: epochs[item] + rng.random()) for x in drawn_lines(rng)]
    evidence = order_evidence(in_lines(lines, 40))
    assert evidence.is_informative
    assert evidence.sentence.startswith("the order of the pairs counts as time")
    assert evidence.agreement is not None
    assert 0.5 < evidence.agreement < 0.99


@pytest.mark.parametrize(("last", "sign"), [(min, 1), (max, -1)])
def test_the_sign_of_the_drift_is_that_of_the_last_items(last: Any, sign: int) -> None:
    rng = np.random.default_rng(0)
    lines = [  # a small index is a popular item
        [*(item for item in rng.permutation(line).tolist() if item != last(line)), last(line)]
        for line in drawn_lines(rng)
    ]
    evidence = order_evidence(in_lines(lines, 40))
    assert evidence.drift is not None
    assert evidence.drift.t * sign > 10
    assert evidence.is_informative


def test_the_drift_is_the_mean_difference_of_log_popularity() -> None:
    earlier = over(3, 3, [(0, 0), (0, 1), (1, 0), (2, 0)])
    later = over(3, 3, [(0, 2), (1, 1)])
    drift = popularity_drift(earlier, later, np.array([4, 2, 1]))
    logs = np.log([4, 2, 1])
    gains = [logs[2] - (logs[0] + logs[1]) / 2, logs[1] - logs[0]]  # user 2 has no later pair
    assert drift.n_users == 2
    assert drift.mean == pytest.approx(np.mean(gains))
    assert drift.t == pytest.approx(np.mean(gains) / (np.std(gains, ddof=1) / np.sqrt(2)))


@given(
    lines=st.lists(
        st.lists(st.integers(0, 4), min_size=1, max_size=5, unique=True), min_size=1, max_size=12
    )
)
def test_agreement_is_that_of_a_loop_over_neighbours_two_by_two(lines: list[list[int]]) -> None:
    seen: dict[frozenset[int], int] = {}
    agrees = []
    for line in lines:
        for first, second in zip(line[::2], line[1::2], strict=False):
            two = frozenset((first, second))
            if two in seen:
                agrees.append(seen[two] == first)
            seen[two] = first
    share, n_compared = neighbour_agreement(in_lines(lines, 5))
    assert n_compared == len(agrees)
    assert share == pytest.approx(np.mean(agrees) if agrees else 0.5)


def test_a_sample_of_the_users_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    data = in_lines([sorted(line) for line in drawn_lines(np.random.default_rng(0))], 40)
    whole = order_evidence(data)
    monkeypatch.setattr("ratiorec.data.describe._ENOUGH_PAIRS", data.n_pairs // 3)
    part = order_evidence(data)
    assert (part.is_informative, part.agreement) == (whole.is_informative, whole.agreement)
    assert 0 < part.n_compared < whole.n_compared / 2


@pytest.mark.parametrize(
    ("data", "sentence", "is_informative"),
    [
        (over(2, 2, [(0, 0), (1, 1)]), "neither timestamps nor an order", False),
        (in_lines([[0, 1], [1, 0]], 2), "cannot be judged", False),
        (
            Interactions.from_pairs([0, 0, 1], [0, 1, 1], timestamps=[3, 4, 3]),
            "the pairs have timestamps",
            True,
        ),
        (
            Interactions.from_pairs([0, 0, 1], [0, 1, 1], timestamps=[3, 3, 3]),
            "all pairs have the same timestamp",
            False,
        ),
    ],
)
def test_what_cannot_be_told_and_what_need_not_be_is_said(
    data: Interactions, sentence: str, is_informative: bool
) -> None:
    evidence = order_evidence(data)
    assert sentence in evidence.sentence
    assert evidence.is_informative is is_informative
    json.dumps(describe(data).to_json(), allow_nan=False)


def of_days(n_days: int, n_days_each: int) -> Interactions:
    """Ten items for each of forty users, each over some of so many days."""
    pairs = [(user, item) for user in range(40) for item in range(10)]
    users, items = zip(*pairs, strict=True)
    days = [(user + item % n_days_each) % n_days for user, item in pairs]
    return Interactions.from_pairs(users, items, timestamps=days)


def test_timestamps_count_as_time_where_users_have_more_than_one() -> None:
    for n_days_each in (2, 10):
        assert order_evidence(of_days(20, n_days_each)).sentence == "the pairs have timestamps"
    one = order_evidence(of_days(20, 1))
    assert not one.is_informative
    assert one.sentence.startswith("for 100.0% of the users no pair is earlier")
    assert order_evidence(of_days(1, 1)).sentence == "all pairs have the same timestamp"


def test_the_note_says_why_timestamps_are_not_used() -> None:
    assert order_note(of_days(20, 2)) is None
    assert order_note(replace(of_days(20, 1), timestamps=None)) is None
    assert str(order_note(of_days(20, 1))).endswith("; validation pairs are drawn at random")
