"""Lists made one place after another: each rule weighs the candidates, the best one is taken.

Everything is done for some users at once, on arrays with a row for each user and a column for each
candidate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ratiorec.reranking.groups import Groups
from ratiorec.reranking.likeness import Likeness
from ratiorec.scorers import Indices
from ratiorec.scorers.scorer import Pairs, UserItems, pairs_of

Values = NDArray[np.float64]
SMOOTHING = 0.01
"""The part of a history's shares that is mixed into those of a list, so that none is 0."""


class RuleAtWork(Protocol):
    """A rule at work on the lists of some users."""

    def weigh(self, values: Values, place: int) -> None:
        """Lower the values of candidates for a place; -inf for what may not stand there."""
        ...

    def take(self, rows: Indices, columns: Indices, place: int) -> None:
        """From now on these candidates stand at this place of their rows."""
        ...


def fill(values: Values, rules: Sequence[RuleAtWork], pinned: Indices, k: int) -> Indices:
    """The column of the candidate at each place [n, k], -1 beyond the end of a list (theory: L1).

    Args:
        values: Of each candidate [n, m]; -inf is none.
        rules: What changes the values as lists grow.
        pinned: The column that is pinned to each place [n, k], -1 for none.
        k: Places.
    """
    chosen, values = pinned.copy(), values.copy()
    for place in range(k):
        rows = np.flatnonzero(pinned[:, place] >= 0)
        values[rows, pinned[rows, place]] = -np.inf
        _told(rules, rows, pinned[rows, place], place)
    goes_on = np.ones(len(values), bool)
    for place in range(k):
        weighed = values.copy()
        for rule in rules:
            rule.weigh(weighed, place)
        best = weighed.argmax(axis=1)
        is_open = goes_on & (chosen[:, place] < 0)
        is_found = weighed[np.arange(len(best)), best] > -np.inf
        goes_on &= ~is_open | is_found
        rows = np.flatnonzero(is_open & is_found)
        chosen[rows, place] = best[rows]
        values[rows, best[rows]] = -np.inf
        _told(rules, rows, best[rows], place)
    return _without_gaps(chosen)


def _told(rules: Sequence[RuleAtWork], rows: Indices, columns: Indices, place: int) -> None:
    for rule in rules if len(rows) else ():
        rule.take(rows, columns, place)


def _without_gaps(chosen: Indices) -> Indices:
    """What is pinned beyond the end of a list moves up to it."""
    order = np.argsort(chosen < 0, axis=1, kind="stable")
    return np.take_along_axis(chosen, order, axis=1)


@dataclass(frozen=True, eq=False)
class Memberships:
    """The groups of candidates [n, m]: cell c = row · m + column is in keys row · n_groups + g."""

    groups: Groups
    items: Indices

    @property
    def n_keys(self) -> int:
        return len(self.items) * self.groups.n_groups

    @property
    def n_columns(self) -> int:
        return int(self.items.shape[1])

    @cached_property
    def _pairs(self) -> tuple[Indices, Indices]:
        cells, codes = self.groups.memberships(self.items.ravel())
        return cells, cells // self.n_columns * self.groups.n_groups + codes

    @property
    def cells(self) -> Indices:
        return self._pairs[0]

    @property
    def keys(self) -> Indices:
        return self._pairs[1]

    @cached_property
    def _of_cells(self) -> UserItems:
        starts = np.searchsorted(self.cells, np.arange(self.items.size + 1))
        return UserItems(starts, self.keys)  # type: ignore[arg-type]  # keys of 64 bits

    def of(self, rows: Indices, columns: Indices) -> tuple[Indices, Indices]:
        """The places in `rows` and the keys of candidates."""
        return pairs_of(self._of_cells, rows * self.n_columns + columns)  # type: ignore[return-value]


