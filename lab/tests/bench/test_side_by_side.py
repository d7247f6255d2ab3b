from __future__ import annotations

import sys

import numpy as np
import pytest

from ratiorec_lab.bench import side_by_side
from ratiorec_lab.bench.clock import Way, once

SIZE = {"users": 400, "items": 4000, "dimension": 8}
MATRIX_MB = 4 * 400 * 4000 / 2**20


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a peak begin anew")
def test_whole_matrices_are_seen_and_tiles_take_less() -> None:
    found = side_by_side.in_one_process("risk", ["tiled", "dense PyTorch"], SIZE)
    tiled, dense = found["tiled"], found["dense PyTorch"]
    assert tiled is not None
    assert dense is not None
    assert dense > 2 * MATRIX_MB
    assert tiled < dense / 2


def test_a_case_that_fails_by_itself_has_no_figure() -> None:
    found = side_by_side.in_own_processes("risk", ["by hand"], SIZE)
    assert found == {"by hand": None}


def test_no_process_is_started_for_nothing() -> None:
    assert side_by_side.in_one_process("nothing of the kind", [], {}) == {}


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a peak begin anew")
def test_inputs_do_not_count_and_what_is_given_back_does() -> None:
    n_bytes = 64 * 2**20

    def prepare() -> Way:
        inputs = np.ones(4 * n_bytes, np.uint8)
        return Way(once(lambda: inputs[:n_bytes].copy().sum()))

    assert 60 < side_by_side.peak_extra_mb(prepare) < 80
