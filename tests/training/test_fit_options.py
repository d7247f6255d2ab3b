from __future__ import annotations

import math

import pytest

from ratiorec.errors import ConfigError
from ratiorec.training.fit import FitOptions


@pytest.mark.parametrize(
    ("options", "where"),
    [
        ({"validation": 1.0}, "--validation"),
        ({"validation": -0.1}, "--validation"),
        ({"validation": math.nan}, "--validation"),
        ({"max_seconds": 0}, "--max-seconds"),
        ({"max_seconds": math.nan}, "--max-seconds"),
        ({"max_seconds": "30"}, "--max-seconds"),
        ({"validation": "0.1"}, "--validation"),
        ({"memory_mb": "x"}, "--memory-mb"),
        ({"checkpoint_seconds": -1}, "--checkpoint-seconds"),
        ({"checkpoint_seconds": math.nan}, "--checkpoint-seconds"),
    ],
)
def test_an_option_out_of_range_is_refused(options: dict[str, float], where: str) -> None:
    with pytest.raises(ConfigError) as caught:
        FitOptions(**options)  # type: ignore[arg-type]
    assert caught.value.where == where
