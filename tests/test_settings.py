from __future__ import annotations

from dataclasses import replace

import pytest

from ratiorec.data.batches import UserBatches
from ratiorec.data.pair_batches import PairBatches
from ratiorec.encoders.variational import Variational
from ratiorec.errors import ConfigError
from ratiorec.risk.multinomial import Multinomial
from ratiorec.risk.pairwise import BPR
from ratiorec.settings import Settings, TwoStage

PAIRWISE = Settings(risk=BPR(), batches=PairBatches())


def test_a_pairwise_risk_needs_pairs_and_the_others_need_users() -> None:
    with pytest.raises(ConfigError, match="BPR with batches of users"):
        Settings(risk=BPR())
    with pytest.raises(ConfigError, match="DensityRatio with batches of pairs"):
        Settings(batches=PairBatches())


def test_an_autoencoder_needs_whole_users() -> None:
    assert Settings(encoder=Variational(), risk=Multinomial()).encoder == Variational()
    with pytest.raises(ConfigError, match="Variational with batches of pairs"):
        replace(PAIRWISE, encoder=Variational())


def test_static_weights_need_a_risk_with_weights_and_a_first_model_with_vectors() -> None:
    with pytest.raises(ConfigError, match=r"second\.risk"):
        TwoStage(Settings(), Settings(risk=Multinomial()))
    with pytest.raises(ConfigError, match=r"first\.encoder"):
        TwoStage(Settings(encoder=Variational(), risk=Multinomial()), Settings())


def test_both_stages_take_the_same_batches() -> None:
    with pytest.raises(ConfigError, match=r"first\.batches"):
        TwoStage(Settings(batches=UserBatches(7)), Settings(batches=UserBatches(8)))
