"""Neighbour embedding: places on a plane for vectors, near one another where these are alike."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.fft
import scipy.sparse
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from ratiorec.scorers.factors import InnerProduct
from ratiorec.scorers.item_map import DIGITS, Places, Points, directions_of
from ratiorec.scorers.scorer import FloatMatrix, Indices, identity_pairs
from ratiorec.scorers.topk import Exact

FEWEST_ITEMS, MOST_ITEMS = 60, 200_000  # fewer and more have the principal plane alone
_MOST_WORK = 2**37  # products to find neighbours: some seconds of one core
_LEAST_DIMENSION = 64  # with fewer, choosing the nearest takes as long as the products
_MOST_JUDGED = 5_000  # items by which the neighbours kept are counted, where many are placed later
_ALIKE = 30  # neighbours among the vectors
_PULLED = 15  # of them, so many are pulled together
_ON_MAP = 10  # neighbours on the plane that are looked for among those alike
_LANDMARKS = 3  # an item that is placed later lies between so many
_EARLY_STEPS, _STEPS = 80, 250
_EXAGGERATION = 12.0
_FEWEST_NODES, _MOST_NODES = 64, 256


class Embedded(NamedTuple):
    """Places in [-1, 1], and the share of neighbours that they and the plane keep."""

    places: Places
    kept: float
    kept_by_plane: float


def embedded(vectors: FloatMatrix, plane: Places) -> Embedded:
    """The embedding of the directions of vectors that begins as their principal plane.

    Where there are too many to compare all with all, a sample is embedded and the others are
    placed beside it.
    """
    directions = _whole_numbers(vectors)
    rows = _landmarks(*directions.shape)
    near = _nearest(directions[rows], directions[rows])
    places = neighbour_embedding(near[:, :_PULLED], plane[rows])
    if len(rows) < len(vectors):
        places = _placed_later(places, directions, rows)
        rows = rows[:_MOST_JUDGED]
        near = _nearest(directions, directions, rows)
    found = _scaled(places)
    return Embedded(found, *(neighbours_kept(p, near, rows) for p in (found, plane)))


def _whole_numbers(vectors: FloatMatrix) -> FloatMatrix:
    """Directions in whole numbers, of which float32 has every inner product without rounding.

    By Cauchy and Schwarz no partial sum is beyond 4095² < 2²⁴, so that any order of additions,
    and any number of threads, finds the same neighbours.
    """
    scale = 4095 - np.sqrt(vectors.shape[1]) / 2  # rounding makes a vector so much longer at most
    blocks = [(scale * block).round().astype(np.float32) for block in directions_of(vectors)]
    return np.concatenate(blocks)


def _landmarks(n_items: int, dimension: int) -> Indices:
    """The items that are embedded: all of them, or as many as can be compared with all in time."""
    n = max(FEWEST_ITEMS, _MOST_WORK // (n_items * max(dimension, _LEAST_DIMENSION)))
    if n >= n_items:
        return np.arange(n_items)
    return np.random.default_rng(0).permutation(n_items)[:n]


def _nearest(items: FloatMatrix, others: FloatMatrix, rows: Indices | None = None) -> Indices:
    """The 30 others nearest to each of the items (or these rows of them), but not themselves."""
    users = np.arange(len(items)) if rows is None else rows
    k = min(_ALIKE, len(others) - 1)
    seen = identity_pairs(len(items)) if items.shape == others.shape else None
    return Exact(k)(InnerProduct(items, others), users, seen=seen).items


def _placed_later(places: Points, directions: FloatMatrix, landmarks: Indices) -> Points:
    """All items, those that are not embedded between the landmarks that they are most like."""
    everywhere = _between(directions, directions[landmarks], places)
    everywhere[landmarks] = places
    return everywhere


def placed_between(vectors: FloatMatrix, landmarks: FloatMatrix, places: Places) -> Places:
    """Places of more vectors, between those of the landmarks that they are most like."""
    between = _between(_whole_numbers(vectors), _whole_numbers(landmarks), places)
    return between.round(DIGITS).astype(np.float32)


def _between(directions: FloatMatrix, landmarks: FloatMatrix, places: NDArray[Any]) -> Points:
    scorer = InnerProduct(directions, landmarks)
    like = Exact(min(_LANDMARKS, len(landmarks)))(scorer, np.arange(len(directions))).items
    between: Points = places[like].astype(np.float64).mean(axis=1)
    return between


def _scaled(places: Points) -> Places:
    middle = (places.max(axis=0) + places.min(axis=0)) / 2
    farthest = float(np.abs(places - middle).max())
    scaled: Points = (places - middle) / max(farthest, 1e-9)
    return scaled.round(DIGITS).astype(np.float32)


def seconds_to_map(n_items: int, dimension: int = _LEAST_DIMENSION) -> float:
    """About how long `embedded` takes on one core: comparing directions, then embedding them."""
    if not FEWEST_ITEMS <= n_items <= MOST_ITEMS:
        return 0.0
    n = len(_landmarks(n_items, dimension))
    return 5.0 * n_items * n * max(dimension, _LEAST_DIMENSION) / _MOST_WORK + 1.2e-4 * n


def neighbours_kept(places: Places, near: Indices, rows: Indices) -> float:
    """The share of the 10 nearest on the map that are among the nearest of the vectors."""
    n = min(_ON_MAP, near.shape[1])
    found = cKDTree(places.astype(np.float64)).query(places[rows], k=n + 1)[1]
    # an item is nearest to itself, but where others lie in the same place it need not come first
    order = np.argsort(found == rows[:, None], axis=1, kind="stable")[:, :n]
    found = np.take_along_axis(found, order, axis=1)
    hits = [(found[:, [place]] == near).any(axis=1) for place in range(n)]
    return round(float(np.mean(hits)), DIGITS)


def neighbour_embedding(near: Indices, start: Places) -> Points:
    """t-SNE on a graph of neighbours, from a plane to begin with (theory: V1).

    Neighbours pull with equal weights; all pairs push, by way of a grid. It draws nothing.
    """
    graph = _graph_of(near)
    rows = np.repeat(np.arange(len(near)), np.diff(graph.indptr))
    places: Points = start.astype(np.float64)
    places *= 1e-4 / max(float(places[:, 0].std()), 1e-9)
    moves, gains = np.zeros_like(places), np.ones_like(places)
    rate = 4 * len(near) / _EXAGGERATION
    for step in range(_STEPS):
        is_early = step < _EARLY_STEPS
        slope = (_EXAGGERATION if is_early else 1.0) * _pull(places, graph, rows) - _push(places)
        gains = np.where((slope > 0) == (moves > 0), gains * 0.8, gains + 0.2).clip(0.01)
        moves = (0.5 if is_early else 0.8) * moves - rate * gains * slope
        places = places + moves
        places -= places.mean(axis=0)
    return places


def _graph_of(near: Indices) -> scipy.sparse.csr_array:
    """The neighbours in both directions; all weights together are 1."""
    n, k = near.shape
    pairs = (np.ones(n * k, np.float32), (np.repeat(np.arange(n), k), near.ravel()))
    graph = scipy.sparse.csr_array(pairs, shape=(n, n))
    graph = (graph + graph.T).tocsr()
    graph.sort_indices()
    graph.data /= 2 * n * k
    return graph


def _pull(places: Points, graph: scipy.sparse.csr_array, rows: Indices) -> Points:
    """Σ_j p_ij (y_i − y_j) / (1 + |y_i − y_j|²) for each i."""
    near = places.astype(np.float32)
    apart = [near[rows, axis] - near[graph.indices, axis] for axis in range(2)]
    weights = graph.data / (1 + apart[0] ** 2 + apart[1] ** 2)
    starts = graph.indptr[:-1]
    return np.stack([np.add.reduceat(weights * one, starts) for one in apart], 1).astype(np.float64)


def _push(places: Points) -> Points:
    """Σ_j (y_i − y_j) / (1 + |y_i − y_j|²)² for each i, over the sum of all 1 / (1 + |y_i − y_j|²).

    Points are shared among the four nodes of a grid around them, by which the sums are
    convolutions: two transforms take the place of all pairs.
    """
    low, high = places.min(axis=0), places.max(axis=0)
    span = max(float((high - low).max()), 1e-9)
    n = int(np.clip(2 * span, _FEWEST_NODES, _MOST_NODES))
    spacing = span / (n - 2)
    within = (places - low) / spacing
    cells = np.minimum(within.astype(np.int64), n - 2)
    x, y = (within - cells).T
    corners = cells[:, 0] * n + cells[:, 1] + np.array([[0], [1], [n], [n + 1]])
    shares = np.stack([(1 - x) * (1 - y), (1 - x) * y, x * (1 - y), x * y])
    mass = np.bincount(corners.ravel(), shares.ravel(), minlength=n * n).reshape(n, n)
    transformed = scipy.fft.rfft2(mass.astype(np.float32), (2 * n, 2 * n)) * _kernels(n, spacing)
    sums = scipy.fft.irfft2(transformed, (2 * n, 2 * n))[:, :n, :n].reshape(3, -1)
    likeness, *pushes = (sums[:, corners] * shares).sum(axis=1)
    total = float(likeness.sum() - _likeness_to_itself(shares, spacing).sum())
    return np.stack(pushes, 1) / max(total, 1e-9)


def _likeness_to_itself(shares: Points, spacing: float) -> Points:
    """What the grid takes for 1 / (1 + 0²): the sum over pairs of the four nodes of each point."""
    side, diagonal = 1 / (1 + spacing**2), 1 / (1 + 2 * spacing**2)
    kernel = np.full((4, 4), side)
    np.fill_diagonal(kernel, 1)
    np.fill_diagonal(kernel[::-1], diagonal)
    likeness: Points = (shares * (kernel @ shares)).sum(axis=0)
    return likeness


def _kernels(n: int, spacing: float) -> NDArray[np.complex64]:
    """Transforms of 1 / (1 + |d|²) and d / (1 + |d|²)² over all differences d of the grid."""
    steps = (np.fft.fftfreq(2 * n, 1 / (2 * n)) * spacing).astype(np.float32)
    x, y = steps[:, None], steps[None, :]
    likeness = 1 / (1 + x**2 + y**2)
    transforms: NDArray[np.complex64] = scipy.fft.rfft2(
        np.stack([likeness, likeness**2 * x, likeness**2 * y])
    )
    return transforms
