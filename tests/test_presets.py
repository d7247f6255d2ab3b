from __future__ import annotations

import dataclasses

import pytest

from ratiorec.config import Settings
from ratiorec.encoders.factorisation import Factorisation
from ratiorec.encoders.lightgcn import LightGCN
from ratiorec.errors import ConfigError
from ratiorec.presets import PRESETS, preset
from ratiorec.risk.bregman import LEAST_SQUARES
from ratiorec.risk.correction import inverse_inclusion
from ratiorec.risk.density_ratio import DensityRatio
from ratiorec.risk.weights import HardSample
from ratiorec.scores import SOFTPLUS


def test_dregn_cf_is_the_full_method_of_the_paper() -> None:
    settings = preset("dregn-cf")
    assert settings.encoder == LightGCN(dimension=64, n_layers=3)
    assert settings.risk == DensityRatio(
        LEAST_SQUARES, SOFTPLUS, HardSample(), inverse_inclusion, upper_bound=70
    )


def test_dre_mf_differs_by_its_encoder_alone() -> None:
    full, plain = preset("dregn-cf"), preset("dre-mf")
    assert plain.encoder == Factorisation(dimension=64)
    assert dataclasses.replace(plain, encoder=full.encoder) == full


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_a_complete_set_of_settings(name: str) -> None:
    assert isinstance(preset(name), Settings)
    assert preset(name) is PRESETS[name]


def test_an_unknown_preset_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ConfigError) as caught:
        preset("dregncf")
    assert caught.value.where == "--preset"
    assert caught.value.found == "'dregncf'"
    assert "did you mean dregn-cf?" in caught.value.wanted
    assert all(name in caught.value.wanted for name in PRESETS)


def test_a_name_like_no_other_gets_no_guess() -> None:
    with pytest.raises(ConfigError) as caught:
        preset("???")
    assert "did you mean" not in caught.value.wanted


def test_the_presets_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        PRESETS["mine"] = Settings()  # type: ignore[index]
