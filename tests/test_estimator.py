from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import ratiorec.api
from ratiorec.data.interactions import Dataset, Interactions
from ratiorec.data.vocabulary import Vocabulary
from ratiorec.errors import ConfigError, ModelError, UnknownIdError
from ratiorec.estimator import RatioRec
from ratiorec.model.artifact import Artifact
from ratiorec.scorers import SCORERS, InnerProduct
from ratiorec.scorers.scorer import UserItems
from ratiorec.training.fit import StepTaken
from support.small_scorers import MAKERS

N_USERS, N_ITEMS = 12, 20


def user_items(seed: int = 0) -> scipy.sparse.csr_array:
    dense = np.random.default_rng(seed).random((N_USERS, N_ITEMS)) < 0.2
    dense[0] = False
    dense[-1] = True  # one user has nothing and one has everything
    return scipy.sparse.csr_array(dense.astype(np.float32))


def trained(data: Interactions) -> Artifact:
    """A model whose factors are random, as if it had been trained."""
    rng = np.random.default_rng(1)
    users = rng.standard_normal((data.n_users, 4), dtype=np.float32)
    items = rng.standard_normal((data.n_items, 4), dtype=np.float32)
    return Artifact.of(InnerProduct(users, items), data, settings={}, card={})


@pytest.fixture
def estimator() -> RatioRec:
    return RatioRec.of(trained(Interactions.from_csr(user_items())))


def test_one_user_gets_one_row_and_several_get_several(estimator: RatioRec) -> None:
    ids, scores = estimator.recommend(3, N=5)
    assert ids.shape == scores.shape == (5,)
    many_ids, many_scores = estimator.recommend([2, 3], N=5)
    assert many_ids.shape == many_scores.shape == (2, 5)
    assert many_ids[1].tolist() == ids.tolist()
    assert many_scores[1].tobytes() == scores.tobytes()
    assert estimator.recommend(np.array([3]), N=5)[0].shape == (1, 5)


def test_items_of_training_are_left_out_unless_asked_for(estimator: RatioRec) -> None:
    liked = user_items().toarray()
    for user in range(N_USERS):
        ids, _ = estimator.recommend(user, N=N_ITEMS)
        assert not liked[user, ids[ids >= 0]].any()
        assert (ids >= 0).sum() == (liked[user] == 0).sum()
        everything, _ = estimator.recommend(user, N=N_ITEMS, filter_already_liked_items=False)
        assert sorted(everything) == list(range(N_ITEMS))


def test_rows_given_are_left_out_in_place_of_those_of_training(estimator: RatioRec) -> None:
    other = user_items(seed=5)
    users = np.array([4, 1, 4])
    rows = other[[7, 8, 9]]
    ids, scores = estimator.recommend(users, rows, N=N_ITEMS)
    all_scores = estimator.model.scorer.scores(users)
    for row in range(3):
        listed = ids[row][ids[row] >= 0]
        expected = np.flatnonzero(rows.toarray()[row] == 0)
        assert sorted(listed) == expected.tolist()
        assert scores[row, : len(listed)].tolist() == all_scores[row, listed].tolist()
    one, _ = estimator.recommend(4, other[[7]], N=N_ITEMS)
    assert one.tolist() == ids[0].tolist()


def test_stored_zeros_and_repeats_of_rows_given_count_as_in_fit(estimator: RatioRec) -> None:
    plain = scipy.sparse.csr_array(([1.0, 1.0], ([0, 0], [3, 5])), (1, N_ITEMS))
    parts = ([1.0, 0.0, 0.5, 0.5], [3, 4, 5, 5], [0, 4])
    given = scipy.sparse.csr_array(parts, (1, N_ITEMS))
    for again in (False, True):
        ids, scores = estimator.recommend([4], given, N=N_ITEMS, recalculate_user=again)
        expected = estimator.recommend([4], plain, N=N_ITEMS, recalculate_user=again)
        assert ids.tolist() == expected[0].tolist()
        assert scores.tolist() == expected[1].tolist()
    assert given.nnz == 4  # whose matrix it is finds it as it was


