from __future__ import annotations

import torch

from ratiorec.kernels.pointwise import plain, self_normalised

ROWS = torch.tensor([0, 0, 1, 1, 1])
VALUES = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0], dtype=torch.float64)
WEIGHTS = torch.tensor([1.0, 3.0, 1.0, 0.0, 2.0], dtype=torch.float64)


def test_a_self_normalised_mean_is_divided_by_the_sum_of_its_weights() -> None:
    first, second = self_normalised([VALUES, 10 * VALUES], WEIGHTS, ROWS, 2)
    assert first.tolist() == [
        (1 * 1 + 3 * 2) / (1 + 3),
        (1 * 3 + 0 * 4 + 2 * 5) / (1 + 0 + 2),
    ]
    torch.testing.assert_close(second, 10 * first, rtol=1e-15, atol=0)


def test_a_plain_mean_is_divided_by_the_number_of_positives() -> None:
    assert plain(VALUES, WEIGHTS, torch.ones_like(VALUES), ROWS, 2).tolist() == [
        (1 * 1 + 3 * 2) / 2,
        (1 * 3 + 0 * 4 + 2 * 5) / 3,
    ]


def test_a_pair_of_weight_2_counts_twice_in_a_plain_mean() -> None:
    counts = torch.tensor([2.0, 1.0, 1.0, 1.0, 1.0], dtype=torch.float64)
    found = plain(VALUES, WEIGHTS, counts, ROWS, 2)
    assert found[0].item() == (2 * 1 * 1 + 3 * 2) / 3
