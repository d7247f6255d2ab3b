"""The two corrections of the risk: for how candidates were sampled, and for overfitting."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch

from ratiorec.data.batches import Batch
from ratiorec.shapes import PerItem, PerUser

CandidateWeights = Callable[[Batch], PerItem]
"""a_i of the candidates, 0 for those listed without having come up."""


def as_sampled(batch: Batch) -> PerItem:
    """a_i = 1: popular items come up more often, and count for it (theory: C1)."""
    return (batch.inclusion > 0).to(batch.inclusion.dtype)


def inverse_inclusion(batch: Batch) -> PerItem:
    """a_i = 1/s(i): every item counts as if drawn uniformly (theory: C2)."""
    return torch.where(batch.inclusion > 0, 1 / batch.inclusion, 0)


SAMPLING: Mapping[str, CandidateWeights] = MappingProxyType(
    {"as-sampled": as_sampled, "inverse-inclusion": inverse_inclusion}
)


def non_negative(unlabelled: PerUser, lower_bound: PerUser) -> PerUser:
    """R^cor + max(R± − R^cor, 0) for each user (theory: C4).

    While the bracket is positive this is R± itself; when the model has pushed the unlabelled
    ratios below what the bound D̄ on the true ratio allows, their gradient stops.
    """
    return lower_bound + (unlabelled - lower_bound).relu()  # at 0 the bound has the gradient
