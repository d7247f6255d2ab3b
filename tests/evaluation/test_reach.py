from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given

import reference.metrics as slow
from evaluation.test_beyond import Case
from evaluation.test_evaluate import judged_scores, rows, with_scores
from ratiorec.data.interactions import Interactions
from ratiorec.data.vocabulary import Vocabulary
from ratiorec.errors import DataError
from ratiorec.evaluation.compare import compare
from ratiorec.evaluation.evaluate import Report, evaluate
from ratiorec.evaluation.reach import (
    PairCounts,
    Reach,
    require_held_out,
    require_same_seen,
)


@given(judged_scores())
def test_of_reachable_is_the_test_without_the_pairs_of_the_training(case: Case) -> None:
    scores, seen, test = case
    both = [sorted({*a, *b}) for a, b in zip(seen, test, strict=True)]  # all certain misses beside
    found = evaluate(with_scores(scores), rows(seen), rows(both), ks=(1, 3), background=rows(seen))
    clean = evaluate(with_scores(scores), rows(seen), rows(test), ks=(1, 3), background=rows(seen))
    n_seen = sum(map(len, seen))
    assert found.pairs == PairCounts(sum(map(len, both)), n_seen)
    assert clean.of_reachable is None  # it is the same
    if not n_seen:
        return
    assert found.of_reachable is not None
    assert found.of_reachable.users.tolist() == clean.users.tolist()
    for name, values in found.of_reachable.per_user.items():
        assert values.tobytes() == clean.per_user[name].tobytes()
    assert found.to_json()["of_reachable"] == clean.to_json()["of_reachable"]
    lists = [slow.ranked(scores[user].tolist(), seen[user]) for user in found.users]
    expected = [
        slow.recall(row, both[user], 3) for row, user in zip(lists, found.users, strict=True)
    ]
    np.testing.assert_allclose(found.per_user["recall@3"], expected)


def test_where_nothing_can_be_hit_there_is_no_figure() -> None:
    seen = rows([[0, 1], [2]])
    report = evaluate(with_scores(np.ones((2, 3))), seen, seen, ks=(1,), background=seen)
    plain = json.loads(json.dumps(report.to_json(), allow_nan=False))
    assert plain["metrics"]["recall@1"] == {"value": 0.0, "low": 0.0, "high": 0.0}
    assert plain["of_reachable"]["users"] == 0
    assert plain["of_reachable"]["metrics"]["recall@1"] == dict.fromkeys(("value", "low", "high"))
    assert plain["pairs"]["reachable"] == 0


def test_without_seen_items_every_pair_can_be_hit() -> None:
    pairs = rows([[0, 1], [2]])
    report = evaluate(with_scores(np.ones((2, 3))), None, pairs, ks=(1,), background=pairs)
    assert report.pairs == PairCounts(3, 0)


def named(users: list[str], items: list[str]) -> Interactions:
    return Interactions.from_pairs(users, items)


def test_each_pair_is_known_seen_or_neither() -> None:
    trained = named(["ann", "ann", "bob"], ["tea", "jam", "tea"])
    test = named(["bob", "ann", "bob", "cid", "cid"], ["jam", "tea", "oil", "tea", "oil"])
    reach = Reach.of(test, trained.users, trained.items, trained)
    pairs = zip(test.users.ids[test.pair_users], test.items.ids[test.indices], strict=True)
    masks = np.stack([reach.knows_user, reach.knows_both, reach.is_seen], axis=1)
    told = dict(zip(pairs, map(tuple, masks.tolist()), strict=True))
    assert told == {
        ("ann", "tea"): (True, True, True),
        ("bob", "jam"): (True, True, False),
        ("bob", "oil"): (True, False, False),
        ("cid", "tea"): (False, False, False),
        ("cid", "oil"): (False, False, False),
    }
    assert reach.counts == PairCounts(5, seen=1, unknown_user=2, unknown_item=1)
    assert reach.counts.to_json()["reachable"] == 1
    assert [line.split(" test pairs")[0] for line in reach.counts.told()] == ["1 of 5", "3 of 5"]
    assert PairCounts(5, 0).told() == []


@given(judged_scores())
def test_seen_pairs_are_those_of_a_loop(case: Case) -> None:
    scores, seen, test = case
    n_users, n_items = scores.shape
    ids = (Vocabulary.dense(n_users, kind="user"), Vocabulary.dense(n_items, kind="item"))
    mixed = [sorted({*a[::2], *b}) for a, b in zip(seen, test, strict=True)]
    pairs = rows(mixed)
    reach = Reach.of(Interactions(*ids, pairs.indptr, pairs.indices), *ids, rows(seen))
    expected = [item in seen[user] for user, items in enumerate(mixed) for item in items]
    assert reach.is_seen.tolist() == expected


@pytest.mark.parametrize(("n_seen", "is_refused"), [(5, False), (6, True), (10, True)])
def test_a_test_part_of_which_most_is_the_training_is_refused(
    n_seen: int, is_refused: bool
) -> None:
    counts = PairCounts(10, n_seen)
    if not is_refused:
        require_held_out(counts, where="test", override="allow_seen=True")
        return
    with pytest.raises(DataError, match=rf"{n_seen} of 10 pairs \({n_seen}0%\).*allow_seen=True"):
        require_held_out(counts, where="test", override="allow_seen=True")


def test_two_models_must_have_seen_the_same_test_pairs() -> None:
    everything = np.ones(4, bool)
    one, other = (
        Reach(everything, everything, np.array(seen, bool)) for seen in ([1, 0, 0, 0], [1, 1, 0, 0])
    )
    require_same_seen(one, one, where="--against", override="--allow-seen")
    with pytest.raises(DataError, match=r"found: 1 of 4 test pairs .* alone, 0 in that of this"):
        require_same_seen(one, other, where="--against", override="--allow-seen")
    with pytest.raises(DataError, match=r"found: 0 of 4 test pairs .* alone, 1 in that of this"):
        require_same_seen(other, one, where="--against", override="--allow-seen")


def test_users_without_a_figure_have_no_part_in_its_mean_interval_and_comparison() -> None:
    values = np.random.default_rng(0).random(400)
    gaps = values.copy()
    gaps[::2] = np.nan
    users = np.arange(400)
    report = Report(users, {"novelty@20": gaps})
    assert report.value("novelty@20") == pytest.approx(values[1::2].mean())
    low, high = report.intervals["novelty@20"]
    assert (high - low) / 2 == pytest.approx(1.96 * values[1::2].std() / np.sqrt(200))
    line = compare(report, Report(users, {"novelty@20": np.zeros(400)})).metrics["novelty@20"]
    assert line.difference == pytest.approx(values[1::2].mean())
    assert (line.low, line.high) == pytest.approx((low, high))
    nobody = Report(users[:3], {"novelty@20": np.full(3, np.nan)})
    assert compare(nobody, nobody).metrics == {}
    assert nobody.to_json()["metrics"]["novelty@20"] == dict.fromkeys(("value", "low", "high"))
    assert report.per_user_table()["novelty@20"].null_count == 200
