from __future__ import annotations

import pytest
import torch

from ratiorec.kernels.softmax import BACKENDS
from ratiorec_lab.bench import softmax
from ratiorec_lab.bench.clock import Conditions

SIZE = {"users": 7, "items": 9, "dimension": 4}


def test_the_cases_are_the_backends_beside_plain_autograd(conditions: Conditions) -> None:
    found = softmax.measure(conditions)
    assert [case.backend for case in found.cases] == ["dense PyTorch", "tiled"]
    assert [case.is_reference for case in found.cases] == [True, False]
    assert {case.size["items"] for case in found.cases} == {40}
    assert found.left_out == {}


def test_plain_autograd_gives_the_gradients_of_the_reference() -> None:
    inputs = softmax.inputs_of(SIZE, torch.device("cpu"))
    expected = BACKENDS["reference"](*inputs)
    for one, other in zip(softmax.dense(*inputs), expected[1:], strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("backend", ["dense PyTorch", "tiled"])
def test_a_backend_runs_by_itself(backend: str) -> None:
    way = softmax.alone(backend, SIZE)
    with way.around():
        assert way.work() == 1
