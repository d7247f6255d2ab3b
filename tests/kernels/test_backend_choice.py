from __future__ import annotations

import dataclasses
import importlib.util
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from ratiorec.config import resolve
from ratiorec.errors import ConfigError
from ratiorec.kernels import unlabelled as choice
from ratiorec.kernels.pointwise import LEAST_SQUARES, SOFTPLUS
from ratiorec.kernels.unlabelled import (
    BACKENDS,
    UnlabelledTerm,
    reference,
    suited,
    tiled,
    triton,
)
from ratiorec.losses.density_ratio import DensityRatio
from ratiorec.losses.unnormalised import WeightedDRE, WeightedPU
from ratiorec.settings import Settings
from reference.comparison import of_batch, random_embeddings
from support.small_data import random_batch

CPU, GPU = torch.device("cpu"), torch.device("cuda")
TERM = UnlabelledTerm(LEAST_SQUARES, SOFTPLUS, torch.ones(3))
KERNELS = object()


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Stands for the module that needs the package triton."""
    module = SimpleNamespace(Triton=lambda: KERNELS, knows=lambda term: True)
    monkeypatch.setattr(choice, "_kernels", lambda: module)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    return module


def test_a_gpu_takes_the_kernels(kernels: SimpleNamespace) -> None:
    assert suited(GPU, torch.float32, TERM) is KERNELS


def test_a_processor_takes_tiles(kernels: SimpleNamespace) -> None:
    assert suited(CPU, torch.float32, TERM) is tiled


def test_double_precision_takes_tiles(kernels: SimpleNamespace) -> None:
    assert suited(GPU, torch.float64, TERM) is tiled


def test_a_term_that_the_kernels_do_not_know_takes_tiles(kernels: SimpleNamespace) -> None:
    kernels.knows = lambda term: term is not TERM
    assert suited(GPU, torch.float32, TERM) is tiled


def test_a_gpu_without_the_package_takes_tiles(
    kernels: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert suited(GPU, torch.float32, TERM) is tiled


def test_kernels_asked_for_by_name_are_refused_where_they_cannot_run() -> None:
    given = torch.ones(2, 4), torch.ones(3, 4), TERM, torch.zeros(2)
    with pytest.raises(ConfigError, match=r"risk\.backend") as caught:
        triton(*given)
    assert "vectors on cpu" in str(caught.value)


def test_a_risk_chooses_by_itself_unless_told() -> None:
    for risk in (DensityRatio(), WeightedDRE(), WeightedPU()):
        assert risk.backend == "auto"


@pytest.mark.parametrize("name", BACKENDS)
def test_a_setting_names_the_backend(name: str) -> None:
    settings = resolve(Settings(), assignments=[f"risk.backend={name}"])
    assert isinstance(settings, Settings)
    assert isinstance(settings.risk, DensityRatio)
    assert settings.risk.backend == name


@pytest.mark.parametrize(
    "risk",
    [DensityRatio(), WeightedDRE(), WeightedPU()],
    ids=["density-ratio", "weighted-dre", "weighted-pu"],
)
def test_a_risk_runs_what_it_was_told_to(
    risk: DensityRatio | WeightedDRE | WeightedPU,
) -> None:
    rng = np.random.default_rng(0)
    batch = random_batch(rng, n_users=6, n_items=9)
    embeddings = of_batch(random_embeddings(rng, n_users=6, n_items=9, largest_score=3), batch)
    called: list[str] = []

    def noting(*given: object) -> object:
        called.append("noting")
        return reference(*given)  # type: ignore[arg-type]

    told = dataclasses.replace(risk, backend=noting)  # type: ignore[arg-type]
    torch.testing.assert_close(told(embeddings, batch), risk(embeddings, batch))
    assert called == ["noting"]
