from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ratiorec.config import preset, resolve, to_table
from ratiorec.data.interactions import Interactions
from ratiorec.errors import ModelError
from ratiorec.model.artifact import Artifact
from ratiorec.model.foldin.linear import LearnedStep
from ratiorec.model.foldin.new_items import transposed
from ratiorec.model.foldin.newton import UserProblem
from ratiorec.model.foldin.rules import rule_for
from ratiorec.scorers import InnerProduct
from ratiorec.scorers.scorer import UserItems, some_of
from ratiorec.settings import Settings
from ratiorec.training.experiment import fit
from ratiorec.training.fit import FitOptions
from reference.fold_in import learned_step
from support.small_data import interactions, random_interactions
from support.small_scorers import MAKERS, random_floats

N_USERS, N_ITEMS, DIMENSION = 40, 30, 5


def model_of(name: str = "dregn-cf", *, seed: int = 0) -> Artifact:
    """A model of random vectors that says it was trained by a preset."""
    rng = np.random.default_rng(seed)
    data = random_interactions(rng, n_users=N_USERS, n_items=N_ITEMS, n_pairs=200)
    settings = preset(name)
    assert isinstance(settings, Settings)
    items = random_floats(N_ITEMS, DIMENSION)
    scorer = InnerProduct(random_floats(N_USERS + 1, DIMENSION)[1:], items)
    return Artifact.of(scorer, data, settings=to_table(settings), card={})


def pairs_of_ids(*pairs: tuple[int, int]) -> Interactions:
    return Interactions.from_pairs([u for u, _ in pairs], [i for _, i in pairs])


def arrays_of(model: Artifact) -> tuple[Any, Any]:
    arrays = model.scorer.arrays()
    return arrays["users"], arrays["items"]


def users_of(pairs: UserItems, item: int) -> list[int]:
    rows = np.repeat(np.arange(pairs.n_users), np.diff(pairs.indptr))
    return [int(row) for row in rows[pairs.indices == item]]


def items_of(pairs: UserItems, user: int) -> list[int]:
    return [int(item) for item in pairs.indices[pairs.indptr[user] : pairs.indptr[user + 1]]]


ADDED = ((3, 7), (3, 8), (100, 4), (100, 9))


def test_items_and_users_follow_as_the_plain_reference_does() -> None:
    model = model_of()
    more, after = model.partial_fit(pairs_of_ids(*ADDED)), model.update(pairs_of_ids(*ADDED))
    users, items = arrays_of(model)
    by_item = transposed(model.seen, N_ITEMS)
    matrix = LearnedStep.learnt(items, users, by_item).map
    expected = items.astype(np.float64)
    for item in range(N_ITEMS):
        for sign, vectors, pairs in (
            (-1, users, model.seen),
            (1, arrays_of(more)[0], more.seen),
        ):
            near = users_of(pairs, item)
            lengths = [len(items_of(pairs, user)) for user in near]
            step = learned_step(vectors[near], max(1, len(near)), lengths, matrix)
            expected[item] += sign * np.array(step)
    np.testing.assert_allclose(arrays_of(after)[1], expected, atol=2e-5)
    matrix = LearnedStep.learnt(users, items, model.seen).map
    for user in (0, 5, 39):
        near = items_of(model.seen, user)
        degrees = [len(users_of(model.seen, item)) for item in near]
        then, now = (
            np.array(learned_step(vectors[near], max(1, len(near)), degrees, matrix))
            for vectors in (items, arrays_of(after)[1])
        )
        np.testing.assert_allclose(arrays_of(after)[0][user], users[user] + now - then, atol=2e-5)


def test_the_users_of_added_pairs_are_folded_in_by_the_items_that_have_moved() -> None:
    model, touched = model_of(), np.array([3, N_USERS])
    more, after = model.partial_fit(pairs_of_ids(*ADDED)), model.update(pairs_of_ids(*ADDED))
    users, items = arrays_of(after)
    before = users.copy()
    before[touched] = arrays_of(more)[0][touched]
    moved = InnerProduct(before, items)
    rule = rule_for(moved, model.settings, after.seen, after.card["fold_in"])
    assert rule is not None
    assert np.array_equal(users[touched], rule(some_of(after.seen, touched)))
    assert not np.array_equal(users[touched], before[touched])
    assert after.users.ids.tolist() == [*range(N_USERS), 100]
    assert 4 not in after.recommend([100], k=N_ITEMS).answer_ids


