from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from ratiorec_lab.bench import step
from ratiorec_lab.bench.conditions import Conditions
from ratiorec_lab.bench.contenders import settings_of
from ratiorec_lab.bench.split_step import PARTS, SplitStep
from ratiorec_lab.bench.step_floor import step_floor

from ratiorec.data.interactions import Dataset
from ratiorec.errors import ConfigError
from ratiorec.settings import Settings

CPU = torch.device("cpu")


def test_the_parts_of_a_step_stand_beside_the_whole(conditions: Conditions) -> None:
    found = step.measure(replace(conditions, presets=("dregn-cf", "dre-mf")))
    executions = [(case.name, case.execution) for case in found.cases]
    parts = [("dregn-cf", f"eager: {part}") for part in PARTS]
    assert executions == [("dregn-cf", "eager"), ("dre-mf", "eager"), *parts]
    whole, _, *shares = found.cases
    assert found.ratio_to_reference(whole) == 1
    for case in shares:
        assert found.ratio_to_reference(case) == case.seconds / whole.seconds


def test_other_presets_are_not_taken_apart(conditions: Conditions) -> None:
    found = step.measure(replace(conditions, presets=("dre-mf",)))
    assert [case.execution for case in found.cases] == ["eager"]


def test_only_what_descends_has_steps(conditions: Conditions) -> None:
    with pytest.raises(ConfigError, match="only a preset that descends"):
        step.measure(replace(conditions, presets=("ease",)))


def test_without_a_choice_all_that_descends_is_measured() -> None:
    names = step._descending()
    assert {"dregn-cf", "dre-mf", "lightgcn", "mult-vae"} <= set(names)
    assert not {"ease", "dregn-cf-static"} & set(names)
    assert step.SMALL_BATCHES in names


def test_the_work_is_a_step_of_real_training(dataset: Dataset) -> None:
    run = step._runs(step._settings("dre-mf"), dataset.train, CPU)["eager"]
    way = step._way(run)
    with way.around():
        n_steps = [way.work() for _ in range(run.n_steps + 1)]
    assert n_steps == [1] * (run.n_steps + 1)
    assert (run.epoch, run.step_in_epoch) == (1, 1)


def test_a_step_in_parts_trains(dataset: Dataset) -> None:
    settings = settings_of("dre-mf")
    assert isinstance(settings, Settings)
    split = SplitStep(settings, dataset.train, CPU)
    before = [parameter.detach().clone() for parameter in split._encoder.parameters()]
    assert [split() for _ in range(3)] == [1, 1, 1]
    assert any(
        not torch.equal(a, b) for a, b in zip(before, split._encoder.parameters(), strict=True)
    )
    assert {len(times.rounds) for times in split.times().values()} == {2}


def test_batches_that_hide_their_shape_are_the_same_batches(dataset: Dataset) -> None:
    settings = step._settings("lightgcn")
    plain = settings.batches(dataset.train, device=CPU)
    hidden = step._Unrecorded(settings.batches)(dataset.train, device=CPU)
    assert plain.same_shape
    assert not hidden.same_shape
    assert hidden.n_steps == plain.n_steps


def test_a_floor_has_what_a_step_is_made_of(dataset: Dataset) -> None:
    graph, free, pairwise = (
        step_floor(step._settings(name), dataset.train, 1000)
        for name in ("dregn-cf", "dre-mf", "lightgcn")
    )
    optimiser = 4 * 7 * 1000
    assert free.n_bytes > optimiser  # and the unlabelled term
    assert graph.n_operations > free.n_operations
    assert 0 < pairwise.n_operations < graph.n_operations


def test_a_case_runs_by_itself() -> None:
    way = step.alone("dregn-cf eager", {"users": 8, "items": 8, "pairs": 8})
    with way.around():
        assert way.work() == 1
