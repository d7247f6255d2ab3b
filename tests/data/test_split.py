from __future__ import annotations

import dataclasses
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratiorec.data.interactions import Interactions
from ratiorec.data.split import (
    Folds,
    LeaveLast,
    RatioSplit,
    Split,
    SplitAt,
    TimeSplit,
    cut_in_time,
    hold_out,
)
from ratiorec.data.vocabulary import Vocabulary
from ratiorec.errors import ConfigError, DataError

SPLITTERS = [
    *(RatioSplit(0.1), RatioSplit(0.5), LeaveLast(1), LeaveLast(3), LeaveLast(fraction=0.3)),
    TimeSplit(0.3),
]


def timed(rows: list[tuple[int, int, int]], n_users: int = 8, n_items: int = 12) -> Interactions:
    """Interactions from (user, item, timestamp) rows; the first two times always differ."""
    users, items, times = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    return Interactions.from_indices(
        Vocabulary.dense(n_users, kind="user"),
        Vocabulary.dense(n_items, kind="item"),
        users,
        items,
        timestamps=times,
    )


def in_order(rows: list[tuple[int, int, int]]) -> Interactions:
    """The same pairs without their times, in the order of the rows."""
    users, items, _ = zip(*rows, strict=True)
    return Interactions.from_indices(
        Vocabulary.dense(8, kind="user"),
        Vocabulary.dense(12, kind="item"),
        users,
        items,
        order=np.arange(len(rows)),
    )


rows_of_pairs = st.lists(
    st.tuples(st.integers(0, 7), st.integers(0, 11), st.integers(0, 20)), max_size=60
).map(lambda rows: [*rows, (0, 0, -1), (7, 11, 21)])


def pairs(data: Interactions) -> set[tuple[int, int]]:
    return set(zip(data.pair_users.tolist(), data.indices.tolist(), strict=True))


def held_out_items(split: Split, user: int) -> list[int]:
    return [int(item) for item in split.held_out.positives(user)]


@pytest.mark.parametrize("splitter", SPLITTERS, ids=str)
@given(rows=rows_of_pairs, seed=st.integers(0, 5))
def test_the_parts_are_disjoint_and_together_they_are_the_data(
    splitter: Any, rows: list[tuple[int, int, int]], seed: int
) -> None:
    data = timed(rows)
    split = splitter(data, rng=np.random.default_rng(seed))
    assert not pairs(split.train) & pairs(split.held_out)
    assert pairs(split.train) | pairs(split.held_out) == pairs(data)
    assert split.train.n_pairs + split.held_out.n_pairs == data.n_pairs


@pytest.mark.parametrize("splitter", SPLITTERS, ids=str)
@given(rows=rows_of_pairs, seed=st.integers(0, 5))
def test_the_same_seed_gives_the_same_split_whatever_order_the_rows_came_in(
    splitter: Any, rows: list[tuple[int, int, int]], seed: int
) -> None:
    first = splitter(timed(rows), rng=np.random.default_rng(seed))
    second = splitter(timed(rows[::-1]), rng=np.random.default_rng(seed))
    assert first.held_out.sha256 == second.held_out.sha256
    assert first.train.sha256 == second.train.sha256


@pytest.mark.parametrize("splitter", SPLITTERS, ids=str)
@given(rows=rows_of_pairs)
def test_every_user_is_counted_once(splitter: Any, rows: list[tuple[int, int, int]]) -> None:
    data = timed(rows)
    split = splitter(data, rng=np.random.default_rng(0))
    kept = {user for user, _ in pairs(split.train)} - {user for user, _ in pairs(split.held_out)}
    unseen = {user for user, _ in pairs(split.held_out)} - {user for user, _ in pairs(split.train)}
    assert (split.n_users_kept_whole, split.n_users_unseen) == (len(kept), len(unseen))


@given(rows=rows_of_pairs, seed=st.integers(0, 5))
def test_a_random_split_does_not_look_at_times_weights_or_ids(
    rows: list[tuple[int, int, int]], seed: int
) -> None:
    data = timed(rows)
    bare = Interactions.from_indices(
        Vocabulary(np.array([f"u{i}" for i in range(8)], object), "user"),
        data.items,
        data.pair_users,
        data.indices,
        weights=np.arange(data.n_pairs) + 1,
    )
    split = RatioSplit(0.3)(data, rng=np.random.default_rng(seed))
    other = RatioSplit(0.3)(bare, rng=np.random.default_rng(seed))
    np.testing.assert_array_equal(split.held_out.indptr, other.held_out.indptr)
    np.testing.assert_array_equal(split.held_out.indices, other.held_out.indices)


