from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ratiorec.config import preset, to_table
from ratiorec.data.interactions import Interactions
from ratiorec.data.vocabulary import Vocabulary
from ratiorec.encoders.settings import Factorisation, LightGCN
from ratiorec.errors import ConfigError, DataError, ModelError, UnknownIdError
from ratiorec.kernels.unlabelled import reference
from ratiorec.losses.density_ratio import (
    DensityRatio,
    HardSampleWeights,
    PopularityWeights,
    RatioPowerWeights,
    UniformWeights,
)
from ratiorec.losses.generators import PowerDivergence, RelativeRatio
from ratiorec.losses.softmax import Softmax
from ratiorec.losses.unnormalised import WeightedDRE, WeightedPU
from ratiorec.losses.whole_data import WholeData
from ratiorec.model.artifact import Artifact
from ratiorec.model.foldin.linear import LearnedStep, WeightedRidge
from ratiorec.model.foldin.new_items import transposed
from ratiorec.model.foldin.newton import (
    CURVATURES,
    LINKS,
    Candidates,
    LossFamily,
    UserProblem,
    inclusion,
    softplus,
    usual_length,
)
from ratiorec.model.foldin.rules import MemberRules, loss_family, rule_for
from ratiorec.scorers import InnerProduct, ItemWeights
from ratiorec.scorers.scorer import UserItems
from ratiorec.settings import Settings, SolverSettings, Training, UserBatches
from ratiorec.shapes import Embeddings
from ratiorec.solvers.settings import (
    EASE,
    WMF,
    AnySolver,
    GraphFilter,
    ImplicitALS,
    ItemKNN,
    LocalEASE,
    Walk,
)
from ratiorec.solvers.wmf import LeastSquares
from ratiorec.training.experiment import fit
from ratiorec.training.fit import FitOptions
from reference.fold_in import hard_sample_gradient, weighted_ridge_loss
from support.small_data import handmade_batch, interactions, random_interactions
from support.small_scorers import MAKERS, random_floats, random_rows, rows_of

N_ITEMS, DIMENSION = 30, 6
ITEMS = random_floats(N_ITEMS, DIMENSION)
HISTORIES = [[0, 3, 7], [1], [2, 4, 5, 6, 8, 20], [29, 0]]


def user_risk(family: LossFamily | None = None, *, weights: Any = None, **more: Any) -> UserProblem:
    """The problem of a user where all items are candidates."""
    weights = np.ones(N_ITEMS) if weights is None else weights
    everything = Candidates(ITEMS, weights.astype(np.float32))
    start = LearnedStep(ITEMS, np.ones(N_ITEMS, np.float32), np.eye(DIMENSION))
    chosen = family or LossFamily(softplus, CURVATURES["least-squares"], 1, 1)
    return UserProblem(chosen, start, weights, everything, everything, **more)


def random_model(*, n_users: int = 12, settings: Any = None, seed: int = 0) -> Artifact:
    rng = np.random.default_rng(seed)
    data = random_interactions(rng, n_users=n_users, n_items=N_ITEMS, n_pairs=90)
    scorer = InnerProduct(random_floats(n_users, DIMENSION), ITEMS)
    return Artifact.of(scorer, data, settings=settings or {}, card={})


# -- the density-ratio risk


def test_the_gradient_is_that_of_the_plain_reference() -> None:
    risk = user_risk()
    vectors = random_floats(len(HISTORIES), DIMENSION).astype(np.float64)
    found = risk.gradient(vectors, rows_of(HISTORIES), np.arange(len(HISTORIES)))
    everyone = list(range(N_ITEMS))
    expected = [
        hard_sample_gradient(vector, ITEMS, history, everyone)
        for vector, history in zip(vectors, HISTORIES, strict=True)
    ]
    np.testing.assert_allclose(found, expected, atol=2e-6)


def test_new_items_are_candidates_as_the_trained_ones_are() -> None:
    n, some = N_ITEMS - 3, Candidates(ITEMS[:-3], np.ones(N_ITEMS - 3, np.float32))
    start = LearnedStep(ITEMS[:n], np.ones(n, np.float32), np.eye(DIMENSION))
    few = replace(
        user_risk(),
        start=start,
        item_weights=np.ones(n),
        candidates=some,
        preconditioner_sample=some,
    )
    risk = few.with_items(ITEMS, np.ones(N_ITEMS, np.int64))
    vectors = random_floats(len(HISTORIES), DIMENSION).astype(np.float64)
    rows = np.arange(len(HISTORIES))
    wanted = user_risk().gradient(vectors, rows_of(HISTORIES), rows)
    np.testing.assert_allclose(risk.gradient(vectors, rows_of(HISTORIES), rows), wanted)
    assert len(risk.preconditioner_sample.vectors) == N_ITEMS


def test_steps_that_lead_nowhere_leave_the_vector_where_it_began() -> None:
    nowhere = Candidates(np.full_like(ITEMS, np.nan), np.ones(N_ITEMS, np.float32))
    risk = replace(user_risk(), candidates=nowhere)
    found = risk(rows_of(HISTORIES))
    np.testing.assert_array_equal(found, risk.start(rows_of(HISTORIES)))


