"""A command line in an empty folder, data to train on, and a trained model."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from ratiorec.data.interactions import Dataset, Interactions
from ratiorec.data.synthetic import Synthetic
from ratiorec.encoders.settings import LightGCN
from ratiorec.model.artifact import Artifact
from ratiorec.settings import Settings, Training, UserBatches
from ratiorec.training.experiment import fit
from support.command_line import cli

__all__ = ["cli"]


@pytest.fixture(scope="session")
def dataset() -> Dataset:
    """Sixty users and forty items, with a test part."""
    return Synthetic(n_users=60, n_items=40, mean_pairs=12)(rng=np.random.default_rng(0)).dataset


@pytest.fixture
def clicks(tmp_path: Path, dataset: Dataset) -> Path:
    return write_pairs(tmp_path / "clicks.csv", dataset.train)


@pytest.fixture
def held_out(tmp_path: Path, dataset: Dataset) -> Path:
    assert dataset.test is not None
    return write_pairs(tmp_path / "held_out.csv", dataset.test)


def write_pairs(path: Path, pairs: Interactions) -> Path:
    users, items = pairs.users.ids[pairs.pair_users], pairs.items.ids[pairs.indices]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["user_id", "item_id"])
        writer.writerows(zip(users, items, strict=True))
    return path


@pytest.fixture(scope="session")
def trained(dataset: Dataset) -> Artifact:
    settings = Settings(
        encoder=LightGCN(4, n_layers=1),
        batches=UserBatches(20),
        training=Training(
            learning_rate=0.1, epochs=3, validate_every_epochs=1, min_steps_between_validations=1
        ),
    )
    return fit(dataset, settings=settings, device="cpu")


@pytest.fixture
def model(trained: Artifact, tmp_path: Path) -> Path:
    trained.save(tmp_path / "model")
    return tmp_path / "model"
