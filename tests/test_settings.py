from __future__ import annotations

from dataclasses import replace

import pytest

from ratiorec.batches.settings import PairBatches, UserBatches
from ratiorec.encoders.settings import MultVAE
from ratiorec.errors import ConfigError
from ratiorec.losses.bpr import BPR
from ratiorec.losses.multinomial import Multinomial
from ratiorec.settings import Settings, TwoStageSettings

PAIRWISE = Settings(risk=BPR(), batches=PairBatches())


def test_a_pairwise_risk_needs_pairs_and_the_others_need_users() -> None:
    with pytest.raises(ConfigError, match="BPR with batches of users"):
        Settings(risk=BPR())
    with pytest.raises(ConfigError, match="DensityRatio with batches of pairs"):
        Settings(batches=PairBatches())


def test_an_autoencoder_needs_whole_users() -> None:
    assert Settings(encoder=MultVAE(), risk=Multinomial()).encoder == MultVAE()
    with pytest.raises(ConfigError, match="MultVAE with batches of pairs"):
        replace(PAIRWISE, encoder=MultVAE())


def test_static_weights_need_a_risk_with_weights_and_a_first_model_with_vectors() -> None:
    with pytest.raises(ConfigError, match=r"second\.risk"):
        TwoStageSettings(Settings(), Settings(risk=Multinomial()))
    with pytest.raises(ConfigError, match=r"first\.encoder"):
        TwoStageSettings(Settings(encoder=MultVAE(), risk=Multinomial()), Settings())


def test_both_stages_take_the_same_batches() -> None:
    with pytest.raises(ConfigError, match=r"first\.batches"):
        TwoStageSettings(Settings(batches=UserBatches(7)), Settings(batches=UserBatches(8)))