@pytest.mark.parametrize("free", [False, True])
def test_the_gradient_vanishes_at_the_vector_that_is_found(free: bool) -> None:
    risk = user_risk(ridge=0.2, free=free, tolerance=1e-6)
    found = risk(rows_of(HISTORIES)).astype(np.float64)
    centres = np.zeros_like(found) if free else risk.start(rows_of(HISTORIES))
    for vector, centre, history in zip(found, centres, HISTORIES, strict=True):
        gradient = hard_sample_gradient(vector, ITEMS, history, list(range(N_ITEMS)))
        np.testing.assert_allclose(gradient + 0.2 * (vector - centre), 0, atol=3e-5)


def test_a_history_shorter_than_the_usual_one_has_a_larger_ridge() -> None:
    risk = user_risk(ridge=0.2, usual_length=3.0, tolerance=1e-6)
    found = risk(rows_of(HISTORIES)).astype(np.float64)
    centres = risk.start(rows_of(HISTORIES))
    for vector, centre, history in zip(found, centres, HISTORIES, strict=True):
        gradient = hard_sample_gradient(vector, ITEMS, history, list(range(N_ITEMS)))
        ridge = 0.2 * max(1, 3 / len(history))
        np.testing.assert_allclose(gradient + ridge * (vector - centre), 0, atol=3e-5)


@given(usual=st.floats(0.5, 50), place=st.integers(0, len(HISTORIES) - 1))
def test_one_history_has_the_ridge_that_its_length_makes_of_the_usual_one(
    usual: float, place: int
) -> None:
    rows = rows_of([HISTORIES[place]])
    found = user_risk(ridge=0.2, usual_length=usual)(rows)
    alone = user_risk(ridge=0.2 * max(1, usual / len(HISTORIES[place])))(rows)
    np.testing.assert_allclose(found, alone, atol=1e-5)


def test_the_usual_length_is_the_geometric_mean_of_histories_that_are_not_empty() -> None:
    assert usual_length(rows_of([[0, 1], [], [1], [2, 3, 4, 5]])) == pytest.approx(
        (2 * 4) ** (1 / 3)
    )
    assert usual_length(rows_of([[], []])) == 1


def test_only_vectors_that_are_not_free_have_a_ridge_that_follows_the_length() -> None:
    users, pairs = random_floats(len(HISTORIES), DIMENSION), rows_of(HISTORIES)
    assert user_risk(free=True).as_trained(users, pairs, least=0.1).usual_length is None
    of_graph = user_risk().as_trained(users, pairs, least=0.1)
    assert of_graph.usual_length == pytest.approx((3 * 6 * 2) ** (1 / 4))
    implied = user_risk().implied_ridge(users, pairs)
    assert of_graph.ridge == pytest.approx(max(0.1, 0.6 * implied))


WEIGHTS = {
    "hard-sample": HardSampleWeights(),
    "ratio-power": RatioPowerWeights(0.5, 1.5),
    "uniform": UniformWeights(),
    "popularity": PopularityWeights(0.5),
}
PARTS = [PowerDivergence(0.4), PowerDivergence(2), RelativeRatio(mixing=0.2), RelativeRatio(0.4)]


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("generator", [*CURVATURES, *PARTS], ids=str)
def test_every_family_has_the_gradient_that_training_has(
    generator: Any, link: Any, weights: str
) -> None:
    popularity = 1.0 + np.arange(N_ITEMS)
    trained = DensityRatio(generator, link, WEIGHTS[weights], upper_bound=float("inf"))
    family = loss_family(trained)
    assert family is not None
    own = popularity**0.5 if weights == "popularity" else np.ones(N_ITEMS)
    assert_equal_to_training(
        replace(trained, backend=reference), user_risk(family, weights=own), popularity
    )


@pytest.mark.parametrize("generator", [PowerDivergence(0.4), RelativeRatio(mixing=0.2)], ids=str)
def test_the_gradient_of_a_member_with_settings_vanishes_at_the_vector_that_is_found(
    generator: Any,
) -> None:
    family = loss_family(DensityRatio(generator, weights=RatioPowerWeights(0.5, 0.5)))
    risk = user_risk(family, ridge=0.2, tolerance=1e-6)
    found, rows = risk(rows_of(HISTORIES)).astype(np.float64), np.arange(len(HISTORIES))
    slope = risk.gradient(found, rows_of(HISTORIES), rows)
    slope += 0.2 * (found - risk.start(rows_of(HISTORIES)))
    np.testing.assert_allclose(slope, 0, atol=3e-5)


def test_where_all_items_were_candidates_those_that_nobody_has_count_too() -> None:
    risk = DensityRatio(candidate_correction="all-items")
    settings = to_table(Settings(risk=risk, batches=UserBatches(2)))
    model, rows = InnerProduct(ITEMS[:3], ITEMS), rows_of([[0], [1], [0, 1]])
    rule = rule_for(model, settings, rows)
    assert isinstance(rule, UserProblem)
    assert rule.item_weights.tolist() == [1.0] * N_ITEMS


