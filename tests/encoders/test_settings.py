from __future__ import annotations

from typing import Any

import pytest

from ratiorec.encoders.settings import Factorisation, LightGCN
from ratiorec.errors import ConfigError


@pytest.mark.parametrize("encoder", [Factorisation, LightGCN])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("dimension", 0),
        ("dimension", -1),
    ],
)
def test_a_setting_that_cannot_work_is_refused_by_name(
    encoder: type, name: str, value: Any
) -> None:
    with pytest.raises(ConfigError, match=f"where: encoder.{name}"):
        encoder(**{name: value})


def test_a_negative_number_of_layers_is_refused_and_none_is_allowed() -> None:
    assert LightGCN(n_layers=0).n_layers == 0
    with pytest.raises(ConfigError, match=r"encoder\.n_layers"):
        LightGCN(n_layers=-1)
