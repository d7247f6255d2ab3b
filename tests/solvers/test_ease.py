from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from ratiorec.data.interactions import Interactions
from ratiorec.errors import ConfigError, MemoryBudgetError
from ratiorec.kernels.blocks import deterministic_threads
from ratiorec.scorers import ItemWeights
from ratiorec.solvers import ease
from ratiorec.solvers.settings import EASE
from reference.solvers import item_weights, pair_matrix
from support.small_data import interactions, random_interactions

CPU = torch.device("cpu")
DATA = random_interactions(np.random.default_rng(0), n_users=60, n_items=23, n_pairs=400)


def histories(data: Interactions) -> list[list[int]]:
    return [data.positives(user).tolist() for user in range(data.n_users)]


def weights(data: Interactions, l2: float) -> NDArray[np.float32]:
    solution = EASE(l2).start(data, rng=np.random.default_rng(0), device=CPU, memory_mb=512)
    scorer = solution.scorer()
    assert isinstance(scorer, ItemWeights)
    return scorer.weights


@pytest.fixture(params=["in place", "by blocks"])
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways to the inverse: that of the processor, and that of a GPU."""
    if request.param == "by blocks":
        monkeypatch.setattr(ease, "_inverse_in_place", ease._inverse_by_blocks)


@pytest.mark.usefixtures("_way")
@pytest.mark.parametrize("l2", [0.5, 20.0, 500.0])
def test_the_weights_are_those_of_the_inverse_in_double_precision(l2: float) -> None:
    expected = item_weights(histories(DATA), 23, l2=l2)
    np.testing.assert_allclose(weights(DATA, l2), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.usefixtures("_way")
def test_every_column_is_the_ridge_regression_of_an_item_on_the_others() -> None:
    pairs = pair_matrix(histories(DATA), 23)
    found = weights(DATA, 7.0).astype(np.float64)
    for item in range(23):
        others = np.arange(23) != item
        residual = pairs[:, item] - pairs @ found[:, item]
        # the normal equations: Xᵀ(x − X b) = λ b on all items but the one itself
        np.testing.assert_allclose(
            pairs[:, others].T @ residual, 7.0 * found[others, item], atol=1e-4
        )
        assert found[item, item] == 0


@pytest.mark.usefixtures("_way")
@pytest.mark.parametrize("n_rows", [1, 7, 22, 23, 100])
def test_the_size_of_the_blocks_changes_nothing(
    n_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = weights(DATA, 5.0)
    monkeypatch.setattr(ease, "ROWS_PER_BLOCK", n_rows)
    monkeypatch.setattr(ease, "_PIVOTS_AT_ONCE", n_rows)
    monkeypatch.setattr(ease, "_DENSE_ENTRIES_AT_ONCE", n_rows)
    with deterministic_threads():
        np.testing.assert_allclose(weights(DATA, 5.0), whole, rtol=1e-5, atol=1e-7)


def test_an_item_without_users_has_no_say_and_no_score() -> None:
    data = interactions([0, 0, 1, 1, 2], [0, 1, 0, 1, 0], n_users=4, n_items=3)
    found = weights(data, 1.0)
    assert not found[2].any()
    assert not found[:, 2].any()
    assert found[0, 1] > 0


def test_the_matrix_is_laid_out_as_it_is_read() -> None:
    assert weights(DATA, 5.0).flags.c_contiguous


def test_corrections_that_are_off_leave_the_ridge_alone() -> None:
    assert EASE(5.0).ridges(DATA.item_degrees).tolist() == [5.0] * 23
    assert EASE(5.0).popularity(DATA.item_degrees).tolist() == [1.0] * 23


@pytest.mark.parametrize("n_items", [100_000, 1_000_000])
def test_a_large_catalogue_is_refused_at_once_with_what_to_use_instead(n_items: int) -> None:
    data = interactions([0, 1], [0, n_items - 1], n_users=2, n_items=n_items)
    with pytest.raises(MemoryBudgetError) as refused:
        EASE().start(data, rng=np.random.default_rng(0), device=CPU, memory_mb=16 * 1024)
    gib = f"{8 * n_items**2 / 2**30:,.0f}"[:-3]  # two matrices of float32, to some digits
    assert f"would need {gib}" in refused.value.what
    assert refused.value.found == f"a budget of 16.0 GiB for {n_items:,} items"
    assert refused.value.wanted.endswith("or local-ease, item-knn or dregn-cf")


@pytest.mark.usefixtures("_way")
def test_a_penalty_that_vanishes_in_single_precision_is_refused() -> None:
    users, items = np.divmod(np.arange(300 * 4), 4)
    data = interactions(users, items, n_users=300, n_items=4)  # four equal columns
    with pytest.raises(ConfigError, match="single precision"):
        weights(data, 1e-9)
