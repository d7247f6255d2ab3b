from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratiorec.data.interactions import (
    Dataset,
    Interactions,
    require_trainable,
)
from ratiorec.data.vocabulary import Vocabulary, _sort
from ratiorec.errors import ConfigError, DataError, UnknownIdError

N_USERS, N_ITEMS = 4, 5
USERS, ITEMS = Vocabulary.dense(3, kind="user"), Vocabulary.dense(4, kind="item")
rows = st.lists(
    st.tuples(
        st.integers(0, N_USERS - 1),
        st.integers(0, N_ITEMS - 1),
        st.floats(0, 1e6, exclude_min=True),
        st.integers(-(2**60), 2**60),
    ),
    max_size=40,
)


def dense(pairs: list[tuple[int, int]], n_users: int = 3, n_items: int = 4) -> Interactions:
    users, items = zip(*pairs, strict=True) if pairs else ((), ())
    return Interactions.from_indices(
        Vocabulary.dense(n_users, kind="user"), Vocabulary.dense(n_items, kind="item"), users, items
    )


def weighted(table: list[tuple[int, int, float, int]]) -> Interactions:
    users, items, weights, times = zip(*table, strict=True) if table else ((), (), (), ())
    return Interactions.from_indices(
        Vocabulary.dense(N_USERS, kind="user"),
        Vocabulary.dense(N_ITEMS, kind="item"),
        users,
        items,
        weights=weights,
        timestamps=np.array(times, dtype=np.int64),
    )


def pairs_of(data: Interactions) -> set[tuple[object, object]]:
    user_ids, item_ids = data.users.ids[data.pair_users], data.items.ids[data.indices]
    return set(zip(user_ids.tolist(), item_ids.tolist(), strict=True))


def test_pairs_are_sorted_by_user_then_item_and_repeats_are_merged() -> None:
    data = dense([(2, 3), (0, 1), (2, 0), (2, 3)])
    assert data.indptr.tolist() == [0, 1, 1, 3]
    assert data.indices.tolist() == [1, 0, 3]
    assert data.positives(2).tolist() == [0, 3]


def test_weights_of_repeats_add_up_and_the_latest_time_stays() -> None:
    data = weighted([(1, 2, 0.5, 30), (1, 2, 2.0, 70), (1, 2, 1.0, 50), (0, 0, 4.0, 9)])
    assert data.weights is not None
    assert data.timestamps is not None
    assert data.weights.tolist() == [4.0, 0.5 + 2.0 + 1.0]
    assert data.timestamps.tolist() == [9, 70]


@given(table=rows, seed=st.integers(0, 1000))
def test_merging_does_not_depend_on_the_order_of_the_rows(
    table: list[tuple[int, int, float, int]], seed: int
) -> None:
    shuffled = [table[place] for place in np.random.default_rng(seed).permutation(len(table))]
    one, other = weighted(table), weighted(shuffled)
    assert one.sha256 == other.sha256
    np.testing.assert_array_equal(one.weights, other.weights)
    np.testing.assert_array_equal(one.timestamps, other.timestamps)


def test_a_weight_of_zero_is_no_pair() -> None:
    data = weighted([(0, 0, 0.0, 9), (1, 2, 0.0, 30), (1, 2, 2.0, 10), (2, 1, 0.0, 5)])
    assert pairs_of_indices(data) == [(1, 2)]
    assert data.weights is not None
    assert data.weights.tolist() == [2.0]
    assert (data.n_users, data.n_items) == (N_USERS, N_ITEMS)


def test_a_weight_that_is_too_small_for_float32_is_still_a_pair() -> None:
    data = weighted([(0, 0, 1e-60, 0), (1, 1, 1.0, 0)])
    assert data.weights is not None
    assert 0 < data.weights[0] < 1e-37


@pytest.mark.parametrize("large_row", range(5))
def test_small_weights_count_whatever_row_they_stand_in(large_row: int) -> None:
    large, small = 2.0**24 + 1, [2.0**-30] * 4  # 2²⁴+1 lies between two float32, the sum above
    weights = [*small[:large_row], large, *small[large_row:]]
    data = weighted([(0, 0, weight, 0) for weight in weights])
    assert data.weights is not None
    assert data.weights.tolist() == [2.0**24 + 2]


@given(table=rows)
def test_merging_equals_a_loop_over_the_rows(table: list[tuple[int, int, float, int]]) -> None:
    total: dict[tuple[int, int], float] = {}
    latest: dict[tuple[int, int], int] = {}
    for user, item, weight, time in table:
        total[user, item] = total.get((user, item), 0.0) + weight
        latest[user, item] = max(latest.get((user, item), time), time)
    data = weighted(table)
    assert [tuple(pair) for pair in zip(data.pair_users, data.indices, strict=True)] == sorted(
        total
    )
    np.testing.assert_allclose(data.weights, [total[pair] for pair in sorted(total)], 1e-6, 1e-30)
    assert data.timestamps is not None
    assert data.timestamps.tolist() == [latest[pair] for pair in sorted(latest)]