def test_who_has_nothing_to_do_with_the_added_pairs_stays_exactly() -> None:
    # two groups that share nothing: users 0 to 9 with items 0 to 9, the others with the others
    rng = np.random.default_rng(2)
    users = np.repeat(np.arange(20), 4)
    items = np.concatenate([rng.permutation(10)[:4] + 10 * (user >= 10) for user in range(20)])
    data = interactions(users, items, n_users=20, n_items=20)
    settings = preset("dregn-cf")
    assert isinstance(settings, Settings)
    scorer = InnerProduct(random_floats(20, DIMENSION), random_floats(21, DIMENSION)[1:])
    model = Artifact.of(scorer, data, settings=to_table(settings), card={})
    after = model.update(pairs_of_ids((2, 9), (500, 3)))
    before_users, before_items = arrays_of(model)
    after_users, after_items = arrays_of(after)
    assert np.array_equal(after_users[10:20], before_users[10:])
    assert np.array_equal(after_items[10:], before_items[10:])
    assert not np.array_equal(after_items[:10], before_items[:10])


def test_the_model_itself_is_not_changed() -> None:
    model = model_of()
    before = [array.copy() for array in arrays_of(model)]
    model.update(pairs_of_ids(*ADDED, (4, 500)))
    assert all(np.array_equal(a, b) for a, b in zip(before, arrays_of(model), strict=True))


def test_new_items_come_in_while_the_known_ones_follow(tmp_path: Any) -> None:
    model = model_of()
    pairs = pairs_of_ids((0, 500), (1, 500), (77, 500), (77, 3))
    after = model.update(pairs)
    assert after.items.ids.tolist() == [*range(N_ITEMS), 500]
    new = arrays_of(after)[1][N_ITEMS]
    assert np.array_equal(new, arrays_of(model.partial_fit(pairs))[1][N_ITEMS])
    assert np.abs(new).max() > 0
    after.save(tmp_path / "model")
    again = Artifact.load(tmp_path / "model")
    assert again.recommend([0, 77]).to_dicts() == after.recommend([0, 77]).to_dicts()
    assert again.recommend_to([[500, 3]]).to_dicts() == after.recommend_to([[500, 3]]).to_dicts()


@pytest.mark.parametrize("name", ["lightgcn", "bpr-mf", "enmf", "dre-mf", "pu"])
def test_models_without_a_risk_of_ratios_on_a_graph_keep_their_items(name: str) -> None:
    model = model_of(name)
    found, expected = (
        arrays_of(way(pairs_of_ids(*ADDED))) for way in (model.update, model.partial_fit)
    )
    assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("kind", sorted(set(MAKERS) - {"inner_product", "blend", "cold_items"}))
def test_models_without_vectors_are_updated_as_by_partial_fit(kind: str) -> None:
    pairs = random_interactions(np.random.default_rng(0), n_users=9, n_items=N_ITEMS, n_pairs=60)
    scorer = MAKERS[kind](UserItems.of(pairs), N_ITEMS)
    model = Artifact.of(scorer, pairs, settings={}, card={})
    added, rows = pairs_of_ids((0, 4), (1, 6)), np.arange(9)
    found, expected = (way(added).scorer.scores(rows) for way in (model.update, model.partial_fit))
    assert np.array_equal(found, expected)


def test_no_pairs_change_nothing() -> None:
    model = model_of()
    nobody = np.array([], np.int64)
    after = model.update(interactions(nobody, nobody, n_users=N_USERS, n_items=N_ITEMS))
    assert all(np.array_equal(a, b) for a, b in zip(*map(arrays_of, (model, after)), strict=True))