def test_a_user_can_be_what_the_rows_given_make_of_him(estimator: RatioRec) -> None:
    rows = user_items(seed=5)[[7, 8]]
    ids, scores = estimator.recommend([900, 901], rows, N=4, recalculate_user=True)
    histories = [np.flatnonzero(row).tolist() for row in rows.toarray()]
    expected = estimator.model.recommend_to(histories, k=4)
    assert ids.ravel().tolist() == expected.answer_ids.tolist()
    assert scores.ravel().tolist() == expected.scores.tolist()
    one, _ = estimator.recommend(900, rows[[0]], N=4, recalculate_user=True)
    assert one.tolist() == ids[0].tolist()
    with pytest.raises(ConfigError, match="no user_items"):
        estimator.recommend(3, recalculate_user=True)


def test_rows_that_do_not_fit_the_query_are_refused(estimator: RatioRec) -> None:
    with pytest.raises(ConfigError, match=r"found: a matrix \[12, 20\]; wanted: \[1, 20\]"):
        estimator.recommend(3, user_items())


def test_too_few_items_are_filled_up(estimator: RatioRec) -> None:
    ids, scores = estimator.recommend(N_USERS - 1, N=3)
    assert ids.tolist() == [-1, -1, -1]
    assert scores.tolist() == [-np.inf] * 3
    ids, scores = estimator.recommend(0, N=N_ITEMS + 2)
    assert sorted(ids[:N_ITEMS]) == list(range(N_ITEMS))
    assert ids[N_ITEMS:].tolist() == [-1, -1]
    assert scores[N_ITEMS:].tolist() == [-np.inf] * 2


def test_items_can_be_filtered_or_listed(estimator: RatioRec) -> None:
    ids, _ = estimator.recommend(0, N=N_ITEMS, filter_items=[1, 2])
    assert set(ids[ids >= 0]) == set(range(N_ITEMS)) - {1, 2}
    ids, _ = estimator.recommend(0, N=4, items=[1, 2, 5])
    assert set(ids[:3]) == {1, 2, 5}
    ids, _ = estimator.recommend(0, N=4, items=[1, 2, 5], filter_items=[2])
    assert set(ids) == {1, 5, -1}
    assert (estimator.recommend(0, N=4, items=[])[0] == -1).all()


@pytest.mark.parametrize("user", [-1, N_USERS, [0, N_USERS], "3", 1.5])
def test_a_user_out_of_range_is_refused(estimator: RatioRec, user: Any) -> None:
    with pytest.raises(UnknownIdError, match="no such user index"):
        estimator.recommend(user)


def test_an_item_out_of_range_is_refused(estimator: RatioRec) -> None:
    with pytest.raises(UnknownIdError, match="no such item index"):
        estimator.similar_items(N_ITEMS)
    with pytest.raises(UnknownIdError, match="no such filtered index"):
        estimator.recommend(0, filter_items=[N_ITEMS])


def test_n_must_be_positive(estimator: RatioRec) -> None:
    with pytest.raises(ConfigError, match="k must be positive"):
        estimator.recommend(0, N=0)


@pytest.mark.parametrize(
    ("ask", "factors"),
    [
        (RatioRec.similar_items, lambda e: e.item_factors),
        (RatioRec.similar_users, lambda e: e.user_factors),
    ],
)
def test_similar_ones_have_the_largest_cosine_beginning_with_itself(
    estimator: RatioRec, ask: Callable[..., Any], factors: Callable[[RatioRec], np.ndarray]
) -> None:
    vectors = factors(estimator).astype(np.float64)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    ids, scores = ask(estimator, 6, N=5)
    expected = np.argsort(-(vectors @ vectors[6]), kind="stable")[:5]
    assert ids.tolist() == expected.tolist()
    assert ids[0] == 6
    np.testing.assert_allclose(scores, (vectors @ vectors[6])[expected], atol=1e-6)
    assert ask(estimator, [6, 1], N=5)[0].shape == (2, 5)


