from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from ratiorec.encoders.settings import MultVAE
from ratiorec.errors import ConfigError
from ratiorec.losses import Loss
from ratiorec.losses.bpr import BPR
from ratiorec.losses.density_ratio import DensityRatio
from ratiorec.losses.multinomial import Multinomial
from ratiorec.settings import PairBatches, Settings, TwoStageSettings, UserBatches

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


def test_a_loss_of_ones_own_needs_a_name_that_no_other_has() -> None:
    @dataclass(frozen=True)
    class Mine(DensityRatio):
        """Inherits the name of the library's loss."""

    class Nameless(Loss):
        def __call__(self, embeddings: object, batch: object) -> object: ...

    for loss in (Mine(), Nameless()):
        with pytest.raises(ConfigError, match="no name of its own"):
            Settings(risk=loss)


def test_both_stages_take_the_same_batches() -> None:
    with pytest.raises(ConfigError, match=r"first\.batches"):
        TwoStageSettings(Settings(batches=UserBatches(7)), Settings(batches=UserBatches(8)))
