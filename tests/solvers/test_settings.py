from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from ratiorec.errors import ConfigError
from ratiorec.solvers.settings import (
    EASE,
    WMF,
    GraphFilter,
    ImplicitALS,
    ItemKNN,
    LocalEASE,
    Walk,
)


@pytest.mark.parametrize(
    ("solver", "setting", "value"),
    [
        (ItemKNN, "n_neighbours", 0),
        (ItemKNN, "shrinkage", -1),
        (ItemKNN, "user_exponent", -0.5),
        (EASE, "l2", 0),
        (EASE, "l2", math.inf),
        (EASE, "popularity_exponent", -0.1),
        (EASE, "activity_exponent", -0.1),
        (EASE, "dropout", 1.0),
        (LocalEASE, "dropout", -0.1),
        (LocalEASE, "n_neighbours", 0),
        (Walk, "user_exponent", -1),
        (Walk, "n_neighbours", -1),
        (GraphFilter, "n_eigenvectors", 0),
        (GraphFilter, "plateau", 0.5),
        (GraphFilter, "low_pass", -0.1),
        (WMF, "dimension", 0),
        (WMF, "confidence", 0),
        (WMF, "l2", 0),
        (WMF, "l2", math.nan),
        (WMF, "n_sweeps", 0),
        (ImplicitALS, "dimension", 0),
        (ImplicitALS, "l2", -1),
        (ImplicitALS, "alpha", 0),
        (ImplicitALS, "n_sweeps", 0),
    ],
)
def test_a_setting_that_cannot_be_is_refused_by_name(
    solver: Callable[..., Any], setting: str, value: float
) -> None:
    with pytest.raises(ConfigError) as refused:
        solver(**{setting: value})
    assert refused.value.where == f"solver.{setting}"
    assert refused.value.found == str(value)


def test_no_shrinkage_and_no_weighting_are_settings_like_any_other() -> None:
    assert ItemKNN(shrinkage=0, user_exponent=0).n_sweeps == 1
    assert ImplicitALS(l2=0).n_sweeps == 15
