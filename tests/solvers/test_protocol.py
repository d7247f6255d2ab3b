from __future__ import annotations

import numpy as np

from ratiorec.scorers import PopularityScorer
from ratiorec.solvers.solver import OneSweep


class Counted:
    """Solves by counting how often it was asked to."""

    def __init__(self) -> None:
        self.n_solved = 0

    def __call__(self) -> PopularityScorer:
        self.n_solved += 1
        return PopularityScorer(np.full(2, self.n_solved, np.float32), 3)


def test_nothing_is_solved_before_the_sweep_and_once_in_it() -> None:
    solve = Counted()
    solution = OneSweep(solve)
    assert solve.n_solved == 0
    assert solution.sweep() is None
    assert solve.n_solved == 1
    assert solution.scorer() is solution.scorer()
    assert solve.n_solved == 1


def test_a_checkpoint_holds_nothing_and_a_restored_model_is_solved_again() -> None:
    solve = Counted()
    solution = OneSweep(solve)
    solution.sweep()
    assert solution.state() == {}
    solution.restore({})
    assert solve.n_solved == 2


def test_a_model_that_was_not_swept_is_solved_when_it_is_asked_for() -> None:
    assert OneSweep(Counted()).scorer().n_users == 3
