"""Evaluation of rankings on held-out pairs, with intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ratiorec.data.vocabulary import Vocabulary
from ratiorec.errors import DataError, require_range, require_whole, unknown_choice
from ratiorec.evaluation import metrics
from ratiorec.evaluation.beyond import Background
from ratiorec.evaluation.intervals import Estimate, Interval, intervals_of, mean
from ratiorec.evaluation.reach import PairCounts, n_seen_of
from ratiorec.plain import html_table, text_table
from ratiorec.scorers import Indices, Scorer
from ratiorec.scorers.scorer import Pairs, pairs_of
from ratiorec.scorers.table import arrow_table, write_table
from ratiorec.scorers.topk import Exact, Progress, Ranking

if TYPE_CHECKING:
    import pyarrow

_MOST_EMPTY = 10_000  # places of a list, where there are fewer items


@dataclass(frozen=True, eq=False, repr=False)
class Report:
    """Every metric for every user judged.

    `users` are the dense indices of the users judged, `per_user` holds an array beside them for
    each metric ("recall@20", …), where NaN is a user who has no such figure, and `coverage` one
    number for each K. `together` are other figures of all lists, with intervals. `user_ids`, where
    known, are the same users to the outside world. `pairs` counts the test pairs, and
    `of_reachable` judges by those alone that a list can hit, of the users who have any.
    """

    users: Indices
    per_user: Mapping[str, NDArray[np.float64]]
    coverage: Mapping[str, float] = field(default_factory=dict)
    user_ids: NDArray[Any] | None = None
    seed: int = 0
    together: Mapping[str, Estimate] = field(default_factory=dict)
    pairs: PairCounts | None = None
    of_reachable: Report | None = None

    def value(self, name: str) -> float:
        """The mean of one metric over the users judged, or the figure of all lists."""
        if name in self.coverage:
            return self.coverage[name]
        if name in self.together:
            return self.together[name].value
        if name not in self.per_user:
            names = [*self.per_user, *self.coverage, *self.together]
            raise unknown_choice("no such metric in this report", name, names, where="metric")
        return mean(self.per_user[name])

    @cached_property
    def intervals(self) -> dict[str, Interval]:
        """95 % intervals over the users, the same for the same seed (theory: M14)."""
        together = {name: Interval(low, high) for name, (_, low, high) in self.together.items()}
        return intervals_of(self.per_user, self.seed) | together

    def to_json(self) -> dict[str, Any]:
        """The report in plain types; what is not known is None."""
        result = {**self._figures(), "definition": metrics.DEFINITION}
        if self.pairs is None:
            return result
        reachable = result if self.of_reachable is None else self.of_reachable._figures()
        judged = {
            name: line for name, line in reachable["metrics"].items() if metrics.is_accuracy(name)
        }
        of_reachable = {"metrics": judged, "users": reachable["users"]}
        return result | {"pairs": self.pairs.to_json(), "of_reachable": of_reachable}

    def _figures(self) -> dict[str, Any]:
        ends = self.intervals | dict.fromkeys(self.coverage, (None, None))
        return {
            "metrics": {
                name: {"value": _plain(self.value(name)), "low": _plain(low), "high": _plain(high)}
                for name, (low, high) in ends.items()
            },
            "users": len(self.users),
        }

    def _rows(self) -> list[tuple[str, str, str]]:
        rows = [(f"{len(self.users):,} users", "mean", "95 %")]
        for name, line in self._figures()["metrics"].items():
            value, low, high = ("" if end is None else f"{end:.4f}" for end in line.values())
            rows.append((name, value, f"{low} to {high}" if low else ""))
        return rows

    def __repr__(self) -> str:
        told = [] if self.pairs is None else self.pairs.told()
        return "\n".join(["Report", text_table(self._rows()), *told])

    def _repr_html_(self) -> str:
        told = "" if self.pairs is None else "; ".join(self.pairs.told())
        return html_table(self._rows(), caption=told)

    def per_user_table(self, users: Vocabulary | None = None) -> pyarrow.Table:
        """One row for each user judged, by the ids of the report or of `users`, else by index."""
        return arrow_table(self._columns(users))

    def write_per_user(self, path: str | Path, users: Vocabulary | None = None) -> None:
        """Write the table of users as .parquet, .csv or .arrow, whole or not at all."""
        write_table(self._columns(users), path)

    def _columns(self, users: Vocabulary | None) -> dict[str, NDArray[Any]]:
        judged = self.users if self.user_ids is None else self.user_ids
        judged = judged if users is None else users.ids[self.users]
        return {"user_id": judged, **self.per_user}


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
    background: Pairs | None = None,
) -> Report:
    """Judge the lists of all users who have test pairs, at every K in one pass.

    `ranker` makes what ranks, from the length of the lists; by default `Exact` inside
    `memory_mb`. Items in `seen` are no candidates. `test` is over the scorer's users and items,
    with sorted rows, as `Interactions` has them. `seed` is for the bootstrap intervals.
    `background`, the training pairs, adds what early stopping has no use for: figures beyond
    accuracy, and those over the pairs that can be hit. All lists are held then, 5·K bytes a user.
    """
    ks = _checked_cutoffs(ks, scorer.n_items)
    users = _users_with_pairs(test, scorer.n_users)
    listed = np.zeros((len(ks), scorer.n_items), bool)
    longest = min(ks[-1], scorer.n_items)
    rank = Exact(longest, memory_mb=memory_mb) if ranker is None else ranker(longest)
    judged, blocks = [], []
    for block in rank.stream(scorer, users, seen=seen, progress=progress):
        hits, n_relevant = _hits(block, test, scorer.n_items, width=ks[-1])
        judged.append(metrics.at_cutoffs(hits, n_relevant, ks))
        if background is not None:
            blocks.append((hits, block.items.astype(np.int32)))
        for place, k in enumerate(ks):
            items = block.items[:, :k]
            listed[place, items[items >= 0]] = True
    per_user = {name: np.concatenate([block[name] for block in judged]) for name in judged[0]}
    covered = {
        f"coverage@{k}": metrics.coverage(np.flatnonzero(mask), scorer.n_items)
        for k, mask in zip(ks, listed, strict=True)
    }
    report = Report(users, per_user, covered, seed=seed)
    if background is None:
        return report
    hits, lists = (np.concatenate(part) for part in zip(*blocks, strict=True))
    more, together = Background(background, scorer.n_items).figures(users, lists, ks)
    report = replace(report, per_user={**per_user, **more}, together=together)
    n_seen = n_seen_of(users, test, seen, scorer.n_items)
    return _without_seen(report, hits, np.diff(test.indptr)[users], n_seen, ks)


def _without_seen(
    report: Report,
    hits: metrics.Hits,
    n_relevant: metrics.Counts,
    n_seen: metrics.Counts,
    ks: Sequence[int],
) -> Report:
    """The report with its pairs counted and, where some were seen, judged without these."""
    counts = PairCounts(int(n_relevant.sum()), int(n_seen.sum()))
    if not counts.seen:
        return replace(report, pairs=counts)
    n_left = n_relevant - n_seen
    rows = np.flatnonzero(n_left)
    judged = metrics.at_cutoffs(hits[rows], n_left[rows], ks)
    reachable = Report(report.users[rows], judged, seed=report.seed)
    return replace(report, pairs=counts, of_reachable=reachable)


def _checked_cutoffs(ks: Sequence[int], n_items: int) -> list[int]:
    """The cutoffs from small to large, each once; places behind the last item take memory too."""
    for k in ks or [0]:
        require_whole("k", k, at_least=1, what="cutoffs must be positive whole numbers")
    most = max(n_items, _MOST_EMPTY)
    what = f"a cutoff is far beyond the {n_items:,} items"
    require_range("k", max(ks), at_least=1, below=most + 1, what=what)
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


def _plain(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else value
