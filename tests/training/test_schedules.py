from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from ratiorec.config import preset
from ratiorec.data.interactions import Interactions
from ratiorec.errors import ConfigError
from ratiorec.settings import ConstantRate, InverseTimeDecay, Settings
from ratiorec.training.loop import GradientTraining
from support.small_data import random_interactions

CPU = torch.device("cpu")


def small_pairs() -> Interactions:
    return random_interactions(np.random.default_rng(0), n_users=40, n_items=30, n_pairs=300)


def descent(schedule: ConstantRate | InverseTimeDecay) -> GradientTraining:
    settings = preset("dre-mf")
    assert isinstance(settings, Settings)
    settings = replace(settings, training=replace(settings.training, lr_schedule=schedule))
    return GradientTraining.start(small_pairs(), settings, rng=np.random.default_rng(0), device=CPU)


def take(run: GradientTraining, n_steps: int) -> list[float]:
    """The rates of the steps."""
    rates: list[float] = []
    while run.step < n_steps:
        rates.extend(float(run._optimizer.rate) for _ in run.one_epoch(n_steps))
    return rates


def test_a_constant_rate_stays() -> None:
    assert [ConstantRate()(step) for step in (0, 1, 1000)] == [1, 1, 1]


def test_a_falling_rate_is_half_after_its_steps_and_a_quarter_after_three_times_as_many() -> None:
    assert [InverseTimeDecay(20)(step) for step in (0, 20, 60)] == [1, 1 / 2, 1 / 4]


@pytest.mark.parametrize("steps", [0.0, -1.0, float("inf"), float("nan")])
def test_a_rate_that_cannot_fall_is_refused(steps: float) -> None:
    with pytest.raises(ConfigError, match=r"where: training\.lr_schedule\.half_life_steps"):
        InverseTimeDecay(steps)


def test_every_step_has_the_rate_of_its_number() -> None:
    run = descent(InverseTimeDecay(4))
    rate = run.settings.learning_rate
    assert take(run, 25) == pytest.approx([rate / (1 + t / 4) for t in range(25)])


def test_a_restored_run_goes_on_with_the_rate_of_its_step() -> None:
    whole, first, again = (descent(InverseTimeDecay(4)) for _ in range(3))
    take(whole, 25)
    take(first, 13)
    again.restore(*first.state())
    rate = whole.settings.learning_rate
    assert take(again, 25) == pytest.approx([rate / (1 + t / 4) for t in range(13, 25)])
    assert torch.equal(torch.cat(again.encoder.embeddings()), torch.cat(whole.encoder.embeddings()))
