from __future__ import annotations

import itertools
import math
import sys
from dataclasses import replace

import pytest

from ratiorec import presets
from ratiorec.solvers.settings import ImplicitALS
from ratiorec.training import auto
from ratiorec.training.experiment import fit
from ratiorec.training.fit import FitOptions
from ratiorec.training.portfolio import Candidate
from ratiorec_lab.bench import training
from ratiorec_lab.bench.clock import USUAL, Conditions
from ratiorec_lab.bench.race import budget_of, settings_of
from support.quick_presets import failing, use_presets

ALS = presets.PRESETS["implicit-als"]
EVERY_PRESET = set(presets.PRESETS)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    use_presets(monkeypatch, implicit_als=ALS, broken=failing())


def test_presets_train_for_the_epochs_asked_for_beside_als(conditions: Conditions) -> None:
    pytest.importorskip("implicit")
    found = training.measure_fit(replace(conditions, presets=("dre-mf", "item-knn"), epochs=2))
    ours, solved, rival = found.cases
    assert [case.backend for case in found.cases] == ["dre-mf", "item-knn", training.RIVAL]
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
    case = training.measure_fit(searching).cases[0]
    assert case.size["steps"] in (3, 6, 9)
    assert case.figures["chosen_by"] == "validation, until last step"
    assert case.figures["search_seconds"] > 0


def test_the_floor_is_that_of_a_step_as_often_as_there_were_steps(conditions: Conditions) -> None:
    one, two = (
        training.measure_fit(replace(conditions, presets=("dre-mf",), epochs=epochs)).cases[0].floor
        for epochs in (1, 2)
    )
    assert one is not None
    assert two is not None
    assert two.n_operations == 2 * one.n_operations > 0


def test_the_rival_is_als_with_64_dimensions_and_15_iterations() -> None:
    settings = settings_of(training.RIVAL)
    assert isinstance(settings.solver, ImplicitALS)  # type: ignore[union-attr]
    assert (settings.solver.dimension, settings.solver.n_sweeps) == (64, 15)  # type: ignore[union-attr]


def test_without_the_extra_the_rival_is_left_out_with_the_command_that_adds_it(
    conditions: Conditions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "implicit.cpu.als", None)
    found = training.measure_fit(replace(conditions, presets=("dre-mf",), epochs=1))
    assert [case.backend for case in found.cases] == ["dre-mf"]
    assert "pip install 'ratiorec[rivals]'" in found.left_out[training.RIVAL]
    assert found.ratio_to_reference(found.cases[0]) is None


@pytest.fixture
def unhurried(conditions: Conditions) -> Conditions:
    """Every step is a turn of its own, and time is no matter."""
    effort = replace(conditions.effort, slice_seconds=0.0, max_seconds=math.inf)
    return replace(conditions, effort=effort)


def test_what_is_trained_has_a_curve_and_what_is_solved_a_point(
    unhurried: Conditions, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("implicit")
    monkeypatch.setattr(training, "GROWTH", 1.0)  # judged after every turn
    found = training.measure_frontier(replace(unhurried, presets=("dre-mf", training.REFERENCE)))
    trained, solved = (case.figures["curve"] for case in found.cases)
    assert [point["step"] for point in trained] == list(range(1, 10))
    assert [point["step"] for point in solved] == [15]
    for case in found.cases:
        assert case.seconds == pytest.approx(case.figures["curve"][-1]["seconds"], abs=0.001)


def test_the_time_between_judgements_grows(unhurried: Conditions) -> None:
    (case,) = training.measure_frontier(replace(unhurried, presets=("dre-mf",))).cases
    seconds = [point["seconds"] for point in case.figures["curve"][:-1]]
    for before, after in itertools.pairwise(seconds):
        assert after >= 1.4 * before - 0.00051  # in whole milliseconds


def test_the_figures_are_those_of_the_test_part(unhurried: Conditions) -> None:
    (case,) = training.measure_frontier(replace(unhurried, presets=("item-knn",))).cases
    model = fit(
        unhurried.dataset, preset="item-knn", device="cpu", options=FitOptions(validation=0)
    )
    for name in ("recall@20", "ndcg@20"):
        assert case.figures[name] == pytest.approx(model.card["test"][name], abs=1e-5)


def test_an_automatic_choice_is_a_point_with_its_members(
    unhurried: Conditions, monkeypatch: pytest.MonkeyPatch
) -> None:
    candidates = [
        Candidate("popularity", (presets.PRESETS["popularity"],), is_floor=True),
        Candidate("item-knn", (presets.PRESETS["item-knn"],)),
    ]
    monkeypatch.setattr(auto, "portfolio", lambda data, device: candidates)
    found = training.measure_frontier(replace(unhurried, presets=("item-knn", "auto@20")))
    solved, chosen = found.cases
    (point,) = chosen.figures["curve"]
    assert chosen.seconds == pytest.approx(point["seconds"], abs=0.001)
    assert chosen.seconds < 20
    model = fit(unhurried.dataset, device="cpu", options=FitOptions(max_seconds=20))
    assert chosen.figures["recall@20"] == pytest.approx(model.card["test"]["recall@20"], abs=1e-5)
    members = {one["name"]: one for one in chosen.figures["members"]}
    assert list(members) == ["popularity", "item-knn"]
    assert all(member["seconds"] > 0 for member in members.values())
    assert "members" not in solved.figures
    assert found.to_json()[1]["members"] == chosen.figures["members"]


def test_an_automatic_choice_that_fails_is_left_out(
    unhurried: Conditions, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(*arguments: object) -> None:
        raise MemoryError("no room")

    monkeypatch.setattr(auto, "portfolio", no_room)
    found = training.measure_frontier(replace(unhurried, presets=("auto@20", "item-knn")))
    assert [case.backend for case in found.cases] == ["item-knn"]
    assert found.left_out == {"auto@20": "no room"}


def test_what_cannot_run_is_left_out_with_the_reason(unhurried: Conditions) -> None:
    found = training.measure_frontier(replace(unhurried, presets=("broken", "item-knn")))
    assert [case.backend for case in found.cases] == ["item-knn"]
    assert "a library is missing" in found.left_out["broken"]


def test_all_that_race_without_being_asked_for_are_presets() -> None:
    names = {name.split(":")[0] for name in training.CURVES if budget_of(name) is None}
    assert names <= EVERY_PRESET
    assert {"dregn-cf", "dregn-cf-fast", "implicit-als", "item-knn", "ease"} <= names


def test_a_model_that_is_out_of_time_is_judged_where_it_stands(unhurried: Conditions) -> None:
    effort = replace(unhurried.effort, max_seconds=1e-6)
    found = training.measure_frontier(replace(unhurried, effort=effort, presets=("dre-mf",)))
    (case,) = found.cases
    assert [point["step"] for point in case.figures["curve"]] == [1]
