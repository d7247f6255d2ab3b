"""Conditions under which a target takes a moment."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from lab_support.quick_bench import AT_ONCE, without_processes
from ratiorec.data.interactions import Dataset
from ratiorec.data.synthetic import Synthetic
from ratiorec_lab.bench.clock import Conditions


@pytest.fixture(scope="session")
def dataset() -> Dataset:
    """Sixty users and forty items, with a test part."""
    return Synthetic(n_users=60, n_items=40, mean_pairs=12)(rng=np.random.default_rng(0)).dataset


@pytest.fixture
def conditions(dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> Conditions:
    without_processes(monkeypatch)
    return Conditions(dataset, torch.device("cpu"), AT_ONCE)
