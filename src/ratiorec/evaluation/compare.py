"""A paired comparison of two reports, user by user."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ratiorec.errors import DataError
from ratiorec.evaluation.evaluate import Report
from ratiorec.evaluation.intervals import intervals_of, mean
from ratiorec.scorers import Indices


class Difference(NamedTuple):
    """The mean lead of the first model over users, and how sure it is.

    `low` and `high` are the 95 % interval (theory: M14); `p_value` is that of a two-sided paired
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
    gaps = {name: gap for name, gap in gaps.items() if not np.isnan(gap).all()}
    intervals = intervals_of(gaps, report_a.seed)
    lines = {
        name: Difference(mean(gap), *intervals[name], paired_p_value(gap[~np.isnan(gap)]))
        for name, gap in gaps.items()
    }
    return Comparison(len(places_a), lines)


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


def paired_p_value(gaps: NDArray[np.float64]) -> float:
    """Two-sided t-test of a mean of 0."""
    from scipy.special import stdtr

    n = len(gaps)
    if n < 2:
        return 1.0
    error = float(gaps.std(ddof=1)) / math.sqrt(n)
    if error == 0:
        return 1.0 if gaps[0] == 0 else 0.0
    return float(2 * stdtr(n - 1, -abs(float(gaps.mean())) / error))
