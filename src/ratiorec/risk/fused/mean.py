"""The unlabelled term as a number that autograd can differentiate."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ratiorec.risk.correction import non_negative
from ratiorec.risk.fused.execution import Execution
from ratiorec.risk.fused.term import UnlabelledTerm
from ratiorec.shapes import ItemFactors, PerUser, Scalar, UserFactors


def corrected_mean(
    users: UserFactors,
    items: ItemFactors,
    term: UnlabelledTerm,
    bound: PerUser,
    *,
    execution: Execution,
) -> Scalar:
    """1/|U_B| · Σ_u ( bound_u + max(R±_u − bound_u, 0) ) (theory: C4, R23)."""
    value: Tensor = _CorrectedMean.apply(users, items, bound, term, execution)  # type: ignore[no-untyped-call]
    return value


class _CorrectedMean(torch.autograd.Function):
    """Both gradients are known with the value; the backward pass only scales them."""

    @staticmethod
    def forward(
        ctx: Any,
        users: Tensor,
        items: Tensor,
        bound: Tensor,
        term: UnlabelledTerm,
        execution: Execution,
    ) -> Tensor:
        value, to_users, to_items = execution(users, items, term, bound)
        ctx.save_for_backward(to_users, to_items, value <= bound)
        return non_negative(value, bound).mean()

    @staticmethod
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        to_users, to_items, held = ctx.saved_tensors
        return outer * to_users, outer * to_items, outer / len(held) * held, None, None
