from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratiorec.errors import ModelError
from ratiorec.scorers import Autoencoder, by_cosine
from reference.scorers import autoencoder_scores
from support.small_scorers import autoencoder, random_rows, rows_of

PARTS = autoencoder(random_rows(3, 6), 6, n_hidden=4, n_latent=2).arrays()
HISTORIES = rows_of([[0, 2], [1]])


@given(st.lists(st.sets(st.integers(0, 8)).map(sorted), min_size=1, max_size=6))
def test_scores_are_what_the_layers_give(lists: list[list[int]]) -> None:
    model = autoencoder(rows_of(lists), 9)
    expected = [autoencoder_scores(model, history) for history in lists]
    np.testing.assert_allclose(model.scores(np.arange(len(lists))), expected, atol=1e-4)


def test_items_are_similar_by_the_cosine_of_their_output_weights() -> None:
    model = autoencoder(random_rows(5, 30), 30)
    found = model.similarity().scores(np.arange(30))
    assert found.tobytes() == by_cosine(model.item_out).scores(np.arange(30)).tobytes()


@pytest.mark.parametrize("name", list(PARTS))
def test_a_layer_of_another_size_is_refused(name: str) -> None:
    for axis in range(PARTS[name].ndim):
        shorter = np.delete(PARTS[name], 0, axis)
        with pytest.raises(ModelError, match="malformed"):
            Autoencoder(**PARTS | {name: shorter}, histories=HISTORIES)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("item_in", 1.5e38),  # each value is fine, and the sum over a history is not
        ("to_latent", 1e38),
        ("from_latent", 1e38),
        ("item_out", 1e38),
        ("bias_in", 2e38),
        ("bias_latent", 2e38),
        ("bias_hidden", 2e38),
        ("bias_out", 2e38),
    ],
)
def test_a_layer_whose_sums_may_overflow_is_refused(name: str, value: float) -> None:
    with pytest.raises(ModelError, match=f"not finite.*where: {name};"):
        Autoencoder(**PARTS | {name: np.full_like(PARTS[name], value)}, histories=HISTORIES)


def test_two_layers_that_overflow_together_are_refused() -> None:
    large = {name: PARTS[name] * np.float32(1e20) for name in ("to_latent", "from_latent")}
    for name, array in large.items():
        Autoencoder(**PARTS | {name: array}, histories=HISTORIES)
    with pytest.raises(ModelError, match=r"not finite.*from_latent"):
        Autoencoder(**PARTS | large, histories=HISTORIES)


@pytest.mark.parametrize(("n_hidden", "n_latent"), [(0, 2), (4, 0)])
def test_an_empty_layer_is_refused(n_hidden: int, n_latent: int) -> None:
    with pytest.raises(ModelError, match="empty"):
        autoencoder(HISTORIES, 6, n_hidden=n_hidden, n_latent=n_latent)
