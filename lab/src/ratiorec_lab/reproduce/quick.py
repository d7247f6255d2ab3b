"""Small data and short training, to see that everything works and nothing more."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ratiorec.batches.pairs import PairBatches
from ratiorec.data.interactions import Dataset
from ratiorec.data.synthetic import Synthetic
from ratiorec.encoders.mult_vae import MultVAE
from ratiorec.settings import AnySettings, Settings, SolverSettings, TwoStageSettings
from ratiorec_lab.reproduce.names import SMALL

POPULATION = Synthetic(n_users=240, n_items=100, mean_pairs=20)


def dataset() -> Dataset:
    """Pairs of a synthetic population, always the same."""
    return replace(POPULATION(rng=np.random.default_rng(0)).dataset, name=SMALL)


def changes(settings: AnySettings) -> dict[str, float]:
    """What makes training short: small vectors, few steps; λ, D̄ and the rate stay."""
    if isinstance(settings, SolverSettings):
        return {}
    if isinstance(settings, TwoStageSettings):
        second = {f"second.{name}": value for name, value in _shortened(settings.second).items()}
        first = {f"first.{name}": value for name, value in _shortened(settings.first).items()}
        return second | first | {"first.training.epochs": 3}
    return _shortened(settings)


def _shortened(settings: Settings) -> dict[str, float]:
    training: dict[str, float] = {
        "training.epochs": 12,
        "training.validate_every": 2,
        "training.min_steps_between_validations": 1,
        "training.patience": 3,
    }
    encoder: dict[str, float] = {"encoder.dimension": 8}
    if isinstance(settings.encoder, MultVAE):
        encoder = {"encoder.hidden": 16, "encoder.latent": 8}
    batches: dict[str, float] = {"batches.n_users": 60}
    if isinstance(settings.batches, PairBatches):
        batches = {"batches.n_pairs": 1024}
    return training | encoder | batches | {"batches.min_steps_per_epoch": 4}
