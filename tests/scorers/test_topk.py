from __future__ import annotations

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ratiorec.errors import ConfigError
from ratiorec.scorers import FloatMatrix, Indices, InnerProduct, by_cosine
from ratiorec.scorers.scorer import UserItems, identity_pairs
from ratiorec.scorers.topk import Cap, Exact, Ranking, top_k
from support.small_scorers import rows_of

few_values = st.sampled_from([-np.inf, -2.5, -0.0, 0.0, 1.0, 1.5])
score_blocks = st.tuples(st.integers(0, 5), st.integers(1, 300)).flatmap(
    lambda shape: arrays(
        np.float32, shape, elements=st.one_of(few_values, st.floats(-9, 9, width=32))
    )
)


def by_full_sort(scores: FloatMatrix, k: int) -> tuple[list[list[int]], list[list[float]]]:
    """The definition: sort everything by score and index, leave out -inf, cut and fill up."""
    items, values = [], []
    for row in scores.tolist():
        order = sorted(range(len(row)), key=lambda item: (-row[item], item))
        order = [item for item in order if row[item] > -np.inf][:k]
        items.append(order + [-1] * (k - len(order)))
        values.append([row[item] for item in order] + [-np.inf] * (k - len(order)))
    return items, values


def random_scorer(n_users: int = 60, n_items: int = 150, seed: int = 0) -> InnerProduct:
    rng = np.random.default_rng(seed)
    # whole numbers make ties, and ties are where rankings go wrong
    return InnerProduct(
        rng.integers(-2, 3, (n_users, 3)).astype(np.float32),
        rng.integers(-2, 3, (n_items, 3)).astype(np.float32),
    )


def random_seen(n_users: int = 60, n_items: int = 150, seed: int = 1) -> UserItems:
    rng = np.random.default_rng(seed)
    return rows_of(
        [sorted(rng.choice(n_items, rng.integers(20), replace=False)) for _ in range(n_users)]
    )


@given(score_blocks, st.integers(1, 40))
def test_top_k_equals_a_full_sort(scores: FloatMatrix, k: int) -> None:
    items, values = by_full_sort(scores, k)
    best = top_k(scores, k)
    assert best.items.tolist() == items
    assert best.scores.tolist() == values


@pytest.mark.parametrize("n_items", [1, 2, 79, 80, 81, 127, 160, 1279, 1280, 1281, 5000])
def test_top_k_equals_a_full_sort_around_the_sizes_of_groups(n_items: int) -> None:
    rng = np.random.default_rng(n_items)
    for values in (rng.standard_normal((7, n_items)), rng.integers(0, 4, (7, n_items))):
        scores = values.astype(np.float32)
        assert top_k(scores, 10).items.tolist() == by_full_sort(scores, 10)[0]


def test_ties_go_to_the_smaller_index_even_if_all_scores_are_equal() -> None:
    assert top_k(np.zeros((2, 5000), np.float32), 4).items.tolist() == [[0, 1, 2, 3]] * 2


def test_the_lowest_finite_score_is_still_listed() -> None:
    lowest = np.finfo(np.float32).min
    scores = np.full((1, 1000), -np.inf, np.float32)
    scores[0, 777] = lowest
    assert top_k(scores, 3).items.tolist() == [[777, -1, -1]]


def test_minus_infinity_is_never_listed() -> None:
    best = top_k(np.full((2, 500), -np.inf, np.float32), 3)
    assert (best.items == -1).all()
    assert (best.scores == -np.inf).all()


def test_a_single_user_is_ranked_as_in_a_batch() -> None:
    scorer, seen = random_scorer(), random_seen()
    together = Exact(7)(scorer, np.arange(60), seen=seen)
    for user in range(60):
        alone = Exact(7)(scorer, np.array([user]), seen=seen)
        assert alone.items.tobytes() == together.items[user].tobytes()
        assert alone.scores.tobytes() == together.scores[user].tobytes()