@given(table=rows)
def test_pairs_without_weights_are_the_pairs_with_weights(
    table: list[tuple[int, int, float, int]],
) -> None:
    bare = dense([(user, item) for user, item, _, _ in table], N_USERS, N_ITEMS)
    assert pairs_of(bare) == pairs_of(weighted(table))
    assert bare.weights is None
    assert bare.timestamps is None


def test_dates_become_microseconds() -> None:
    data = Interactions.from_indices(
        Vocabulary.dense(1, kind="user"),
        Vocabulary.dense(1, kind="item"),
        [0],
        [0],
        timestamps=np.array(["1970-01-02"], dtype="datetime64[D]"),
    )
    assert data.timestamps is not None
    assert data.timestamps.tolist() == [24 * 60 * 60 * 10**6]


def test_degrees_count_pairs_and_users_may_have_none() -> None:
    data = dense([(0, 1), (0, 2), (2, 1)])
    assert data.user_degrees.tolist() == [2, 0, 1]
    assert data.item_degrees.tolist() == [0, 2, 1, 0]
    assert data.pair_users.tolist() == [0, 0, 2]
    assert data.density == 3 / (3 * 4)


def test_no_pairs_at_all_are_possible() -> None:
    data = dense([])
    assert (data.n_users, data.n_items, data.n_pairs) == (3, 4, 0)
    assert data.indptr.tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("user", "item", "kind"), [(3, 0, "user"), (0, 4, "item"), (0, -1, "item")]
)
def test_an_index_out_of_range_is_refused(user: int, item: int, kind: str) -> None:
    with pytest.raises(DataError, match=f"{kind} index out of range") as caught:
        dense([(0, 0), (user, item)])
    assert caught.value.wanted == ("0 to 2" if kind == "user" else "0 to 3")


@pytest.mark.parametrize("weight", [-0.5, float("nan"), float("inf")])
def test_a_weight_that_is_negative_or_not_finite_is_refused_by_row(weight: float) -> None:
    with pytest.raises(DataError, match="weight") as caught:
        weighted([(0, 0, 1.0, 0), (1, 1, weight, 0)])
    assert caught.value.where == "weights, row 2"


def test_a_sum_of_weights_beyond_float32_is_refused() -> None:
    with pytest.raises(DataError, match="too large"):
        weighted([(0, 0, 3e38, 0), (0, 0, 3e38, 0)])


def test_a_missing_time_is_refused_by_row() -> None:
    with pytest.raises(DataError, match="timestamp") as caught:
        Interactions.from_indices(
            Vocabulary.dense(1, kind="user"),
            Vocabulary.dense(2, kind="item"),
            [0, 0],
            [0, 1],
            timestamps=[1.0, float("nan")],
        )
    assert caught.value.where == "timestamps, row 2"


def test_columns_of_different_length_are_refused() -> None:
    with pytest.raises(DataError, match="length") as caught:
        Interactions.from_indices(
            Vocabulary.dense(1, kind="user"), Vocabulary.dense(1, kind="item"), [0, 0], [0]
        )
    assert (caught.value.where, caught.value.found) == ("items", "1 rows")


def test_select_keeps_weights_and_times_beside_their_pairs() -> None:
    data = weighted([(0, 0, 1.0, 10), (1, 1, 2.0, 20), (3, 4, 3.0, 30)])
    chosen = data.select(np.array([False, True, True]))
    assert chosen.weights is not None
    assert chosen.timestamps is not None
    assert pairs_of(chosen) == {(1, 1), (3, 4)}
    assert chosen.indptr.tolist() == [0, 0, 1, 1, 2]
    assert chosen.weights.tolist() == [2.0, 3.0]
    assert chosen.timestamps.tolist() == [20, 30]
    assert chosen.users is data.users


def test_the_fingerprint_tells_pairs_and_sizes_apart() -> None:
    prints = [
        dense([(0, 1)]).sha256,
        dense([(0, 2)]).sha256,
        dense([(1, 1)]).sha256,
        dense([(0, 1)], n_users=4).sha256,
        dense([(0, 1)], n_items=5).sha256,
    ]
    assert len(set(prints)) == len(prints)
    assert dense([(0, 1), (0, 1)]).sha256 == prints[0]


ids = st.sampled_from(["ann", "bob", "cid", "dan"])