def test_similar_items_can_be_filtered_or_listed(estimator: RatioRec) -> None:
    assert set(estimator.similar_items(6, N=3, items=[6, 7, 8], filter_items=[7])[0]) == {6, 8, -1}
    assert set(estimator.similar_users(6, N=3, users=[6, 7, 8], filter_users=[7])[0]) == {6, 8, -1}


def test_factors_have_one_row_each(estimator: RatioRec) -> None:
    assert estimator.user_factors.shape == (N_USERS, 4)
    assert estimator.item_factors.shape == (N_ITEMS, 4)


def of_kind(kind: str) -> RatioRec:
    data = Interactions.from_csr(user_items())
    scorer = MAKERS[kind](UserItems.of(data), N_ITEMS)
    return RatioRec.of(Artifact.of(scorer, data, settings={}, card={}))


@pytest.mark.parametrize("kind", list(SCORERS))
def test_every_kind_of_model_recommends(kind: str) -> None:
    estimator = of_kind(kind)
    ids, scores = estimator.recommend(0, N=N_ITEMS)
    expected = estimator.model.scorer.scores(np.array([0]))[0]
    assert sorted(ids) == list(range(N_ITEMS))
    assert scores.tolist() == expected[ids].tolist()


@pytest.mark.parametrize("kind", sorted(SCORERS.keys() - {"popularity"}))
def test_items_are_similar_as_the_model_sees_it(kind: str) -> None:
    estimator = of_kind(kind)
    ids, scores = estimator.similar_items(6, N=N_ITEMS)
    expected = estimator.model.scorer.similarity().scores(np.array([6]))[0]
    assert sorted(ids) == list(range(N_ITEMS))
    assert scores.tolist() == expected[ids].tolist()


@pytest.mark.parametrize("kind", sorted(SCORERS.keys() - {"inner_product"}))
def test_a_model_without_factors_says_so(kind: str) -> None:
    estimator = of_kind(kind)
    for ask in (
        lambda: estimator.user_factors,
        lambda: estimator.item_factors,
        lambda: estimator.similar_users(0),
    ):
        with pytest.raises(ConfigError, match=f"no factors.*found: {kind}"):
            ask()


def test_a_saved_recommender_recommends_the_same(estimator: RatioRec, tmp_path: Path) -> None:
    estimator.save(tmp_path / "model")
    again = RatioRec.load(tmp_path / "model")
    everyone = np.arange(N_USERS)
    assert again.recommend(everyone)[0].tobytes() == estimator.recommend(everyone)[0].tobytes()
    assert again.recommend(everyone)[1].tobytes() == estimator.recommend(everyone)[1].tobytes()


@pytest.mark.parametrize(
    "ask",
    [
        lambda e: e.recommend(0),
        lambda e: e.similar_items(0),
        lambda e: e.similar_users(0),
        lambda e: e.save("model"),
        lambda e: e.user_factors,
        lambda e: e.item_factors,
    ],
)
def test_before_fit_everything_else_says_so(ask: Callable[[RatioRec], Any]) -> None:
    with pytest.raises(ModelError, match=r"has not been fitted.*fit\(user_items\)"):
        ask(RatioRec())