@given(
    st.floats(0.002, 0.1), st.integers(1, 4), st.lists(st.integers(0, 59), min_size=1, max_size=90)
)
def test_memory_and_threads_change_nothing(
    memory_mb: float, n_threads: int, users: list[int]
) -> None:
    scorer, seen = random_scorer(), random_seen()
    expected = Exact(7, n_threads=1)(scorer, np.array(users), seen=seen)
    ranking = Exact(7, memory_mb=memory_mb, n_threads=n_threads)(scorer, np.array(users), seen=seen)
    assert ranking.items.tobytes() == expected.items.tobytes()
    assert ranking.scores.tobytes() == expected.scores.tobytes()


@given(st.integers(0, 100), st.data())
def test_lists_hold_the_best_of_what_may_be_listed(seed: int, data: st.DataObject) -> None:
    scorer, seen = random_scorer(seed=seed), random_seen(seed=seed)
    some_items = st.none() | st.lists(st.integers(0, 149), max_size=60).map(
        lambda items: np.array(items, np.int64)
    )
    allow, deny = data.draw(some_items), data.draw(some_items)
    users = np.array([3, 11, 58])
    ranking = Exact(9)(scorer, users, seen=seen, allow=allow, deny=deny)
    scores = scorer.scores(users)
    for row, user in enumerate(users):
        possible = set(range(150)) if allow is None else set(allow.tolist())
        possible -= set() if deny is None else set(deny.tolist())
        possible -= set(seen.indices[seen.indptr[user] : seen.indptr[user + 1]].tolist())
        best = sorted(possible, key=lambda item: (-scores[row, item], item))[:9]
        assert ranking.items[row].tolist() == best + [-1] * (9 - len(best))


def test_seen_items_are_listed_when_asked_for() -> None:
    scorer, seen = random_scorer(), random_seen()
    users = np.arange(60)
    everything = Exact(5, exclude_seen=False)(scorer, users, seen=seen)
    assert everything.items.tobytes() == Exact(5)(scorer, users).items.tobytes()
    assert everything.items.tobytes() != Exact(5)(scorer, users, seen=seen).items.tobytes()


def test_a_user_who_has_seen_everything_gets_an_empty_list() -> None:
    ranking = Exact(3)(random_scorer(2, 4), np.arange(2), seen=rows_of([[0, 1, 2, 3], [1]]))
    assert ranking.items[0].tolist() == [-1, -1, -1]
    assert (ranking.items[1] >= 0).all()


def test_k_beyond_the_catalogue_lists_every_item_once_and_fills_up() -> None:
    ranking = Exact(6)(random_scorer(1, 4), np.array([0]))
    assert sorted(ranking.items[0, :4].tolist()) == [0, 1, 2, 3]
    assert ranking.items[0, 4:].tolist() == [-1, -1]
    assert ranking.scores[0, 4:].tolist() == [-np.inf, -np.inf]


@pytest.mark.parametrize("k", [0, -1])
def test_a_k_that_is_not_positive_is_refused(k: int) -> None:
    with pytest.raises(ConfigError, match=f"k must be positive.*found: {k}"):
        Exact(k)


def test_threads_that_are_not_positive_are_refused() -> None:
    with pytest.raises(ConfigError, match="n_threads must be positive"):
        Exact(n_threads=0)


def test_a_budget_below_one_row_is_refused_with_the_least_that_would_do() -> None:
    with pytest.raises(ConfigError, match=r"too small.*wanted: .* or more for 150 items"):
        Exact(5, memory_mb=0.0001)(random_scorer(), np.array([0]))


class Recorder:
    """A scorer that remembers how large its blocks were, and how many it worked on at once."""

    n_users, n_items = 100, 10_000

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.busy = self.busiest = 0
        self.lock = threading.Lock()

    def scores(self, users: Indices, *, out: FloatMatrix | None = None) -> FloatMatrix:
        assert out is not None
        with self.lock:
            self.sizes.append(len(users))
            self.busy += 1
            self.busiest = max(self.busiest, self.busy)
        out[:] = users[:, None]
        with self.lock:
            self.busy -= 1
        return out


