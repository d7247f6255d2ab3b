from __future__ import annotations

import torch

from ratiorec.kernels.pointwise import LEAST_SQUARES, SOFTPLUS
from ratiorec.kernels.unlabelled import UnlabelledTerm, unlabelled_weight

RATIO = torch.tensor([[1.0, 4.0, 9.0], [2.0, 0.0, 3.0]], dtype=torch.float64)
CANDIDATES = torch.tensor([1.0, 10.0, 100.0], dtype=torch.float64)


def test_the_weight_is_a_product_of_what_item_model_and_first_model_say() -> None:
    first = torch.full_like(RATIO, 7)
    weight = unlabelled_weight(CANDIDATES, RATIO, power=0.5, first=first)
    assert weight[0].tolist() == [1 * 1 * 7, 10 * 2 * 7, 100 * 3 * 7]


def test_a_ratio_that_vanished_counts_fully_where_the_weight_does_not_follow_it() -> None:
    weight = unlabelled_weight(CANDIDATES, RATIO, power=0.0, first=None)
    assert weight.tolist() == [[1, 10, 100]] * 2


def test_the_ratio_stays_as_it_is() -> None:
    before = RATIO.clone()
    unlabelled_weight(CANDIDATES, RATIO, power=1.0, first=None)
    assert torch.equal(RATIO, before)


def test_room_that_is_given_is_used() -> None:
    room = torch.empty_like(RATIO)
    weight = unlabelled_weight(CANDIDATES, RATIO, power=1.0, first=None, out=room)
    assert weight is room


def test_the_sum_of_the_weights_divides_unless_a_number_is_given() -> None:
    total = torch.tensor([3.0, 5.0])
    by_weights = UnlabelledTerm(LEAST_SQUARES, SOFTPLUS, torch.ones(2))
    by_number = UnlabelledTerm(LEAST_SQUARES, SOFTPLUS, torch.ones(2), divisor=2.0)
    assert by_weights.normaliser(total).tolist() == [3, 5]
    assert by_number.normaliser(total).tolist() == [2, 2]
