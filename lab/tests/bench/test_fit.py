from __future__ import annotations

import sys
from dataclasses import replace

import pytest
from ratiorec_lab.bench import fit
from ratiorec_lab.bench.conditions import USUAL, Conditions

from ratiorec import presets
from ratiorec.solvers.implicit_als import ImplicitALS
from support.quick_presets import use_presets

ALS = presets.PRESETS["implicit-als"]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    use_presets(monkeypatch, implicit_als=ALS)


def test_presets_train_for_the_epochs_asked_for_beside_als(conditions: Conditions) -> None:
    pytest.importorskip("implicit")
    found = fit.measure(replace(conditions, presets=("dre-mf", "item-knn"), epochs=2))
    ours, solved, rival = found.cases
    assert [case.execution for case in found.cases] == ["dre-mf", "item-knn", fit.RIVAL]
    assert ours.size["steps"] == 2 * 3
    test = ours.figures["test"]
    assert 0 < test["recall@20"] < 1
    rest = {"epochs": 2, "chosen_by": "--epochs", "search_seconds": None}
    assert ours.figures == {**rest, "test": test}
    assert solved.figures["chosen_by"] == "its settings"
    assert rival.size["steps"] == 15
    assert found.ratio_to_rival(ours) == ours.seconds / rival.seconds


def test_without_epochs_validation_chooses_the_step(conditions: Conditions) -> None:
    effort = replace(conditions.effort, is_quick=False, max_seconds=USUAL.max_seconds)
    searching = replace(conditions, effort=effort, presets=("dre-mf",))
    case = fit.measure(searching).cases[0]
    assert case.size["steps"] in (3, 6, 9)
    assert case.figures["chosen_by"] == "validation, until last step"
    assert case.figures["search_seconds"] > 0


def test_the_floor_is_that_of_a_step_as_often_as_there_were_steps(conditions: Conditions) -> None:
    one, two = (
        fit.measure(replace(conditions, presets=("dre-mf",), epochs=epochs)).cases[0].floor
        for epochs in (1, 2)
    )
    assert one is not None
    assert two is not None
    assert two.n_operations == 2 * one.n_operations > 0


def test_the_rival_is_als_with_64_factors_and_15_iterations() -> None:
    settings = fit.settings_of(fit.RIVAL)
    assert isinstance(settings.solver, ImplicitALS)  # type: ignore[union-attr]
    assert (settings.solver.factors, settings.solver.n_sweeps) == (64, 15)  # type: ignore[union-attr]


def test_without_the_extra_the_rival_is_left_out_with_the_command_that_adds_it(
    conditions: Conditions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "implicit.cpu", None)
    found = fit.measure(replace(conditions, presets=("dre-mf",), epochs=1))
    assert [case.execution for case in found.cases] == ["dre-mf"]
    assert "pip install 'ratiorec[rivals]'" in found.left_out[fit.RIVAL]
    assert found.ratio_to_reference(found.cases[0]) is None