@pytest.mark.parametrize("memory_mb", [0.06, 0.5, 2.0])
def test_blocks_stay_inside_the_memory_budget(memory_mb: float) -> None:
    scorer = Recorder()
    Exact(5, memory_mb=memory_mb, n_threads=3)(scorer, np.arange(100))
    assert sum(scorer.sizes) == 100
    assert max(scorer.sizes) * scorer.busiest * scorer.n_items * 4 <= memory_mb * 2**20


def test_a_stream_gives_the_users_in_order_and_tells_of_progress() -> None:
    told: list[tuple[int, int]] = []
    blocks = list(
        Exact(3, memory_mb=0.02, n_threads=2).stream(
            random_scorer(), np.arange(60)[::-1], progress=lambda *done: told.append(done)
        )
    )
    assert len(blocks) > 3
    assert np.concatenate([block.users for block in blocks]).tolist() == list(range(60))[::-1]
    assert told[-1] == (60, 60)
    assert [done for done, _ in told] == np.cumsum([len(b.users) for b in blocks]).tolist()


def test_a_reader_may_stop_early() -> None:
    scorer = Recorder()
    stream = Exact(3, memory_mb=0.5, n_threads=2).stream(scorer, np.arange(100))
    next(stream)
    stream.close()
    assert sum(scorer.sizes) < 100


def test_an_error_in_a_thread_reaches_the_caller() -> None:
    class Broken(Recorder):
        def scores(self, users: Indices, *, out: FloatMatrix | None = None) -> FloatMatrix:
            raise ZeroDivisionError("scores")

    with pytest.raises(ZeroDivisionError, match="scores"):
        Exact(3, memory_mb=0.5, n_threads=2)(Broken(), np.arange(100))


def test_no_users_give_an_empty_ranking() -> None:
    ranking = Exact(3)(random_scorer(), np.zeros(0, np.int64))
    assert ranking.items.shape == ranking.scores.shape == (0, 3)


def most_similar(factors: FloatMatrix, items: Indices, k: int) -> Ranking:
    return Exact(k)(by_cosine(factors), items, seen=identity_pairs(len(factors)))


def test_similar_items_are_nearest_by_angle_and_never_the_item_itself() -> None:
    angles = np.radians([0, 10, 100, 350])
    factors = np.stack([np.cos(angles), np.sin(angles)], 1) * [[1], [50], [2], [0.1]]
    ranking = most_similar(factors.astype(np.float32), np.array([1]), 5)
    assert ranking.items.tolist() == [[0, 3, 2, -1, -1]]
    expected = np.cos(np.radians([10, 20, 90]))
    np.testing.assert_allclose(ranking.scores[0, :3], expected, atol=1e-6)


def test_an_item_without_direction_is_similar_to_nothing() -> None:
    factors = np.array([[0, 0], [1, 0], [-1, 0]], np.float32)
    ranking: Ranking = most_similar(factors, np.array([0, 1]), 2)
    assert ranking.scores.tolist() == [[0, 0], [0, -1]]


@pytest.mark.parametrize("most", [0, 1, 3, 9])
def test_a_cap_leaves_the_best_of_the_last_items_and_no_others(most: int) -> None:
    rng = np.random.default_rng(0)
    scores = rng.integers(0, 4, (30, 20)).astype(np.float32)  # with many ties
    scores[rng.random(scores.shape) < 0.2] = -np.inf
    capped = scores.copy()
    Cap(12, most).apply(capped)
    for before, after in zip(scores, capped, strict=True):
        order = [i for i in np.argsort(-before, kind="stable") if i >= 12 and before[i] > -np.inf]
        wanted = before.copy()
        wanted[[i for i in range(12, 20) if i not in order[:most]]] = -np.inf
        assert after.tolist() == wanted.tolist()
