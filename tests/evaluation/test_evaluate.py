from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import reference.metrics as slow
from ratiorec.data.vocabulary import Vocabulary
from ratiorec.errors import ConfigError, DataError
from ratiorec.evaluation.compare import compare
from ratiorec.evaluation.evaluate import Report, evaluate
from ratiorec.scorers import InnerProduct
from ratiorec.scorers.scorer import UserItems


def rows(lists: list[list[int]]) -> UserItems:
    indptr = np.cumsum([0, *map(len, lists)])
    return UserItems(indptr, np.array([i for items in lists for i in items], np.int32))


def lists(pairs: UserItems) -> list[list[int]]:
    """The opposite of `rows`."""
    return [part.tolist() for part in np.split(pairs.indices, pairs.indptr[1:-1])]


def with_scores(scores: np.ndarray) -> InnerProduct:
    """A scorer that gives exactly these scores."""
    return InnerProduct(scores.astype(np.float32), np.eye(scores.shape[1], dtype=np.float32))


@st.composite
def judged_scores(draw: st.DrawFn) -> tuple[np.ndarray, list[list[int]], list[list[int]]]:
    """Scores with many ties, and for each user train and test items that do not overlap."""
    n_users, n_items = draw(st.integers(1, 6)), draw(st.integers(1, 25))
    scores = draw(arrays(np.int64, (n_users, n_items), elements=st.integers(-4, 4)))
    part = draw(arrays(np.int64, (n_users, n_items), elements=st.integers(0, 3)))
    part[0, 0] = 2  # somebody must have a test item
    seen = [np.flatnonzero(row == 1).tolist() for row in part]
    test = [np.flatnonzero(row == 2).tolist() for row in part]
    return scores, seen, test


@given(judged_scores(), st.sets(st.integers(1, 30), min_size=1, max_size=3))
def test_every_figure_equals_loops_over_the_definitions(
    case: tuple[np.ndarray, list[list[int]], list[list[int]]], ks: set[int]
) -> None:
    scores, seen, test = case
    report = evaluate(with_scores(scores), rows(seen), rows(test), ks=sorted(ks))
    users = [user for user, items in enumerate(test) if items]
    lists = {user: slow.ranked(scores[user].tolist(), seen[user]) for user in users}
    assert report.users.tolist() == users
    for k in ks:
        for name, definition in slow.PER_USER.items():
            expected = [definition(lists[user], test[user], k) for user in users]
            np.testing.assert_allclose(report.per_user[f"{name}@{k}"], expected, atol=1e-10)
            assert report.value(f"{name}@{k}") == pytest.approx(sum(expected) / len(users))
        expected_coverage = slow.coverage(list(lists.values()), scores.shape[1], k)
        assert report.value(f"coverage@{k}") == pytest.approx(expected_coverage, abs=1e-10)


@given(judged_scores(), st.lists(st.floats(0.125, 100, width=16), min_size=9, max_size=9))
def test_any_increasing_map_of_the_scores_changes_nothing(
    case: tuple[np.ndarray, list[list[int]], list[list[int]]], steps: list[float]
) -> None:
    scores, seen, test = case
    mapped = np.cumsum(steps)[scores + 4] - 50
    before = evaluate(with_scores(scores), rows(seen), rows(test), ks=(1, 3))
    after = evaluate(with_scores(mapped), rows(seen), rows(test), ks=(1, 3))
    assert {n: v.tolist() for n, v in before.per_user.items()} == {
        name: values.tolist() for name, values in after.per_user.items()
    }


def random_case(
    n_users: int = 300, n_items: int = 400
) -> tuple[InnerProduct, UserItems, UserItems]:
    rng = np.random.default_rng(0)
    seen = [sorted(rng.choice(n_items, 9, replace=False).tolist()) for _ in range(n_users)]
    test = [sorted(set(rng.choice(n_items, 9).tolist()) - set(items)) for items in seen]
    users = rng.standard_normal((n_users, 8), dtype=np.float32)
    items = rng.standard_normal((n_items, 8), dtype=np.float32)
    return InnerProduct(users, items), rows(seen), rows(test)


def test_the_memory_budget_changes_no_bit() -> None:
    large = evaluate(*random_case(), ks=(5, 20))
    small = evaluate(*random_case(), ks=(5, 20), memory_mb=0.02)
    for name, values in large.per_user.items():
        assert values.tobytes() == small.per_user[name].tobytes()
    assert large.coverage == small.coverage


def test_users_without_test_items_are_not_judged_and_users_without_train_items_are() -> None:
    report = evaluate(
        with_scores(np.array([[3, 2, 1], [3, 2, 1], [3, 2, 1]])),
        rows([[0], [0], []]),
        rows([[1], [], [0]]),
        ks=(1,),
    )
    assert report.users.tolist() == [0, 2]
    assert report.per_user["recall@1"].tolist() == [1.0, 1.0]


