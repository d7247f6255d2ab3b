from __future__ import annotations

import importlib.util
import sys

import numpy as np
import pytest
import torch

from ratiorec.errors import MissingExtraError
from ratiorec.solvers.implicit_als import ImplicitFactors
from ratiorec.solvers.settings import ImplicitALS
from reference.solvers import best_vectors
from support.small_data import as_csr, random_interactions

needs_implicit = pytest.mark.skipif(
    importlib.util.find_spec("implicit") is None, reason="implicit is not installed"
)
DATA = random_interactions(np.random.default_rng(0), n_users=30, n_items=20, n_pairs=150)


def started(solver: ImplicitALS, *, seed: int = 0) -> ImplicitFactors:
    rng = np.random.default_rng(seed)
    return solver.start(DATA, rng=rng, device=torch.device("cpu"), memory_mb=512)


@needs_implicit
def test_many_sweeps_end_where_the_exact_solution_ends() -> None:
    # three steps of conjugate gradients solve three dimensions exactly
    solution = started(ImplicitALS(dimension=3, l2=0.5, alpha=5.0))
    for _ in range(60):
        solution.sweep()
    tables = solution.state()
    users, items = tables["users"].astype(np.float64), tables["items"].astype(np.float64)
    by_user = [DATA.positives(user).tolist() for user in range(30)]
    expected = best_vectors(items, by_user, confidence=5.0 - 1, l2=0.5)
    np.testing.assert_allclose(users, expected, rtol=0.02, atol=0.02)


@needs_implicit
def test_sweeps_one_by_one_are_the_iterations_of_one_fit() -> None:
    from implicit.cpu.als import AlternatingLeastSquares

    solution = started(ImplicitALS(dimension=4, l2=0.5, alpha=5.0))
    model = AlternatingLeastSquares(4, regularization=0.5, alpha=5.0, iterations=3)
    start = solution.state()
    model.user_factors, model.item_factors = start["users"], start["items"]
    model.fit(as_csr(DATA), show_progress=False)
    for _ in range(3):
        solution.sweep()
    np.testing.assert_allclose(solution.state()["users"], model.user_factors, rtol=1e-5)
    np.testing.assert_allclose(solution.state()["items"], model.item_factors, rtol=1e-5)


@needs_implicit
def test_the_start_follows_from_the_seed_alone() -> None:
    first, again, other = (
        started(ImplicitALS(4), seed=seed).state()["items"] for seed in (0, 0, 1)
    )
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


@needs_implicit
def test_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    started(ImplicitALS(4)).sweep()
    assert capfd.readouterr() == ("", "")


def test_without_the_library_the_message_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in [*sys.modules, "implicit"]:
        if name.partition(".")[0] == "implicit":
            monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtraError) as refused:
        started(ImplicitALS())
    assert "pip install 'ratiorec[rivals]'" in refused.value.wanted
