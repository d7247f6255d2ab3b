"""Evaluation of rankings on held-out pairs, with intervals and paired comparisons."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ratiorec.data.vocabulary import Vocabulary
from ratiorec.errors import DataError, require_range, unknown_choice
from ratiorec.evaluation import metrics
from ratiorec.scorers import Indices, Scorer
from ratiorec.scorers.scorer import Pairs, pairs_of
from ratiorec.scorers.table import arrow_column, write_table
from ratiorec.scorers.topk import Exact, Progress, Ranking

if TYPE_CHECKING:
    import pyarrow


N_RESAMPLES = 1000
_DRAWS_AT_ONCE = 2**21


class Interval(NamedTuple):
    """The middle 95 % of what resampling the users gives."""

    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Report:
    """Every metric for every user judged.

    `users` are the dense indices of the users judged, `per_user` holds an array beside them for
    each metric ("recall@20", …), and `coverage` one number for each K. `user_ids`, where known,
    are the same users to the outside world.
    """

    users: Indices
    per_user: Mapping[str, NDArray[np.float64]]
    coverage: Mapping[str, float] = field(default_factory=dict)
    user_ids: NDArray[Any] | None = None
    seed: int = 0

    def value(self, name: str) -> float:
        """The mean of one metric over the users judged, or the coverage."""
        if name in self.coverage:
            return self.coverage[name]
        if name not in self.per_user:
            names = [*self.per_user, *self.coverage]
            raise unknown_choice("no such metric in this report", name, names, where="metric")
        return float(self.per_user[name].mean())

    @cached_property
    def intervals(self) -> dict[str, Interval]:
        """95 % percentile bootstrap intervals over the users, the same for the same seed."""
        return dict(zip(self.per_user, _bootstrap(self.per_user, self.seed), strict=True))

    def to_json(self) -> dict[str, Any]:
        """The report in plain types; coverage is no mean over users and has no interval."""
        judged = {
            name: {"value": self.value(name), "low": interval.low, "high": interval.high}
            for name, interval in self.intervals.items()
        }
        covered = {
            name: {"value": value, "low": None, "high": None}
            for name, value in self.coverage.items()
        }
        return {
            "metrics": judged | covered,
            "users": len(self.users),
            "definition": metrics.DEFINITION,
        }

    def per_user_table(self, users: Vocabulary | None = None) -> pyarrow.Table:
        """One row for each user judged, by the ids of the report or of `users`, else by index."""
        import pyarrow

        judged = self.users if self.user_ids is None else self.user_ids
        judged = judged if users is None else users.ids[self.users]
        return pyarrow.table({"user_id": arrow_column(judged), **self.per_user})

    def write_per_user(self, path: str | Path, users: Vocabulary | None = None) -> None:
        """Write the table of users as .parquet, .csv or .arrow, whole or not at all."""
        write_table(self.per_user_table(users), path)


class Ranker(Protocol):
    """Lists of the best items, block by block of users."""

    def stream(
        self,
        scorer: Scorer,
        users: Indices,
        *,
        seen: Pairs | None = None,
        progress: Progress | None = None,
    ) -> Iterable[Ranking]: ...


def evaluate(
    scorer: Scorer,
    seen: Pairs | None,
    test: Pairs,
    *,
    ks: Sequence[int] = (20,),
    memory_mb: float = 512,
    progress: Progress | None = None,
    seed: int = 0,
    ranker: Callable[[int], Ranker] | None = None,
) -> Report:
    """Judge the lists of all users who have test pairs, at every K in one pass.

    `ranker` makes what ranks, from the length of the lists; by default `Exact` inside
    `memory_mb`. Items in `seen` are no candidates. `test` is over the scorer's users and items,
    with sorted rows, as `Interactions` has them. `seed` is for the bootstrap intervals.
    """
    ks = _checked_cutoffs(ks)
    users = _users_with_pairs(test, scorer.n_users)
    listed = np.zeros((len(ks), scorer.n_items), bool)
    longest = min(ks[-1], scorer.n_items)
    rank = Exact(longest, memory_mb=memory_mb) if ranker is None else ranker(longest)
    judged = []
    for block in rank.stream(scorer, users, seen=seen, progress=progress):
        hits, n_relevant = _hits(block, test, scorer.n_items, width=ks[-1])
        judged.append(metrics.at_cutoffs(hits, n_relevant, ks))
        for place, k in enumerate(ks):
            items = block.items[:, :k]
            listed[place, items[items >= 0]] = True
    per_user = {name: np.concatenate([block[name] for block in judged]) for name in judged[0]}
    covered = {
        f"coverage@{k}": metrics.coverage(np.flatnonzero(mask), scorer.n_items)
        for k, mask in zip(ks, listed, strict=True)
    }
    return Report(users, per_user, covered, seed=seed)


class Difference(NamedTuple):
    """The mean lead of the first model over users, and how sure it is.

    `low` and `high` are the 95 % bootstrap interval; `p_value` is that of a two-sided paired
    t-test, 1 for a single user, who proves nothing.
    """

    difference: float
    low: float
    high: float
    p_value: float


@dataclass(frozen=True)
class Comparison:
    """Two reports on the same users, metric by metric."""

    n_users: int
    metrics: Mapping[str, Difference]

    def to_json(self) -> dict[str, Any]:
        """The comparison in plain types."""
        return {
            "users": self.n_users,
            "metrics": {name: line._asdict() for name, line in self.metrics.items()},
        }


def compare(report_a: Report, report_b: Report) -> Comparison:
    """A paired test of two models on the users both judged: the first minus the second."""
    places_a, places_b = _users_in_common(report_a, report_b)
    gaps = {
        name: report_a.per_user[name][places_a] - report_b.per_user[name][places_b]
        for name in report_a.per_user
        if name in report_b.per_user
    }
    intervals = _bootstrap(gaps, report_a.seed) if gaps else []
    lines = {
        name: Difference(float(gap.mean()), *interval, _paired_p_value(gap))
        for (name, gap), interval in zip(gaps.items(), intervals, strict=True)
    }
    return Comparison(len(places_a), lines)


def _checked_cutoffs(ks: Sequence[int]) -> list[int]:
    """The cutoffs from small to large, each once."""
    require_range("k", min(ks, default=0), at_least=1, what="cutoffs must be positive")
    return sorted(set(ks))


def _users_with_pairs(test: Pairs, n_users: int) -> Indices:
    if len(test.indptr) - 1 != n_users:
        raise DataError(
            "the test part is not over the users of the model",
            where="test pairs",
            found=f"{len(test.indptr) - 1:,} users",
            wanted=f"{n_users:,}",
        )
    users: Indices = np.flatnonzero(np.diff(test.indptr)).astype(np.int64)
    if not len(users):
        raise DataError(
            "there is nothing to judge by",
            where="test pairs",
            found="no user with a test pair",
            wanted="at least one",
        )
    return users


def _hits(
    block: Ranking, test: Pairs, n_items: int, *, width: int
) -> tuple[metrics.Hits, metrics.Counts]:
    """Hits, the listed items that are test items, and the number of test items of each user."""
    rows, items = pairs_of(test, block.users)
    relevant = np.sort(rows * n_items + items)
    listed = np.arange(len(block.users))[:, None] * n_items + block.items
    nearest = np.minimum(np.searchsorted(relevant, listed), len(relevant) - 1)
    hits = np.zeros((len(block.users), width), bool)
    # an empty place is -1 and would pass for the last item of the user before
    hits[:, : listed.shape[1]] = (relevant[nearest] == listed) & (block.items >= 0)
    return hits, np.bincount(rows, minlength=len(block.users))


def _bootstrap(values: Mapping[str, NDArray[np.float64]], seed: int) -> list[Interval]:
    """The interval of each mean when the users are drawn anew, the same draws for all of them."""
    matrix = np.stack(list(values.values()))
    n = matrix.shape[1]
    rng = np.random.default_rng(seed)
    means = []
    step = max(1, _DRAWS_AT_ONCE // n)
    for start in range(0, N_RESAMPLES, step):
        n_rows = min(step, N_RESAMPLES - start)
        drawn = rng.integers(n, size=(n_rows, n)) + np.arange(n_rows)[:, None] * n
        counts = np.bincount(drawn.ravel(), minlength=n_rows * n).reshape(n_rows, n)
        # einsum sums in one fixed order, where a matrix product depends on the threads
        means.append(np.einsum("rn,mn->rm", counts.astype(np.float64), matrix) / n)
    low, high = np.percentile(np.concatenate(means), [2.5, 97.5], axis=0)
    return [Interval(float(a), float(b)) for a, b in zip(low, high, strict=True)]


def _users_in_common(a: Report, b: Report) -> tuple[Indices, Indices]:
    """Places in each report of the users that both judged, by id where both know the ids."""
    if a.user_ids is not None and b.user_ids is not None:
        keys = a.user_ids.tolist(), b.user_ids.tolist()
    else:
        keys = a.users.tolist(), b.users.tolist()
    place = {key: index for index, key in enumerate(keys[1])}
    pairs = [(index, place[key]) for index, key in enumerate(keys[0]) if key in place]
    if not pairs:
        raise DataError(
            "the two reports have no user in common",
            where="reports to compare",
            found=f"{len(a.users):,} and {len(b.users):,} users, none in both",
            wanted="reports on the same test part",
        )
    both = np.array(pairs, np.int64)
    return both[:, 0], both[:, 1]


def _paired_p_value(gaps: NDArray[np.float64]) -> float:
    """Two-sided t-test of a mean of 0."""
    from scipy.special import stdtr

    n = len(gaps)
    if n < 2:
        return 1.0
    error = float(gaps.std(ddof=1)) / math.sqrt(n)
    if error == 0:
        return 1.0 if gaps[0] == 0 else 0.0
    return float(2 * stdtr(n - 1, -abs(float(gaps.mean())) / error))