@pytest.mark.parametrize(
    "settings",
    [
        SolverSettings(WMF(confidence=20.0, l2=3.0)),
        Settings(risk=WholeData()),
        Settings(risk=DensityRatio(candidate_correction="all-items"), batches=UserBatches(2)),
        Settings(risk=WeightedPU(), batches=UserBatches(2)),
        Settings(encoder=LightGCN(normalize=True), risk=Softmax()),
        Settings(risk=Softmax()),
    ],
    ids=str,
)
def test_items_that_are_there_by_content_are_nothing_to_a_history_without_them(
    settings: Any,
) -> None:
    users, rows, n_cold = random_floats(3, DIMENSION), rows_of([[0], [1], [0, 1]]), 4
    both = np.concatenate([ITEMS, random_floats(n_cold, DIMENSION) + 3])
    known = rule_for(InnerProduct(users, ITEMS), to_table(settings), rows)
    rule = rule_for(InnerProduct(users, both), to_table(settings), rows, n_cold=n_cold)
    assert known is not None
    assert rule is not None
    assert not isinstance(known, MemberRules)
    assert not isinstance(rule, MemberRules)
    assert rule(rows).tobytes() == known(rows).tobytes()
    assert np.isfinite(rule(rows_of([[1, N_ITEMS + 2]]))).all()


@pytest.mark.parametrize(("trained", "by_prior"), [(WeightedDRE(), False), (WeightedPU(), True)])
def test_the_plain_losses_have_half_the_gradient_that_training_has(
    trained: WeightedDRE | WeightedPU, by_prior: bool
) -> None:
    family = LossFamily(softplus, CURVATURES["least-squares"], 0, 0, False, by_prior)
    risk = replace(trained, backend=reference)
    assert_equal_to_training(risk, user_risk(family), np.ones(N_ITEMS), times=2)


def assert_equal_to_training(
    trained: Any, risk: UserProblem, popularity: Any, times: int = 1
) -> None:
    vectors = 0.5 * random_floats(len(HISTORIES), DIMENSION).astype(np.float64)
    batch = handmade_batch(
        list(range(len(HISTORIES))),
        list(range(N_ITEMS)),
        HISTORIES,
        prior=[len(history) / N_ITEMS for history in HISTORIES],
        popularity=popularity.tolist(),
        inclusion=[1.0] * N_ITEMS,
    )
    users = torch.from_numpy(vectors).requires_grad_()
    trained(Embeddings(users, torch.from_numpy(ITEMS.astype(np.float64))), batch).backward()
    assert users.grad is not None
    expected = users.grad.numpy() * len(HISTORIES)  # training averages over users
    found = risk.gradient(vectors, rows_of(HISTORIES), np.arange(len(HISTORIES)))
    np.testing.assert_allclose(times * found, expected, rtol=1e-4, atol=1e-6)


def test_the_ridge_of_free_vectors_at_rest_is_that_of_training() -> None:
    pairs = rows_of(HISTORIES)
    rested = user_risk(ridge=0.3, free=True, tolerance=1e-6)(pairs)
    assert user_risk(free=True).as_trained(rested, pairs, least=0).ridge == pytest.approx(0.3, 1e-3)
    assert user_risk(free=True).as_trained(rested, pairs, least=0.5).ridge == 0.5


def test_a_trained_user_of_free_vectors_is_folded_in_to_where_it_is() -> None:
    data = random_interactions(np.random.default_rng(3), n_users=25, n_items=30, n_pairs=150)
    settings = replace(
        preset("dre-mf"),
        encoder=Factorisation(4),
        risk=DensityRatio(upper_bound=float("inf")),
        batches=UserBatches(25),
        training=Training(epochs=600, learning_rate=0.02, l2=0.1),
    )
    assert isinstance(settings, Settings)
    options = FitOptions(validation=0)
    model = fit(data, settings=settings, device="cpu", options=options)
    histories = [data.positives(user).tolist() for user in range(25)]
    found, trained = model.fold_in(histories).vectors, model.scorer.arrays()["users"]
    lengths = np.linalg.norm(found, axis=1) * np.linalg.norm(trained, axis=1)
    assert np.median((found * trained).sum(1) / lengths) > 0.98


# -- candidates


@given(
    sizes=st.lists(st.floats(0.01, 100), min_size=3, max_size=40),
    share=st.floats(0.1, 0.9),
)
def test_chances_add_up_to_the_number_wanted(sizes: list[float], share: float) -> None:
    n = max(1, int(share * len(sizes)))
    chances = inclusion(np.array(sizes), n=n)
    assert chances.sum() == pytest.approx(n)
    assert chances.min() > 0
    assert chances.max() <= 1


def test_a_draw_keeps_the_weight_of_all_and_is_always_the_same() -> None:
    rng = np.random.default_rng(0)
    sizes = rng.uniform(0.5, 2, 4000)
    items = random_floats(4000, 3)
    drawn = Candidates.drawn(items, np.ones(4000), sizes, n=400)
    assert len(drawn.weights) == 400
    assert drawn.weights.sum() == pytest.approx(4000, rel=0.05)
    again = Candidates.drawn(items, np.ones(4000), sizes, n=400)
    assert np.array_equal(drawn.vectors, again.vectors)