def test_fit_hands_over_pairs_and_options(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}

    def fit(data: Dataset, **options: Any) -> Artifact:
        asked.update(options, data=data.train)
        options["observe"](StepTaken("training", 1, 1, 10, 0.5))
        return trained(data.train)

    monkeypatch.setattr(ratiorec.api, "train", fit)
    estimator = RatioRec(preset="bpr", seed=7, device="cpu", validation=0.2, max_seconds=5.0)
    assert estimator.fit(user_items(), show_progress=False) is estimator
    assert (asked["preset"], asked["seed"], asked["device"]) == ("bpr", 7, "cpu")
    assert (asked["options"].validation, asked["options"].max_seconds) == (0.2, 5.0)
    assert asked["data"].indptr.tolist() == user_items().indptr.tolist()
    assert asked["data"].indices.tolist() == user_items().indices.tolist()
    assert estimator.recommend(3)[0].shape == (10,)


def test_an_unknown_option_is_refused_with_those_there_are() -> None:
    wanted = r"found: .validatoin.; wanted: one of validation, validation_by, .*mean validation"
    with pytest.raises(ConfigError, match=wanted):
        RatioRec(validatoin=0.2)
    with pytest.raises(ConfigError, match=wanted):
        RatioRec().set_params(preset="wmf", validatoin=0.2)


def test_the_arguments_have_the_names_and_the_order_of_implicit() -> None:
    names = list(inspect.signature(RatioRec.recommend).parameters)[1:]
    assert names[:5] == ["userid", "user_items", "N", "filter_already_liked_items", "filter_items"]
    assert "items" in names
    assert list(inspect.signature(RatioRec.fit).parameters)[1:] == ["user_items", "show_progress"]


def test_ids_of_another_world_are_its_indices(tmp_path: Path) -> None:
    """A model that was trained on text ids is asked by dense index all the same."""
    users = Vocabulary(np.array(["ann", "bob"], object), "user")
    items = Vocabulary(np.array(["x", "y", "z"], object), "item")
    estimator = RatioRec.of(trained(Interactions.from_indices(users, items, [0], [2])))
    assert set(estimator.recommend(0, N=3)[0]) == {0, 1, -1}


def test_a_recommender_can_be_cloned_by_its_parameters() -> None:
    made = RatioRec("wmf", seed=3, settings={"solver": {"dimension": 2}}, validation=0)
    parameters = made.get_params(deep=False)
    assert parameters == {
        "preset": "wmf",
        "seed": 3,
        "device": "auto",
        "settings": {"solver": {"dimension": 2}},
        "validation": 0,
    }
    again = type(made)(**parameters)
    # what scikit-learn's clone asks for: each parameter is the very object that was given
    assert all(again.get_params()[name] is value for name, value in parameters.items())
    assert again.set_params(preset="walk", max_seconds=9) is again
    assert (again.preset, again.get_params()["max_seconds"]) == ("walk", 9)
    assert (made.preset, "max_seconds" in made.get_params()) == ("wmf", False)


def test_scikit_learn_clones_a_recommender_without_its_model() -> None:
    base = pytest.importorskip("sklearn.base")
    made = RatioRec("wmf", settings={"solver": {"dimension": 2}}, validation=0).fit(user_items())
    again = base.clone(made)
    assert again.get_params() == made.get_params()
    assert "not fitted" in repr(again)


def test_settings_go_into_the_fit() -> None:
    made = RatioRec("wmf", settings={"solver": {"dimension": 2}}, validation=0)
    assert made.fit(user_items(), show_progress=False).item_factors.shape == (N_ITEMS, 2)


def test_a_recommender_says_what_it_is(tmp_path: Path) -> None:
    made = RatioRec("wmf", validation=0)
    assert repr(made) == ("RatioRec(preset='wmf', seed=0, device='auto', validation=0): not fitted")
    assert "<td>preset</td><td>&#x27;wmf&#x27;</td>" in made._repr_html_()
    made.fit(user_items(), show_progress=False).save(tmp_path / "model")
    for fitted in (made, RatioRec.load(tmp_path / "model")):
        assert "preset='wmf'" in repr(fitted)
        assert f"model: wmf, users: {N_USERS}, items: {N_ITEMS}" in repr(fitted)
        assert fitted._repr_html_() == fitted.model._repr_html_()
