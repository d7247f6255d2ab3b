from __future__ import annotations

import torch

from ratiorec.kernels.unlabelled import non_negative
from ratiorec.losses.density_ratio import candidate_weights
from support.small_data import handmade_batch

BATCH = handmade_batch(
    [0], [0, 1, 2], [[0]], prior=[1 / 3], popularity=[1, 1, 1], inclusion=[1.0, 0.5, 0.125]
)


def test_without_a_correction_candidates_count_once() -> None:
    assert candidate_weights(BATCH, "none").tolist() == [1, 1, 1]


def test_candidates_count_by_the_inverse_of_how_likely_they_came_up() -> None:
    assert candidate_weights(BATCH, "inverse-propensity").tolist() == [1, 2, 8]


def test_the_correction_is_idle_while_the_bracket_is_positive() -> None:
    unlabelled = torch.tensor([3.0, 1.0])
    assert non_negative(unlabelled, torch.tensor([1.0, 0.25])).tolist() == [3.0, 1.0]


def test_the_correction_holds_the_risk_at_the_bound() -> None:
    unlabelled = torch.tensor([1.0, 1.0], requires_grad=True)
    bound = torch.tensor([3.0, 0.5], requires_grad=True)
    corrected = non_negative(unlabelled, bound)
    assert corrected.tolist() == [3.0, 1.0]
    to_unlabelled, to_bound = torch.autograd.grad(corrected.sum(), (unlabelled, bound))
    assert to_unlabelled.tolist() == [0.0, 1.0]
    assert to_bound.tolist() == [1.0, 0.0]
