from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference.beyond as slow
from evaluation.test_evaluate import judged_scores, random_case, rows, with_scores
from ratiorec.evaluation import beyond
from ratiorec.evaluation.beyond import Background, gini
from ratiorec.evaluation.evaluate import evaluate
from reference.metrics import ranked

Case = tuple[np.ndarray, list[list[int]], list[list[int]]]


@given(judged_scores(), st.sets(st.integers(1, 30), min_size=1, max_size=2))
def test_every_figure_equals_loops_over_the_definitions(case: Case, ks: set[int]) -> None:
    scores, seen, test = case
    n_items = scores.shape[1]
    report = evaluate(
        with_scores(scores), rows(seen), rows(test), ks=sorted(ks), background=rows(seen)
    )
    users = [user for user, items in enumerate(test) if items]
    groups = slow.groups(seen, n_items)
    for k in ks:
        lists = [ranked(scores[user].tolist(), seen[user])[:k] for user in users]
        expected = {
            "novelty": [slow.novelty(items, seen) for items in lists],
            "diversity": [slow.diversity(items, seen) for items in lists],
            "popularity": [slow.mean_popularity(items, seen) for items in lists],
            "miscalibration": [
                slow.miscalibration(items, seen[user], groups)
                for user, items in zip(users, lists, strict=True)
            ],
        }
        for name, values in expected.items():
            np.testing.assert_allclose(
                report.per_user[f"{name}@{k}"], values, atol=1e-10, err_msg=name
            )
        assert report.value(f"gini@{k}") == pytest.approx(slow.gini(lists, n_items), abs=1e-10)
        lift = slow.popularity_lift(lists, users, seen)
        assert report.value(f"popularity_lift@{k}") == pytest.approx(lift, nan_ok=True)


@given(judged_scores())
def test_a_list_in_another_order_and_other_numbers_of_items_change_nothing(case: Case) -> None:
    scores, seen, test = case
    n_items = scores.shape[1]
    lists = np.stack([np.resize(np.array([*items, -1]), n_items) for items in test])
    background = Background(rows(seen), n_items)
    users = np.arange(len(test))
    new = np.random.default_rng(0).permutation(n_items)
    renamed = [sorted(new[items].tolist()) for items in seen]
    mapped = np.where(lists >= 0, new[lists], -1)[:, ::-1]
    before = background.figures(users, lists, [n_items])
    after = Background(rows(renamed), n_items).figures(users, mapped, [n_items])
    for name in ("novelty", "diversity", "popularity"):
        np.testing.assert_allclose(
            before[0][f"{name}@{n_items}"], after[0][f"{name}@{n_items}"], atol=1e-10
        )
    key = f"gini@{n_items}"
    assert before[1][key].value == pytest.approx(after[1][key].value)


@given(judged_scores())
def test_figures_stay_in_their_ranges(case: Case) -> None:
    scores, seen, test = case
    report = evaluate(with_scores(scores), rows(seen), rows(test), ks=(3,), background=rows(seen))
    ranges = {
        **dict.fromkeys(("diversity@3", "popularity@3", "miscalibration@3"), 1.0),
        "novelty@3": math.log2(len(seen)),
    }
    for name, highest in ranges.items():
        values = report.per_user[name]
        values = values[~np.isnan(values)]
        assert ((values >= -1e-12) & (values <= highest + 1e-12)).all(), name
    assert -1e-12 <= report.value("gini@3") <= 1


def test_the_ends_of_every_range_are_reached() -> None:
    seen = rows([[0, 1], [0, 1], [2], [3]])
    alike, apart = np.array([[0, 1]]), np.array([[0, 2]])
    background = Background(seen, 4)
    assert background.figures(np.array([0]), alike, [2])[0]["diversity@2"] == pytest.approx(0)
    assert background.figures(np.array([0]), apart, [2])[0]["diversity@2"] == 1
    assert gini(np.array([[0], [1], [2], [3]]), 4).value == 0
    assert gini(np.zeros((9, 1), int), 4).value == 3 / 4  # (n - 1) / n
    shares = np.array([[1.0, 0, 0]])
    of_items = np.array([0, 0, 2, 2])
    assert beyond.miscalibration(np.array([[0, 1]]), of_items, shares) == 0
    assert beyond.miscalibration(np.array([[2, 3]]), of_items, shares) == 1


