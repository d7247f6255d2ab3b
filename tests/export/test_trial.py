from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratiorec.data.vocabulary import Vocabulary
from ratiorec.errors import ConfigError
from ratiorec.export import ExportTrial, Vectors
from ratiorec.export.vectors import Judge
from ratiorec.model.artifact import Artifact
from ratiorec.scorers import InnerProduct
from ratiorec.scorers.scorer import UserItems
from support.small_models import small_model


def judge_of(items: list[float], *, k: int, min_recall: float = 0.95) -> Judge:
    """One user with the vector 1, so that the score of an item is its vector."""
    model = Artifact(
        InnerProduct(np.ones((1, 1), np.float32), np.array(items, np.float32)[:, None]),
        Vocabulary.dense(1, kind="user"),
        Vocabulary.dense(len(items), kind="item"),
        UserItems(np.zeros(2, np.int64), np.zeros(0, np.int32)),
    )
    return ExportTrial(k=k, min_recall=min_recall)(Vectors.of(model))


def test_recall_is_the_share_of_the_exact_list() -> None:
    judge = judge_of([5, 4, 3, 2, 1], k=4)
    assert judge.recall(np.array([[0, 1, 2, 3]])) == 1
    assert judge.recall(np.array([[4, 1, 3, 0]])) == 3 / 4
    assert judge.recall(np.array([[4, 4, 4, 4]])) == 0


def test_an_item_that_ties_with_the_last_one_is_as_good() -> None:
    judge = judge_of([5, 3, 3, 3, 1], k=2)
    assert judge.recall(np.array([[0, 3]])) == 1
    assert judge.recall(np.array([[0, 4]])) == 1 / 2


def test_rounding_in_the_last_digit_is_no_miss() -> None:
    last = np.float32(3)
    judge = judge_of([5, float(last), float(np.nextafter(last, np.float32(0)))], k=2)
    assert judge.recall(np.array([[0, 2]])) == 1


def test_an_item_listed_twice_counts_once_and_an_empty_place_not_at_all() -> None:
    judge = judge_of([5, 4, 3, 2], k=4)
    assert judge.recall(np.array([[0, 0, 1, -1]])) == 2 / 4


def test_places_without_an_item_are_not_the_first_item() -> None:
    assert judge_of([5, 4], k=2).recall(np.array([[-1, -1]])) == 0


@given(st.integers(0, 2**32 - 1))
def test_exact_search_itself_has_recall_one(seed: int) -> None:
    vectors = Vectors.of(small_model(seed))
    judge = ExportTrial(k=7, n_users=11, seed=seed)(vectors)
    scores = judge.vectors.astype(np.float64) @ vectors.items.T.astype(np.float64)
    assert judge.recall(np.argsort(-scores, axis=1)[:, :7]) == 1
    worst = judge.recall(np.argsort(scores, axis=1)[:, :7])
    assert worst == 0


def test_seen_items_are_among_the_exact_lists() -> None:
    model = small_model()
    judge = ExportTrial(k=5)(Vectors.of(model))
    with_seen = model.recommend(model.users.ids, 5, exclude_seen=False)
    places = model.items.indices(with_seen.answer_ids).reshape(-1, 5)
    assert judge.recall(places) == 1
    without = model.recommend(model.users.ids, 5)
    assert judge.recall(model.items.indices(without.answer_ids).reshape(-1, 5)) < 1


def test_the_sample_is_as_large_as_asked_for_and_the_same_for_a_seed() -> None:
    vectors = Vectors.of(small_model())
    first, again, other = (ExportTrial(n_users=8, seed=seed)(vectors).users for seed in (0, 0, 1))
    assert len(set(first.tolist())) == 8
    assert first.tolist() == again.tolist() != other.tolist()
    assert ExportTrial(n_users=10**9)(vectors).users.tolist() == list(range(20))


def test_lists_are_no_longer_than_the_catalogue() -> None:
    assert judge_of([1, 2, 3], k=20).k == 3


def test_the_first_setting_that_reaches_the_least_recall_is_taken() -> None:
    judge = judge_of([4, 3, 2, 1], k=2, min_recall=0.5)
    asked = []

    def tries() -> Iterator[tuple[dict[str, Any], np.ndarray]]:
        for strength, found in ((1, [2, 3]), (2, [0, 3]), (3, [0, 1])):
            asked.append(strength)
            yield {"strength": strength}, np.array([found])

    measured = judge.first_that_reaches(tries())
    assert (measured.settings, measured.recall) == ({"strength": 2}, 1 / 2)
    assert asked == [1, 2]


def test_a_refusal_tells_the_best_that_was_tried() -> None:
    judge = judge_of([4, 3, 2, 1], k=2, min_recall=0.9)
    tries = [({"reach": 1}, np.array([[0, 3]])), ({"reach": 2}, np.array([[2, 3]]))]
    with pytest.raises(ConfigError, match=r"recall@2 0\.5000 .*over 1 users.*\(reach 1\)") as error:
        judge.first_that_reaches(tries)
    assert "0.9 or more; --min-recall 0.5 would take it" in error.value.wanted


@pytest.mark.parametrize(
    ("settings", "where"),
    [
        ({"k": 0}, "k"),
        ({"n_users": 0}, "sample"),
        ({"min_recall": 1.5}, "min_recall"),
        ({"min_recall": float("nan")}, "min_recall"),
        ({"seed": -1}, "seed"),
    ],
)
def test_a_trial_that_judges_nothing_is_refused(settings: dict[str, Any], where: str) -> None:
    with pytest.raises(ConfigError, match=f"where: {where};"):
        ExportTrial(**settings)
