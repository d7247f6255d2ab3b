"""Vectors of users and items whose inner products are the scores, and a trial of their search."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import floor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ratiorec.errors import ConfigError, DataError, require_range
from ratiorec.model.artifact import Artifact
from ratiorec.scorers import Factored, FloatMatrix, Indices
from ratiorec.scorers.topk import Exact

_VALUES_AT_A_TIME = 2**22

_INSTEAD = "its lists: ratiorec recommend MODEL --all -o lists.parquet, or ratiorec serve MODEL"


@dataclass(frozen=True, eq=False)
class Vectors:
    """Users and items of a model; the score of a pair is the inner product of its vectors."""

    model: Artifact
    factored: Factored

    @classmethod
    def of(cls, model: Artifact) -> Vectors:
        """The vectors of a model."""
        if not isinstance(model.scorer, Factored):
            raise ConfigError(
                "this kind of model has no vectors to export",
                where="export",
                found=f"a model of kind {model.scorer.kind}",
                wanted=f"a model of kind inner_product or autoencoder; of this one, {_INSTEAD}",
            )
        if not (len(model.users) and len(model.items)):
            raise DataError(
                "there is nothing to export",
                where="export",
                found=f"{len(model.users):,} users and {len(model.items):,} items",
                wanted="at least one of each",
            )
        return cls(model, model.scorer)

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


_ROUNDING = float(np.finfo(np.float32).eps)


@dataclass(frozen=True)
class ExportTrial:
    """Recall at k over a sample of users, and the least that is enough.

    Nothing is excluded, not even what a user has seen: an index knows vectors only, and whoever
    searches it asks for more items and drops those that are not wanted.
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
        exact = Exact(k, exclude_seen=False)(vectors.model.scorer, users)
        asking = vectors.users(users)
        worst = vectors.items[exact.items[:, -1]]
        # two sums of d products that are equal may differ by so much in float32
        slack = vectors.dimension * _ROUNDING * _lengths(asking) * _lengths(worst)
        reached = np.einsum("nd,nd->n", asking.astype(np.float64), worst.astype(np.float64))
        return Judge(users, asking, vectors.items, reached - slack, k, self.min_recall)


@dataclass(frozen=True)
class Measured:
    """What was built, and which share of the exact lists it finds."""

    settings: Mapping[str, Any]
    recall: float


@dataclass(frozen=True, eq=False)
class Judge:
    """Users of whom exact search is known; `bounds` are the scores of their k-th best items."""

    users: Indices
    vectors: FloatMatrix
    items: FloatMatrix
    bounds: NDArray[np.float64]
    k: int
    min_recall: float

    def recall(self, found: Indices) -> float:
        """The mean share of the k places whose item scores no less than the k-th best one.

        An item that ties with it is as good; one that is listed twice counts once, and -1 is an
        empty place.
        """
        found = np.sort(found, axis=1)
        repeated = np.pad(found[:, 1:] == found[:, :-1], ((0, 0), (1, 0)))
        listed = self.items[np.maximum(found, 0)].astype(np.float64)
        scores = np.einsum("nd,nkd->nk", self.vectors.astype(np.float64), listed)
        hits = (scores >= self.bounds[:, None]) & ~repeated & (found >= 0)
        return float(hits.sum() / (len(found) * self.k))

    def first_that_reaches(self, tries: Iterable[tuple[Mapping[str, Any], Indices]]) -> Measured:
        """The first settings whose lists reach the least recall; later ones are not tried."""
        best = Measured({}, -1.0)
        for settings, found in tries:
            measured = Measured(settings, self.recall(found))
            if measured.recall >= self.min_recall:
                return measured
            best = max(best, measured, key=lambda tried: tried.recall)
        lower = floor(best.recall * 10_000) / 10_000  # rounded up, it would be refused again
        raise ConfigError(
            "the index finds too little and is not kept",
            where="--min-recall",
            found=f"recall@{self.k} {best.recall:.4f} of exact search over "
            f"{len(self.users):,} users, at best ({in_words(best.settings)})",
            wanted=f"{self.min_recall:g} or more; --min-recall {lower:g} would take it, and "
            "--to parquet or numpy leaves the search exact",
        )


def in_words(settings: Mapping[str, Any]) -> str:
    """Settings for people.

    >>> in_words({"index": "hnsw", "ef_search": 64})
    'index hnsw, ef_search 64'
    """
    return ", ".join(f"{name} {value}" for name, value in settings.items())


def _lengths(vectors: FloatMatrix) -> NDArray[np.float64]:
    lengths: NDArray[np.float64] = np.linalg.norm(vectors.astype(np.float64), axis=1)
    return lengths