def test_a_list_that_ends_early_hits_nothing_of_the_user_before() -> None:
    """An empty place is -1, which must not pass for the last item of the row above."""
    report = evaluate(with_scores(np.zeros((2, 3))), rows([[], [0, 1]]), rows([[2], [2]]), ks=(3,))
    assert report.per_user["precision@3"].tolist() == [1 / 3, 1 / 3]


def test_progress_counts_the_users_judged() -> None:
    told: list[tuple[int, int]] = []
    evaluate(*random_case(), memory_mb=0.1, progress=lambda *done: told.append(done))
    assert told[-1] == (300, 300)
    assert len(told) > 2


@pytest.mark.parametrize("ks", [(), (0,), (5, -1), (2.5,), ("20",), (5, 10**9)])
def test_cutoffs_that_can_be_none_are_refused(ks: tuple[Any, ...]) -> None:
    with pytest.raises(ConfigError, match="cutoff"):
        evaluate(*random_case(), ks=ks)


def test_a_test_part_without_pairs_is_refused() -> None:
    scorer, seen, _ = random_case()
    with pytest.raises(DataError, match="nothing to judge by"):
        evaluate(scorer, seen, rows([[]] * 300))


def test_a_test_part_over_other_users_is_refused() -> None:
    scorer, seen, _ = random_case()
    with pytest.raises(DataError, match=r"not over the users.*found: 2 users.*wanted: 300"):
        evaluate(scorer, seen, rows([[1], [2]]))


def report_of(values: np.ndarray, *, seed: int = 0, user_ids: np.ndarray | None = None) -> Report:
    return Report(np.arange(len(values)), {"recall@20": values}, user_ids=user_ids, seed=seed)


def test_the_interval_is_as_wide_as_theory_has_it() -> None:
    values = np.random.default_rng(0).random(2000)
    low, high = report_of(values).intervals["recall@20"]
    half = 1.96 * values.std() / np.sqrt(len(values))
    assert low == pytest.approx(values.mean() - half, abs=half / 6)
    assert high == pytest.approx(values.mean() + half, abs=half / 6)


def test_the_interval_of_equal_users_is_a_point() -> None:
    assert report_of(np.full(50, 0.25)).intervals["recall@20"] == (0.25, 0.25)


def test_the_interval_is_that_of_resampled_means() -> None:
    values = np.array([0.0, 0.5, 1.0])
    drawn = np.random.default_rng(5).integers(3, size=(1000, 3))
    expected = np.percentile(values[drawn].mean(axis=1), [2.5, 97.5])
    np.testing.assert_allclose(report_of(values, seed=5).intervals["recall@20"], expected)


def test_the_same_seed_gives_the_same_interval_and_another_seed_another() -> None:
    values = np.random.default_rng(0).random(500)
    assert report_of(values).intervals == report_of(values).intervals
    assert report_of(values).intervals != report_of(values, seed=1).intervals


def test_a_report_in_json_has_values_intervals_users_and_the_definition() -> None:
    report = evaluate(*random_case(), ks=(5, 20))
    plain = json.loads(json.dumps(report.to_json(), allow_nan=False))
    assert set(plain) == {"metrics", "users", "definition"}
    assert plain["users"] == 300
    assert "recall@K = hits/|test|" in plain["definition"]
    recall = plain["metrics"]["recall@20"]
    assert recall["value"] == report.value("recall@20")
    assert recall["low"] < recall["value"] < recall["high"]
    coverage = plain["metrics"]["coverage@5"]
    assert coverage == {"value": report.value("coverage@5"), "low": None, "high": None}


def test_a_report_shows_its_means_and_what_could_not_be_hit() -> None:
    scorer, seen, test = random_case()
    report = evaluate(scorer, seen, test, ks=(5,), background=seen)
    low, high = report.intervals["recall@5"]
    shown = [" ".join(row.split()) for row in repr(report).splitlines()]
    assert f"recall@5 {report.value('recall@5'):.4f} {low:.4f} to {high:.4f}" in shown
    assert f"<td>{low:.4f} to {high:.4f}</td>" in report._repr_html_()
    both = [sorted({*a, *b}) for a, b in zip(lists(seen), lists(test), strict=True)]
    told = repr(evaluate(scorer, seen, rows(both), background=seen)).splitlines()[-1]
    n_seen, n_pairs = len(seen.indices), sum(map(len, both))
    assert told.startswith(f"{n_seen:,} of {n_pairs:,} test pairs are training pairs")


def test_an_unknown_metric_is_refused_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match=r"found: 'recal@20'; wanted: one of recall@20"):
        report_of(np.ones(2)).value("recal@20")


