from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from ratiorec.encoders.settings import Factorisation, LightGCN
from ratiorec.errors import ConfigError
from ratiorec.losses.density_ratio import DensityRatio, FrozenWeights, UniformWeights
from ratiorec.settings import Settings, Training, TwoStageSettings, UserBatches
from ratiorec.shapes import Embeddings
from ratiorec.training.loop import GradientTraining
from ratiorec.training.runs import TrainingRun, start_run
from support.small_data import random_interactions

CPU = torch.device("cpu")
DATA = random_interactions(np.random.default_rng(0), n_users=20, n_items=15, n_pairs=90)
FIRST = Settings(
    encoder=Factorisation(3),
    risk=DensityRatio(weights=UniformWeights()),
    batches=UserBatches(7),
    training=Training(epochs=2, learning_rate=0.05),
)
SECOND = replace(
    FIRST, encoder=LightGCN(4), risk=DensityRatio(), training=Training(epochs=3, l2=0.1)
)
STEPS_AN_EPOCH = 3


def start(settings: TwoStageSettings | None = None) -> TrainingRun:
    settings = settings or TwoStageSettings(FIRST, SECOND)
    return start_run(settings, DATA, rng=np.random.default_rng(5), device=CPU, memory_mb=1e6)


def take(run: TrainingRun, n_steps: int) -> list[float | None]:
    """Single steps, by way of as many visits."""
    risks: list[float | None] = []
    while len(risks) < n_steps:
        for taken in run.one_epoch(run.last_step):
            risks.extend(taken)
            if len(risks) == n_steps:
                break
    return risks


def bits(run: TrainingRun) -> bytes:
    return b"".join(array.tobytes() for array in run.scorer().arrays().values())


def test_steps_and_epochs_are_counted_through_both_stages() -> None:
    run = start()
    assert run.last_step == (2 + 3) * STEPS_AN_EPOCH
    take(run, 2 * STEPS_AN_EPOCH)
    assert (run.epoch, run.step, run.ready) == (2, 6, False)
    take(run, 1)
    assert (run.epoch, run.step_in_epoch, run.step, run.ready) == (2, 1, 7, True)
    take(run, 8)
    assert (run.epoch, run.step) == (5, run.last_step)


def test_the_first_stage_is_the_first_model_alone() -> None:
    run = start()
    risks = take(run, 6)
    alone = GradientTraining.start(
        DATA, FIRST, rng=np.random.default_rng(5).spawn(2)[0], device=CPU
    )
    assert take(alone, 6) == risks
    assert bits(alone) == bits(run)


def test_the_second_model_is_trained_with_the_weights_of_the_first() -> None:
    run = start()
    take(run, 6)
    first = run.scorer().arrays()
    frozen = FrozenWeights(
        Embeddings(torch.from_numpy(first["users"]), torch.from_numpy(first["items"]))
    )
    expected = GradientTraining.start(
        DATA,
        replace(SECOND, risk=DensityRatio(weights=frozen)),
        rng=np.random.default_rng(5).spawn(2)[1],
        device=CPU,
    )
    assert take(run, 9) == take(expected, 9)
    assert bits(run) == bits(expected)


def test_the_second_model_may_start_where_the_first_has_ended() -> None:
    alike = TwoStageSettings(FIRST, replace(SECOND, encoder=FIRST.encoder))
    first = start(alike)
    take(first, 2 * STEPS_AN_EPOCH)
    ends = {}
    for continued in (False, True):
        run = start(replace(alike, second_starts_from_first=continued))
        take(run, 2 * STEPS_AN_EPOCH + 1)
        ends[continued] = max(
            float(np.abs(array - before).max())
            for array, before in zip(
                run.scorer().arrays().values(), first.scorer().arrays().values(), strict=True
            )
        )
    assert ends[True] < 0.02 < ends[False]  # one step at a rate of .01 from the first, or afresh


def test_a_model_cannot_start_from_one_of_another_kind() -> None:
    with pytest.raises(ConfigError, match="cannot start from one of another kind"):
        TwoStageSettings(FIRST, SECOND, second_starts_from_first=True)


@pytest.mark.parametrize("n_steps", [0, 1, 5, 6, 7, 9, 14])
def test_a_run_restored_after_any_step_goes_on_with_equal_bits(n_steps: int) -> None:
    whole = start()
    take(whole, 15)
    interrupted = start()
    take(interrupted, n_steps)
    tensors, position = interrupted.state()
    restored = start()
    restored.restore(tensors, json.loads(json.dumps(position)))
    assert restored.step == n_steps
    take(restored, 15 - n_steps)
    assert bits(restored) == bits(whole)


def test_no_step_is_taken_after_the_one_asked_for() -> None:
    run = start()
    while run.step < 8:
        for _ in run.one_epoch(8):
            pass
    assert run.step == 8
