from __future__ import annotations

import numpy as np
import pytest

from ratiorec.encoders.settings import Normal, Xavier
from ratiorec.errors import ConfigError


def test_xaviers_numbers_are_uniform_within_its_bounds() -> None:
    table = Xavier(0.1)(300, 50, rng=np.random.default_rng(0))
    bound = 0.1 * (6 / (300 + 50)) ** 0.5
    assert table.dtype == np.float32
    assert table.shape == (300, 50)
    assert 0.99 * bound < np.abs(table).max() <= bound
    assert table.mean() == pytest.approx(0, abs=0.03 * bound)
    assert table.std() == pytest.approx(bound / 3**0.5, rel=0.03)


def test_normal_numbers_have_the_deviation_asked_for() -> None:
    table = Normal(0.2)(300, 50, rng=np.random.default_rng(0))
    assert table.dtype == np.float32
    assert table.mean() == pytest.approx(0, abs=0.01)
    assert table.std() == pytest.approx(0.2, rel=0.03)
    assert np.abs(table).max() > 3 * 0.2  # a uniform distribution would end before


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
def test_a_scale_that_cannot_work_is_refused_by_name(value: float) -> None:
    with pytest.raises(ConfigError, match=r"encoder\.init\.gain"):
        Xavier(value)
    with pytest.raises(ConfigError, match=r"encoder\.init\.std"):
        Normal(value)
