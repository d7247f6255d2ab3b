"""Lists of an exported index held against those of exact search."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import floor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ratiorec.errors import ConfigError
from ratiorec.export.vectors import Vectors
from ratiorec.recommend import Exact
from ratiorec.scorers import FloatMatrix, Indices

_ROUNDING = float(np.finfo(np.float32).eps)


@dataclass(frozen=True)
class Trial:
    """Recall at k over a sample of users, and the least that is enough.

    Nothing is excluded, not even what a user has seen: an index knows vectors only, and whoever
    searches it asks for more items and drops those that are not wanted.
    """

    k: int = 20
    n_users: int = 1000
    min_recall: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        for name, value in (("k", self.k), ("sample", self.n_users)):
            if value < 1:
                _refuse(f"--{name}", str(value), "1 or more")
        if not 0 <= self.min_recall <= 1:
            _refuse("--min-recall", f"{self.min_recall:g}", "a share from 0 to 1")
        if self.seed < 0:
            _refuse("--seed", str(self.seed), "0 or more")

    def __call__(self, vectors: Vectors) -> Judge:
        """The exact lists of a sample of users."""
        rng = np.random.default_rng(self.seed)
        n_users = min(self.n_users, vectors.n_users)
        users = np.sort(rng.choice(vectors.n_users, n_users, replace=False))
        k = min(self.k, vectors.n_items)
        exact = Exact(k, exclude_seen=False)(vectors.scorer, users)
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
        """The first of some settings whose lists reach the least recall; later ones are not asked.

        Raises:
            ConfigError: None does.
        """
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


def _refuse(where: str, found: str, wanted: str) -> None:
    raise ConfigError("an export cannot be judged so", where=where, found=found, wanted=wanted)