@pytest.mark.parametrize(
    ("fraction", "n_pairs", "n_held_out"),
    [
        (0.1, 1, 0),  # 0.1
        (0.1, 4, 0),  # 0.4
        (0.1, 5, 1),  # 0.5, halves upwards
        (0.1, 14, 1),  # 1.4
        (0.1, 15, 2),  # 1.5
        (0.29, 50, 15),  # 14.5, which binary fractions put just below
        (0.9, 2, 1),  # 1.8, but one stays
        (0.99, 3, 2),  # 2.97, but one stays
    ],
)
def test_a_ratio_split_rounds_halves_upwards_and_leaves_one(
    fraction: float, n_pairs: int, n_held_out: int
) -> None:
    data = timed([(0, item, 0) for item in range(n_pairs)], n_users=1, n_items=n_pairs)
    split = RatioSplit(fraction)(data, rng=np.random.default_rng(0))
    assert split.held_out.n_pairs == n_held_out
    assert split.n_users_kept_whole == (n_held_out == 0)


def test_users_without_pairs_are_not_counted_as_kept_whole() -> None:
    data = timed([(0, 0, 0), (2, 1, 0), (2, 2, 0)], n_users=4)
    split = RatioSplit(0.5)(data, rng=np.random.default_rng(0))
    assert split.n_users_kept_whole == 1  # user 0; users 1 and 3 have nothing to keep


def test_a_ratio_split_chooses_every_pair_equally_often() -> None:
    data = timed([(user, item, 0) for user in range(2000) for item in range(5)], 2000, 5)
    split = RatioSplit(0.4)(data, rng=np.random.default_rng(0))
    share = split.held_out.item_degrees / 2000
    assert share.sum() == pytest.approx(5 * 0.4)
    assert np.abs(share - 0.4).max() < 5 * np.sqrt(0.4 * 0.6 / 2000)  # five standard deviations


def test_another_seed_gives_another_split() -> None:
    data = timed([(user, item, 0) for user in range(8) for item in range(12)])
    first, second = (RatioSplit(0.3)(data, rng=np.random.default_rng(seed)) for seed in (0, 1))
    assert first.held_out.sha256 != second.held_out.sha256


def test_leave_last_takes_the_latest_and_not_the_last_listed() -> None:
    data = timed([(0, 5, 30), (0, 7, 10), (0, 9, 20)])
    assert held_out_items(LeaveLast(1)(data), 0) == [5]
    assert held_out_items(LeaveLast(2)(data), 0) == [5, 9]


def test_of_pairs_at_one_time_chance_says_which_is_the_last() -> None:
    data = timed([(user, item, user % 2) for user in range(8) for item in range(12)])
    splits = [LeaveLast(1)(data, rng=np.random.default_rng(seed)) for seed in (0, 0, 1)]
    first, again, other = (split.held_out.indices.tolist() for split in splits)
    assert len(set(first)) > 1
    assert first == again != other


def test_of_pairs_at_one_time_the_order_says_which_is_the_last() -> None:
    data = timed([(0, 3, 10), (0, 8, 10), (0, 11, 10), (0, 1, 5)])
    data = dataclasses.replace(data, order=np.array([4, 1, 3, 2], np.int32))  # of 1, 3, 8, 11
    assert held_out_items(LeaveLast(1)(data), 0) == [8]


def test_users_without_earlier_pairs_are_counted_of_those_who_lose_some() -> None:
    data = timed([(0, 0, 1), (0, 1, 2), (0, 2, 2), (1, 0, 1), (1, 1, 2), (2, 0, 1), (2, 1, 1)])
    assert LeaveLast(1).share_without_earlier(data) == 1 / 3  # of user 2
    assert LeaveLast(2).share_without_earlier(data) == 0  # of user 0 alone


def test_ties_take_no_draw_from_what_follows() -> None:
    data, rng = timed([(0, 0, 1), (0, 1, 1)]), np.random.default_rng(0)
    LeaveLast(1)(data, rng=rng)
    assert rng.random() == np.random.default_rng(0).random()


def test_leave_last_keeps_users_with_n_pairs_or_fewer_whole() -> None:
    data = timed([(0, 0, 1), (0, 1, 2), (1, 0, 1), (1, 1, 2), (1, 2, 3)])
    split = LeaveLast(2)(data)
    assert held_out_items(split, 0) == []
    assert held_out_items(split, 1) == [1, 2]
    assert split.n_users_kept_whole == 1


