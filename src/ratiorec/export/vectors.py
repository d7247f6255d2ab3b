"""Vectors of users and items whose inner products are the scores, and a trial of their search."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from math import floor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ratiorec.errors import ConfigError, DataError, require_range
from ratiorec.export.low_rank import DIMENSIONS, LowRank
from ratiorec.model.artifact import Artifact
from ratiorec.scorers import (
    Blend,
    Factored,
    FloatMatrix,
    Indices,
    InnerProduct,
    PopularityScorer,
    Scorer,
    StoredScorer,
)
from ratiorec.scorers.blend import standardise
from ratiorec.scorers.scorer import UserItems, pairs_of, some_of
from ratiorec.scorers.topk import Exact, Progress

_VALUES_AT_A_TIME = 2**22

_INSTEAD = "its lists: ratiorec recommend MODEL --all -o lists.parquet"


@dataclass(frozen=True, eq=False)
class Vectors:
    """Users and items of a model; the score of a pair is the inner product of its vectors.

    Where they are not `exact`, they come near to the order of the model's best items.
    """

    model: Artifact
    factored: Factored
    exact: bool = True

    @classmethod
    def of(
        cls,
        model: Artifact,
        *,
        dimension: int | None = None,
        k: int = 20,
        progress: Progress | None = None,
    ) -> Vectors:
        """The vectors of a model: its own, those of its members side by side, or near ones.

        Args:
            model: Any model.
            dimension: The length of near ones.
            k: The length of the lists that near ones are for.
            progress: Told of the users whose lists near ones are made of.
        """
        if not (len(model.users) and len(model.items)):
            raise DataError(
                "there is nothing to export",
                where="export",
                found=f"{len(model.users):,} users and {len(model.items):,} items",
                wanted="at least one of each",
            )
        found = _inner_products(model.scorer)
        if found is None:
            near = LowRank(
                DIMENSIONS[0] if dimension is None else dimension, n_best=max(50, 5 * k // 2)
            )
            return cls(model, near(model.scorer, model.seen, progress=progress), exact=False)
        if dimension is not None:
            raise ConfigError(
                "the vectors of this model are exact and have a length of their own",
                where="--dimension",
                found=f"{dimension}, of a model with {found.item_vectors.shape[1]} dimensions",
                wanted="no --dimension",
            )
        return cls(model, found)

    @property
    def kind(self) -> str:
        return "exact" if self.exact else "approximate"

    @property
    def user_ids(self) -> NDArray[Any]:
        return self.model.users.ids

    @property
    def item_ids(self) -> NDArray[Any]:
        return self.model.items.ids

    @cached_property
    def items(self) -> FloatMatrix:
        """One vector for each item [n_items, d]."""
        return np.ascontiguousarray(self.factored.item_vectors)

    def users(self, users: Indices) -> FloatMatrix:
        """One vector for each of these users [n, d]."""
        return np.ascontiguousarray(self.factored.user_vectors(users))

    @property
    def n_users(self) -> int:
        return len(self.user_ids)

    @property
    def n_items(self) -> int:
        return len(self.item_ids)

    @property
    def dimension(self) -> int:
        return int(self.items.shape[1])

    def user_blocks(self) -> Iterator[tuple[slice, FloatMatrix]]:
        """All users in consecutive blocks: an autoencoder computes its users, which takes room."""
        step = max(1, _VALUES_AT_A_TIME // self.dimension)
        for start in range(0, self.n_users, step):
            rows = slice(start, min(start + step, self.n_users))
            yield rows, self.users(np.arange(rows.start, rows.stop))


@dataclass(frozen=True, eq=False)
class _JoinedBlend:
    """A blend of inner products, and of popularity as the last dimension, as one inner product."""

    blend: Blend

    @property
    def item_vectors(self) -> FloatMatrix:
        parts = [self.blend.joined_items] if self.blend.joined_dimension else []
        members = zip(self.blend.members, self.blend.weights.tolist(), strict=True)
        counts = [
            standardise(member.counts[None].copy(), weight)
            for member, weight in members
            if isinstance(member, PopularityScorer)
        ]
        return np.hstack([*parts, *(count.T for count in counts)])

    def user_vectors(self, users: Indices) -> FloatMatrix:
        parts = [self.blend.joined_users(users)] if self.blend.joined_dimension else []
        n_counts = sum(isinstance(member, PopularityScorer) for member in self.blend.members)
        return np.hstack([*parts, np.ones((len(users), n_counts), np.float32)])


def _inner_products(scorer: StoredScorer) -> Factored | None:
    """The same scores, less a constant of each user, as inner products; None if they are none."""
    if isinstance(scorer, Blend):
        exact = all(isinstance(member, Factored | PopularityScorer) for member in scorer.members)
        return _JoinedBlend(scorer) if exact else None
    if isinstance(scorer, PopularityScorer):
        return InnerProduct(np.ones((scorer.n_users, 1), np.float32), scorer.counts[:, None])
    return scorer if isinstance(scorer, Factored) else None


_ROUNDING = float(np.finfo(np.float32).eps)


@dataclass(frozen=True)
class ExportTrial:
    """Recall at k over a sample of users, and the least that is enough.

    Of exact vectors nothing is excluded, not even what a user has seen: an index knows vectors
    only. Approximate ones are held against the lists that the model recommends: whoever searches
    asks for as many items more as the user has, and drops those.
    """

    k: int = 20
    n_users: int = 1000
    min_recall: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        what = "an export cannot be judged so"
        for name, value, least in (
            ("k", self.k, 1),
            ("sample", self.n_users, 1),
            ("seed", self.seed, 0),
        ):
            require_range(f"--{name}", value, at_least=least, what=what)
        if not 0 <= self.min_recall <= 1:
            found = f"{self.min_recall:g}"
            raise ConfigError(what, where="--min-recall", found=found, wanted="a share from 0 to 1")

    def __call__(self, vectors: Vectors) -> Judge:
        """The exact lists of a sample of users."""
        rng = np.random.default_rng(self.seed)
        n_users = min(self.n_users, vectors.n_users)
        users = np.sort(rng.choice(vectors.n_users, n_users, replace=False))
        k = min(self.k, vectors.n_items)
        model, asking = vectors.model, vectors.users(users)
        if vectors.exact:
            ranking = Exact(k, exclude_seen=False)(model.scorer, users)
            worst = vectors.items[ranking.items[:, -1]]
            # two sums of d products that are equal may differ by so much in float32
            slack = vectors.dimension * _ROUNDING * _lengths(asking) * _lengths(worst)
            seen = None
        else:
            ranking = Exact(k)(model.scorer, users, seen=model.seen)
            slack, seen = np.zeros(len(users)), some_of(model.seen, users)
        if isinstance(model.scorer, Factored):
            score = partial(_products, asking, vectors.items)
            bounds = score(ranking.items)[:, -1]
        else:
            score = partial(_scores_of, model.scorer, users, seen)
            bounds = np.where(ranking.items >= 0, ranking.scores, np.inf).min(1)
        n_wanted = int((ranking.items >= 0).sum())
        return Judge(users, asking, score, bounds - slack, n_wanted, k, self.min_recall, seen)


@dataclass(frozen=True)
class Measured:
    """What was built, and which share of the exact lists it finds."""

    settings: Mapping[str, Any]
    recall: float


@dataclass(frozen=True, eq=False)
class Judge:
    """Users whose lists by the model are known; `bounds` are the scores of their k-th best items.

    `score` is the model's score of items [n, k]. `seen` is what each of the users has and a list
    must not; None where lists are of all items.
    """

    users: Indices
    vectors: FloatMatrix
    score: Callable[[Indices], NDArray[np.float64]]
    bounds: NDArray[np.float64]
    n_wanted: int
    k: int
    min_recall: float
    seen: UserItems | None = None

    @property
    def against(self) -> str:
        return "exact search" if self.seen is None else "the model's own lists"

    def lists(self, search: Callable[[FloatMatrix, int], Indices]) -> Indices:
        """The k items that a search finds for each user, less what the user has."""
        if self.seen is None:
            return search(self.vectors, self.k)
        found = np.full((len(self.users), self.k), -1, np.int64)
        for row in range(len(self.users)):
            had = self.seen.indices[self.seen.indptr[row] : self.seen.indptr[row + 1]]
            listed = search(self.vectors[row : row + 1], self.k + len(had))[0]
            kept = listed[~np.isin(listed, had)][: self.k]
            found[row, : len(kept)] = kept
        return found

    def exact_lists(self, users: FloatMatrix, items: FloatMatrix) -> Indices:
        """The same by exact search of these vectors, one for each of the users."""
        scorer = InnerProduct(np.ascontiguousarray(users), np.ascontiguousarray(items))
        search = Exact(self.k, exclude_seen=self.seen is not None)
        return search(scorer, np.arange(len(users)), seen=self.seen).items

    def recall(self, found: Indices) -> float:
        """The mean share of the k places whose item scores no less than the k-th best one.

        An item that ties with it is as good; one that is listed twice counts once, and -1 is an
        empty place.
        """
        found = np.sort(found, axis=1)
        repeated = np.pad(found[:, 1:] == found[:, :-1], ((0, 0), (1, 0)))
        hits = (self.score(np.maximum(found, 0)) >= self.bounds[:, None]) & ~repeated & (found >= 0)
        return float(hits.sum() / max(1, self.n_wanted))

    def first_that_reaches(self, tries: Iterable[tuple[Mapping[str, Any], Indices]]) -> Measured:
        """The first settings whose lists reach the least recall; later ones are not tried."""
        best = Measured({}, -1.0)
        for settings, found in tries:
            measured = Measured(settings, self.recall(found))
            if measured.recall >= self.min_recall:
                return measured
            best = max(best, measured, key=lambda tried: tried.recall)
        lower = floor(best.recall * 10_000) / 10_000  # rounded up, it would be refused again
        other = "--to parquet or numpy leaves the search exact"
        if self.seen is not None:
            other = f"a larger --dimension finds more; what is exact is {_INSTEAD}"
        raise ConfigError(
            "this finds too little and is not kept",
            where="--min-recall",
            found=f"recall@{self.k} {best.recall:.4f} of {self.against} over "
            f"{len(self.users):,} users, at best ({in_words(best.settings)})",
            wanted=f"{self.min_recall:g} or more; --min-recall {lower:g} would take it; {other}",
        )


def in_words(settings: Mapping[str, Any]) -> str:
    """Settings for people.

    >>> in_words({"index": "hnsw", "ef_search": 64})
    'index hnsw, ef_search 64'
    """
    return ", ".join(f"{name} {value}" for name, value in settings.items())


def _products(users: FloatMatrix, items: FloatMatrix, found: Indices) -> NDArray[np.float64]:
    listed = items[found].astype(np.float64)
    products: NDArray[np.float64] = np.einsum("nd,nkd->nk", users.astype(np.float64), listed)
    return products


def _scores_of(
    scorer: Scorer, users: Indices, seen: UserItems | None, found: Indices
) -> NDArray[np.float64]:
    """The scores of the items found for each user, -inf for what the user has."""
    scored = np.empty(found.shape)
    step = max(1, _VALUES_AT_A_TIME // scorer.n_items)
    for start in range(0, len(users), step):
        rows = np.arange(start, min(start + step, len(users)))
        scores = scorer.scores(users[rows])
        if seen is not None:
            scores[pairs_of(seen, rows)] = -np.inf
        scored[rows] = np.take_along_axis(scores, found[rows], axis=1)
    return scored


def _lengths(vectors: FloatMatrix) -> NDArray[np.float64]:
    lengths: NDArray[np.float64] = np.linalg.norm(vectors.astype(np.float64), axis=1)
    return lengths
