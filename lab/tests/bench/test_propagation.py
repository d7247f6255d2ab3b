from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from ratiorec_lab.bench import propagation
from ratiorec_lab.bench.conditions import Conditions
from torch import Tensor

from ratiorec.data.interactions import Dataset
from ratiorec.encoders.graph import Graph

EXECUTIONS = ["ratiorec", "torch CSR", "torch COO", "scipy"]
CPU = torch.device("cpu")


def test_the_cases_are_ours_a_reference_and_rivals(conditions: Conditions) -> None:
    found = propagation.measure(conditions)
    names = [(case.name, case.execution) for case in found.cases]
    assert names == [(name, how) for name in ("product", "mean of layers") for how in EXECUTIONS]
    for case in found.cases:
        assert case.is_reference == (case.execution == "torch CSR")
        assert case.is_rival == (case.execution in ("torch COO", "scipy"))
        assert case.peak_extra_mb == 7


def test_every_way_gives_the_same(dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    results: list[Tensor] = []

    def noting(work: Callable[[], Tensor]) -> Callable[[], int]:
        results.append(work())
        return lambda: 1

    monkeypatch.setattr(propagation, "once", noting)
    propagation._ways(dataset.train, CPU)
    table = torch.randn(100, 64, generator=torch.Generator().manual_seed(0))
    graph = Graph(dataset.train, self_loops=True, device=CPU)
    product = graph @ table
    mean = (table + product + graph @ product + graph @ (graph @ product)) / 4
    assert len(results) == 2 * len(EXECUTIONS)
    for expected, found in zip([product, mean] * len(EXECUTIONS), results, strict=True):
        torch.testing.assert_close(found, expected)


def test_the_floor_counts_entries_and_tables() -> None:
    size = {"nodes": 3, "entries": 5, "dimension": 2}
    floor = propagation.floor_of_products(size, 4)
    assert floor.n_operations == 4 * (5 * 2 * 2)
    assert floor.n_bytes == 4 * (5 * 4 + 3 * (4 + 4) + 2 * 3 * 2 * 4)


@pytest.mark.parametrize("self_loops", [False, True])
def test_the_entries_are_those_of_the_matrix(dataset: Dataset, *, self_loops: bool) -> None:
    train = dataset.train
    loops = train.n_users + train.n_items if self_loops else 0
    size = propagation.graph_size(train, self_loops=self_loops)
    assert size == {"nodes": train.n_users + train.n_items, "entries": 2 * train.n_pairs + loops}


def test_a_case_by_itself_has_a_graph_of_the_size_asked_for() -> None:
    size = {"users": 6, "items": 5, "pairs": 12, "dimension": 3}
    for execution in EXECUTIONS:
        way = propagation.alone(f"product, {execution}", size)
        with way.around():
            assert way.work() == 1


def test_the_data_decide_the_size(conditions: Conditions, dataset: Dataset) -> None:
    train_only = replace(conditions, dataset=Dataset("train", dataset.train))
    size = propagation.measure(train_only).cases[0].size
    assert (size["users"], size["items"], size["pairs"]) == (60, 40, dataset.train.n_pairs)