@given(st.lists(st.tuples(ids, st.integers(0, 6)), min_size=1), st.permutations(range(8)))
def test_alignment_keeps_the_pairs(pairs: list[tuple[str, int]], order: list[int]) -> None:
    data = Interactions.from_pairs(*zip(*pairs, strict=True))
    users = Vocabulary.from_ids(["dan", "eve", "cid", "bob", "ann"], kind="user")
    items = Vocabulary.from_ids(order, kind="item")
    aligned = data.aligned_to(users, items)
    assert pairs_of(aligned) == set(pairs)
    assert aligned.users is users
    assert aligned.items is items
    assert all(low <= high for low, high in pairwise(aligned.indptr))


def test_alignment_carries_weights_and_times_along() -> None:
    data = Interactions.from_pairs(["a", "b"], [1, 2], weights=[3.0, 4.0], timestamps=[5, 6])
    users = Vocabulary.from_ids(["b", "a"], kind="user")
    aligned = data.aligned_to(users, data.items)
    assert aligned.weights is not None
    assert aligned.timestamps is not None
    assert aligned.weights.tolist() == [4.0, 3.0]
    assert aligned.timestamps.tolist() == [6, 5]


@pytest.mark.parametrize(
    ("known_users", "known_items", "found"),
    [(["ann"], [1, 2], "user 'bob'"), (["ann", "bob"], [1], "item 2")],
)
def test_an_unknown_user_or_item_is_refused_by_name(
    known_users: list[str], known_items: list[int], found: str
) -> None:
    data = Interactions.from_pairs(["ann", "bob"], [1, 2])
    with pytest.raises(UnknownIdError, match="1 of 2 pairs") as caught:
        data.aligned_to(
            Vocabulary.from_ids(known_users, kind="user"),
            Vocabulary.from_ids(known_items, kind="item"),
        )
    assert caught.value.found == found


def test_pairs_with_unknown_ids_can_be_skipped_and_counted() -> None:
    data = Interactions.from_pairs(["ann", "ann", "bob", "eve"], [1, 9, 1, 1])
    users = Vocabulary.from_ids(["bob", "ann"], kind="user")
    items = Vocabulary.from_ids([1, 2], kind="item")
    aligned = data.aligned_to(users, items, on_unknown="skip")
    assert pairs_of(aligned) == {("ann", 1), ("bob", 1)}
    assert (~data.known_to(users, items)).sum() == 2 == data.n_pairs - aligned.n_pairs


def test_an_unknown_id_without_a_pair_does_no_harm() -> None:
    data = dense([(0, 0)], n_users=9)
    assert data.aligned_to(Vocabulary.dense(1, kind="user"), data.items).n_pairs == 1


def test_another_policy_for_unknown_ids_is_refused() -> None:
    data = dense([(0, 0)])
    with pytest.raises(ConfigError, match="on_unknown"):
        data.aligned_to(data.users, data.items, on_unknown="fallback")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (dense([(0, 0), (0, 1)], n_users=1), "1 user"),
        (dense([(0, 0), (1, 0)], n_items=1), "1 item"),
        (dense([]), "0 pairs"),
    ],
)
def test_data_with_nothing_to_learn_is_refused(data: Interactions, found: str) -> None:
    with pytest.raises(DataError, match="too few") as caught:
        require_trainable(data)
    assert caught.value.found == found


def test_two_users_two_items_and_a_pair_suffice() -> None:
    data = dense([(0, 0)], n_users=2, n_items=2)
    assert require_trainable(data) is data


def test_relative_weights_have_a_mean_of_1_whatever_the_scale() -> None:
    for scale in (1, 40):
        data = weighted([(0, 1, 3.0 * scale, 5), (0, 2, 1.0 * scale, 5)])
        assert data.relative_weights is not None
        assert data.relative_weights.tolist() == [1.5, 0.5]


def test_equal_weights_are_as_good_as_none() -> None:
    assert dense([(0, 1)]).relative_weights is None
    assert weighted([(0, 1, 7.0, 5), (1, 1, 7.0, 5)]).relative_weights is None


def test_weights_that_differ_are_part_of_the_fingerprint() -> None:
    bare, equal = (
        dense([(0, 1), (1, 2)], N_USERS, N_ITEMS),
        weighted([(0, 1, 2.0, 5), (1, 2, 2.0, 5)]),
    )
    other = weighted([(0, 1, 2.0, 5), (1, 2, 3.0, 5)])
    assert bare.sha256 == equal.sha256 != other.sha256


def over_same_ids(items: Vocabulary, *pairs: tuple[int, int]) -> Interactions:
    users, indices = zip(*pairs, strict=True)
    return Interactions.from_indices(USERS, items, users, indices)


