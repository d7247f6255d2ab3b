from __future__ import annotations

import dataclasses
import math

import pytest

from ratiorec.batches import pairs as samplers
from ratiorec.batches.pairs import PairBatches
from ratiorec.encoders.factorisation import Factorisation
from ratiorec.encoders.lightgcn import LightGCN
from ratiorec.errors import ConfigError
from ratiorec.kernels.pointwise import LEAST_SQUARES, SOFTPLUS
from ratiorec.losses.bpr import BPR
from ratiorec.losses.density_ratio import (
    ConstantPositiveWeight,
    DensityRatio,
    HardSampleWeights,
    PopularityWeights,
    UniformWeights,
    as_sampled,
    inverse_inclusion,
)
from ratiorec.losses.unnormalised import WeightedDRE, WeightedPU
from ratiorec.presets import PRESETS, preset
from ratiorec.settings import AnySettings, Settings, TwoStageSettings
from ratiorec.training.loop import Training


def test_dregn_cf_is_the_full_method_of_the_paper() -> None:
    settings = preset("dregn-cf")
    assert settings.encoder == LightGCN(dimension=64, n_layers=3)
    assert settings.risk == DensityRatio(
        LEAST_SQUARES, SOFTPLUS, HardSampleWeights(), inverse_inclusion, upper_bound=70
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


def test_the_rows_of_the_ablation_differ_from_the_method_as_the_paper_says() -> None:
    rows = {
        "dre": WeightedDRE(),
        "dregn-cf-no-is": DensityRatio(sampling=as_sampled),
        "dregn-cf-no-nn": DensityRatio(upper_bound=math.inf),
        "dregn-cf-uniform": DensityRatio(weights=UniformWeights()),
        "dregn-cf-popularity": DensityRatio(weights=PopularityWeights(0.5)),
    }
    for name, risk in rows.items():
        assert preset(name) == dataclasses.replace(preset("dregn-cf"), risk=risk), name
    # a class probability is so small that positives must count more than unlabelled pairs
    confident, milder = WeightedPU(weights=ConstantPositiveWeight(3000)), Training(penalty=0.01)
    weighted_pu = dataclasses.replace(preset("dregn-cf"), risk=confident, training=milder)
    assert preset("pu") == weighted_pu


def test_static_weights_are_those_of_a_model_with_uniform_ones() -> None:
    static = preset("dregn-cf-static")
    assert isinstance(static, TwoStageSettings)
    assert static.second == preset("dregn-cf")
    assert dataclasses.replace(static.first, training=Training()) == preset("dregn-cf-uniform")


def test_the_pairwise_rivals_differ_by_encoder_or_sampler_alone() -> None:
    lightgcn = preset("lightgcn")
    assert isinstance(lightgcn, Settings)
    assert lightgcn.risk == BPR()
    assert isinstance(lightgcn.batches, PairBatches)
    assert lightgcn.batches.sampler == samplers.UniformSampler()
    dynamic = preset("lightgcn-dns")
    assert isinstance(dynamic, Settings)
    assert isinstance(dynamic.batches, PairBatches)
    assert isinstance(dynamic.batches.sampler, samplers.Dynamic)
    uniform = dataclasses.replace(dynamic.batches, sampler=samplers.UniformSampler())
    assert dataclasses.replace(dynamic, batches=uniform) == lightgcn
