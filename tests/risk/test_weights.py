from __future__ import annotations

import torch

from ratiorec.risk.pairs import CrossedPairs, ListedPairs
from ratiorec.risk.weights import Frozen, HardSample, Popularity, Uniform
from ratiorec.scores import EXPONENTIAL, Embeddings
from small_data import handmade_batch

BATCH = handmade_batch(
    [1, 0],
    [2, 0, 1],
    [[0, 2], [1]],
    prior=[0.5, 0.25],
    popularity=[4, 9, 16],
    inclusion=[0.5, 0.5, 1.0],
)
LISTED = ListedPairs(BATCH, torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64))
CROSSED = CrossedPairs(
    BATCH, slice(0, 2), slice(1, 3), torch.tensor([[1.0, 2.0], [4.0, 8.0]], dtype=torch.float64)
)


def test_uniform_weights_are_one() -> None:
    for pairs in (LISTED, CROSSED):
        assert torch.equal(Uniform().positive(pairs), torch.ones_like(pairs.ratio))
        assert torch.equal(Uniform().unlabelled(pairs), torch.ones_like(pairs.ratio))


def test_popularity_weighs_unlabelled_pairs_by_a_power_of_the_items_degree() -> None:
    weights = Popularity(exponent=0.5)
    assert weights.positive(LISTED).tolist() == [1, 1, 1]
    assert weights.unlabelled(LISTED).tolist() == [4**0.5, 16**0.5, 9**0.5]
    assert weights.unlabelled(CROSSED).tolist() == [[9**0.5, 16**0.5]] * 2
    assert Popularity(exponent=0).unlabelled(LISTED).tolist() == [1, 1, 1]


def test_hard_sample_weights_pull_low_positives_and_push_high_candidates() -> None:
    assert HardSample().positive(LISTED).tolist() == [1 / 1, 1 / 2, 1 / 4]
    assert HardSample().unlabelled(LISTED).tolist() == [1, 2, 4]
    assert HardSample().unlabelled(CROSSED).tolist() == [[1, 2], [4, 8]]


def test_the_weight_of_a_hopeless_positive_stays_finite_in_single_precision() -> None:
    vanished = torch.nn.functional.softplus(torch.tensor([-200.0, -80.0, -70.0]))
    weights = HardSample().positive(ListedPairs(BATCH, vanished))
    assert weights.isfinite().all()
    assert weights.sum().isfinite()


def test_frozen_weights_come_from_the_first_model_and_not_from_the_current_one() -> None:
    # ratios of the first model: user 0 gives 1, 2, 4 and user 1 gives 1, 4, 16
    first = Embeddings(
        torch.tensor([[1.0], [2.0]], dtype=torch.float64),
        torch.tensor([[1.0], [2.0], [4.0]], dtype=torch.float64).log(),
    )
    weights = Frozen(first, EXPONENTIAL)
    # the batch lists (user 1, item 2), (user 1, item 1), (user 0, item 0)
    torch.testing.assert_close(
        weights.positive(LISTED), torch.tensor([1 / 16, 1 / 4, 1.0], dtype=torch.float64)
    )
    torch.testing.assert_close(
        weights.unlabelled(LISTED), torch.tensor([16, 4, 1.0], dtype=torch.float64)
    )
    # and crosses users 1 and 0 with items 0 and 1
    torch.testing.assert_close(
        weights.unlabelled(CROSSED), torch.tensor([[1.0, 4.0], [1.0, 2.0]], dtype=torch.float64)
    )
    other_ratios = ListedPairs(BATCH, 7 * LISTED.ratio)
    assert torch.equal(weights.positive(other_ratios), weights.positive(LISTED))