@pytest.mark.parametrize(
    "settings",
    [{"risk": {"kind": "density-ratio"}}, {"solver": {"kind": "wmf"}}, {"risk": "density-ratio"}],
    ids=["no link", "no confidence", "no table"],
)
def test_settings_that_do_not_say_how_a_model_was_trained_are_refused(
    settings: dict[str, Any],
) -> None:
    scorer = InnerProduct(np.ones((2, 3), np.float32), np.ones((4, 3), np.float32))
    pairs = UserItems(np.array([0, 1, 2]), np.array([0, 1], np.int32))
    with pytest.raises(ModelError, match="does not say how it was trained"):
        rule_for(scorer, settings, pairs)


def test_few_items_are_all_candidates() -> None:
    drawn = Candidates.drawn(ITEMS, np.ones(N_ITEMS), np.ones(N_ITEMS), n=N_ITEMS)
    assert np.array_equal(drawn.vectors, ITEMS)
    assert drawn.weights.tolist() == [1.0] * N_ITEMS


# -- closed forms


def test_the_closed_form_is_the_user_step_of_weighted_matrix_factorisation() -> None:
    pairs = random_rows(40, N_ITEMS)
    solver = LeastSquares(
        pairs.indptr,
        pairs.indices,
        n_others=N_ITEMS,
        dimension=DIMENSION,
    )
    expected, _ = solver.solve(ITEMS, confidence=20.0, l2=3.0)
    settings = to_table(SolverSettings(WMF(confidence=20.0, l2=3.0)))
    model = InnerProduct(random_floats(40, DIMENSION), ITEMS)
    rule = rule_for(model, settings, pairs)
    assert rule is not None
    np.testing.assert_allclose(rule(pairs), expected, atol=1e-5)


def test_the_closed_form_of_implicit_is_its_recalculated_user() -> None:
    als = pytest.importorskip("implicit.cpu.als", reason="needs the extra `rivals`")
    scipy_sparse = pytest.importorskip("scipy.sparse")
    threadpoolctl = pytest.importorskip("threadpoolctl")
    with threadpoolctl.threadpool_limits(1, "blas"):
        library = als.AlternatingLeastSquares(DIMENSION, regularization=3.0, alpha=20.0)
        library.item_factors, library.user_factors = ITEMS, random_floats(2, DIMENSION)
        row = np.zeros((1, N_ITEMS), np.float32)
        row[0, HISTORIES[2]] = 1
        expected = library.recalculate_user(0, scipy_sparse.csr_matrix(row))
    settings = to_table(SolverSettings(ImplicitALS(alpha=20.0, l2=3.0)))
    rule = rule_for(InnerProduct(ITEMS[:2], ITEMS), settings, rows_of([[0], [1]]))
    assert rule is not None
    np.testing.assert_allclose(rule(rows_of([HISTORIES[2]])), np.atleast_2d(expected), atol=1e-4)


def test_no_other_vector_has_a_smaller_loss_than_the_closed_form() -> None:
    ridge = WeightedRidge(ITEMS, 0.1, 0.9, 1.0, 0.05)
    (vector,) = ridge(rows_of([HISTORIES[2]])).astype(np.float64)
    terms = {"everywhere": 0.1, "labelled": 0.9, "gain": 1.0, "l2": 0.05}
    least = weighted_ridge_loss(vector, ITEMS, HISTORIES[2], **terms)
    for away in 0.01 * random_floats(20, DIMENSION):
        assert weighted_ridge_loss(vector + away, ITEMS, HISTORIES[2], **terms) > least


def test_the_closed_form_expects_the_dropout_of_training() -> None:
    rng = np.random.default_rng(0)
    kept = (rng.random((20_000, DIMENSION)) > 0.3) / 0.7
    ridge = WeightedRidge(ITEMS, 0.1, 0.9, 1.0, 0.0, dropout=0.3)
    (vector,) = ridge(rows_of([HISTORIES[0]])).astype(np.float64)

    def expected_loss(at: Any) -> float:
        scores = (kept * at) @ ITEMS.T.astype(np.float64)
        own = scores[:, HISTORIES[0]]
        terms = (0.9 * own**2 - 2 * own).sum(1) + 0.1 * (scores**2).sum(1)
        return float(terms.mean())

    least = expected_loss(vector)
    for away in 0.1 * random_floats(10, DIMENSION):
        assert expected_loss(vector + away) > least


# -- the learned step


def test_users_who_are_a_step_and_a_map_are_recovered() -> None:
    pairs = random_rows(200, N_ITEMS)
    degrees = np.bincount(pairs.indices, minlength=N_ITEMS)
    matrix = random_floats(DIMENSION, DIMENSION)
    steps = np.zeros((200, DIMENSION))
    for user in range(200):
        own = pairs.indices[pairs.indptr[user] : pairs.indptr[user + 1]]
        for item in own:
            steps[user] += ITEMS[item] / np.sqrt(len(own) * degrees[item])
    users = (steps @ matrix).astype(np.float32)
    found = LearnedStep.learnt(users, ITEMS, pairs)(pairs)
    np.testing.assert_allclose(found, users, atol=0.02)


