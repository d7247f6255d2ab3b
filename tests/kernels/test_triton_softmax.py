"""The kernels run in Triton's interpreter; with a GPU they also run on it, compiled:

python -m pytest --noconftest tests/kernels/test_triton_softmax.py
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from ratiorec.kernels.softmax import BACKENDS, LogTotals, reference
from support.interpreted_kernels import Interpreter, interpreter
from support.triton_marks import needs_a_gpu, needs_interpreter

__all__ = ["interpreter"]


def draw(n_users: int, n_items: int, dimension: int) -> tuple[Tensor, Tensor, Tensor]:
    """Directions, those of users ten times as long; the first user has no weight."""
    drawn = torch.Generator().manual_seed(dimension)
    users, items = (torch.randn(n, dimension, generator=drawn) for n in (n_users, n_items))
    weights = torch.rand(n_users, generator=drawn)
    weights[0] = 0
    normalize = torch.nn.functional.normalize
    return 10 * normalize(users), normalize(items), weights / weights.sum()


def assert_close(found: LogTotals, case: tuple[Tensor, Tensor, Tensor], tolerance: float) -> None:
    wanted = reference(*(part.double() for part in case))
    torch.testing.assert_close(found.value.double(), wanted.value, rtol=0, atol=10 * tolerance)
    for one, other in zip(found[1:], wanted[1:], strict=True):
        assert float((one - other).norm() / other.norm()) < tolerance


@needs_interpreter
@pytest.mark.parametrize(
    ("shape", "n_chunks"),
    [((21, 70, 40), 3), ((5, 33, 16), 1), ((40, 7, 3), 1)],
    ids=["several chunks", "one chunk", "fewer items than a block"],
)
def test_the_kernels_give_the_log_totals_and_their_gradient(
    shape: tuple[int, int, int], n_chunks: int, interpreter: Interpreter
) -> None:
    case = draw(*shape)
    found = interpreter.log_totals(*case, n_at_a_time=shape[0] * shape[1] // n_chunks)
    assert_close(found, case, 1e-5)


@needs_a_gpu
@pytest.mark.parametrize("dimension", [20, 64, 512, 1024])
def test_the_compiled_kernels_give_the_log_totals_and_their_gradient(dimension: int) -> None:
    case = draw(700, 9001, dimension)
    found = BACKENDS["triton"](*(part.cuda() for part in case))
    assert_close(LogTotals(*(part.cpu() for part in found)), case, 5e-3)
