"""The kernels run in Triton's interpreter; with a GPU they also run on it, compiled:

python -m pytest --noconftest tests/kernels/test_triton_positives.py
"""

from __future__ import annotations

from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from ratiorec.kernels.pointwise import pair_scores, user_sums
from support.interpreted_kernels import Interpreter, interpreter
from support.triton_marks import needs_a_gpu, needs_interpreter

__all__ = ["interpreter"]


class Case(NamedTuple):
    users: Tensor
    items: Tensor
    rows: Tensor
    columns: Tensor
    outer: Tensor


class Found(NamedTuple):
    scores: Tensor
    sums: Tensor
    to_users: Tensor
    to_items: Tensor


def draw(n_users: int, n_items: int, n_pairs: int, dimension: int, *, n_spare: int = 5) -> Case:
    """Pairs user by user, some users without any; behind them places of nobody."""
    drawn = torch.Generator().manual_seed(n_pairs)
    rows = torch.randint(0, n_users // 2, (n_pairs,), generator=drawn).mul(2).sort().values
    return Case(
        torch.randn(n_users, dimension, generator=drawn),
        torch.randn(n_items, dimension, generator=drawn),
        torch.cat([rows, torch.full((n_spare,), n_users)]),
        torch.randint(0, n_items, (n_pairs + n_spare,), generator=drawn),
        torch.randn(n_users, 3, generator=drawn),
    )


def by_autograd(case: Case, *, device: str = "cpu", dtype: torch.dtype = torch.float64) -> Found:
    users = case.users.to(device, dtype).requires_grad_()
    items = case.items.to(device, dtype).requires_grad_()
    rows, columns = case.rows.to(device), case.columns.to(device)
    scores = pair_scores(users, items, rows, columns)
    sums = torch.stack(user_sums([scores, scores.square(), scores.sin()], rows, len(users)), -1)
    (sums * case.outer.to(device, dtype)).sum().backward()
    found = (scores.detach(), sums.detach(), users.grad, items.grad)
    return Found(*(each.cpu() for each in found if each is not None))


def assert_close_to_autograd(case: Case, found: Found, *, tolerance: float) -> None:
    wanted = by_autograd(case)
    n_listed = int((case.rows < len(case.users)).sum())
    assert found.scores.isfinite().all()
    torch.testing.assert_close(
        found.scores[:n_listed].double(), wanted.scores[:n_listed], rtol=tolerance, atol=tolerance
    )
    for one, other in zip(found[1:], wanted[1:], strict=True):
        assert float((one - other).norm() / other.norm()) < tolerance


@needs_interpreter
@pytest.mark.parametrize(
    "case",
    [draw(9, 7, 160, 5), draw(6, 11, 30, 16, n_spare=0), draw(4, 3, 2, 1)],
    ids=["many pairs of few users", "no spare place", "one dimension"],
)
def test_the_kernels_give_scores_sums_and_their_gradient(
    case: Case, interpreter: Interpreter
) -> None:
    assert_close_to_autograd(case, Found(*interpreter.positives(*case)), tolerance=1e-5)


@needs_a_gpu
def test_the_compiled_kernels_give_scores_sums_and_their_gradient() -> None:
    case = draw(3000, 2000, 60_000, 64, n_spare=1000)
    found = by_autograd(case, device="cuda", dtype=torch.float32)
    assert_close_to_autograd(case, found, tolerance=1e-4)
