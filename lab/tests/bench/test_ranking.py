from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from ratiorec.data.interactions import Dataset
from ratiorec.evaluation.evaluate import evaluate
from ratiorec.scorers.topk import Exact
from ratiorec_lab.bench import ranking
from ratiorec_lab.bench.case import Measured
from ratiorec_lab.bench.clock import Conditions
from ratiorec_lab.bench.random_data import random_model, random_pairs
from ratiorec_lab.bench.ranking import implicit_way, plain_evaluation, plain_ranking
from ratiorec_lab.bench.side_by_side import Alone

Measure = Callable[[Conditions], Measured]
BOTH = [ranking.measure_recommend, ranking.measure_evaluate]
SIZE = {"users": 8, "items": 8, "pairs": 8, "ranked": 4, "dimension": 3, "k": 2}


@pytest.mark.parametrize("measure", BOTH)
def test_users_a_second_are_users_by_seconds(conditions: Conditions, measure: Measure) -> None:
    found = measure(replace(conditions, n_users=12))
    assert {case.size["ranked"] for case in found.cases} == {12}
    for case in found.cases:
        assert case.figures["users_per_second"] == pytest.approx(12 / case.seconds, abs=0.1)


@pytest.mark.parametrize("measure", BOTH)
def test_the_reference_is_plain_numpy(conditions: Conditions, measure: Measure) -> None:
    found = measure(conditions)
    assert [case.backend for case in found.cases if case.is_reference] == ["numpy argpartition"]
    assert found.cases[0].backend == "ratiorec"


def test_without_the_extra_the_rival_is_left_out_with_the_command_that_adds_it(
    conditions: Conditions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "implicit.cpu.als", None)
    found = ranking.measure_recommend(conditions)
    assert [case.backend for case in found.cases] == ["ratiorec", "numpy argpartition"]
    assert "pip install 'ratiorec[rivals]'" in found.left_out["implicit"]


def test_the_floor_is_the_product_of_all_factors() -> None:
    floor = ranking.ranking_floor(SIZE)
    assert floor.n_operations == 4 * 8 * 2 * 3
    assert floor.n_bytes == 4 * 3 * (4 + 8) + 8 * 4 * 2


def test_users_are_spread_over_all_of_them() -> None:
    users = ranking.some_users({"users": 100, "ranked": 4})
    assert users.tolist() == [0, 33, 66, 99]


@pytest.mark.parametrize("backend", ["ratiorec", "numpy argpartition"])
@pytest.mark.parametrize("alone", [ranking.recommend_alone, ranking.evaluate_alone])
def test_a_case_runs_by_itself(alone: Alone, backend: str) -> None:
    way = alone(backend, SIZE)
    with way.around():
        assert way.work() == 1


def test_only_users_with_test_pairs_are_judged(conditions: Conditions) -> None:
    test = conditions.dataset.test
    assert test is not None
    some = ranking.of_some_users(test, 5)
    judged = np.flatnonzero(some.user_degrees)
    assert len(judged) == 5
    assert (some.user_degrees[judged] == test.user_degrees[judged]).all()


USERS = np.array([3, 0, 59, 17])


def test_plain_lists_are_the_exact_ones() -> None:
    # so long lists that to find what is on them does not put it into order by the way
    model, seen = random_model(60, 3000, 8), random_pairs(60, 3000, 900)
    ours = Exact(900)(model, USERS, seen=seen)
    assert (plain_ranking(model, seen, USERS, 900) == ours.items).all()


def test_plain_figures_are_the_exact_ones(dataset: Dataset) -> None:
    model, test = random_model(60, 40, 8), dataset.test
    assert test is not None
    users = np.flatnonzero(test.user_degrees)
    report = evaluate(model, dataset.train, test, ks=(5,))
    plain = plain_evaluation(model, dataset.train, test, users, 5)
    assert plain == {name: pytest.approx(report.value(name)) for name in ("recall@5", "ndcg@5")}


def test_the_lists_of_implicit_are_the_exact_ones(dataset: Dataset) -> None:
    library = pytest.importorskip("implicit.cpu.matrix_factorization_base")
    model = random_model(60, 40, 8)
    lists = []
    plain = library.MatrixFactorizationBase.recommend

    def noting(*arguments: object, **options: object) -> object:
        found = plain(*arguments, **options)
        lists.append(found[0])
        return found

    way = implicit_way(model, dataset.train, USERS, 5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(library.MatrixFactorizationBase, "recommend", noting)
        with way.around():
            assert way.work() == 1
    assert (lists[0] == Exact(5)(model, USERS, seen=dataset.train).items).all()