def last_by_loop(rows: list[tuple[int, int, int]], fraction: float) -> set[tuple[int, int]]:
    """The last share of each user's pairs, from the definition; of a repeat the latest counts."""
    latest = {}
    for user, item, moment in rows:
        latest[user, item] = max(moment, latest.get((user, item), moment))
    held_out = set()
    for user in {user for user, _ in latest}:
        line = sorted((moment, item) for (other, item), moment in latest.items() if other == user)
        n = min(int(fraction * len(line) + 0.5 + 1e-9), len(line) - 1)
        held_out |= {(user, item) for _, item in line[len(line) - n :]}
    return held_out


@given(rows=rows_of_pairs, fraction=st.sampled_from([0.1, 0.29, 0.5, 0.9]))
def test_the_last_share_is_that_of_a_loop_by_timestamps_and_by_order(
    rows: list[tuple[int, int, int]], fraction: float
) -> None:
    split = LeaveLast(fraction=fraction)
    apart = [(user, item, moment * 12 + item) for user, item, moment in rows]
    assert pairs(split(timed(apart)).held_out) == last_by_loop(apart, fraction)
    places = [(user, item, place) for place, (user, item, _) in enumerate(rows)]
    assert pairs(split(in_order(rows)).held_out) == last_by_loop(places, fraction)


@given(rows=rows_of_pairs, fraction=st.sampled_from([0.1, 0.29, 0.5, 0.9]))
def test_the_last_share_is_as_large_as_a_random_one(
    rows: list[tuple[int, int, int]], fraction: float
) -> None:
    last, random = (
        splitter(timed(rows), rng=np.random.default_rng(0)).held_out.user_degrees
        for splitter in (LeaveLast(fraction=fraction), RatioSplit(fraction))
    )
    assert last.tolist() == random.tolist()


def test_timestamps_decide_before_the_order_does() -> None:
    data = dataclasses.replace(
        timed([(0, 5, 30), (0, 7, 10), (0, 9, 20)]), order=np.array([0, 2, 1], np.int32)
    )
    assert held_out_items(LeaveLast(1)(data), 0) == [5]


@given(rows=rows_of_pairs)
def test_what_is_left_of_a_split_is_split_by_the_same_order(
    rows: list[tuple[int, int, int]],
) -> None:
    data = in_order(rows)
    twice = pairs(LeaveLast(1)(LeaveLast(1)(data).train).held_out)
    once = LeaveLast(2)(data).held_out
    whole = {user for user in range(8) if data.user_degrees[user] > 2}
    assert {pair for pair in twice if pair[0] in whole} <= pairs(once)


def test_a_split_by_order_has_no_clock_for_a_cut_in_time() -> None:
    with pytest.raises(DataError, match="no timestamps"):
        TimeSplit(0.1)(in_order([(0, 0, 0), (0, 1, 0), (1, 1, 0)]))


def test_what_cannot_be_held_out_is_told_by_the_option() -> None:
    bare = dataclasses.replace(timed([(0, 0, 0), (0, 1, 0)]), timestamps=None)
    for by, found in (("time", "no timestamps"), ("last", "neither timestamps nor an order")):
        with pytest.raises(DataError, match='or validation_by="random"') as caught:
            hold_out(bare, 0.5, by=by, rng=np.random.default_rng(0))
        assert (caught.value.where, caught.value.found) == (f"--validation-by {by}", found)


def test_timestamps_and_weights_stay_beside_their_pairs() -> None:
    data = Interactions.from_indices(
        Vocabulary.dense(1, kind="user"),
        Vocabulary.dense(3, kind="item"),
        [0, 0, 0],
        [2, 0, 1],
        weights=[0.5, 1.5, 2.5],
        timestamps=[9, 7, 8],
    )
    split = LeaveLast(1)(data)
    assert split.held_out.timestamps is not None
    assert split.held_out.weights is not None
    assert split.held_out.indices.tolist() == [2]
    assert split.held_out.timestamps.tolist() == [9]
    assert split.held_out.weights.tolist() == [0.5]


def test_a_split_at_a_moment_holds_out_what_is_strictly_later() -> None:
    data = timed([(0, 0, 10), (0, 1, 20), (0, 2, 30)])
    assert held_out_items(SplitAt(20)(data), 0) == [2]


def test_a_user_who_begins_after_the_cut_is_held_out_whole_and_counted() -> None:
    data = timed([(0, 0, 10), (0, 1, 30), (1, 2, 30), (1, 3, 40), (2, 4, 5)])
    split = SplitAt(20)(data)
    assert held_out_items(split, 1) == [2, 3]
    assert (split.n_users_kept_whole, split.n_users_unseen) == (1, 1)  # user 2 and user 1
    assert pairs(split.judged) == {(0, 1)}


