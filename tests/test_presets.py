from __future__ import annotations

import dataclasses

import pytest

from ratiorec.config import preset
from ratiorec.encoders.settings import Factorisation, LightGCN
from ratiorec.errors import ConfigError
from ratiorec.losses.bpr import BPR
from ratiorec.losses.density_ratio import DensityRatio, HardSampleWeights
from ratiorec.presets import PRESETS
from ratiorec.settings import (
    AnySettings,
    PairBatches,
    Settings,
    Training,
    TwoStageSettings,
    UniformSampler,
)


def test_dregn_cf_is_the_full_method_of_the_paper() -> None:
    settings = preset("dregn-cf")
    assert settings.encoder == LightGCN(dimension=64, n_layers=3)
    assert settings.risk == DensityRatio(
        "least-squares", "softplus", HardSampleWeights(), "inverse-propensity", upper_bound=70
    )


def test_dre_mf_differs_by_its_encoder_alone() -> None:
    full, plain = preset("dregn-cf"), preset("dre-mf")
    assert plain.encoder == Factorisation(dimension=64)
    assert dataclasses.replace(plain, encoder=full.encoder) == full


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_a_complete_set_of_settings(name: str) -> None:
    assert isinstance(preset(name), AnySettings)
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


def test_static_weights_are_those_of_a_model_with_uniform_ones() -> None:
    static = preset("dregn-cf-static")
    assert isinstance(static, TwoStageSettings)
    assert static.second == preset("dregn-cf")
    assert dataclasses.replace(static.first, training=Training()) == preset("dregn-cf-uniform")


def test_the_pairwise_rivals_differ_in_how_they_take_negatives_alone() -> None:
    lightgcn, dynamic = preset("lightgcn"), preset("lightgcn-dns")
    assert isinstance(lightgcn, Settings)
    assert isinstance(dynamic, Settings)
    assert dynamic.risk == BPR(hardest=True)
    assert isinstance(dynamic.batches, PairBatches)
    assert dynamic.batches.sampler == UniformSampler(n_negatives=8)
    uniform = dataclasses.replace(dynamic.batches, sampler=UniformSampler())
    assert dataclasses.replace(dynamic, risk=BPR(), batches=uniform) == lightgcn
