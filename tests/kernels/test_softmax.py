from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from ratiorec.errors import ConfigError
from ratiorec.kernels import softmax
from ratiorec.kernels.blocks import deterministic_threads
from ratiorec.kernels.softmax import (
    LogTotals,
    TiledSoftmax,
    automatic,
    kth_best_score,
    reference,
    tiled,
    weighted_log_totals,
)


def draw(
    n_users: int, n_items: int, dimension: int, *, largest: float = 5.0
) -> tuple[Tensor, Tensor, Tensor]:
    """Vectors and weights in double precision; the largest score is as given."""
    drawn = torch.Generator().manual_seed(n_users * n_items)
    sizes = (n_users, dimension), (n_items, dimension), (n_users,)
    users, items, weights = (
        torch.randn(*size, generator=drawn, dtype=torch.float64) for size in sizes
    )
    return users * largest / (users @ items.T).abs().max(), items, weights.square()


def assert_same(found: LogTotals, wanted: LogTotals, *, tolerance: float) -> None:
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


@given(
    n_users=st.integers(1, 9),
    n_items=st.integers(1, 12),
    sizes=st.builds(TiledSoftmax, st.integers(1, 4), st.integers(1, 5), st.integers(1, 3)),
    largest=st.sampled_from([0.1, 5.0, 300.0]),
)
def test_tiles_of_any_size_give_the_value_and_gradient_of_whole_matrices(
    n_users: int, n_items: int, sizes: TiledSoftmax, largest: float
) -> None:
    case = draw(n_users, n_items, 3, largest=largest)
    assert_same(sizes(*case), reference(*case), tolerance=1e-12 * max(1, largest))


@pytest.mark.parametrize("backend", ["reference", "tiled"])
def test_the_gradient_is_that_of_the_weighted_sum(backend: str) -> None:
    users, items, weights = draw(5, 7, 3)

    def value(users: Tensor, items: Tensor) -> Tensor:
        return 3 * weighted_log_totals(users, items, weights, backend=backend)

    assert torch.autograd.gradcheck(value, (users.requires_grad_(), items.requires_grad_()))


@pytest.mark.parametrize("score", [1e4, -1e4])
def test_scores_beyond_the_range_of_an_exponential_stay_finite(score: float) -> None:
    case = torch.ones(1, 1), torch.tensor([[score], [0.0], [0.0]]), torch.ones(1)
    found = tiled(*case)
    assert float(found.value) == pytest.approx(max(score, 0.6931472), rel=1e-6)
    assert all(part.isfinite().all() for part in found)


def test_the_number_of_threads_changes_no_bit() -> None:
    users, items, weights = (part.float() for part in draw(300, 4100, 67))
    results = []
    for n_threads in (1, 3):
        before = torch.get_num_threads()
        torch.set_num_threads(n_threads)
        try:
            with deterministic_threads():
                results.append((*automatic(users, items, weights), kth_best_score(users, items, 7)))
        finally:
            torch.set_num_threads(before)
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


class LargestStorage(TorchDispatchMode):
    """Notes the most bytes in one piece of memory made inside."""

    n_bytes = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        result = function(*args, **(kwargs or {}))
        if isinstance(result, Tensor):
            self.n_bytes = max(self.n_bytes, result.untyped_storage().nbytes())
        return result


def test_nothing_of_the_size_of_all_pairs_is_made() -> None:
    users, items, weights = draw(400, 300, 2)
    with LargestStorage() as largest:
        weighted_log_totals(users.requires_grad_(), items.requires_grad_(), weights).backward()
        kth_best_score(users, items, 5)
    assert largest.n_bytes < 400 * 300 * 8


@given(n_items=st.integers(1, 12), k=st.integers(1, 14), tile=st.integers(1, 5))
def test_the_kth_best_score_is_that_of_the_sorted_list(n_items: int, k: int, tile: int) -> None:
    users, items, _ = draw(5, n_items, 3)
    ranked = (users @ items.T).sort(-1, descending=True).values
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(softmax, "CACHE_SIZED", TiledSoftmax(2, tile))
        found = kth_best_score(users, items, k)
    torch.testing.assert_close(found, ranked[:, min(k, n_items) - 1], rtol=1e-12, atol=0)


def test_triton_is_refused_where_there_is_no_gpu() -> None:
    users, items, weights = draw(2, 3, 2)
    with pytest.raises(ConfigError, match="vectors on cpu"):
        weighted_log_totals(users, items, weights, backend="triton")