def test_a_popular_list_is_neither_novel_nor_calibrated_to_a_user_of_the_tail() -> None:
    histories = [[0, 1]] * 8 + [[2, 3]]
    background = Background(rows(histories), 6)
    tail = np.array([8])
    popular, personal = (
        background.figures(tail, np.array([items]), [2]) for items in ([0, 1], [4, 5])
    )
    assert popular[0]["novelty@2"] < personal[0]["novelty@2"]
    assert popular[0]["popularity@2"] == pytest.approx(8 / 9)
    assert popular[1]["popularity_lift@2"].value == pytest.approx(7)  # 8/9 against 1/9
    assert popular[0]["miscalibration@2"] > personal[0]["miscalibration@2"]


@pytest.mark.parametrize("name", ["gini", "popularity_lift"])
def test_the_interval_of_a_figure_of_all_lists_is_that_of_a_bootstrap(name: str) -> None:
    rng = np.random.default_rng(1)
    n_users, n_items = 4000, 60
    taste = rng.dirichlet(np.full(n_items, 0.3))
    lists = np.argsort(-(np.log(taste) + rng.gumbel(size=(n_users, n_items))), axis=1)[:, :5]
    listed, had = taste[lists].mean(axis=1), taste[rng.integers(n_items, size=n_users)]
    lists[lists[:, 0] == taste.argmax(), 1:] = -1  # lists of the best seller end there

    def figure(users: np.ndarray) -> beyond.Estimate:
        if name == "gini":
            return gini(lists[users], n_items)
        return beyond.popularity_lift(listed[users], had[users])

    value, low, high = figure(np.arange(n_users))
    values = [figure(rng.integers(n_users, size=n_users)).value for _ in range(200)]
    assert (high - low) / 2 == pytest.approx(1.96 * np.std(values), rel=0.2)
    assert value == pytest.approx(np.mean(values), abs=(high - low) / 2)


def test_where_lists_are_many_some_tell_their_diversity(monkeypatch: pytest.MonkeyPatch) -> None:
    scorer, seen, test = random_case()
    whole = evaluate(scorer, seen, test, background=seen)
    monkeypatch.setattr(beyond, "_MOST_LISTS", 120)
    some = evaluate(scorer, seen, test, background=seen)
    monkeypatch.setattr(beyond, "_MOST_LISTS", 60)
    fewer = evaluate(scorer, seen, test, background=seen)
    told, told_of_fewer = (~np.isnan(one.per_user["diversity@20"]) for one in (some, fewer))
    assert (told.sum(), told_of_fewer.sum()) == (120, 60)
    assert (told & told_of_fewer).sum() == 60  # so that two models are paired
    np.testing.assert_array_equal(
        some.per_user["diversity@20"][told], whole.per_user["diversity@20"][told]
    )
    low, high = some.intervals["diversity@20"]
    assert low < whole.value("diversity@20") < high
    assert high - low > np.diff(whole.intervals["diversity@20"])[0]


def test_the_diversity_needs_no_matrix_of_items() -> None:
    """A million items: their matrix would be four terabytes."""
    n_items = 10**6
    rng = np.random.default_rng(0)
    histories = rows([sorted(set(rng.integers(n_items, size=9).tolist())) for _ in range(50)])
    lists = rng.integers(n_items, size=(50, 20))
    per_user, _ = Background(histories, n_items).figures(np.arange(50), lists, [20])
    assert per_user["diversity@20"].mean() > 0.99


def test_the_background_changes_no_other_figure() -> None:
    scorer, seen, test = random_case()
    bare, full = evaluate(scorer, seen, test), evaluate(scorer, seen, test, background=seen)
    for name, values in bare.per_user.items():
        assert values.tobytes() == full.per_user[name].tobytes()
        assert bare.intervals[name] == full.intervals[name]
    assert bare.coverage == full.coverage
    assert (bare.pairs, bare.together) == (None, {})
