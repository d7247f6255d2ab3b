from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

from ratiorec.data.interactions import Interactions
from ratiorec.scorers import GraphFilterScorer, StoredScorer, WalkScorer
from ratiorec.solvers.graph_filter import gains_of, leading_eigenvectors, response
from ratiorec.solvers.settings import AnySolver, GraphFilter, Walk
from support.small_data import as_csr, random_interactions

CPU = torch.device("cpu")
DATA = random_interactions(np.random.default_rng(0), n_users=60, n_items=23, n_pairs=400)
EVERYONE = np.arange(60)


def solved(solver: AnySolver, data: Interactions = DATA) -> StoredScorer:
    rng = np.random.default_rng(0)
    return solver.start(data, rng=rng, device=CPU, memory_mb=512).scorer()


def item_graph(data: Interactions = DATA) -> NDArray[np.float64]:
    """P = D_I^−½ Xᵀ D_U^−1 X D_I^−½."""
    pairs = as_csr(data).toarray()
    normed = pairs / np.sqrt(pairs.sum(1, keepdims=True).clip(1)) / np.sqrt(pairs.sum(0).clip(1))
    return np.asarray(normed.T @ normed, np.float64)


def filtered(settings: GraphFilter, passed: NDArray[np.float64]) -> NDArray[np.float64]:
    """The scores of a user with each single item, by h(P) + α V Vᵀ, the diagonal of P left out."""
    values, vectors = np.linalg.eigh(item_graph())
    leading = vectors[:, -settings.n_eigenvectors :]
    matrix = passed + settings.low_pass * leading @ leading.T
    known = values[-settings.n_eigenvectors :][::-1]
    matrix -= np.diag(gains_of(settings, known)[0] * np.diagonal(item_graph()))
    powers = DATA.item_degrees.clip(1) ** settings.popularity_exponent
    return matrix / powers[:, None] * powers


def found_for_items(settings: GraphFilter) -> NDArray[np.float32]:
    return solved(settings).similarity().scores(np.arange(23))


@pytest.mark.parametrize("plateau", [1.0, 1.5, 10.0])
def test_with_all_eigenvectors_the_filter_is_that_of_the_response(plateau: float) -> None:
    settings = GraphFilter(23, plateau, low_pass=0.3, popularity_exponent=0.4)
    values, vectors = np.linalg.eigh(item_graph())
    exact = vectors * response(settings, values) @ vectors.T
    np.testing.assert_allclose(found_for_items(settings), filtered(settings, exact), atol=2e-5)


def test_it_is_what_chebyshev_interpolation_of_the_response_tends_to() -> None:
    settings = GraphFilter(23, plateau=1.5, low_pass=0.2, popularity_exponent=0.1)
    found = found_for_items(settings)

    def interpolated(degree: int) -> NDArray[np.float64]:
        """Σ_j c_j T_j(I − 2P), the coefficients from the response at the Chebyshev points."""
        weights = chebyshev.chebinterpolate(lambda x: response(settings, (1 - x) / 2), degree)
        before, place = np.eye(23), np.eye(23) - 2 * item_graph()
        now, total = place, weights[0] * np.eye(23) + weights[1] * place
        for weight in weights[2:]:
            before, now = now, 2 * place @ now - before
            total += weight * now
        return total

    gaps = [np.abs(found - filtered(settings, interpolated(n))).max() for n in (3, 8, 200)]
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[2] < 1e-4


def test_without_plateau_and_low_pass_it_is_a_walk() -> None:
    beta = 0.3
    walk = solved(Walk(0.5 + beta, 1.0, 0.5 - beta)).scores(EVERYONE)
    found = solved(GraphFilter(7, 1.0, 0.0, beta)).scores(EVERYONE)
    np.testing.assert_allclose(found, walk, rtol=1e-5, atol=1e-6)


def test_the_response_is_flat_in_the_middle_and_a_line_without_a_plateau() -> None:
    places = np.linspace(0, 1, 11)
    np.testing.assert_allclose(response(GraphFilter(plateau=1.0), places), places, atol=1e-12)
    flat = response(GraphFilter(plateau=10.0), places)
    assert (flat[0], flat[5], flat[10]) == (0, 0.5, 1)
    np.testing.assert_allclose(flat[2:9], 0.5, atol=0.01)


def test_below_the_eigenvalues_known_the_response_is_the_line_to_the_last() -> None:
    settings, known = GraphFilter(plateau=2.0, low_pass=0.25), np.array([1.0, 0.7, 0.2, 0.0])
    linear, gains = gains_of(settings, known)
    assert linear == pytest.approx((response(settings, np.array([0.2]))[0]) / 0.2)
    np.testing.assert_allclose(gains[:3] + linear * known[:3] - 0.25, response(settings, known[:3]))
    assert gains[2] == pytest.approx(0.25)
    assert gains[3] == 0  # a direction that is not there


def test_the_eigenvectors_are_the_leading_ones() -> None:
    rng = np.random.default_rng(3)
    data = random_interactions(rng, n_users=300, n_items=200, n_pairs=2500)
    values, vectors = np.linalg.eigh(item_graph(data))
    found = leading_eigenvectors(data, 12, n_iterations=40)
    np.testing.assert_allclose(found.values, values[::-1][:12], rtol=1e-4)
    overlap = np.abs(np.einsum("ik,ik->k", found.vectors, vectors[:, ::-1][:, :12]))
    np.testing.assert_allclose(overlap[:6], 1, atol=1e-3)
    np.testing.assert_allclose(found.vectors.T @ found.vectors, np.eye(12), atol=1e-5)


def test_few_iterations_keep_nearly_all_that_the_leading_ones_hold() -> None:
    rng = np.random.default_rng(3)
    data = random_interactions(rng, n_users=300, n_items=200, n_pairs=2500)
    held = np.linalg.eigvalsh(item_graph(data))[::-1][:40].sum()
    assert leading_eigenvectors(data, 40).values.sum() > 0.97 * held


@pytest.mark.parametrize("n_items", [1, 2])
def test_a_catalogue_smaller_than_its_eigenvectors_is_no_obstacle(n_items: int) -> None:
    data = random_interactions(np.random.default_rng(0), n_users=3, n_items=n_items, n_pairs=4)
    found = solved(GraphFilter(), data)
    assert isinstance(found, GraphFilterScorer)
    assert found.eigenvectors.shape == (n_items, n_items)
    assert np.isfinite(found.scores(np.arange(3))).all()


def test_a_walk_to_nearest_items_keeps_the_largest_of_each() -> None:
    everything = solved(Walk()).similarity().scores(np.arange(23))
    found = solved(Walk(n_neighbours=4)).similarity().scores(np.arange(23))
    fourth = np.sort(everything, axis=0)[-4]
    expected = np.where(everything >= fourth - 1e-7, everything, 0)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)
    assert isinstance(solved(Walk()), WalkScorer)
