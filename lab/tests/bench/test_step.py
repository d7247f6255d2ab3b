from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from ratiorec.data.interactions import Dataset
from ratiorec.errors import ConfigError
from ratiorec_lab.bench import step
from ratiorec_lab.bench.clock import CPU, Conditions, training_way
from ratiorec_lab.bench.step import PARTS, SplitStep, step_floor


def test_the_parts_of_a_step_stand_beside_the_whole(conditions: Conditions) -> None:
    found = step.measure(replace(conditions, presets=("dregn-cf", "dre-mf")))
    backends = [(case.name, case.backend) for case in found.cases]
    parts = [("dregn-cf", f"eager: {part}") for part in PARTS]
    assert backends == [("dregn-cf", "eager"), ("dre-mf", "eager"), *parts]
    whole, _, *shares = found.cases
    assert found.ratio_to_reference(whole) == 1
    for case in shares:
        assert found.ratio_to_reference(case) == case.seconds / whole.seconds


def test_other_presets_are_not_taken_apart(conditions: Conditions) -> None:
    found = step.measure(replace(conditions, presets=("dre-mf",)))
    assert [case.backend for case in found.cases] == ["eager"]


def test_only_what_is_trained_by_gradients_has_steps(conditions: Conditions) -> None:
    with pytest.raises(ConfigError, match="only a preset that is trained by gradients"):
        step.measure(replace(conditions, presets=("ease",)))


def test_without_a_choice_all_that_is_trained_by_gradients_is_measured() -> None:
    names = step.trained_presets()
    assert {"dregn-cf", "dre-mf", "lightgcn", "mult-vae"} <= set(names)
    assert not {"ease", "dregn-cf-static"} & set(names)
    assert step.SMALL_BATCHES in names


def test_the_work_is_a_step_of_real_training(dataset: Dataset) -> None:
    run = step.training_runs(step.trained("dre-mf"), dataset.train, CPU)["eager"]
    way = training_way(step.bursts(run), CPU)
    with way.around():
        n_steps = [way.work() for _ in range(run.n_steps + 1)]
    assert n_steps == [1] * (run.n_steps + 1)
    assert (run.epoch, run.step_in_epoch) == (1, 1)


def test_a_step_in_parts_trains(dataset: Dataset) -> None:
    split = SplitStep(step.trained("dre-mf"), dataset.train, CPU)
    before = [parameter.detach().clone() for parameter in split.run.encoder.parameters()]
    assert [split() for _ in range(3)] == [1, 1, 1]
    assert any(
        not torch.equal(a, b) for a, b in zip(before, split.run.encoder.parameters(), strict=True)
    )
    assert {len(times.rounds) for times in split.times().values()} == {2}


def test_batches_that_hide_their_shape_are_the_same_batches(dataset: Dataset) -> None:
    settings = step.trained("lightgcn")
    plain = settings.batches(dataset.train, device=CPU)
    hidden = step.Unrecorded(plain)
    assert plain.same_shape
    assert not hidden.same_shape
    assert hidden.n_steps == plain.n_steps


def test_a_floor_has_what_a_step_is_made_of(dataset: Dataset) -> None:
    graph, free, pairwise = (
        step_floor(step.trained(name), dataset.train, 1000)
        for name in ("dregn-cf", "dre-mf", "lightgcn")
    )
    optimizer = 4 * 7 * 1000
    assert free.n_bytes > optimizer  # and the unlabelled term
    assert graph.n_operations > free.n_operations
    assert 0 < pairwise.n_operations < graph.n_operations


def test_a_case_runs_by_itself() -> None:
    way = step.alone("dregn-cf eager", {"users": 8, "items": 8, "pairs": 8})
    with way.around():
        assert way.work() == 1