def test_where_nobody_has_a_pair_the_step_is_left_as_it_is() -> None:
    learnt = LearnedStep.learnt(random_floats(3, DIMENSION), ITEMS, rows_of([[], [], []]))
    np.testing.assert_allclose(learnt(rows_of([[4]]))[0], ITEMS[4])


# -- models


RULES = {
    "step": {},
    "ridge": to_table(SolverSettings(WMF(confidence=20.0, l2=3.0))),
    "risk": to_table(Settings(batches=UserBatches(8, 2), training=Training(l2=0.05))),
    "relative": to_table(
        Settings(
            risk=DensityRatio(
                RelativeRatio(0.4),
                weights=RatioPowerWeights(0.5, 0.5),
                candidate_correction="all-items",
            ),
            batches=UserBatches(8, 2),
        )
    ),
}


@pytest.mark.parametrize("settings", RULES.values(), ids=RULES)
def test_a_user_alone_has_the_same_bits_as_among_others(settings: dict[str, Any]) -> None:
    model = random_model(settings=settings)
    histories = [sorted({(7 * a + b) % N_ITEMS for b in range(1 + a % 9)}) for a in range(150)]
    together = model.fold_in(histories).vectors
    alone = [model.fold_in([history]).vectors[0] for history in histories]
    assert np.array_equal(together, np.array(alone))
    assert np.array_equal(together, random_model(settings=settings).fold_in(histories).vectors)
    assert np.isfinite(together).all()


def model_of(kind: str) -> Artifact:
    rows = random_rows(9, N_ITEMS)
    data = Interactions(
        Vocabulary.dense(9, kind="user"),
        Vocabulary.dense(N_ITEMS, kind="item"),
        rows.indptr,
        rows.indices,
    )
    return Artifact.of(MAKERS[kind](rows, N_ITEMS), data, settings={}, card={})


@pytest.mark.parametrize("kind", sorted(set(MAKERS) - {"inner_product", "blend", "cold_items"}))
def test_a_model_of_histories_scores_a_known_history_as_it_scores_its_user(kind: str) -> None:
    model = model_of(kind)
    users = np.arange(1, 9)
    histories = [
        model.seen.indices[model.seen.indptr[user] : model.seen.indptr[user + 1]].tolist()
        for user in users
    ]
    kept = [place for place, history in enumerate(histories) if history]
    found = model.fold_in([histories[place] for place in kept]).scorer
    scores = found.scores(np.arange(len(kept)))
    assert np.array_equal(scores, model.scorer.scores(users[kept]))


@pytest.mark.parametrize("kind", sorted(set(MAKERS) - {"cold_items"}))
def test_the_order_and_repeats_of_a_history_do_not_matter(kind: str) -> None:
    model = model_of(kind)
    once = model.recommend_to([[3, 5, 8]], k=5).to_dicts()
    assert model.recommend_to([[8, 3, 5, 3, 8]], k=5).to_dicts() == once
    assert {row["item_id"] for row in once} & {3, 5, 8} == set()


@pytest.mark.parametrize("kind", sorted(set(MAKERS) - {"cold_items"}))
def test_an_empty_history_is_refused_left_out_or_given_what_is_popular(kind: str) -> None:
    model = model_of(kind)
    asked: list[list[Any]] = [[3], [], [999]]
    with pytest.raises(UnknownIdError, match="unknown item"):
        model.recommend_to(asked[:1] + asked[2:])
    with pytest.raises(ConfigError, match=r"histories\[1\]"):
        model.recommend_to(asked[:2])
    skipped = model.recommend_to(asked, k=4, on_unknown="skip")
    assert (set(skipped.query_ids.tolist()), skipped.n_users) == ({0}, 1)
    table = model.recommend_to(asked, k=4, on_unknown="fallback").to_dicts()
    degrees = np.bincount(model.seen.indices, minlength=N_ITEMS)
    popular = np.argsort(-degrees, kind="stable")[:4].tolist()
    for user in (1, 2):
        assert [row["item_id"] for row in table if row["user_id"] == user] == popular
    assert [row for row in table if row["user_id"] == 0] == skipped.to_dicts()


def test_lists_keep_to_what_is_allowed_and_seen_items_may_stay() -> None:
    model = random_model()
    table = model.recommend_to([[0, 1], [2]], k=30, allow=[0, 1, 2, 3], deny=[3]).to_dicts()
    listed = {(row["user_id"], row["item_id"]) for row in table}
    assert listed == {(0, 2), (1, 0), (1, 1)}
    everything = model.recommend_to([[0, 1]], k=N_ITEMS, exclude_seen=False)
    assert sorted(everything.answer_ids.tolist()) == list(range(N_ITEMS))


def test_no_history_is_no_list() -> None:
    assert random_model().recommend_to([]).to_dicts() == []


@pytest.mark.parametrize("history", ["tea", 3])
def test_a_lone_item_is_not_taken_for_a_history(history: Any) -> None:
    with pytest.raises(ConfigError, match="a history is a list of items"):
        random_model().recommend_to([history])


def test_a_model_without_vectors_says_so() -> None:
    with pytest.raises(ConfigError, match="no vectors"):
        _ = model_of("neighbours").fold_in([[1]]).vectors
    assert model_of("autoencoder").fold_in([[1], [2]]).vectors.shape == (2, 21)


