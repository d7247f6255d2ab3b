from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from ratiorec_lab.bench import risk
from ratiorec_lab.bench.conditions import Conditions

from ratiorec.kernels.backends import EXECUTIONS


def test_the_cases_are_the_executions_and_plain_autograd(conditions: Conditions) -> None:
    found = risk.measure(conditions)
    assert [case.execution for case in found.cases] == ["reference", "tiled", "dense PyTorch"]
    assert [case.is_reference for case in found.cases] == [True, False, False]
    assert [case.is_rival for case in found.cases] == [False, False, True]
    assert found.left_out == {}


def test_the_batch_has_the_users_asked_for(conditions: Conditions) -> None:
    asked = risk.measure(replace(conditions, n_users=20))
    assert {case.size["users"] for case in asked.cases} == {20}
    assert {case.size["items"] for case in asked.cases} <= set(range(10, 41))
    assert risk.measure(conditions).cases[0].size["users"] == 60


def test_plain_autograd_gives_the_gradients_of_the_reference() -> None:
    size = {"users": 7, "items": 9, "dimension": 4}
    inputs = risk._inputs(size, torch.linspace(0.5, 2, 9), torch.device("cpu"))
    expected = EXECUTIONS["reference"](*inputs)
    to_users, to_items = risk.dense(inputs)
    torch.testing.assert_close(to_users, expected.to_users)
    torch.testing.assert_close(to_items, expected.to_items)


def test_the_floor_is_three_products() -> None:
    floor = risk.floor_of_term({"users": 3, "items": 5, "dimension": 2})
    assert floor.n_operations == 3 * (2 * 3 * 5 * 2)
    assert floor.n_bytes == 4 * 2 * (3 * 2 + 5 * 2)


@pytest.mark.parametrize("execution", ["reference", "tiled", "dense PyTorch"])
def test_a_case_runs_by_itself(execution: str) -> None:
    way = risk.alone(execution, {"users": 4, "items": 6, "dimension": 2})
    with way.around():
        assert way.work() == 1
