from __future__ import annotations

import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest

from ratiorec.scorers import InnerProduct
from ratiorec.scorers import neighbour_embedding as module
from ratiorec.scorers.item_map import ItemMap, principal_plane
from ratiorec.scorers.neighbour_embedding import (
    neighbour_embedding,
    neighbours_kept,
    seconds_to_map,
)
from support.small_scorers import random_floats


def clustered(
    n: int, *, n_clusters: int = 40, dimension: int = 16, spread: float = 0.3
) -> np.ndarray:
    """Vectors around centres, one after the other."""
    rng = np.random.default_rng([n, n_clusters])
    centres = rng.standard_normal((n_clusters, dimension))
    noise = spread * rng.standard_normal((n, dimension))
    return (centres[np.arange(n) % n_clusters] + noise).astype(np.float32)


def map_of(vectors: np.ndarray) -> ItemMap:
    found = ItemMap.of(InnerProduct(vectors[:1], vectors))
    assert found is not None
    return found


def test_clusters_of_the_vectors_are_clusters_on_the_map() -> None:
    places = map_of(clustered(600)).places.astype(float)
    apart = np.linalg.norm(places[:, None] - places[None], axis=2)
    np.fill_diagonal(apart, np.inf)
    clusters = np.arange(600) % 40
    assert (clusters[apart.argmin(axis=1)] == clusters).mean() > 0.99
    plane, _ = principal_plane(clustered(600))
    apart = np.linalg.norm(plane[:, None] - plane[None], axis=2)
    np.fill_diagonal(apart, np.inf)
    assert (clusters[apart.argmin(axis=1)] == clusters).mean() < 0.9  # the task is not too easy


def test_the_map_keeps_more_neighbours_than_the_plane_and_says_how_many() -> None:
    vectors = clustered(400)
    found = map_of(vectors)
    assert found.kept is not None
    assert found.kept_by_plane is not None
    assert found.kept > 0.9 > 0.6 > found.kept_by_plane > 0.3
    directions = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    alike = directions @ directions.T
    apart = np.linalg.norm(found.places[:, None] - found.places[None], axis=2)
    np.fill_diagonal(alike, -np.inf)
    np.fill_diagonal(apart, np.inf)
    hits = [
        len({*np.argsort(apart[item])[:10]} & {*np.argsort(-alike[item])[:30]}) / 10
        for item in range(400)
    ]
    assert found.kept == pytest.approx(np.mean(hits), abs=0.01)  # but for ties of rounding


def test_an_item_is_not_its_own_neighbour_even_where_others_lie_on_it() -> None:
    places = np.zeros((12, 2), np.float32)
    near = np.array([[other for other in range(12) if other != item] for item in range(12)])
    assert neighbours_kept(places, near, np.arange(12)) == 1


def test_the_map_has_the_same_bits_whatever_the_number_of_threads() -> None:
    code = (
        "import sys; sys.path.insert(0, 'tests')\n"
        "from scorers.test_neighbour_embedding import clustered, digest\n"
        "print(digest(clustered(700, dimension=40)))"
    )
    found = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout == digest(clustered(700, dimension=40)) + "\n"


def digest(vectors: np.ndarray) -> str:
    return hashlib.sha256(map_of(vectors).places.tobytes()).hexdigest()


def test_the_push_by_a_grid_is_nearly_that_of_all_pairs() -> None:
    places = 10 * np.random.default_rng(1).standard_normal((1000, 2))
    differences = places[:, None] - places[None]
    likeness = 1 / (1 + (differences**2).sum(axis=2))
    expected = (likeness[..., None] ** 2 * differences).sum(axis=1) / (likeness.sum() - 1000)
    found = module._push(places)
    assert np.linalg.norm(found - expected) < 0.2 * np.linalg.norm(expected)


def test_the_pull_is_that_of_the_pairs_that_are_near() -> None:
    near = np.array([[1], [2], [0], [0]])
    places = np.random.default_rng(2).standard_normal((4, 2))
    graph = module._graph_of(near)
    assert graph.data.sum() == pytest.approx(1)
    expected = np.zeros((4, 2))
    for i in range(4):
        for j in range(4):
            difference = places[i] - places[j]
            expected[i] += graph.toarray()[i, j] * difference / (1 + difference @ difference)
    found = module._pull(places, graph, np.repeat(np.arange(4), np.diff(graph.indptr)))
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_items_beyond_the_budget_lie_between_those_that_they_are_most_like(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    vectors = clustered(600)
    monkeypatch.setattr(module, "_MOST_WORK", 600 * 64 * 150)  # a quarter of them is embedded
    found = map_of(vectors)
    assert found.kept is not None
    assert found.kept > 0.4
    places, clusters = found.places.astype(float), np.arange(600) % 40
    apart = np.linalg.norm(places[:, None] - places[None], axis=2)
    np.fill_diagonal(apart, np.inf)
    assert (clusters[apart.argmin(axis=1)] == clusters).mean() > 0.9


@pytest.mark.parametrize(("name", "value"), [("FEWEST_ITEMS", 201), ("MOST_ITEMS", 199)])
def test_too_few_and_too_many_items_have_the_plane(
    name: str, value: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, name, value)
    vectors = clustered(200)
    found = map_of(vectors)
    assert found.kept is None
    assert found.places.tobytes() == principal_plane(vectors)[0].tobytes()
    assert seconds_to_map(200) == 0


@pytest.mark.parametrize("n_alike", [2, 40, 99])
def test_items_that_point_one_way_leave_the_others_finite_places(n_alike: int) -> None:
    vectors = random_floats(100, 8)
    vectors[:n_alike] = vectors[0]
    vectors[-1] = 0
    places = map_of(vectors).places
    assert np.isfinite(places).all()
    assert np.abs(places).max() == 1


def test_two_groups_that_share_nothing_part() -> None:
    near = np.array([[1, 2], [0, 2], [0, 1], [4, 5], [3, 5], [3, 4]])
    start = np.random.default_rng(0).standard_normal((6, 2)).astype(np.float32)
    places = neighbour_embedding(near, start)
    widths = [np.ptp(places[group], axis=0).max() for group in (slice(3), slice(3, 6))]
    assert np.linalg.norm(places[:3].mean(axis=0) - places[3:].mean(axis=0)) > 2 * max(widths)


def test_the_time_of_a_map_is_foretold_within_reason() -> None:
    assert 5 < seconds_to_map(40_000, 64) < 20
    assert seconds_to_map(100_000) < 20
    assert seconds_to_map(1_000) < 0.5
