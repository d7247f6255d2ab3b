from __future__ import annotations

import sys
from dataclasses import replace
from types import ModuleType

import numpy as np
import pytest
from ratiorec_lab.bench import evaluate, recommend
from ratiorec_lab.bench.conditions import Conditions

SIZE = {"users": 8, "items": 8, "pairs": 8, "ranked": 4, "dimension": 3, "k": 2}


@pytest.mark.parametrize("target", [recommend, evaluate], ids=["recommend", "evaluate"])
def test_users_a_second_are_users_by_seconds(conditions: Conditions, target: ModuleType) -> None:
    found = target.measure(replace(conditions, n_users=12))
    assert {case.size["ranked"] for case in found.cases} == {12}
    for case in found.cases:
        assert case.figures["users_per_second"] == pytest.approx(12 / case.seconds, abs=0.1)


@pytest.mark.parametrize("target", [recommend, evaluate], ids=["recommend", "evaluate"])
def test_the_reference_is_plain_numpy(conditions: Conditions, target: ModuleType) -> None:
    found = target.measure(conditions)
    assert [case.execution for case in found.cases if case.is_reference] == ["numpy argpartition"]
    assert found.cases[0].execution == "ratiorec"


def test_without_the_extra_the_rival_is_left_out_with_the_command_that_adds_it(
    conditions: Conditions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "implicit.cpu", None)
    found = recommend.measure(conditions)
    assert [case.execution for case in found.cases] == ["ratiorec", "numpy argpartition"]
    assert "pip install 'ratiorec[rivals]'" in found.left_out["implicit"]


def test_the_floor_is_the_product_of_all_factors() -> None:
    floor = recommend.floor_of_ranking(SIZE)
    assert floor.n_operations == 4 * 8 * 2 * 3
    assert floor.n_bytes == 4 * 3 * (4 + 8) + 8 * 4 * 2


def test_users_are_spread_over_all_of_them() -> None:
    users = recommend.some_users({"users": 100, "ranked": 4})
    assert users.tolist() == [0, 33, 66, 99]


@pytest.mark.parametrize("execution", ["ratiorec", "numpy argpartition"])
@pytest.mark.parametrize("target", [recommend, evaluate], ids=["recommend", "evaluate"])
def test_a_case_runs_by_itself(target: ModuleType, execution: str) -> None:
    way = target.alone(execution, SIZE)
    with way.around():
        assert way.work() == 1


def test_only_users_with_test_pairs_are_judged(conditions: Conditions) -> None:
    test = conditions.dataset.test
    assert test is not None
    some = evaluate._some_users(test, 5)
    judged = np.flatnonzero(some.user_degrees)
    assert len(judged) == 5
    assert (some.user_degrees[judged] == test.user_degrees[judged]).all()
