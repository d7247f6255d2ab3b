from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from ratiorec.settings import ModelSettings
from ratiorec.training.portfolio import portfolio
from support.small_data import interactions

CPU, GPU = torch.device("cpu"), torch.device("cuda")
SMALL = interactions([0, 0, 1, 1], [0, 1, 1, 2], n_users=400, n_items=300)
LARGE = interactions([0, 0, 1, 1], [0, 1, 1, 2], n_users=40_000, n_items=30_000)


def test_a_small_catalogue_is_tried_with_the_older_methods_too() -> None:
    older = {"item-knn", "wmf", "ease", "lightgcn"}
    assert older <= {candidate.name for candidate in portfolio(SMALL, CPU)}
    assert older.isdisjoint(candidate.name for candidate in portfolio(LARGE, CPU))


def test_a_gpu_tries_the_best_softmax_with_three_seeds_and_no_filter() -> None:
    on_gpu = {candidate.name: candidate for candidate in portfolio(LARGE, GPU)}
    on_cpu = {candidate.name: candidate for candidate in portfolio(LARGE, CPU)}
    again = on_gpu.keys() - on_cpu.keys()
    assert again == {"softmax-2", "softmax-3"}
    assert on_cpu.keys() - on_gpu.keys() == {"graph-filter"}
    assert all(on_gpu[name].again == "softmax" for name in again)
    assert len({on_gpu[name].seed for name in ("softmax", *again)}) == 3


def test_pairs_with_weights_are_left_to_models_that_use_them() -> None:
    weighted = replace(LARGE, weights=np.array([1, 2, 3, 4], np.float32))
    names = {candidate.name for candidate in portfolio(LARGE, CPU)}
    assert names - {candidate.name for candidate in portfolio(weighted, CPU)} == {"graph-filter"}


@pytest.mark.parametrize("device", [CPU, GPU])
def test_cheap_candidates_come_before_dear_ones(device: torch.device) -> None:
    """So that a short budget ends with a model, and a longer one with a better one."""
    names = [candidate.name for candidate in portfolio(LARGE, device)]
    assert names[:2] == ["popularity", "walk"]
    assert names.index("local-ease") < names.index("dregn-cf") < names.index("softmax")


@pytest.mark.parametrize("data", [SMALL, LARGE])
def test_vectors_have_fewer_dimensions_than_a_quarter_of_users_or_items(data) -> None:
    settings: list[ModelSettings] = [
        variant for candidate in portfolio(data, GPU) for variant in candidate.variants
    ]
    encoders = [one.encoder for one in settings if hasattr(one, "encoder")]
    assert encoders
    assert max(encoder.dimension for encoder in encoders) <= min(512, data.n_items // 4)