def test_nothing_later_than_the_cut_is_trained_on() -> None:
    rng = np.random.default_rng(0)
    rows = [(int(rng.integers(8)), item % 12, int(rng.integers(100))) for item in range(90)]
    split = TimeSplit(0.25)(timed(rows), rng=rng)
    assert split.train.timestamps is not None
    assert split.held_out.timestamps is not None
    assert split.train.timestamps.max() < split.held_out.timestamps.min()


def test_a_time_split_holds_out_its_share_when_all_times_differ() -> None:
    data = timed([(item % 8, item % 12, 100 - item) for item in range(20)])
    split = TimeSplit(0.15)(data)
    assert split.held_out.n_pairs == 3  # 0.15 · 20
    assert pairs(split.held_out) == {(0, 0), (1, 1), (2, 2)}


def test_a_pair_that_comes_before_the_cut_and_after_it_is_a_training_pair() -> None:
    data = timed([(0, 0, 10), (0, 0, 40), (0, 0, 30), (0, 1, 40), (1, 2, 5)])
    split = SplitAt(20)(data)
    assert pairs(split.train) == {(0, 0), (1, 2)}
    assert pairs(split.held_out) == {(0, 1)}
    assert split.n_repeats == 1
    assert split.train.timestamps is not None
    assert split.train.timestamps.tolist() == [10, 5]  # nothing of what comes after the cut
    assert SplitAt(9)(data).n_repeats == 0


@given(rows=rows_of_pairs, cut=st.integers(-1, 20))
def test_a_cut_in_time_is_that_of_a_loop_over_all_events(
    rows: list[tuple[int, int, int]], cut: int
) -> None:
    before = {(user, item) for user, item, moment in rows if moment <= cut}
    after = {(user, item) for user, item, moment in rows if moment > cut}
    if not after - before:
        return
    split = SplitAt(cut)(timed(rows))
    assert pairs(split.train) == before
    assert pairs(split.held_out) == after - before
    assert split.n_repeats == len(after & before)


SECONDS = 1_777_593_600  # 2026-05-01T00:00 UTC


@pytest.mark.parametrize("ticks", [1, 10**3, 10**6, 10**9])
def test_a_date_is_a_moment_in_whatever_unit_the_timestamps_are(ticks: int) -> None:
    day = 86_400 * ticks
    moments = [SECONDS * ticks + offset for offset in (-40 * day, -ticks, 0, 5 * day)]
    data = timed([(0, item, moment) for item, moment in enumerate(moments)])
    for at in ("2026-05-01", "2026-05-01T02:00+02:00", str(moments[2])):
        assert held_out_items(cut_in_time(data, 0.1, at=at)(data), 0) == [2, 3]
    assert held_out_items(cut_in_time(data, 0.1, last_days=30)(data), 0) == [1, 2, 3]
    assert held_out_items(cut_in_time(data, 0.1, last_days=5)(data), 0) == [3]
    assert cut_in_time(data, 0.3) == TimeSplit(0.3)


def test_a_cut_that_cannot_be_read_is_told() -> None:
    data = timed([(0, 0, 1), (0, 1, 2)])
    dated = timed([(0, 0, SECONDS), (0, 1, SECONDS + 9)])
    assert held_out_items(cut_in_time(data, 0.1, at="2")(data), 0) == [1]
    with pytest.raises(DataError, match=r"no dates.*numbers from 1 to 2"):
        cut_in_time(data, 0.1, last_days=3)
    with pytest.raises(ConfigError, match="where: at; found: 'May'; wanted: a date such as"):
        cut_in_time(dated, 0.1, at="May")
    with pytest.raises(ConfigError, match="where: at, last_days; found: both"):
        cut_in_time(dated, 0.1, at="2026-05-01", last_days=3)
    with pytest.raises(ConfigError, match="where: last_days"):
        cut_in_time(dated, 0.1, last_days=0)


@given(rows=rows_of_pairs, n=st.integers(2, 6))
def test_every_pair_is_held_out_once_and_nobody_loses_all(
    rows: list[tuple[int, int, int]], n: int
) -> None:
    data = timed(rows)
    folds = Folds(n)(data, rng=np.random.default_rng(0))
    assert len(folds) == n
    held_out = [pair for fold in folds for pair in pairs(fold.held_out)]
    single = {(u, i) for u, i in pairs(data) if data.user_degrees[u] == 1}
    assert len(held_out) == len(set(held_out))
    assert set(held_out) == pairs(data) - single
    for fold in folds:
        assert pairs(fold.train) | pairs(fold.held_out) == pairs(data)
        assert not pairs(fold.train) & pairs(fold.held_out)
        assert fold.n_users_unseen == 0
    degrees = np.array([fold.held_out.user_degrees for fold in folds])
    assert (degrees.max(axis=0) - degrees.min(axis=0)).max() <= 1