def test_parts_that_share_ids_and_no_pair_are_a_dataset() -> None:
    train, test = over_same_ids(ITEMS, (0, 1), (2, 3)), over_same_ids(ITEMS, (0, 2), (2, 1))
    dataset = Dataset("toy", train, test)
    assert (dataset.train, dataset.test) == (train, test)
    assert Dataset("toy", train).test is None


def test_test_pairs_that_are_in_train_are_refused_and_counted() -> None:
    train = over_same_ids(ITEMS, (0, 1), (2, 3), (1, 0))
    with pytest.raises(DataError, match="2 such pairs") as caught:
        Dataset("toy", train, over_same_ids(ITEMS, (2, 3), (0, 2), (1, 0)))
    assert "user 1 and item 0" in caught.value.found
    assert caught.value.where == "data set toy"


def test_parts_over_different_vocabularies_are_refused() -> None:
    others = Vocabulary.dense(4, kind="item")
    with pytest.raises(DataError, match="do not share"):
        Dataset("toy", over_same_ids(ITEMS, (0, 1)), over_same_ids(others, (0, 2)))


@given(table=rows)
def test_the_order_of_the_rows_is_kept_and_of_a_repeat_the_last_place(
    table: list[tuple[int, int, float, int]],
) -> None:
    places = {(user, item): place for place, (user, item, *_) in enumerate(table)}
    data = ordered(table)
    assert data.order is not None
    assert data.order.dtype == np.int32
    assert dict(zip(pairs_of_indices(data), data.order.tolist(), strict=True)) == places
    assert pairs_of(data) == pairs_of(weighted(table))


@given(table=rows, mask=st.lists(st.booleans(), min_size=20, max_size=20))
def test_the_order_stays_beside_its_pairs_in_selections_and_over_other_vocabularies(
    table: list[tuple[int, int, float, int]], mask: list[bool]
) -> None:
    data = ordered(table)
    assert data.order is not None
    places = dict(zip(pairs_of_indices(data), data.order.tolist(), strict=True))
    part = data.select(np.array(mask[: data.n_pairs], bool))
    other = part.aligned_to(
        Vocabulary(np.arange(N_USERS)[::-1].copy(), "user"),
        Vocabulary(np.arange(N_ITEMS)[::-1].copy(), "item"),
    )
    assert part.order is not None
    assert other.order is not None
    for same in (part, other):
        users, items = same.users.ids[same.pair_users], same.items.ids[same.indices]
        found = zip(users.tolist(), items.tolist(), same.order.tolist(), strict=True)
        assert all(places[user, item] == place for user, item, place in found)
    assert other.n_pairs == part.n_pairs == sum(mask[: data.n_pairs])


@given(
    users=st.lists(st.integers(0, 5), max_size=60),
    n_keys=st.sampled_from([6, 2**40, 2**62]),
)
def test_rows_are_sorted_stably_whichever_way_is_quick(users: list[int], n_keys: int) -> None:
    key = np.array(users, np.int64) * (n_keys // 6)
    for given_users in (np.array(users, np.int64), np.sort(np.array(users, np.int64))):
        sorted_key = key.copy()
        found = _sort(given_users, sorted_key, n_keys)
        assert found.tolist() == sorted(range(len(key)), key=lambda row: (key[row], row))
        assert sorted_key.tolist() == sorted(key.tolist())


def ordered(table: list[tuple[int, int, float, int]]) -> Interactions:
    users, items = ([row[column] for row in table] for column in (0, 1))
    return Interactions.from_indices(
        Vocabulary.dense(N_USERS, kind="user"),
        Vocabulary.dense(N_ITEMS, kind="item"),
        users,
        items,
        order=np.arange(len(table)),
    )


def pairs_of_indices(data: Interactions) -> list[tuple[int, int]]:
    return list(zip(data.pair_users.tolist(), data.indices.tolist(), strict=True))


def test_data_say_what_they_hold() -> None:
    data = weighted([(0, 1, 2.0, 5), (0, 2, 1.0, 5)])
    assert repr(data) == "Interactions(users: 4, items: 5, pairs: 2, weights: yes, timestamps: yes)"
    assert "<td>pairs</td><td>2</td>" in data._repr_html_()
    bare = dense([(0, 1)])
    assert repr(bare) == "Interactions(users: 3, items: 4, pairs: 1)"
    dataset = Dataset("<b>", bare, dense_like(bare, [(1, 1)]))
    assert repr(dataset) == f"Dataset('<b>', train: {bare!r}, test: {dataset.test!r})"
    assert "&lt;b&gt;" in dataset._repr_html_()


def dense_like(data: Interactions, pairs: list[tuple[int, int]]) -> Interactions:
    users, items = zip(*pairs, strict=True)
    return Interactions.from_indices(data.users, data.items, users, items)
