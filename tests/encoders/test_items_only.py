from __future__ import annotations

import numpy as np
import pytest
import torch

from ratiorec.encoders.items_only import ItemsOnlyEncoder
from ratiorec.encoders.settings import ItemsOnly
from ratiorec.scorers import FromHistories
from ratiorec.scorers.scorer import UserItems
from ratiorec.settings import UserBatches
from support.small_data import interactions, random_interactions

CPU = torch.device("cpu")
DATA = random_interactions(np.random.default_rng(0), n_users=30, n_items=20, n_pairs=150)
EVERYONE = np.arange(30)


def built(n_layers: int) -> ItemsOnlyEncoder:
    encoder = ItemsOnly(6, n_layers)(DATA, rng=np.random.default_rng(1), device=CPU)
    assert isinstance(encoder, ItemsOnlyEncoder)
    return encoder


def test_a_user_is_the_sum_of_the_histories_items_by_their_degrees() -> None:
    # user 0 has items 0 and 1, user 1 has item 1: degrees 1 and 2
    data = interactions(np.array([0, 0, 1]), np.array([0, 1, 1]), n_users=2, n_items=2)
    encoder = ItemsOnly(2)(data, rng=np.random.default_rng(0), device=CPU)
    with torch.no_grad():
        encoder.items[:] = torch.tensor([[3.0, 0.0], [0.0, 4.0]])
    users, items = encoder(UserBatches()(data, device=CPU).batch(np.arange(2)))
    first = np.array([3, 4 / np.sqrt(2)])
    expected = [first / np.linalg.norm(first), [0, 1]]
    np.testing.assert_allclose(users.detach(), expected, atol=1e-6)
    np.testing.assert_allclose(items.detach(), np.eye(2), atol=1e-6)


@pytest.mark.parametrize("n_layers", [1, 2, 3])
def test_the_scorer_has_the_cosines_of_training_but_for_a_number_of_the_user(
    n_layers: int,
) -> None:
    encoder = built(n_layers)
    users, items = encoder(UserBatches()(DATA, device=CPU).batch(EVERYONE))
    cosines = (users @ items.T).detach().numpy()
    scores = encoder.scorer(DATA).scores(EVERYONE)
    lengths = (scores * cosines).sum(1) / (cosines**2).sum(1)
    assert (lengths > 0).all()
    np.testing.assert_allclose(scores, lengths[:, None] * cosines, atol=1e-5)


def test_a_new_user_with_a_known_history_has_the_known_users_scores() -> None:
    scorer = built(2).scorer(DATA)
    assert isinstance(scorer, FromHistories)
    start, stop = DATA.indptr[7:9]
    history = UserItems(np.array([0, stop - start]), DATA.indices[start:stop])
    found = scorer.with_histories(history).scores(np.array([0]))
    np.testing.assert_array_equal(found, scorer.scores(np.array([7])))


def test_the_penalty_is_on_items_alone() -> None:
    encoder = built(1)
    batch = UserBatches()(DATA, device=CPU).batch(EVERYONE)
    shown = encoder.items[batch.candidates]
    torch.testing.assert_close(encoder.penalty(batch), shown.square().sum(1).mean() / 2)
