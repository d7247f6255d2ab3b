"""What every solver must hold to."""

from __future__ import annotations

import dataclasses
import importlib.util
import tracemalloc
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from ratiorec.data.interactions import Interactions
from ratiorec.errors import MemoryBudgetError
from ratiorec.kernels.blocks import deterministic_threads
from ratiorec.solvers.settings import (
    EASE,
    WMF,
    AnySolver,
    GraphFilter,
    ImplicitALS,
    ItemKNN,
    LocalEASE,
    PopularitySolver,
    Walk,
)
from ratiorec.solvers.solver import Solution
from support.small_data import checkerboard, interactions, random_interactions

CPU = torch.device("cpu")
needs_implicit = pytest.mark.skipif(
    importlib.util.find_spec("implicit") is None, reason="implicit is not installed"
)
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
SOLVERS = {
    "popularity": PopularitySolver(),
    "item-knn": ItemKNN(n_neighbours=5, shrinkage=1.0),
    "walk": Walk(),
    "walk between neighbours": Walk(n_neighbours=5),
    "graph-filter": GraphFilter(n_eigenvectors=3),
    "ease": EASE(l2=2.0),
    "ease, corrected": EASE(2.0, 0.2, 0.3, 0.5),
    "local-ease": LocalEASE(l2=2.0, n_neighbours=5),
    "wmf": WMF(dimension=4, confidence=5.0, l2=0.5, n_sweeps=10),
    "implicit-als": ImplicitALS(dimension=4, l2=0.5, alpha=5.0, n_sweeps=10),
}
OWN_MEMORY = [name for name in SOLVERS if name != "popularity"]


def named(names: list[str]) -> pytest.MarkDecorator:
    """One test for each solver, those of a library that is missing skipped."""
    params = [
        pytest.param(name, marks=[needs_implicit] if name == "implicit-als" else [])
        for name in names
    ]
    return pytest.mark.parametrize("name", params)


every_solver = named(list(SOLVERS))


def started(
    name: str,
    data: Interactions,
    *,
    seed: int = 0,
    memory_mb: float = 512,
    device: torch.device = CPU,
) -> Solution:
    solver: AnySolver = SOLVERS[name]
    rng = np.random.default_rng(seed)
    return solver.start(data, rng=rng, device=device, memory_mb=memory_mb)


def scores(solution: Solution, data: Interactions) -> np.ndarray:
    return solution.scorer().scores(np.arange(data.n_users))


def solved(name: str, data: Interactions, *, device: torch.device = CPU) -> np.ndarray:
    solution = started(name, data, device=device)
    for _ in range(SOLVERS[name].n_sweeps):
        solution.sweep()
    return scores(solution, data)


def example() -> Interactions:
    """The last user and the last item have no pair."""
    rng = np.random.default_rng(0)
    return interactions(rng.integers(0, 39, 200), rng.integers(0, 24, 200), n_users=40, n_items=25)


@pytest.fixture(autouse=True)
def _threads_as_they_were() -> Iterator[None]:
    n_threads = torch.get_num_threads()
    yield
    torch.set_num_threads(n_threads)


@every_solver
def test_the_scores_are_over_all_users_and_items_and_finite_even_without_pairs(name: str) -> None:
    found = solved(name, example())
    assert found.shape == (40, 25)
    assert np.isfinite(found).all()


@named(OWN_MEMORY)
def test_who_has_the_items_of_one_colour_is_recommended_the_rest_of_that_colour(name: str) -> None:
    data = checkerboard(20, 16)
    hidden = (data.pair_users == 0) & (data.indices == 2)
    found = solved(name, data.select(~hidden))[0]
    unseen = [item for item in range(16) if item % 2 or item == 2]
    assert max(unseen, key=lambda item: found[item]) == 2


@every_solver
def test_a_restored_solution_is_the_same_and_continues_to_the_same(name: str) -> None:
    data = example()
    first, second = started(name, data), started(name, data, seed=1)
    first.sweep()
    second.restore(first.state())
    assert scores(second, data).tobytes() == scores(first, data).tobytes()
    if SOLVERS[name].n_sweeps > 1:
        first.sweep()
        second.sweep()
        assert scores(second, data).tobytes() == scores(first, data).tobytes()


@every_solver
def test_a_scorer_and_a_state_stay_as_they_are_when_the_solution_goes_on(name: str) -> None:
    data = example()
    solution = started(name, data)
    solution.sweep()
    scorer, state = solution.scorer(), solution.state()
    before = scorer.scores(np.arange(40)).tobytes()
    kept = {key: array.copy() for key, array in state.items()}
    solution.sweep()
    assert scorer.scores(np.arange(40)).tobytes() == before
    assert all(np.array_equal(array, kept[key]) for key, array in state.items())


@every_solver
def test_the_bits_do_not_depend_on_the_number_of_threads(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # blocks so small that there are several to share
    monkeypatch.setattr("ratiorec.solvers.neighbours._ENTRIES_AT_ONCE", 200)
    monkeypatch.setattr("ratiorec.solvers.wmf._GATHERED", 200)
    monkeypatch.setattr("ratiorec.solvers.wmf._ROWS_PER_BLOCK", 7)
    monkeypatch.setattr("ratiorec.solvers.ease.ROWS_PER_BLOCK", 7)
    monkeypatch.setattr("ratiorec.solvers.ease._PIVOTS_AT_ONCE", 7)
    monkeypatch.setattr("ratiorec.solvers.local_ease._LEAST_SYSTEMS", 7)
    monkeypatch.setattr("ratiorec.encoders.spectral.ROWS_PER_BLOCK", 7)
    found = []
    for n_threads in (1, 2, 5):
        torch.set_num_threads(n_threads)
        with deterministic_threads():
            found.append(solved(name, example()).tobytes())
    assert found[0] == found[1] == found[2]


@needs_cuda
@named(OWN_MEMORY)
def test_a_graphics_card_gives_the_same_scores(name: str) -> None:
    data = example()
    found = solved(name, data, device=torch.device("cuda"))
    np.testing.assert_allclose(found, solved(name, data), rtol=1e-3, atol=1e-4)


@every_solver
def test_equal_weights_of_pairs_change_nothing(name: str) -> None:
    data = example()
    weighted = dataclasses.replace(data, weights=np.full(data.n_pairs, 7, np.float32))
    assert solved(name, weighted).tobytes() == solved(name, data).tobytes()


@named(OWN_MEMORY)
def test_what_does_not_fit_is_refused_before_it_is_taken(name: str) -> None:
    data = random_interactions(np.random.default_rng(0), n_users=9, n_items=3000, n_pairs=99)
    _ = data.item_degrees, data.pair_users
    tracemalloc.start()
    with pytest.raises(MemoryBudgetError) as refused:
        started(name, data, memory_mb=0.01)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * 3000 * 64  # less than a table of the items, not to speak of a matrix
    assert isinstance(refused.value, MemoryError)
    assert SOLVERS[name].name in refused.value.where
    assert "3,000 items" in refused.value.found


def test_popularity_fits_into_any_budget() -> None:
    data = example()
    assert scores(started("popularity", data, memory_mb=0), data)[0, 0] == data.item_degrees[0]