def test_folding_in_loads_no_torch(tmp_path: Path) -> None:
    random_model(settings=RULES["risk"]).save(tmp_path / "model")
    code = (
        "import json, sys, ratiorec; "
        f"model = ratiorec.Artifact.load({str(tmp_path / 'model')!r}); "
        "model.recommend_to([[1, 2]], k=3); print(json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(json.loads(done.stdout)) & {"torch", "scipy", "pyarrow"}


# -- more pairs


def pairs_of_ids(*pairs: tuple[int, int]) -> Interactions:
    return Interactions.from_pairs([u for u, _ in pairs], [i for _, i in pairs])


@pytest.mark.parametrize("settings", RULES.values(), ids=RULES)
def test_pairs_of_known_items_fold_their_users_in_and_touch_nobody_else(
    settings: dict[str, Any],
) -> None:
    model = random_model(settings=settings)
    more = model.partial_fit(pairs_of_ids((3, 7), (3, 8), (100, 4), (100, 9)))
    assert more.users.ids.tolist() == [*range(12), 100]
    before, after = model.scorer.arrays(), more.scorer.arrays()
    own = model.seen.indices[model.seen.indptr[3] : model.seen.indptr[4]].tolist()
    expected = model.fold_in([sorted({*own, 7, 8}), [4, 9]]).vectors
    assert np.array_equal(after["users"][[3, 12]], expected)
    others = np.delete(np.arange(12), 3)
    assert np.array_equal(after["users"][others], before["users"][others])
    assert np.array_equal(after["items"], before["items"])
    listed = more.recommend([3, 100], k=N_ITEMS).to_dicts()
    assert not {row["item_id"] for row in listed if row["user_id"] == 3} & {7, 8, *own}
    assert not {row["item_id"] for row in listed if row["user_id"] == 100} & {4, 9}


@pytest.mark.parametrize("settings", RULES.values(), ids=RULES)
def test_a_new_item_gets_a_vector_from_its_users_and_the_old_ones_stay(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    model = random_model(settings=settings)
    pairs = pairs_of_ids((0, 500), (1, 500), (2, 500), (77, 500), (77, 3))
    more = model.partial_fit(pairs)
    assert more.items.ids.tolist() == [*range(N_ITEMS), 500]
    before, after = model.scorer.arrays(), more.scorer.arrays()
    assert np.array_equal(after["items"][:N_ITEMS], before["items"])
    assert np.abs(after["items"][N_ITEMS]).max() > 0
    assert np.array_equal(after["users"][3:12], before["users"][3:])
    more.save(tmp_path / "model")
    again = Artifact.load(tmp_path / "model")
    users = [0, 5, 77]
    assert again.recommend(users).to_dicts() == more.recommend(users).to_dicts()
    assert 500 in again.recommend_to([[3]], k=N_ITEMS + 1).answer_ids


def test_the_new_item_of_a_least_squares_model_is_its_item_step() -> None:
    model = random_model(settings=RULES["ridge"])
    more = model.partial_fit(pairs_of_ids((0, 500), (4, 500)))
    known = model.fold_in(
        [
            model.seen.indices[model.seen.indptr[u] : model.seen.indptr[u + 1]].tolist()
            for u in (0, 4)
        ]
    ).vectors
    users = model.scorer.arrays()["users"].copy()
    users[[0, 4]] = known
    solver = LeastSquares(
        np.array([0, 2]),
        np.array([0, 4], np.int32),
        n_others=12,
        dimension=DIMENSION,
    )
    expected, _ = solver.solve(users, confidence=20.0, l2=3.0)
    np.testing.assert_allclose(more.scorer.arrays()["items"][[-1]], expected, atol=1e-5)


@pytest.mark.parametrize(
    "kind",
    sorted(
        set(MAKERS) - {"inner_product", "popularity", "blend", "walk", "graph_filter", "cold_items"}
    ),
)
def test_a_model_of_histories_takes_new_pairs(kind: str) -> None:
    model = model_of(kind)
    more = model.partial_fit(pairs_of_ids((0, 4), (50, 4), (50, 6)))
    scores = more.scorer.scores(np.array([0, 9]))
    assert np.array_equal(scores, model.fold_in([[4], [4, 6]]).scorer.scores(np.arange(2)))


def test_a_walk_after_new_pairs_and_items_is_that_of_another_fit(tmp_path: Path) -> None:
    data = random_interactions(np.random.default_rng(1), n_users=20, n_items=15, n_pairs=90)
    options, settings = FitOptions(validation=0), SolverSettings(Walk())
    model = fit(data, settings=settings, device="cpu", options=options)
    of_new = [(0, 15), (3, 15), (4, 2), (20, 1), (20, 15)]
    users, items = zip(*of_new, strict=True)
    both = interactions(
        np.concatenate([data.pair_users.astype(np.int64), users]),
        np.concatenate([data.indices.astype(np.int64), items]),
        n_users=21,
        n_items=16,
    )
    expected = fit(both, settings=settings, device="cpu", options=options)
    more = model.partial_fit(pairs_of_ids(*of_new))
    more.save(tmp_path / "model")
    for found in (more, Artifact.load(tmp_path / "model")):
        scores = found.scorer.scores(np.arange(21))
        assert np.array_equal(scores, expected.scorer.scores(np.arange(21)))


def test_a_graph_filter_knows_a_new_item_by_the_eigenvectors_of_others(tmp_path: Path) -> None:
    data = random_interactions(np.random.default_rng(1), n_users=20, n_items=15, n_pairs=90)
    settings = SolverSettings(GraphFilter(n_eigenvectors=5))
    model = fit(data, settings=settings, device="cpu", options=FitOptions(validation=0))
    more = model.partial_fit(pairs_of_ids(*[(user, 15) for user in (0, 3, 4, 9, 11)]))
    pairs = np.zeros((20, 16))
    pairs[np.repeat(np.arange(20), np.diff(more.seen.indptr)), more.seen.indices] = 1
    normed = pairs / np.sqrt(pairs.sum(1, keepdims=True)) / np.sqrt(pairs.sum(0))
    before, after = model.scorer.arrays(), more.scorer.arrays()
    step = (normed.T @ normed)[15, :15] @ before["eigenvectors"]
    np.testing.assert_allclose(
        after["eigenvectors"][15], step / before["eigenvalues"], rtol=1e-4, atol=1e-5
    )
    assert np.array_equal(after["eigenvectors"][:15], before["eigenvectors"])
    more.save(tmp_path / "model")
    again = Artifact.load(tmp_path / "model").scorer.scores(np.arange(20))
    assert np.array_equal(again, more.scorer.scores(np.arange(20)))


def test_a_new_item_is_regressed_on_trained_ones_and_not_on_another_new_one() -> None:
    data = random_interactions(np.random.default_rng(1), n_users=20, n_items=15, n_pairs=90)
    solver = LocalEASE(l2=4.0, activity_exponent=0.0, n_neighbours=99)
    model = fit(
        data, settings=SolverSettings(solver), device="cpu", options=FitOptions(validation=0)
    )
    one, other = ([(user, item) for user in (0, 3, 4, 9)] for item in (15, 16))
    alone, both = (model.partial_fit(pairs_of_ids(*rows)) for rows in (one, one + other))
    histories = [[item] for item in range(15)]
    found, expected = (m.fold_in(histories).scorer.scores(np.arange(15)) for m in (both, alone))
    np.testing.assert_allclose(found[:, 15], expected[:, 15], atol=1e-6)
    assert not both.fold_in([[16]]).scorer.scores(np.arange(1)).any()


@pytest.mark.parametrize("kind", ["item_weights", "neighbours"])
def test_where_nothing_says_how_a_new_item_is_refused(kind: str) -> None:
    with pytest.raises(ConfigError, match="1 new items"):
        model_of(kind).partial_fit(pairs_of_ids((0, 500)))


SOLVERS = [
    EASE(l2=4.0),
    EASE(4.0, 0.2, 0.0, 0.0),
    ItemKNN(n_neighbours=99),
    Walk(n_neighbours=99),
    LocalEASE(l2=4.0, activity_exponent=0.0, n_neighbours=99),
]


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_new_item_is_told_of_as_by_another_fit(solver: AnySolver) -> None:
    data = random_interactions(np.random.default_rng(1), n_users=20, n_items=15, n_pairs=90)
    options = FitOptions(validation=0)
    model = fit(data, settings=SolverSettings(solver), device="cpu", options=options)
    of_new = [(user, 15) for user in (0, 3, 4, 9, 11)]
    users, items = zip(*of_new, strict=True)
    both = interactions(
        np.concatenate([data.pair_users.astype(np.int64), users]),
        np.concatenate([data.indices.astype(np.int64), items]),
        n_users=20,
        n_items=16,
    )
    again = fit(both, settings=SolverSettings(solver), device="cpu", options=options)
    more = model.partial_fit(pairs_of_ids(*of_new))
    # what the known items say of the new one, each alone
    alone = [[item] for item in range(15)]
    found, expected = (
        artifact.fold_in(alone).scorer.scores(np.arange(15))[:, 15] for artifact in (more, again)
    )
    np.testing.assert_allclose(found, expected, atol=1e-5)
    before = model.fold_in(alone).scorer.scores(np.arange(15))
    assert np.array_equal(more.fold_in(alone).scorer.scores(np.arange(15))[:, :15], before)


OF_A_NEW_ITEM = [(user, 15) for user in (0, 3, 4, 9, 11, 70)] + [(70, 2), (70, 6)]


@pytest.mark.parametrize("solver", [*SOLVERS, Walk(), GraphFilter(n_eigenvectors=5)])
@pytest.mark.parametrize("way", ["partial_fit", "update"])
def test_a_new_item_that_comes_in_parts_is_told_of_as_at_once(solver: AnySolver, way: str) -> None:
    data = random_interactions(np.random.default_rng(1), n_users=20, n_items=15, n_pairs=90)
    model = fit(
        data, settings=SolverSettings(solver), device="cpu", options=FitOptions(validation=0)
    )
    in_parts = model
    for pair in reversed(OF_A_NEW_ITEM):
        in_parts = getattr(in_parts, way)(pairs_of_ids(pair))
    at_once = getattr(model, way)(pairs_of_ids(*OF_A_NEW_ITEM))
    alone = [[item] for item in range(16)]
    found, expected = (m.fold_in(alone).scorer.scores(np.arange(16)) for m in (in_parts, at_once))
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert np.abs(found[:15, 15]).max() > 0


def test_a_new_item_of_an_autoencoder_that_comes_in_parts_is_as_at_once() -> None:
    model, pairs = model_of("autoencoder"), [(1, 500), (2, 500), (60, 3), (60, 5), (60, 500)]
    in_parts = model
    for pair in pairs:
        in_parts = in_parts.partial_fit(pairs_of_ids(pair))
    found, expected = (
        m.scorer.scores(np.arange(10)) for m in (in_parts, model.partial_fit(pairs_of_ids(*pairs)))
    )
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("settings", RULES.values(), ids=RULES)
def test_the_vector_of_a_new_item_that_comes_in_parts_is_much_as_at_once(
    settings: dict[str, Any],
) -> None:
    model = random_model(settings=settings)
    pairs = [(user, 500) for user in range(0, 12, 2)]
    in_parts = model
    for pair in pairs:
        in_parts = in_parts.partial_fit(pairs_of_ids(pair))
    first, last, once = (
        m.scorer.arrays()["items"][N_ITEMS]
        for m in (
            model.partial_fit(pairs_of_ids(pairs[0])),
            in_parts,
            model.partial_fit(pairs_of_ids(*pairs)),
        )
    )
    assert np.linalg.norm(last - once) < 0.5 * np.linalg.norm(first - once)


def test_a_new_item_of_new_users_is_known_to_an_autoencoder_by_what_else_they_have() -> None:
    model = model_of("autoencoder")
    rows = [(user, item) for user in range(50, 60) for item in (3, 4, 5, 500)]
    more = model.partial_fit(pairs_of_ids(*rows))
    assert np.abs(more.scorer.arrays()["item_out"][N_ITEMS]).max() > 0


@pytest.mark.parametrize(
    ("name", "value"), [("pairs_since", "many"), ("pairs_since", -5), ("trained_items", 10**9)]
)
def test_a_model_card_that_cannot_be_is_refused(name: str, value: Any) -> None:
    model = random_model().with_card({name: value})
    with pytest.raises(ModelError, match=f"{name} in the model card"):
        model.partial_fit(pairs_of_ids((0, 3)))


def test_a_new_item_of_an_autoencoder_is_scored_and_changes_no_other_score(tmp_path: Path) -> None:
    model = model_of("autoencoder")
    more = model.partial_fit(pairs_of_ids((1, 500), (2, 500)))
    scores = more.scorer.scores(np.array([3, 4]))
    assert np.array_equal(scores[:, :N_ITEMS], model.scorer.scores(np.array([3, 4])))
    assert np.ptp(scores[:, N_ITEMS]) > 0
    more.save(tmp_path / "model")
    again = Artifact.load(tmp_path / "model")
    assert np.array_equal(again.scorer.scores(np.array([3, 4])), scores)


def test_popularity_counts_new_pairs_and_items() -> None:
    model = model_of("popularity")
    more = model.partial_fit(pairs_of_ids((0, 500), (1, 500), (60, 500)))
    counts = more.scorer.scores(np.array([0]))[0]
    assert counts[-1] == 3
    assert np.array_equal(counts[:-1], model.scorer.scores(np.array([0]))[0])


def test_ids_of_another_kind_are_refused_and_text_takes_numbers() -> None:
    model = random_model()
    with pytest.raises(DataError, match="two kinds"):
        model.partial_fit(Interactions.from_pairs(["ada"], [3]))
    items = Vocabulary(np.array([f"i{n}" for n in range(N_ITEMS)], object), "item")
    named = replace(model, items=items.with_names([f"item {n}" for n in range(N_ITEMS)]))
    more = named.partial_fit(Interactions.from_pairs([0], [7]))
    assert (more.items.ids[-1], more.items.name(N_ITEMS)) == ("7", "7")


def test_users_of_each_item_are_the_pairs_turned_round() -> None:
    found = transposed(rows_of([[0, 2], [2], [0]]), 4)
    assert found.indptr.tolist() == [0, 2, 2, 4, 4]
    assert found.indices.tolist() == [0, 2, 0, 1]


def test_weights_of_items_are_shared_by_a_model_for_other_histories() -> None:
    model = model_of("item_weights")
    assert isinstance(model.scorer, ItemWeights)
    found = model.fold_in([[1]])
    assert isinstance(found.histories, UserItems)
    assert found.scorer.arrays()["weights"] is model.scorer.weights


def test_neighbours_take_new_items_in_only_where_the_settings_say_how() -> None:
    """Settings that are not whole tell nothing, and the refusal says what would do."""
    model = model_of("neighbours")
    for settings in ({}, {"solver": {"kind": "item-knn"}}):
        told = replace(model, settings=settings)
        with pytest.raises(ConfigError, match="new items for a neighbours model"):
            told.partial_fit(pairs_of_ids((0, 500)))
