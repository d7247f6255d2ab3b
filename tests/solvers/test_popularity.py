from __future__ import annotations

import numpy as np
import torch

from ratiorec.solvers.settings import PopularitySolver
from support.small_data import interactions


def test_the_score_of_an_item_is_the_number_of_its_users() -> None:
    data = interactions([0, 1, 2, 1], [0, 0, 0, 2], n_users=4, n_items=3)
    solver = PopularitySolver()
    solution = solver.start(
        data, rng=np.random.default_rng(0), device=torch.device("cpu"), memory_mb=1
    )
    assert solver.n_sweeps == 1
    assert solution.scorer().scores(np.arange(4)).tolist() == [[3, 0, 1]] * 4
