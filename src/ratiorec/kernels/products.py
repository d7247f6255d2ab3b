"""Products of small matrices inside a kernel, without gradients.

On a CPU numpy's BLAS multiplies: torch's own uses half the width of an AMD processor's registers
and takes twice the time, and elsewhere they are alike.
"""

from __future__ import annotations

import torch
from torch import Tensor


def multiply(left: Tensor, right: Tensor, *, out: Tensor) -> Tensor:
    """`out` = left·right."""
    if out.device.type == "cpu":
        left.detach().numpy().dot(right.detach().numpy(), out=out.numpy())
        return out
    return torch.mm(left, right, out=out)


def add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    """`total` += left·right."""
    if total.device.type == "cpu":
        total += torch.from_numpy(left.detach().numpy() @ right.detach().numpy())
    else:
        total.addmm_(left, right)
