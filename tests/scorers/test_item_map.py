from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from ratiorec.errors import ModelError
from ratiorec.scorers import item_map
from ratiorec.scorers.item_map import ItemMap, principal_plane
from support.small_scorers import MAKERS, random_floats, random_rows


def test_the_plane_is_that_of_the_largest_variances() -> None:
    """The places are those of a singular value decomposition, but for the signs of the axes."""
    vectors = np.random.default_rng(3).standard_normal((50, 6)).astype(np.float32)
    directions = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    left, sizes, _ = np.linalg.svd(directions - directions.mean(axis=0), full_matrices=False)
    expected = np.abs(left[:, :2] * sizes[:2])
    places, shown = principal_plane(vectors)
    np.testing.assert_allclose(np.abs(places), expected / expected.max(), atol=6e-5)
    assert shown == pytest.approx((sizes[:2] ** 2).sum() / (sizes**2).sum(), abs=6e-5)


@pytest.mark.parametrize(
    "vectors", [np.zeros((3, 2)), np.ones((1, 4)), np.array([[1.0], [-2.0], [3.0]])]
)
def test_items_that_span_no_plane_have_places_all_the_same(vectors: np.ndarray) -> None:
    places, shown = principal_plane(vectors.astype(np.float32))
    assert places.shape == (len(vectors), 2)
    assert np.isfinite(places).all()
    assert 0 <= shown <= 1 + 1e-9


def test_items_that_all_point_one_way_lie_in_one_place() -> None:
    vectors = np.outer([1, 2, 3, 7, 11], [0.1, 0.7, 0.3]).astype(np.float32)
    vectors[1:] = vectors[0] * np.array([[2], [4], [8], [16]], np.float32)
    places, shown = principal_plane(vectors)
    assert not places.any()
    assert shown == 1


@pytest.mark.parametrize("n_numbers", [1, 40, 64])
def test_the_plane_is_the_same_however_the_items_are_cut(
    n_numbers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    vectors = random_floats(50, 6)
    places, shown = principal_plane(vectors)
    monkeypatch.setattr(item_map, "_NUMBERS_AT_ONCE", n_numbers)
    in_blocks, shown_in_blocks = principal_plane(vectors)
    np.testing.assert_allclose(in_blocks, places, atol=1.1e-4)  # the last digit may round otherwise
    assert shown_in_blocks == pytest.approx(shown, abs=1.1e-4)


def test_a_map_takes_less_memory_than_the_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(item_map, "_NUMBERS_AT_ONCE", 2**14)
    vectors = random_floats(50_000, 32)
    tracemalloc.start()
    try:
        principal_plane(vectors)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < vectors.nbytes


@pytest.mark.parametrize("kind", list(MAKERS))
def test_there_is_a_map_where_items_are_vectors(kind: str) -> None:
    found = ItemMap.of(MAKERS[kind](random_rows(4, 9), 9))
    assert (found is not None) == (
        kind in ("inner_product", "autoencoder", "item_factors", "blend", "cold_items")
    )


def test_a_map_comes_back_as_it_was() -> None:
    before = ItemMap(*principal_plane(random_floats(9, 4)), kept=0.5, kept_by_plane=0.25)
    after = ItemMap.stored(before.arrays(), 9)
    assert after is not None
    assert after.places.tobytes() == before.places.tobytes()
    assert (after.shown, after.kept, after.kept_by_plane) == (before.shown, 0.5, 0.25)


def test_a_map_from_before_neighbours_were_counted_has_no_such_figure() -> None:
    arrays = ItemMap(*principal_plane(random_floats(9, 4))).arrays()
    assert "map.kept" not in arrays
    stored = ItemMap.stored(arrays, 9)
    assert stored is not None
    assert stored.kept is None


def test_arrays_without_a_map_have_none() -> None:
    assert ItemMap.stored({"scorer.items": np.zeros((9, 4), np.float32)}, 9) is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"map.places": np.zeros((8, 2), np.float32)},
        {"map.places": np.zeros((9, 3), np.float32)},
        {"map.places": np.zeros(18, np.float32)},
        {"map.places": np.zeros((9, 2))},
        {"map.places": np.zeros((9, 2), np.int64)},
        {"map.places": np.full((9, 2), np.nan, np.float32)},
        {"map.places": np.full((9, 2), np.inf, np.float32)},
        {"map.places": np.full((9, 2), -1.5, np.float32)},
        {"map.shown": np.array([1.5], np.float32)},
        {"map.shown": np.array([np.nan], np.float32)},
        {"map.shown": np.array(0.5, np.float32)},
        {"map.kept": np.array([0.5], np.float32)},
        {"map.kept": np.array([0.5, 1.5], np.float32)},
        {"map.kept": np.array([0.5, 0.5])},
    ],
)
def test_a_map_that_does_not_fit_is_refused(wrong: dict[str, np.ndarray]) -> None:
    arrays = ItemMap(*principal_plane(random_floats(9, 4))).arrays()
    (name,) = wrong
    with pytest.raises(ModelError, match=f"the map of the items does not fit.*{name}"):
        ItemMap.stored({**arrays, **wrong}, 9)
