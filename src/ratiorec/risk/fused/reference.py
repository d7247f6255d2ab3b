"""The unlabelled term as its formula says it: whole matrices, differentiated by autograd."""

from __future__ import annotations

import torch

from ratiorec.risk.correction import non_negative
from ratiorec.risk.fused.execution import Unlabelled
from ratiorec.risk.fused.term import UnlabelledTerm, unlabelled_weight
from ratiorec.shapes import ItemFactors, PerUser, UserFactors


@torch.enable_grad()
def reference(
    users: UserFactors, items: ItemFactors, term: UnlabelledTerm, bound: PerUser
) -> Unlabelled:
    """About ten matrices of |U_B|·|I_B| numbers: to compare with, and for what is small."""
    users, items = users.detach().requires_grad_(), items.detach().requires_grad_()
    ratio = term.link.ratio(users @ items.T)
    weight = unlabelled_weight(
        term.candidates,
        ratio.detach(),
        power=term.ratio_power,
        first=term.first and term.first.link.ratio(term.first.users @ term.first.items.T),
    )
    loss = (weight * term.generator.unlabelled_loss(ratio)).sum(-1)
    value = loss / term.normaliser(weight.sum(-1))
    corrected = non_negative(value, bound.detach()).mean()
    to_users, to_items = torch.autograd.grad(corrected, (users, items))
    return Unlabelled(value.detach(), to_users, to_items)