class Limited:
    """At most so many items of each group in a list."""

    def __init__(self, of: Memberships, at_most: int) -> None:
        self._of, self._at_most = of, at_most
        self._counts = np.zeros(of.n_keys, np.int32)

    def weigh(self, values: Values, place: int) -> None:
        full = self._counts[self._of.keys] >= self._at_most
        values.reshape(-1)[self._of.cells[full]] = -np.inf

    def take(self, rows: Indices, columns: Indices, place: int) -> None:
        self._counts[self._of.of(rows, columns)[1]] += (
            1  # a key is of one row, and stands there once
        )


class SetApart:
    """Items of one group stand so many places apart, or more."""

    def __init__(self, of: Memberships, apart: int) -> None:
        self._of, self._apart = of, apart
        self._standing: list[tuple[int, Indices]] = []
        self._is_near = np.zeros(of.n_keys, bool)

    def weigh(self, values: Values, place: int) -> None:
        near = [keys for at, keys in self._standing if abs(at - place) < self._apart]
        if not near:
            return
        keys = np.concatenate(near)
        self._is_near[keys] = True
        values.reshape(-1)[self._of.cells[self._is_near[self._of.keys]]] = -np.inf
        self._is_near[keys] = False

    def take(self, rows: Indices, columns: Indices, place: int) -> None:
        self._standing.append((place, self._of.of(rows, columns)[1]))


class Diverse:
    """Takes off how like a candidate is to the listed item that is most like it (theory: L3)."""

    def __init__(self, items: Indices, likeness: Likeness, strength: float) -> None:
        self._among, self._strength = likeness.among(items), strength
        self._nearest = np.full(items.shape, -1.0)

    def weigh(self, values: Values, place: int) -> None:
        values -= self._strength * self._nearest

    def take(self, rows: Indices, columns: Indices, place: int) -> None:
        cosines = self._among.to(rows, columns)
        self._nearest[rows] = np.maximum(self._nearest[rows], cosines)


class Calibrated:
    """Takes off how far the groups in a list would be from those in a history (theory: L4)."""

    def __init__(self, of: Memberships, target: Values, strength: float) -> None:
        self._of, self._strength = of, strength
        self._weights = _equal_shares(of.cells)
        self._target = target.reshape(-1)[of.keys]
        self._listed = np.zeros(of.n_keys)
        self._n_listed = np.zeros((len(of.items), 1))

    def weigh(self, values: Values, place: int) -> None:
        of, n = self._of, self._n_listed + 1
        listed, n_each = self._listed[of.keys], n[of.cells // of.n_columns, 0]
        change = self._loss(listed + self._weights, n_each) - self._loss(listed, n_each)
        total = np.bincount(of.cells, change, of.items.size).reshape(of.items.shape)
        values -= self._strength * n * total

    def _loss(self, listed: Values, n: Values) -> Values:
        """p log(p / q), with q the share in the list, smoothed."""
        p = self._target
        q = (1 - SMOOTHING) * listed / n + SMOOTHING * p
        return np.asarray(p * np.log(np.where(p > 0, p, 1) / np.where(p > 0, q, 1)))

    def take(self, rows: Indices, columns: Indices, place: int) -> None:
        places, keys = self._of.of(rows, columns)
        self._listed[keys] += _equal_shares(places)
        self._n_listed[rows] += 1


def shares(groups: Groups, histories: Pairs, users: Indices) -> Values:
    """The shares of groups in the histories of users [n, n_groups]; 0 where there is no history."""
    rows, items = pairs_of(histories, users)
    places, codes = groups.memberships(items.astype(np.int64))
    keys = rows[places] * groups.n_groups + codes
    found = np.bincount(keys, _equal_shares(places), len(users) * groups.n_groups)
    totals = np.bincount(rows, minlength=len(users))
    return np.asarray(found.reshape(len(users), -1) / np.maximum(totals, 1)[:, None])


def _equal_shares(places: Indices) -> Values:
    """1/n for each of n equal places: an item of several groups counts for all of them alike."""
    return np.asarray(1 / np.bincount(places)[places]) if len(places) else np.zeros(0)
