from __future__ import annotations

import pytest
import torch
from beartype.roar import BeartypeCallHintParamViolation

from ratiorec.kernels.pointwise import pair_scores, user_sums


def test_a_pair_scores_the_inner_product_of_its_vectors() -> None:
    users = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    items = torch.tensor([[5.0, 6.0], [7.0, 8.0], [9.0, 10.0]])
    scores = pair_scores(users, items, torch.tensor([0, 1, 1]), torch.tensor([2, 0, 1]))
    assert scores.tolist() == [1 * 9 + 2 * 10, 3 * 5 + 4 * 6, 3 * 7 + 4 * 8]


def test_vectors_of_different_dimensions_are_noticed() -> None:
    first = torch.zeros(1, dtype=torch.int64)
    with pytest.raises(BeartypeCallHintParamViolation):
        pair_scores(torch.ones(2, 3), torch.ones(2, 1), first, first)


def test_sums_are_over_each_users_own_positives() -> None:
    rows = torch.tensor([0, 0, 1, 1, 1, 2])  # there are two users, so the last place is spare
    first, second = torch.arange(1.0, 7.0), torch.ones(6)
    sums, counts = user_sums([first, second], rows, 2)
    assert sums.tolist() == [1 + 2, 3 + 4 + 5]
    assert counts.tolist() == [2, 3]
