"""Vectors whose inner products come near to the scores of a model that has none of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ratiorec.errors import require_range
from ratiorec.scorers import FloatMatrix, Indices, InnerProduct, Scorer
from ratiorec.scorers.scorer import FixedTiles, UserItems, pairs_of
from ratiorec.scorers.topk import Exact, Progress

if TYPE_CHECKING:
    import scipy.sparse

DIMENSIONS = (128, 256, 512, 1024)  # tried in turn where none is given
_MOST_DIMENSIONS = 2000
_FITTED_USERS = 2**16  # the items are fitted to the lists of at most so many users
_NUMBERS_AT_A_TIME = 2**19
_CG_STEPS = 5
_TINY = np.float32(1e-30)
_RIDGE = 1e-3  # of the mean weight of what is not listed


@dataclass(frozen=True)
class LowRank:
    """Weighted least squares on the best of every list, by alternating solves of users and items.

    The first of a list is to score 1, the last ½, and all else 0. An item that is not listed counts
    little (`rest`), and one that the user has not at all. So the vectors have the order of the best
    items from the model, and not its scores.
    """

    dimension: int = DIMENSIONS[0]
    n_best: int = 50
    rest: float = 0.003
    n_sweeps: int = 10
    seed: int = 0

    def __post_init__(self) -> None:
        what = "vectors cannot have this length"
        beyond = _MOST_DIMENSIONS + 1
        require_range("--dimension", self.dimension, at_least=1, below=beyond, what=what)

    def __call__(
        self, scorer: Scorer, seen: UserItems, *, progress: Progress | None = None
    ) -> InnerProduct:
        """Vectors of all users and items; nothing of users times items is ever held."""
        rng = np.random.default_rng(self.seed)
        n_users, n_fitted = scorer.n_users, min(_FITTED_USERS, scorer.n_users)
        users = np.sort(rng.choice(n_users, n_fitted, replace=False))
        lists = self._lists(scorer, seen, users, progress)
        vectors, items = self._alternate(lists, rng, progress)
        if n_fitted < n_users:
            starts = range(0, n_users, n_fitted)
            blocks = (np.arange(start, min(start + n_fitted, n_users)) for start in starts)
            some = (self._lists(scorer, seen, block, progress) for block in blocks)
            vectors = np.concatenate([_solved(each, items, each.targets @ items) for each in some])
        return InnerProduct(vectors, items)

    def _alternate(
        self, lists: _Lists, rng: np.random.Generator, progress: Progress | None
    ) -> tuple[FloatMatrix, FloatMatrix]:
        n_users = lists.targets.shape[0]
        items = _leading_directions(lists.targets, min(self.dimension, *lists.targets.shape), rng)
        users = _solved(lists, items, lists.targets @ items)
        lists_of_items = lists.transposed()
        for sweep in range(1, self.n_sweeps):
            if progress is not None:
                progress(n_users * sweep // self.n_sweeps, n_users)
            items = _solved(lists_of_items, users, items)
            users = _solved(lists, items, users)
        return users, items

    def _lists(
        self, scorer: Scorer, seen: UserItems, users: Indices, progress: Progress | None
    ) -> _Lists:
        search = Exact(min(self.n_best, scorer.n_items))
        best = search(scorer, users, seen=seen, progress=progress)
        is_item = best.items >= 0
        lowest = np.where(is_item, best.scores, np.inf).min(1, keepdims=True)
        above = np.where(is_item, best.scores - lowest, 0)
        highest = above.max(1, keepdims=True)
        targets = (0.5 + 0.5 * above / np.where(highest > 0, highest, 1))[is_item]
        rows, listed = np.nonzero(is_item)[0], best.items[is_item]
        of_seen, had = pairs_of(seen, users)
        weights = np.repeat([1 - self.rest, -self.rest], [len(listed), len(had)])
        places = np.append(rows, of_seen), np.append(listed, had)
        shape = len(users), scorer.n_items
        return _Lists(
            _sparse(targets, (rows, listed), shape), _sparse(weights, places, shape), self.rest
        )


def _sparse(
    values: NDArray[Any], places: tuple[NDArray[Any], NDArray[Any]], shape: tuple[int, int]
) -> scipy.sparse.csr_array:
    import scipy.sparse

    return scipy.sparse.csr_array((values.astype(np.float32), places), shape=shape)


class _Lists(NamedTuple):
    """What listed items are to score, and the weight of listed and seen ones beyond `rest`."""

    targets: scipy.sparse.csr_array
    weights: scipy.sparse.csr_array
    rest: float

    def transposed(self) -> _Lists:
        return _Lists(self.targets.T.tocsr(), self.weights.T.tocsr(), self.rest)


def _solved(lists: _Lists, others: FloatMatrix, start: FloatMatrix) -> FloatMatrix:
    """The vectors x of least Σ w (t − x·v)² with a small ridge, by conjugate gradients."""
    gram = lists.rest * (others.T @ others)
    gram += _RIDGE * np.trace(gram) / len(gram) * np.eye(len(gram), dtype=np.float32)
    tiles = FixedTiles.of(gram)  # on one core: small products on all of them wait for each other
    aims = lists.targets @ others
    solved, ends = start.copy(), lists.weights.indptr
    first = 0
    while first < len(solved):  # rows whose vectors of others stay in the cache
        enough = ends[first] + max(1, _NUMBERS_AT_A_TIME // others.shape[1])
        rows = slice(first, max(first + 1, int(np.searchsorted(ends, enough, "right")) - 1))
        _descend(solved[rows], aims[rows], tiles, lists.weights[rows], others)
        first = rows.stop
    return solved


def _descend(
    x: FloatMatrix,
    aims: FloatMatrix,
    gram: FixedTiles,
    weights: scipy.sparse.csr_array,
    others: FloatMatrix,
) -> None:
    """Some rows of x, changed in place; the matrix of a row's normal equations never exists."""
    import scipy.sparse

    listed = others[weights.indices]
    rows = np.repeat(np.arange(len(x)), np.diff(weights.indptr))
    columns, shape = np.arange(len(rows)), (len(x), len(rows))

    def applied(vectors: FloatMatrix) -> FloatMatrix:
        values = weights.data * np.einsum("nd,nd->n", vectors[rows], listed)
        sums = scipy.sparse.csr_array((values, columns, weights.indptr), shape) @ listed
        image: FloatMatrix = gram.products(vectors) + sums
        return image

    residual = aims - applied(x)
    direction, size = residual.copy(), _squares(residual)
    for _ in range(_CG_STEPS):
        image = applied(direction)
        length = size / np.maximum(np.einsum("nd,nd->n", direction, image), _TINY)
        x += length[:, None] * direction
        residual -= length[:, None] * image
        size, before = _squares(residual), size
        direction *= (size / np.maximum(before, _TINY))[:, None]
        direction += residual


def _squares(vectors: FloatMatrix) -> NDArray[np.float32]:
    squares: NDArray[np.float32] = np.einsum("nd,nd->n", vectors, vectors)
    return squares


def _leading_directions(
    targets: scipy.sparse.csr_array, dimension: int, rng: np.random.Generator
) -> FloatMatrix:
    """Right singular vectors [n_items, d], nearly: three rounds of subspace iteration."""
    items: FloatMatrix = rng.standard_normal((targets.shape[1], dimension), dtype=np.float32)
    for _ in range(3):
        items = _orthogonal(targets.T @ _orthogonal(targets @ items))
    return items


def _orthogonal(vectors: FloatMatrix) -> FloatMatrix:
    """The same directions with columns of length 1 at right angles; a QR takes far longer."""
    gram = (vectors.T @ vectors).astype(np.float64)
    gram += _RIDGE**2 * np.trace(gram) / len(gram) * np.eye(len(gram))
    inverse = np.linalg.inv(np.linalg.cholesky(gram)).T
    orthogonal: FloatMatrix = vectors @ inverse.astype(np.float32)
    return orthogonal
