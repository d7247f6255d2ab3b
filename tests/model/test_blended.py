"""Blends as models: fold-in, new pairs, save and load are those of the members."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ratiorec.config import to_table
from ratiorec.data.interactions import Interactions
from ratiorec.errors import ModelError
from ratiorec.model.artifact import Artifact
from ratiorec.scorers import Blend, InnerProduct
from ratiorec.scorers.blend import standardise
from ratiorec.settings import BlendMember, BlendSettings, SolverSettings
from ratiorec.solvers.settings import WMF, ItemKNN
from ratiorec.training.experiment import fit
from ratiorec.training.fit import FitOptions
from support.small_data import interactions, random_interactions

SETTINGS = BlendSettings(
    (
        BlendMember("wmf", 0.6, 3, 0, SolverSettings(WMF(dimension=5))),
        BlendMember("item-knn", 0.4, 1, 0, SolverSettings(ItemKNN(n_neighbours=6))),
    )
)
N_ITEMS = 25


@pytest.fixture(scope="module")
def data() -> Interactions:
    rng = np.random.default_rng(3)
    return random_interactions(rng, n_users=40, n_items=N_ITEMS, n_pairs=300)


@pytest.fixture(scope="module")
def model(data: Interactions) -> Artifact:
    return fit(data, settings=SETTINGS, options=FitOptions(validation=0))


@pytest.fixture(scope="module")
def members(data: Interactions) -> list[Artifact]:
    """Each member fitted alone."""
    options = FitOptions(validation=0)
    first, second = (member.settings for member in SETTINGS.members)
    assert isinstance(first, SolverSettings)
    short = SolverSettings(WMF(dimension=5, n_sweeps=3))
    return [fit(data, settings=each, options=options) for each in (short, second)]


def blended(scores: list[np.ndarray]) -> np.ndarray:
    weights = [member.weight for member in SETTINGS.members]
    return sum(standardise(s.copy(), w) for s, w in zip(scores, weights, strict=True))


def test_the_settings_make_a_blend_of_the_members_fitted_alone(
    model: Artifact, members: list[Artifact]
) -> None:
    assert isinstance(model.scorer, Blend)
    assert dict(model.settings) == to_table(SETTINGS)
    everyone = np.arange(40)
    knn = model.scorer.members[1].scores(everyone)
    np.testing.assert_array_equal(knn, members[1].scorer.scores(everyone))
    expected = blended([member.scores(everyone) for member in model.scorer.members])
    np.testing.assert_allclose(model.scorer.scores(everyone), expected, atol=1e-5)


def test_a_new_user_is_folded_into_every_member(model: Artifact, members: list[Artifact]) -> None:
    history = [[2, 5, 11]]
    found = model.fold_in(history).scorer.scores(np.array([0]))
    assert isinstance(model.scorer, Blend)
    parts = []
    for place, member in enumerate(model.scorer.members):
        alone = Artifact(
            member,
            model.users,
            model.items,
            model.seen,
            model.settings["members"][place]["settings"],
        )
        parts.append(alone.fold_in(history).scorer.scores(np.array([0])))
    np.testing.assert_allclose(found, blended(parts), atol=1e-5)


@pytest.mark.parametrize("way", ["partial_fit", "update"])
def test_new_pairs_users_and_items_reach_every_member(
    model: Artifact, members: list[Artifact], way: str
) -> None:
    more = interactions([0, 41, 41, 42], [3, 4, 25, 25], n_users=43, n_items=26)
    after = getattr(model, way)(more)
    assert (len(after.users), len(after.items)) == (43, 26)
    assert isinstance(after.scorer, Blend)
    assert all(m.n_users == 43 and m.n_items == 26 for m in after.scorer.members)
    again = getattr(after, way)(interactions([42], [7], n_users=43, n_items=26))
    assert np.isfinite(again.scorer.scores(np.arange(43))).all()
    alone = getattr(members[1], way)(more).scorer.scores(np.arange(43))
    np.testing.assert_array_equal(after.scorer.members[1].scores(np.arange(43)), alone)


def test_a_saved_blend_comes_back_whole(model: Artifact, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    again = Artifact.load(tmp_path / "model")
    everyone = np.arange(40)
    np.testing.assert_array_equal(again.scorer.scores(everyone), model.scorer.scores(everyone))
    assert again.similar([3], 4).to_dicts() == model.similar([3], 4).to_dicts()


def test_settings_of_too_few_members_are_refused(model: Artifact) -> None:
    table = {"members": [model.settings["members"][0]]}
    short = Artifact(model.scorer, model.users, model.items, model.seen, table)
    with pytest.raises(ModelError, match="settings of members"):
        short.fold_in([[1, 2]])


def test_a_blend_put_together_by_hand_learns_how_to_fold_in(data: Interactions) -> None:
    rng = np.random.default_rng(0)
    users, items = (rng.standard_normal((n, 4), np.float32) for n in (40, N_ITEMS))
    by_hand = Artifact.of(
        Blend((InnerProduct(users, items),), np.ones(1, np.float32)), data, settings={}, card={}
    )
    assert np.isfinite(by_hand.fold_in([[1, 2]]).scorer.scores(np.array([0]))).all()