def test_folds_are_of_one_size_and_follow_from_the_seed() -> None:
    data = timed([(user, item, 0) for user in range(400) for item in range(3)], 400, 3)
    folds, again, other = (Folds(5)(data, rng=np.random.default_rng(seed)) for seed in (0, 0, 1))
    sizes = [fold.held_out.n_pairs for fold in folds]
    assert max(sizes) < 1.2 * min(sizes)  # the odd pairs are spread over the folds
    assert folds[0].held_out.sha256 == again[0].held_out.sha256 != other[0].held_out.sha256
    with pytest.raises(ConfigError, match="too few folds"):
        Folds(1)


def test_pairs_at_the_cut_stay_in_train() -> None:
    data = timed([(0, 0, 1), (0, 1, 2), (0, 2, 2), (0, 3, 2), (0, 4, 3)])
    assert held_out_items(TimeSplit(0.4)(data), 0) == [4]


@pytest.mark.parametrize("splitter", [LeaveLast(1), TimeSplit(0.1), SplitAt(0)], ids=str)
def test_missing_timestamps_are_told(splitter: Any) -> None:
    data = Interactions.from_indices(
        Vocabulary.dense(1, kind="user"), Vocabulary.dense(2, kind="item"), [0, 0], [0, 1]
    )
    with pytest.raises(DataError) as caught:
        splitter(data)
    assert caught.value.where == type(splitter).__name__
    assert caught.value.found.startswith(("no timestamps", "neither timestamps nor an order"))


def test_a_time_split_without_pairs_is_told() -> None:
    empty = timed([(0, 0, 0)]).select(np.array([False]))
    with pytest.raises(DataError, match="found: no pairs"):
        TimeSplit(0.1)(empty)


def test_the_latest_moment_is_held_out_even_where_it_is_more_than_the_share() -> None:
    data = timed([(0, 0, 1), (0, 1, 2), (0, 2, 3), (1, 3, 3), (1, 4, 3)])
    assert pairs(TimeSplit(0.2)(data).held_out) == {(0, 2), (1, 3), (1, 4)}


@pytest.mark.parametrize("splitter", [SplitAt(-1), SplitAt(7), TimeSplit(0.5)], ids=str)
def test_a_cut_in_time_that_leaves_a_part_empty_is_refused(splitter: Any) -> None:
    with pytest.raises(DataError, match=r"one part would be empty.*timestamps from 7 to 7"):
        splitter(timed([(0, 0, 7), (1, 0, 7), (1, 1, 7)]))


@pytest.mark.parametrize("fraction", [0.0, 1.0, -0.1, float("nan")])
@pytest.mark.parametrize("splitter", [RatioSplit, TimeSplit, LeaveLast])
def test_a_share_outside_zero_to_one_is_refused(splitter: Any, fraction: float) -> None:
    with pytest.raises(ConfigError, match=rf"where: {splitter.__name__}\.fraction"):
        splitter(fraction=fraction)


def test_leaving_no_pair_out_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"LeaveLast\.n"):
        LeaveLast(0)


def test_empty_data_is_split_into_empty_parts() -> None:
    empty = timed([(0, 0, 0)]).select(np.array([False]))
    split = RatioSplit(0.1)(empty, rng=np.random.default_rng(0))
    assert (split.train.n_pairs, split.held_out.n_pairs, split.n_users_kept_whole) == (0, 0, 0)


@pytest.mark.parametrize("splitter", [RatioSplit(0.1), LeaveLast(1), TimeSplit(0.1)], ids=str)
def test_a_split_of_810_thousand_pairs_needs_no_loop_over_users(splitter: Any) -> None:
    rng = np.random.default_rng(0)
    n_users, n_pairs = 29_858, 810_128
    data = Interactions.from_indices(
        Vocabulary.dense(n_users, kind="user"),
        Vocabulary.dense(40_981, kind="item"),
        rng.integers(0, n_users, n_pairs),
        rng.integers(0, 40_981, n_pairs),
        timestamps=rng.integers(0, 10**9, n_pairs),
    )
    data.pair_users, data.user_degrees  # noqa: B018 - cached by whatever used the data before
    start = time.process_time()
    splitter(data, rng=rng)
    assert time.process_time() - start < 1
