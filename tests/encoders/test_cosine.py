"""Scores that are cosines, and the popularity term that is added for ranking."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ratiorec.config import to_table
from ratiorec.encoders.encoder import TableEncoder, directions
from ratiorec.encoders.settings import Factorisation, LightGCN, Normal
from ratiorec.losses.softmax import Softmax
from ratiorec.model.artifact import Artifact
from ratiorec.model.foldin.rules import folded, rule_for
from ratiorec.scorers import InnerProduct
from ratiorec.scorers.scorer import UserItems, some_of
from ratiorec.settings import Settings, UserBatches
from support.small_data import interactions, random_interactions

CPU = torch.device("cpu")
DATA = random_interactions(np.random.default_rng(0), n_users=30, n_items=20, n_pairs=150)
EVERYONE = np.arange(30)


@pytest.mark.parametrize("kind", [LightGCN, Factorisation])
def test_normalised_scores_are_the_cosines_of_the_plain_vectors(kind: type) -> None:
    plain, cosine = (
        kind(4, init=Normal(), normalize=normalize)(DATA, rng=np.random.default_rng(1), device=CPU)
        for normalize in (False, True)
    )
    batch = UserBatches()(DATA, device=CPU).batch(EVERYONE[5:9])
    users, items = (table.detach().numpy() for table in plain(batch))
    expected = (users @ items.T) / np.outer(*(np.linalg.norm(t, axis=1) for t in (users, items)))
    found = cosine(batch)
    np.testing.assert_allclose((found.users @ found.items.T).detach(), expected, atol=1e-6)
    np.testing.assert_allclose(cosine.scorer(DATA).scores(EVERYONE[5:9]), expected, atol=1e-6)


def test_directions_have_the_exact_gradient_and_a_zero_row_stays_one() -> None:
    vectors = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(directions, vectors)
    zero = torch.zeros(1, 3, requires_grad=True)
    directions(zero).sum().backward()
    assert not directions(zero).any()
    assert zero.grad is not None
    assert zero.grad.isfinite().all()


def with_popularity_term(term: float, *, normalize: bool) -> TableEncoder:
    settings = LightGCN(4, init=Normal(), normalize=normalize, popularity_term=term)
    encoder = settings(DATA, rng=np.random.default_rng(1), device=CPU)
    assert isinstance(encoder, TableEncoder)
    return encoder


@pytest.mark.parametrize("normalize", [False, True])
def test_the_popularity_term_is_added_for_ranking_and_not_in_training(normalize: bool) -> None:
    batch = UserBatches()(DATA, device=CPU).batch(EVERYONE)
    without, with_it = (with_popularity_term(term, normalize=normalize) for term in (0.0, 0.3))
    assert all(torch.equal(a, b) for a, b in zip(without(batch), with_it(batch), strict=True))
    scores = with_it.scorer(DATA).scores(EVERYONE) - without.scorer(DATA).scores(EVERYONE)
    expected = 0.3 * np.log(1 + DATA.item_degrees)
    np.testing.assert_allclose(scores, np.tile(expected, (30, 1)), atol=1e-6)


def table_of(term: float, *, normalize: bool = True) -> dict[str, object]:
    encoder = LightGCN(4, init=Normal(), normalize=normalize, popularity_term=term)
    return to_table(Settings(encoder=encoder, risk=Softmax()))


def test_new_users_have_length_one_and_the_whole_popularity_term() -> None:
    scorer = with_popularity_term(0.3, normalize=True).scorer(DATA)
    rule = rule_for(scorer, table_of(0.3), DATA)
    histories = some_of(DATA, EVERYONE[:5])
    empty = UserItems(np.append(histories.indptr, histories.indptr[-1]), histories.indices)
    vectors = folded(scorer, rule, empty).vectors
    assert (vectors[:, -1] == 1).all()
    lengths = np.linalg.norm(vectors[:, :-1], axis=1)
    np.testing.assert_allclose(lengths, [1, 1, 1, 1, 1, 0], atol=1e-6)


def test_a_new_user_is_the_direction_from_all_items_to_those_of_the_history() -> None:
    scorer = with_popularity_term(0.0, normalize=True).scorer(DATA)
    assert isinstance(scorer, InnerProduct)
    rule = rule_for(scorer, table_of(0.0), DATA)
    found = folded(scorer, rule, some_of(DATA, EVERYONE[3:5])).vectors
    for vector, user in zip(found, (3, 4), strict=True):
        x = scorer.items[DATA.positives(user)].mean(0) - scorer.items.mean(0)
        np.testing.assert_allclose(vector, x / np.linalg.norm(x), atol=1e-6)


@pytest.mark.parametrize("normalize", [False, True])
def test_a_new_item_has_the_length_and_the_popularity_term_of_its_pairs(normalize: bool) -> None:
    scorer = with_popularity_term(0.3, normalize=normalize).scorer(DATA)
    model = Artifact.of(scorer, DATA, settings=table_of(0.3, normalize=normalize), card={})
    added = interactions([0, 1, 2], [20, 20, 20], n_users=30, n_items=21)  # item 20 is new
    grown = model.partial_fit(added).scorer
    assert isinstance(grown, InnerProduct)
    new, old = grown.items[20], grown.items[:20]
    assert isinstance(scorer, InnerProduct)
    np.testing.assert_array_equal(old, scorer.items)
    assert new[-1] == pytest.approx(0.3 * np.log(1 + 3), rel=1e-6)
    if normalize:
        assert np.linalg.norm(new[:-1]) == pytest.approx(1, rel=1e-6)
    assert new[:-1].any()
