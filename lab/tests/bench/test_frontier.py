from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest
from ratiorec_lab.bench import frontier
from ratiorec_lab.bench.conditions import Conditions

from ratiorec import presets
from ratiorec.training.experiment import fit
from ratiorec.training.fit import FitOptions
from support.quick_presets import failing, use_presets

ALS = presets.PRESETS["implicit-als"]
EVERY_PRESET = set(presets.PRESETS)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    use_presets(monkeypatch, implicit_als=ALS, broken=failing())


@pytest.fixture
def unhurried(conditions: Conditions) -> Conditions:
    """Every step is a turn of its own, and time is no matter."""
    effort = replace(conditions.effort, slice_seconds=0.0, max_seconds=math.inf)
    return replace(conditions, effort=effort)


def test_what_descends_has_a_curve_and_what_is_solved_a_point(
    unhurried: Conditions, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("implicit")
    monkeypatch.setattr(frontier, "GROWTH", 1.0)  # judged after every turn
    found = frontier.measure(replace(unhurried, presets=("dre-mf", frontier.REFERENCE)))
    descending, solved = (case.figures["curve"] for case in found.cases)
    assert [point["step"] for point in descending] == list(range(1, 10))
    assert [point["step"] for point in solved] == [15]
    for case in found.cases:
        assert case.seconds == pytest.approx(case.figures["curve"][-1]["seconds"], abs=0.001)


def test_the_time_between_judgements_grows(unhurried: Conditions) -> None:
    (case,) = frontier.measure(replace(unhurried, presets=("dre-mf",))).cases
    seconds = [point["seconds"] for point in case.figures["curve"][:-1]]
    for before, after in itertools.pairwise(seconds):
        assert after >= 1.4 * before - 0.00051  # in whole milliseconds


def test_the_figures_are_those_of_the_test_part(unhurried: Conditions) -> None:
    (case,) = frontier.measure(replace(unhurried, presets=("item-knn",))).cases
    model = fit(
        unhurried.dataset, preset="item-knn", device="cpu", options=FitOptions(validation=0)
    )
    for name in ("recall@20", "ndcg@20"):
        assert case.figures[name] == pytest.approx(model.card["test"][name], abs=1e-5)


def test_what_cannot_run_is_left_out_with_the_reason(unhurried: Conditions) -> None:
    found = frontier.measure(replace(unhurried, presets=("broken", "item-knn")))
    assert [case.execution for case in found.cases] == ["item-knn"]
    assert "a library is missing" in found.left_out["broken"]


def test_all_that_race_without_being_asked_for_are_presets() -> None:
    names = {name.split(":")[0] for name in frontier.USUAL}
    assert names <= EVERY_PRESET
    assert {"dregn-cf", "dregn-cf-fast", "implicit-als", "item-knn", "ease"} <= names


def test_a_model_that_is_out_of_time_is_judged_where_it_stands(unhurried: Conditions) -> None:
    effort = replace(unhurried.effort, max_seconds=1e-6)
    found = frontier.measure(replace(unhurried, effort=effort, presets=("dre-mf",)))
    (case,) = found.cases
    assert [point["step"] for point in case.figures["curve"]] == [1]