@pytest.mark.parametrize("way", ["partial_fit", "update"])
def test_the_same_pairs_a_second_time_change_nothing(way: str) -> None:
    first = getattr(model_of(), way)(pairs_of_ids(*ADDED, (5, 501)))
    again = getattr(first, way)(pairs_of_ids(*ADDED, (5, 501)))
    assert all(np.array_equal(a, b) for a, b in zip(*map(arrays_of, (first, again)), strict=True))
    assert again.card == first.card


def test_progress_is_told_and_changes_no_bit() -> None:
    model, told = model_of(), []
    pairs = pairs_of_ids(*ADDED, (5, 501))
    watched = model.update(pairs, progress=lambda done, total: told.append((done, total)))
    # by the known items, by all items, and by the items that have moved
    assert told == [(3, 3)] * 3
    alone = model.update(pairs)
    assert all(np.array_equal(a, b) for a, b in zip(*map(arrays_of, (watched, alone)), strict=True))


@pytest.mark.parametrize("way", ["partial_fit", "update"])
def test_the_ridge_is_that_of_training_however_many_come_in(way: str, tmp_path: Any) -> None:
    model = model_of()
    assert isinstance(model.rule, UserProblem)
    wanted = model.rule.kept_ridge()
    everyone = pairs_of_ids(*((user, (7 * user) % N_ITEMS) for user in range(N_USERS)))
    again = getattr(model, way)(everyone)
    assert isinstance(again.rule, UserProblem)
    assert again.rule.kept_ridge() == wanted
    again.save(tmp_path / "model")
    rule = getattr(Artifact.load(tmp_path / "model"), way)(pairs_of_ids((3, 9))).rule
    assert isinstance(rule, UserProblem)
    assert rule.kept_ridge() == wanted


def test_pairs_since_training_are_counted_once_each() -> None:
    model = model_of()
    own = items_of(model.seen, 3)[0]
    first = model.update(pairs_of_ids((100, 4), (3, own)))
    assert first.card["pairs_since"] == 1
    assert first.partial_fit(pairs_of_ids((100, 5), (100, 4))).card["pairs_since"] == 2


@pytest.mark.parametrize(
    "kept",
    [
        {"ridge": "much"},
        {"ridge": "x", "usual_length": None},
        {"ridge": -1.0, "usual_length": None},
        {"ridge": float("nan"), "usual_length": None},
        {"ridge": 0.1, "usual_length": 0},
        [1],
        "ridge",
    ],
)
def test_a_ridge_that_is_none_is_refused(kept: Any) -> None:
    model = model_of().with_card({"fold_in": kept})
    with pytest.raises(ModelError, match="how it was trained"):
        model.fold_in([[1, 2]])


def test_an_item_that_has_come_since_training_follows_as_the_others_do() -> None:
    first = model_of().update(pairs_of_ids((0, 500), (1, 500)))
    again = first.update(pairs_of_ids((9, 500), (10, 500)))
    before, after = (arrays_of(m)[1][N_ITEMS] for m in (first, again))
    assert not np.array_equal(before, after)
    assert again.card["trained_items"] == N_ITEMS
    assert again.card["pairs_since"] == 4


def test_too_few_users_for_the_dimensions_leave_all_others_where_they_were() -> None:
    settings = resolve(
        preset("dregn-cf"), assignments=["encoder.dimension=64", "training.epochs=20"]
    )
    pairs = Interactions.from_pairs("aabbcc", "xyxzyz")
    options = FitOptions(validation=0)
    model = fit(pairs, preset="dregn-cf", settings=settings, device="cpu", options=options)
    after = model.update(Interactions.from_pairs("a", "z")).scorer
    before = model.scorer
    assert isinstance(before, InnerProduct)
    assert isinstance(after, InnerProduct)
    np.testing.assert_array_equal(after.items, before.items)
    np.testing.assert_array_equal(after.users[1:], before.users[1:])
    assert not np.array_equal(after.users[0], before.users[0])
    assert np.linalg.norm(after.users[0]) < 10 * np.linalg.norm(before.users, axis=1).max()
