from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from ratiorec.data.interactions import Dataset
from ratiorec.encoders.encoder import Graph
from ratiorec.kernels.unlabelled import BACKENDS
from ratiorec_lab.bench import kernels
from ratiorec_lab.bench.clock import Conditions

CPU = torch.device("cpu")
PRODUCTS = ["ratiorec", "torch CSR", "torch COO", "scipy"]


def test_the_cases_are_the_backends_and_plain_autograd(conditions: Conditions) -> None:
    found = kernels.measure_risk(conditions)
    assert [case.backend for case in found.cases] == ["reference", "tiled", "dense PyTorch"]
    assert [case.is_reference for case in found.cases] == [True, False, False]
    assert [case.is_rival for case in found.cases] == [False, False, True]
    assert found.left_out == {}


def test_the_batch_has_the_users_asked_for(conditions: Conditions) -> None:
    asked = kernels.measure_risk(replace(conditions, n_users=20))
    assert {case.size["users"] for case in asked.cases} == {20}
    assert {case.size["items"] for case in asked.cases} <= set(range(10, 41))
    assert kernels.measure_risk(conditions).cases[0].size["users"] == 60


def test_plain_autograd_gives_the_gradients_of_the_reference() -> None:
    size = {"users": 7, "items": 9, "dimension": 4}
    inputs = kernels.term_inputs(size, torch.linspace(0.5, 2, 9), CPU)
    expected = BACKENDS["reference"](*inputs)
    to_users, to_items = kernels.dense(inputs)
    torch.testing.assert_close(to_users, expected.to_users)
    torch.testing.assert_close(to_items, expected.to_items)


def test_the_floor_is_three_products() -> None:
    floor = kernels.term_floor({"users": 3, "items": 5, "dimension": 2})
    assert floor.n_operations == 3 * (2 * 3 * 5 * 2)
    assert floor.n_bytes == 4 * 2 * (3 * 2 + 5 * 2)


@pytest.mark.parametrize("backend", ["reference", "tiled", "dense PyTorch"])
def test_a_backend_of_the_term_runs_by_itself(backend: str) -> None:
    way = kernels.risk_alone(backend, {"users": 4, "items": 6, "dimension": 2})
    with way.around():
        assert way.work() == 1


def test_the_cases_are_ours_a_reference_and_rivals(conditions: Conditions) -> None:
    found = kernels.measure_propagation(conditions)
    names = [(case.name, case.backend) for case in found.cases]
    assert names == [(name, how) for name in ("product", "mean of layers") for how in PRODUCTS]
    for case in found.cases:
        assert case.is_reference == (case.backend == "torch CSR")
        assert case.is_rival == (case.backend in ("torch COO", "scipy"))
        assert case.peak_extra_mb == 7


def test_every_way_gives_the_same(dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    results: list[Tensor] = []

    def noting(work: Callable[[], Tensor]) -> Callable[[], int]:
        results.append(work())
        return lambda: 1

    monkeypatch.setattr(kernels, "once", noting)
    kernels.propagation_ways(dataset.train, CPU)
    table = torch.randn(100, 64, generator=torch.Generator().manual_seed(0))
    graph = Graph(dataset.train, self_loops=True, device=CPU)
    product = graph @ table
    mean = (table + product + graph @ product + graph @ (graph @ product)) / 4
    assert len(results) == 2 * len(PRODUCTS)
    for expected, found in zip([product, mean] * len(PRODUCTS), results, strict=True):
        torch.testing.assert_close(found, expected)


def test_the_floor_counts_entries_and_tables() -> None:
    size = {"nodes": 3, "entries": 5, "dimension": 2}
    floor = kernels.products_floor(size, 4)
    assert floor.n_operations == 4 * (5 * 2 * 2)
    assert floor.n_bytes == 4 * (5 * 4 + 3 * (4 + 4) + 2 * 3 * 2 * 4)


@pytest.mark.parametrize("self_loops", [False, True])
def test_the_entries_are_those_of_the_matrix(dataset: Dataset, *, self_loops: bool) -> None:
    train = dataset.train
    loops = train.n_users + train.n_items if self_loops else 0
    size = kernels.graph_size(train, self_loops=self_loops)
    assert size == {"nodes": train.n_users + train.n_items, "entries": 2 * train.n_pairs + loops}


def test_a_case_by_itself_has_a_graph_of_the_size_asked_for() -> None:
    size = {"users": 6, "items": 5, "pairs": 12, "dimension": 3}
    for backend in PRODUCTS:
        way = kernels.propagation_alone(f"product, {backend}", size)
        with way.around():
            assert way.work() == 1


def test_the_data_decide_the_size(conditions: Conditions, dataset: Dataset) -> None:
    train_only = replace(conditions, dataset=Dataset("train", dataset.train))
    size = kernels.measure_propagation(train_only).cases[0].size
    assert (size["users"], size["items"], size["pairs"]) == (60, 40, dataset.train.n_pairs)
