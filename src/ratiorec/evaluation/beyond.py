"""Beyond accuracy: how popular, how alike and how spread out the items are that lists hold.

A list is a row of items, best first, filled up with -1. What a figure needs to know of the items
comes from `Background`: the pairs that the model was trained on. A user without the figure, say of
an empty list, has NaN.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ratiorec.evaluation.intervals import Estimate
from ratiorec.scorers.scorer import Pairs, UserItems, pairs_of

Lists = NDArray[np.integer]
PerUser = NDArray[np.float64]
Values = NDArray[np.float64]

# Lists whose diversity is computed: as many as cost so much of what ranking has cost, but not too
# few for an interval.
_MOST_LISTS, _FEWEST_LISTS, _SHARE_OF_RANKING = 2000, 200, 0.05
_AT_ONCE = 2**19  # numbers that stay in the cache
_HEAD, _TAIL = 0.2, 0.8  # shares of all pairs, the most popular items first


def mean_of_list(lists: Lists, values: Values) -> PerUser:
    """The mean of a value of items over each list.

    >>> mean_of_list(np.array([[0, 2], [1, -1], [-1, -1]]), np.array([1.0, 5.0, 2.0]))
    array([1.5, 5. , nan])
    """
    is_item = lists >= 0
    total, n = np.where(is_item, values[lists], 0.0).sum(axis=1), is_item.sum(axis=1)
    return np.where(n > 0, total / np.maximum(n, 1), np.nan)


def self_information(item_degrees: NDArray[np.integer], n_users: int) -> Values:
    """−log₂(|U_i⁺| / |U|) of each item, in bits; nobody's item counts as one user's (theory: M8).

    >>> self_information(np.array([4, 1, 0]), 4)
    array([0., 2., 2.])
    """
    return np.asarray(-np.log2(np.maximum(item_degrees, 1) / max(n_users, 1)) + 0.0)


def diversity(lists: Lists, users_of_items: Pairs, n_users: int) -> PerUser:
    """1 − the mean cosine of two listed items, each the set of its users (theory: M9).

    The cosines are never made one by one: those of a list add up to the square of the sum of its
    items, vectors over users of unit length.
    """
    is_item = lists >= 0
    items, places = lists[is_item].astype(np.int64), np.nonzero(is_item)[0]
    rows, users = pairs_of(users_of_items, items)
    degrees = np.diff(users_of_items.indptr)[items]
    lengths = np.sqrt(degrees)[rows]
    size = len(lists) * n_users
    totals = np.bincount(places[rows] * n_users + users, 1 / lengths, size)
    squares = np.square(totals).reshape(len(lists), n_users).sum(axis=1)
    itself = np.bincount(places, degrees > 0, len(lists))
    n = is_item.sum(axis=1)
    return np.where(n > 1, 1 - (squares - itself) / np.maximum(n * (n - 1), 1), np.nan)


def gini(lists: Lists, n_items: int) -> Estimate:
    """Inequality of how often items are listed: 0 all equally, near 1 few alone (theory: M10).

    >>> gini(np.array([[0], [1]]), 2).value
    0.0
    """
    is_item = lists >= 0
    listed = np.bincount(lists[is_item], minlength=n_items)
    _, place, n_equal = np.unique(listed, return_inverse=True, return_counts=True)
    middle_ranks = np.cumsum(n_equal) - (n_equal - 1) / 2  # of equals the mean rank, from 1
    slope = (2 * middle_ranks[place] - n_items - 1) / n_items
    total = max(int(listed.sum()), 1)
    value = float((slope * listed).sum() / total)
    influence = np.where(is_item, (slope - value)[lists], 0.0).sum(axis=1)
    return Estimate.of(value, influence * len(lists) / total)


def popularity_lift(listed: PerUser, had: PerUser) -> Estimate:
    """How much more popular lists are than histories: mean / mean − 1 (theory: M12).

    >>> popularity_lift(np.array([0.3, 0.3]), np.array([0.1, 0.2])).value.__round__(6)
    1.0
    """
    both = ~(np.isnan(listed) | np.isnan(had))
    listed, had = listed[both], had[both]
    if not len(had):
        return Estimate(math.nan, math.nan, math.nan)
    ratio = float(listed.mean() / had.mean())
    return Estimate.of(ratio - 1, (listed - ratio * had) / had.mean())


def miscalibration(lists: Lists, groups: NDArray[np.integer], shares: Values) -> PerUser:
    """Jensen–Shannon divergence, in bits, of groups in the history and in the list (theory: M13).

    `groups` is the group of each item and `shares` [n, n_groups] what each user's history has of
    them; NaN where there is no history.
    """
    n_groups = shares.shape[1]
    is_item = lists >= 0
    rows = np.nonzero(is_item)[0]
    counts = np.bincount(rows * n_groups + groups[lists[is_item]], minlength=shares.size)
    n = is_item.sum(axis=1)[:, None]
    listed = np.where(n > 0, counts.reshape(shares.shape) / np.maximum(n, 1), np.nan)
    middle = (shares + listed) / 2
    return np.asarray((_divergence(shares, middle) + _divergence(listed, middle)) / 2)


def _divergence(p: Values, q: Values) -> PerUser:
    """Σ p log₂(p/q), where what has no mass adds nothing and NaN stays."""
    ratio = np.where(p > 0, p, 1) / np.where(p > 0, q, 1)
    return np.asarray((p * np.log2(ratio)).sum(axis=1))


def popularity_groups(item_degrees: NDArray[np.integer]) -> NDArray[np.int64]:
    """0 the head, 1 the middle, 2 the tail: a fifth, three fifths and a fifth of all pairs.

    An item belongs where its first pair lies when the most popular come first.

    >>> popularity_groups(np.array([1, 5, 2, 2])).tolist()
    [2, 0, 1, 1]
    """
    order = np.argsort(-item_degrees, kind="stable")
    before = np.cumsum(item_degrees[order]) - item_degrees[order]
    share = before / max(int(item_degrees.sum()), 1)
    groups = np.empty(len(order), np.int64)
    groups[order] = (share >= _HEAD).astype(np.int64) + (share >= _TAIL)
    return groups


@dataclass(frozen=True, eq=False)
class Background:
    """The pairs that a model was trained on, as what its lists are set against."""

    pairs: Pairs
    n_items: int

    @cached_property
    def item_degrees(self) -> NDArray[np.int64]:
        return np.bincount(self.pairs.indices, minlength=self.n_items)

    @property
    def n_users(self) -> int:
        return len(self.pairs.indptr) - 1

    def figures(
        self, users: NDArray[np.int64], lists: Lists, ks: Sequence[int]
    ) -> tuple[dict[str, PerUser], dict[str, Estimate]]:
        """Every figure at every K: those of each user, and those of all lists together.

        Popularity is the mean share of users who have a listed item (theory: M11).
        """
        degrees = self.item_degrees
        popular, informative = (
            degrees / max(self.n_users, 1),
            self_information(degrees, self.n_users),
        )
        groups = popularity_groups(degrees)
        shares, had = self._histories(users, groups, popular)
        per_user: dict[str, PerUser] = {}
        together: dict[str, Estimate] = {}
        for k in ks:
            first = lists[:, :k]
            popularity = mean_of_list(first, popular)
            per_user |= {
                f"novelty@{k}": mean_of_list(first, informative),
                f"diversity@{k}": self._diversity_of_some(first),
                f"popularity@{k}": popularity,
                f"miscalibration@{k}": miscalibration(first, groups, shares),
            }
            together[f"gini@{k}"] = gini(first, self.n_items)
            together[f"popularity_lift@{k}"] = popularity_lift(popularity, had)
        return per_user, together

    def _histories(
        self, users: NDArray[np.int64], groups: NDArray[np.int64], popular: Values
    ) -> tuple[Values, PerUser]:
        """The shares of the groups in each user's history, and its mean popularity."""
        rows, items = pairs_of(self.pairs, users)
        n_groups = 3
        counts = np.bincount(rows * n_groups + groups[items], minlength=len(users) * n_groups)
        total = np.bincount(rows, weights=popular[items], minlength=len(users))
        n = np.bincount(rows, minlength=len(users)).astype(np.float64)
        n[n == 0] = np.nan
        return counts.reshape(len(users), n_groups) / n[:, None], total / n

    def _diversity_of_some(self, lists: Lists) -> PerUser:
        """The diversity of lists drawn by chance, as many as are cheap; NaN for the others."""
        work = self.n_users + np.where(lists >= 0, self.item_degrees[lists], 0).sum(axis=1).mean()
        affordable = _SHARE_OF_RANKING * len(lists) * self.n_items / work
        n = int(min(_MOST_LISTS, max(_FEWEST_LISTS, affordable), len(lists)))
        # the first of one order, so that two models are paired by the users of the smaller sample
        some = np.random.default_rng(0).permutation(len(lists))[:n]
        values = np.full(len(lists), np.nan)
        for part in np.array_split(some, math.ceil(n * work / _AT_ONCE)):
            values[part] = diversity(lists[part], self._users_of_items, self.n_users)
        return values

    @cached_property
    def _users_of_items(self) -> UserItems:
        """The users of each item."""
        users = np.repeat(np.arange(self.n_users, dtype=np.int32), np.diff(self.pairs.indptr))
        ends = np.concatenate([[0], np.cumsum(self.item_degrees)])
        return UserItems(ends, users[np.argsort(self.pairs.indices, kind="stable")])
