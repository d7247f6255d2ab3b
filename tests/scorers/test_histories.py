from __future__ import annotations

import numpy as np
import pytest

from ratiorec.errors import ModelError
from ratiorec.scorers import SCORERS, FromHistories, ItemWeights
from ratiorec.scorers.scorer import UserItems
from support.small_scorers import MAKERS, Maker, random_rows, rows_of

KINDS = [kind for kind in SCORERS if issubclass(SCORERS[kind], FromHistories)]


@pytest.fixture(params=KINDS)
def make(request: pytest.FixtureRequest) -> Maker:
    return MAKERS[request.param]


def test_most_kinds_score_by_a_history() -> None:
    assert set(KINDS) == set(SCORERS) - {"inner_product", "popularity", "blend", "cold_items"}


# to these the histories of training are a graph, which stays when others walk from theirs
KINDS_WITH_A_GRAPH = {"walk", "graph_filter"}


@pytest.mark.parametrize("kind", sorted(set(KINDS) - KINDS_WITH_A_GRAPH))
def test_other_users_are_scored_as_if_the_model_had_been_made_for_them(kind: str) -> None:
    make = MAKERS[kind]
    first, second = random_rows(30, 40), random_rows(11, 40)
    model = make(first, 40)
    assert isinstance(model, FromHistories)
    model.scores(np.arange(30))  # what it keeps of this must not be of the first users
    others = model.with_histories(second)
    assert others.n_users == 11
    assert (
        others.scores(np.arange(11)).tobytes() == make(second, 40).scores(np.arange(11)).tobytes()
    )
    assert model.n_users == 30
    assert model.scores(np.arange(30)).tobytes() == make(first, 40).scores(np.arange(30)).tobytes()


def test_a_history_has_the_same_scores_in_any_place(make: Maker) -> None:
    lists = [[3, 7, 9], [], [1], list(range(30))]
    model = make(rows_of(lists), 40)
    assert isinstance(model, FromHistories)
    expected = model.scores(np.arange(4))
    for n_before in range(20):
        others = model.with_histories(rows_of([[0, 2, 4]] * n_before + lists))
        found = others.scores(np.arange(n_before + 4))[n_before:]
        assert found.tobytes() == expected.tobytes()


def test_the_arrays_are_shared_and_not_looked_at_again() -> None:
    weights = np.zeros((3, 3), np.float32)
    model = ItemWeights(weights, rows_of([[0]]))
    weights[0, 0] = np.nan
    assert model.with_histories(rows_of([[1]])).weights is weights


@pytest.mark.parametrize(
    "histories",
    [
        UserItems(np.array([0, 2]), np.array([0, 40], np.int32)),
        UserItems(np.array([0, 2]), np.array([0, -1], np.int32)),
        UserItems(np.array([0, 3]), np.array([0, 1], np.int32)),
        UserItems(np.array([0, 2, 1, 2]), np.array([0, 1], np.int32)),
        UserItems(np.array([0, 2]), np.array([0, 1])),  # type: ignore[arg-type]
        UserItems(np.zeros(0, np.int64), np.zeros(0, np.int32)),
        UserItems(np.array(0), np.zeros(0, np.int32)),
    ],
)
def test_malformed_histories_are_refused(make: Maker, histories: UserItems) -> None:
    model = make(random_rows(3, 40), 40)
    assert isinstance(model, FromHistories)
    with pytest.raises(ModelError, match="histories"):
        model.with_histories(histories)
    with pytest.raises(ModelError, match="histories"):
        type(model).from_arrays(model.arrays(), histories)  # type: ignore[attr-defined]


def test_a_history_too_long_for_finite_scores_is_refused() -> None:
    model = ItemWeights(np.full((4, 4), 5e37, np.float32), rows_of([[0, 1, 2], [3]]))
    with pytest.raises(ModelError, match="not finite"):
        model.with_histories(rows_of([[0, 1, 2, 3]]))
