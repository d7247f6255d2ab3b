from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from ratiorec.data.interactions import Interactions
from ratiorec.encoders import spectral
from ratiorec.encoders.settings import LightGCN, Spectral
from ratiorec.encoders.spectral import orthonormal, spectral_table
from ratiorec.errors import ConfigError
from ratiorec.kernels.blocks import deterministic_threads
from support.small_data import interactions, random_interactions

CPU = torch.device("cpu")
DATA = random_interactions(np.random.default_rng(1), n_users=60, n_items=40, n_pairs=500)


def table_of(data: Interactions, part: Spectral, dimension: int = 6) -> NDArray[np.float64]:
    table = spectral_table(part, data, dimension, rng=np.random.default_rng(0))
    assert table.dtype == np.float32
    assert table.shape == (data.n_users + data.n_items, dimension)
    return table.astype(np.float64)


def dense_pairs(data: Interactions) -> NDArray[np.float64]:
    """D_U^-½ X D_I^-½ as a whole matrix."""
    pairs = np.zeros((data.n_users, data.n_items))
    for user in range(data.n_users):
        pairs[user, data.positives(user)] = 1
    rows, columns = (np.maximum(pairs.sum(axis), 1) ** -0.5 for axis in (1, 0))
    return np.asarray(rows[:, None] * pairs * columns)


def with_length(half: NDArray[np.float64], length: float) -> NDArray[np.float64]:
    return np.asarray(half * length / np.sqrt((half**2).sum(1).mean()))


@pytest.mark.parametrize("popularity", [0.0, 0.25])
def test_users_and_items_stand_where_the_singular_vectors_put_them(popularity: float) -> None:
    part = Spectral(rms_length=3.0, popularity_exponent=popularity, n_iterations=30)
    table = table_of(DATA, part)
    left, _, right = np.linalg.svd(dense_pairs(DATA))
    users = with_length(left[:, :6], 3.0)
    items = with_length(DATA.item_degrees[:, None] ** popularity * right[:6].T, 3.0)
    # a singular vector has no sign of its own, and inner products do not see it
    np.testing.assert_allclose(table[:60] @ table[60:].T, users @ items.T, atol=2e-3)


def test_first_vectors_have_the_length_asked_for() -> None:
    table = table_of(DATA, Spectral(rms_length=0.5))
    for half in (table[:60], table[60:]):
        assert np.sqrt((half**2).sum(1).mean()) == pytest.approx(0.5, rel=1e-5)


def test_users_stand_closer_to_their_items_than_to_others() -> None:
    table = table_of(DATA, Spectral())
    scores = table[:60] @ table[60:].T
    liked = dense_pairs(DATA) > 0
    assert scores[liked].mean() > 3 * scores[~liked].mean()


def test_the_table_follows_from_the_seed_alone_whatever_the_number_of_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(spectral, "ROWS_PER_BLOCK", 7)
    tables = []
    before = torch.get_num_threads()
    try:
        for n_threads in (1, 2, 3):
            torch.set_num_threads(n_threads)
            with deterministic_threads():
                tables.append(table_of(DATA, Spectral()))
    finally:
        torch.set_num_threads(before)
    assert (tables[0] == tables[1]).all()
    assert (tables[0] == tables[2]).all()


def test_data_with_fewer_items_than_dimensions_have_the_rest_drawn_small() -> None:
    data = interactions([0, 0, 1, 2], [0, 1, 1, 2], n_users=4, n_items=4)
    table = table_of(data, Spectral(rms_length=1.0), dimension=16)
    assert np.isfinite(table).all()
    assert 0 < np.abs(table[:, 4:]).max() < 0.1
    assert (table[:, 4:].std(0) > 0).all()


def test_who_has_no_pairs_starts_at_nothing() -> None:
    data = interactions([0, 0, 1, 2], [0, 1, 1, 2], n_users=4, n_items=4)
    table = table_of(data, Spectral(n_oversamples=0), dimension=2)
    assert np.abs(table[3]).max() < 1e-6, "the fourth user"
    assert np.abs(table[7]).max() < 1e-6, "the fourth item"


def test_an_orthonormal_basis_leaves_out_directions_that_are_not_there() -> None:
    two = np.random.default_rng(0).standard_normal((50, 2), dtype=np.float32)
    table = np.hstack([two, two @ np.array([[1.0], [2.0]], np.float32)])
    basis = orthonormal(table)
    gram = basis.T @ basis
    np.testing.assert_allclose(np.sort(np.diag(gram)), [0, 1, 1], atol=1e-5)
    np.testing.assert_allclose(gram, np.diag(np.diag(gram)), atol=1e-5)
    np.testing.assert_allclose(basis @ (basis.T @ table), table, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "value"),
    [("rms_length", 0.0), ("rms_length", np.nan), ("n_iterations", 0), ("n_oversamples", -1)],
)
def test_a_setting_that_cannot_work_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=rf"encoder\.init\.{name}"):
        Spectral(**{name: value})


def test_an_encoder_starts_from_it() -> None:
    encoder = LightGCN(dimension=6, init=Spectral())(DATA, rng=np.random.default_rng(0), device=CPU)
    expected = torch.from_numpy(table_of(DATA, Spectral())).float()
    assert torch.equal(encoder.table.detach(), expected)
