from __future__ import annotations

import numpy as np
import pytest
import torch

from ratiorec.data.interactions import Interactions
from ratiorec.errors import ConfigError
from ratiorec.scorers import PopularityScorer
from ratiorec.settings import EarlyStopping, SolverSettings
from ratiorec.solvers.solver import State
from ratiorec.training.runs import SolverTraining, start_run
from support.small_data import checkerboard

BOARD = checkerboard(6, 4)


class Counting:
    """A solution that only counts its sweeps."""

    def __init__(self) -> None:
        self.n_sweeps = 0
        self.restored = 0

    def sweep(self) -> float:
        self.n_sweeps += 1
        return 10.0 / self.n_sweeps

    def scorer(self) -> PopularityScorer:
        return PopularityScorer(np.full(4, self.n_sweeps, np.float32), 6)

    def state(self) -> dict[str, Tensor]:
        return {"n_sweeps": np.array(self.n_sweeps)}

    def restore(self, state: State) -> None:
        self.n_sweeps = int(state["n_sweeps"])
        self.restored += 1


class Solver:
    n_sweeps = 5

    def start(
        self,
        data: Interactions,
        *,
        rng: np.random.Generator,
        device: torch.device,
        memory_mb: float,
    ) -> Counting:
        assert data is BOARD
        assert memory_mb == 7
        return Counting()


def start() -> SolverTraining:
    rng, device = np.random.default_rng(0), torch.device("cpu")
    run = start_run(SolverSettings(Solver()), BOARD, rng=rng, device=device, memory_mb=7)
    assert isinstance(run, SolverTraining)
    return run


def test_an_epoch_is_one_sweep_and_one_step() -> None:
    run = start()
    assert (run.n_steps, run.last_step, run.step) == (1, 5, 0)
    assert list(run.one_epoch(5)) == [[10.0]]
    assert list(run.one_epoch(5)) == [[5.0]]
    assert (run.epoch, run.step_in_epoch, run.step) == (2, 0, 2)
    assert run.scorer().scores(np.arange(1)).tolist() == [[2, 2, 2, 2]]


def test_a_restored_run_goes_on_where_the_state_was_taken() -> None:
    run = start()
    for _ in range(3):
        list(run.one_epoch(5))
    again = start()
    again.restore(*run.state())
    assert again.step == 3
    assert list(again.one_epoch(5)) == [[10 / 4]]


def test_a_run_that_had_not_begun_has_nothing_to_restore() -> None:
    again = start()
    again.restore(*start().state())
    assert again.step == 0
    assert again.solution.restored == 0  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("validate_every_epochs", 0),
        ("patience", 0),
        ("min_relative_gain", -0.1),
        ("extra_patience_fraction", -1),
    ],
)
def test_a_stopping_setting_out_of_range_is_refused_by_name(name: str, value: float) -> None:
    with pytest.raises(ConfigError, match=rf"stopping\.{name}"):
        EarlyStopping(**{name: value})  # type: ignore[arg-type]


def test_sweeps_are_validated_as_often_as_asked() -> None:
    assert EarlyStopping(validate_every_epochs=3).validation_interval(1) == 3