def test_the_table_of_users_has_their_ids_and_figures() -> None:
    ids = Vocabulary(np.array(["ann", "bob", "cid"], object), "user")
    report = Report(np.array([0, 2]), {"recall@20": np.array([0.5, 1.0])})
    expected = {"user_id": ["ann", "cid"], "recall@20": [0.5, 1.0]}
    assert report.per_user_table(ids).to_pydict() == expected
    assert report.per_user_table().to_pydict() == expected | {"user_id": [0, 2]}


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".arrow"])
def test_the_table_of_users_is_written_by_the_suffix_of_the_file(
    tmp_path: Path, suffix: str
) -> None:
    from pyarrow import csv, feather, parquet

    readers = {".parquet": parquet.read_table, ".csv": csv.read_csv, ".arrow": feather.read_table}
    report = report_of(np.array([0.5, 1.0]), user_ids=np.array([7, 9]))
    path = tmp_path / f"users{suffix}"
    report.write_per_user(path)
    expected = {"user_id": [7, 9], "recall@20": [0.5, 1.0]}
    assert readers[suffix](path).to_pydict() == expected


def test_an_unknown_suffix_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"found: \.xls; wanted: .*\.parquet, \.csv"):
        report_of(np.ones(2)).write_per_user(tmp_path / "users.xls")
    assert list(tmp_path.iterdir()) == []


@given(
    arrays(np.float64, 12, elements=st.floats(0, 1)),
    arrays(np.float64, 12, elements=st.floats(0, 1)),
)
def test_a_comparison_is_a_paired_t_test(a: np.ndarray, b: np.ndarray) -> None:
    from scipy.stats import ttest_rel

    line = compare(report_of(a), report_of(b)).metrics["recall@20"]
    assert line.difference == pytest.approx(a.mean() - b.mean(), abs=1e-12)
    assert line.low <= line.difference + 1e-12
    assert line.high >= line.difference - 1e-12
    if (a - b).std() > 1e-9:
        assert line.p_value == pytest.approx(ttest_rel(a, b).pvalue, abs=1e-9)


def test_a_model_does_not_differ_from_itself() -> None:
    values = np.random.default_rng(0).random(30)
    line = compare(report_of(values), report_of(values)).metrics["recall@20"]
    assert line == (0.0, 0.0, 0.0, 1.0)


def test_a_gap_that_is_the_same_for_all_users_is_certain() -> None:
    line = compare(report_of(np.ones(4)), report_of(np.zeros(4))).metrics["recall@20"]
    assert line == (1.0, 1.0, 1.0, 0.0)


def test_one_user_proves_nothing() -> None:
    assert compare(report_of(np.ones(1)), report_of(np.zeros(1))).metrics["recall@20"].p_value == 1


def test_reports_are_compared_user_by_user_by_their_ids() -> None:
    a = report_of(np.array([0.1, 0.2, 0.3]), user_ids=np.array(["x", "y", "z"], object))
    b = report_of(np.array([0.25, 0.05]), user_ids=np.array(["z", "x"], object))
    comparison = compare(a, b)
    assert comparison.n_users == 2
    expected = ((0.1 - 0.05) + (0.3 - 0.25)) / 2
    assert comparison.metrics["recall@20"].difference == pytest.approx(expected)
    plain = json.loads(json.dumps(comparison.to_json(), allow_nan=False))
    assert plain["users"] == 2
    assert set(plain["metrics"]["recall@20"]) == {"difference", "low", "high", "p_value"}


def test_reports_without_a_user_in_common_are_refused() -> None:
    a = report_of(np.ones(1), user_ids=np.array(["x"], object))
    b = report_of(np.ones(1), user_ids=np.array(["y"], object))
    with pytest.raises(DataError, match="no user in common"):
        compare(a, b)


def test_figures_and_intervals_do_not_depend_on_the_number_of_threads() -> None:
    script = """
import json, numpy as np
from ratiorec.evaluation.evaluate import evaluate
from ratiorec.scorers.scorer import UserItems
from ratiorec.scorers import InnerProduct
rng = np.random.default_rng(0)
pairs = UserItems(np.arange(0, 2001, 2), rng.integers(500, size=2000).astype(np.int32))
users, items = (rng.standard_normal((n, 16), dtype=np.float32) for n in (1000, 500))
print(json.dumps(evaluate(InnerProduct(users, items), None, pairs).to_json()))
"""
    outputs = {
        subprocess.run(
            [sys.executable, "-c", script],
            env=os.environ | {"OPENBLAS_NUM_THREADS": n, "OMP_NUM_THREADS": n},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for n in ("1", "2")
    }
    assert len(outputs) == 1
    assert json.loads(outputs.pop())["users"] == 1000
