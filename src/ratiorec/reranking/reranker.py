"""Rules made ready for a model: from the scores of users to their lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ratiorec.catalogue.columns import Categories
from ratiorec.catalogue.conditions import Steps, finished
from ratiorec.catalogue.filters import Filters
from ratiorec.reranking.greedy import (
    Calibrated,
    Diverse,
    Limited,
    Memberships,
    RuleAtWork,
    SetApart,
    Values,
    fill,
    shares,
)
from ratiorec.reranking.groups import Groups, grouped_by
from ratiorec.reranking.likeness import ByUsers, ByVectors, Likeness
from ratiorec.reranking.rules import Named, Rules, boost_of, pairs
from ratiorec.scorers import FloatMatrix, Indices, StoredScorer
from ratiorec.scorers.scorer import Pairs
from ratiorec.scorers.topk import TopK, top_k

BEST_SCORES = 100
"""The best scores of a user whose standard deviation is the unit of a boost."""
_NUMBERS_AT_ONCE = 2**20
_MOST_SHIFTS = 64  # sets of boosts of which the masks are kept
Boosts = tuple[tuple[str, float], ...]


def head_length(k: int, *, is_weighed: bool) -> int:
    """How many of the best items are candidates for k places.

    Where items are weighed against one another they are 10·k, at least 200 and at most 2,000, or k
    where that is more. Limits alone would find the same list in a head of any length.
    """
    return max(200, k, min(10 * k, 2000)) if is_weighed else 4 * k


@dataclass(frozen=True, eq=False)
class Shelf:
    """What rules ask about the items of a model; what is made of it once is kept."""

    scorer: StoredScorer
    filters: Filters  # what boosts may ask of the items
    histories: Pairs
    _groups: dict[str, Groups] = field(default_factory=dict)
    _shifts: dict[Boosts, NDArray[np.float32]] = field(default_factory=dict)

    def groups(self, name: str, *, where: str) -> Groups:
        """The groups of an attribute."""
        if name not in self._groups:
            self._groups[name] = grouped_by(self.filters.table.columns, name, where=where)
        return self._groups[name]

    def shift(self, boosts: Boosts) -> NDArray[np.float32]:
        """What boosts add to the score of each item, in standard deviations."""
        return finished(self.shift_in_steps(boosts))

    def shift_in_steps(self, boosts: Boosts) -> Steps[NDArray[np.float32]]:
        """The same, condition by condition."""
        if boosts not in self._shifts:
            total = np.zeros(len(self.filters.items))
            for text, strength in boosts:
                kept = yield from self.filters.kept_in_steps(boost_of(text))
                total[kept] += strength
            if len(self._shifts) >= _MOST_SHIFTS:
                del self._shifts[next(iter(self._shifts))]  # the one made first
            self._shifts[boosts] = total.astype(np.float32)
        return self._shifts[boosts]

    def has_shift(self, boosts: Boosts) -> bool:
        """Whether it is known what boosts add."""
        return boosts in self._shifts

    @cached_property
    def likeness(self) -> Likeness:
        """By the model's vectors, or by the users of items in a model without vectors."""
        vectors: FloatMatrix | None = getattr(self.scorer, "item_vectors", None)
        if vectors is None:
            return ByUsers(self.histories, len(self.filters.items))
        return ByVectors(vectors)

    def reranker(
        self, rules: Rules, k: int, histories: Pairs, *, limit: Graded | None = None
    ) -> Reranker:
        """Rules for lists of k items; `histories` are those of the users who will be asked about.

        A further `limit` holds beside those of the rules.

        Raises:
            ConfigError: A rule names an attribute that is not there, or is of no use to it.
        """
        pinned = [(place, item) for place, item in pairs(rules.pins) if place <= k]
        found = self.filters.items.indices([item for _, item in pinned], on_unknown="skip")
        pins = [(place - 1, int(i)) for (place, _), i in zip(pinned, found, strict=True) if i >= 0]
        return Reranker(
            k=k,
            shift=self.shift(pairs(rules.boosts)) if rules.boosts else None,
            pins=tuple(pins),
            limits=self._grouped("limits", rules.limits) + (() if limit is None else (limit,)),
            apart=self._grouped("apart", rules.apart),
            diversity=rules.diversity,
            likeness=self.likeness if rules.diversity else None,
            calibration=tuple(
                Graded(groups.with_missing(), strength)
                for groups, strength in self._grouped("calibration", rules.calibration)
                if strength
            ),
            histories=histories,
        )

    def _grouped(self, name: str, rules: Named[Any]) -> tuple[Graded, ...]:
        where = f"rules.{name}"
        return tuple(Graded(self.groups(of, where=where), value) for of, value in pairs(rules))


class Graded(NamedTuple):
    """Groups, and the number of the rule about them."""

    groups: Groups
    value: float

    @classmethod
    def of_some(cls, items: NDArray[np.bool_], value: float) -> Graded:
        """A rule about these items, as one group."""
        codes = np.where(items, 0, -1).astype(np.int32)
        group = Categories(codes, np.array(["these"], object))
        return cls(Groups.of(group, where="rules"), value)


@dataclass(frozen=True, eq=False)
class Reranker:
    """Makes lists from scores as rules say: exactly, however many items a rule leaves out."""

    k: int
    shift: NDArray[np.float32] | None
    pins: tuple[tuple[int, int], ...]
    limits: tuple[Graded, ...]
    apart: tuple[Graded, ...]
    diversity: float
    likeness: Likeness | None
    calibration: tuple[Graded, ...]
    histories: Pairs

    @property
    def is_weighed(self) -> bool:
        return bool(self.diversity or self.calibration)

    def __call__(self, users: Indices, scores: FloatMatrix) -> TopK:
        """The lists of users from their scores [n, n_items], -inf for what may not be listed.

        A list that rules leave short is made again from a head four times as long, until it is
        full or there are no more items. Boosts change the scores in place.
        """
        if self.shift is not None:
            scores += spread_of_best(scores)[:, None] * self.shift
        n_items = scores.shape[1]
        length = min(head_length(self.k, is_weighed=self.is_weighed), n_items)
        lists = self._from_heads(users, scores, length)
        while len(short := np.flatnonzero(lists.items[:, -1] < 0)) and length < n_items:
            short = short[(scores[short] > -np.inf).sum(axis=1) > length]
            length = min(4 * length, n_items)
            lists.items[short], lists.scores[short] = self._from_heads(
                users[short], scores[short], length
            )
        return lists

    def _from_heads(self, users: Indices, scores: FloatMatrix, length: int) -> TopK:
        """Lists of which the `length` best items are the candidates, of a few users at a time."""
        items = np.empty((len(users), self.k), np.int64)
        found = np.empty((len(users), self.k), np.float32)
        step = max(1, _NUMBERS_AT_ONCE // self._numbers_of_a_user(length))
        for start in range(0, len(users), step):
            rows = slice(start, start + step)
            items[rows], found[rows] = self._lists(users[rows], scores[rows], length)
        return TopK(items, found)

    def _numbers_of_a_user(self, length: int) -> int:
        every = (*self.limits, *self.apart, *self.calibration)
        width = 4 if self.likeness is None else 4 + self.likeness.width
        return length * width + sum(groups.n_groups for groups, _ in every)

    def _lists(self, users: Indices, scores: FloatMatrix, length: int) -> TopK:
        """Lists of a few users: the columns of candidates are the pins, then the best items."""
        head = top_k(scores, length)
        pins = np.array([item for _, item in self.pins], np.int64)
        pinned_scores = scores[:, pins]
        pinned = np.where(pinned_scores > -np.inf, pins, -1)
        candidates = np.hstack([pinned, head.items])
        values = self._values(head)
        values[np.isin(head.items, pins)] = -np.inf  # a pin stands in its own column
        values = np.hstack([np.full(pinned.shape, -np.inf), values])
        places = np.full((len(users), self.k), -1)
        for column, (place, _) in enumerate(self.pins):
            places[:, place] = np.where(pinned[:, column] >= 0, column, -1)
        chosen = fill(values, self._rules(users, candidates), places, self.k)
        rows, is_listed = np.arange(len(users))[:, None], chosen >= 0
        all_scores = np.hstack([pinned_scores, head.scores])
        return TopK(
            np.where(is_listed, candidates[rows, chosen], -1),
            np.where(is_listed, all_scores[rows, chosen], -np.inf).astype(np.float32),
        )

    def _values(self, head: TopK) -> Values:
        """What candidates are worth before anything is listed: scores, or these from 0 to 1."""
        is_there = head.items >= 0
        if not self.is_weighed:
            return head.scores.astype(np.float64)
        scores = np.where(is_there, head.scores.astype(np.float64), 0)
        highest = scores[:, :1]
        lowest = np.where(is_there, scores, highest).min(axis=1, keepdims=True)
        span = np.where(highest > lowest, highest - lowest, 1)
        share = (1 - self.diversity) * np.prod([1 - one.value for one in self.calibration])
        return np.where(is_there, share * ((scores - lowest) / span), -np.inf)

    def _rules(self, users: Indices, items: Indices) -> Sequence[RuleAtWork]:
        rules: list[RuleAtWork] = []
        if self.likeness is not None:
            rules.append(Diverse(items, self.likeness, self.diversity))
        for groups, strength in self.calibration:
            target = shares(groups, self.histories, users)
            rules.append(Calibrated(Memberships(groups, items), target, strength))
        rules += [Limited(Memberships(groups, items), int(n)) for groups, n in self.limits]
        rules += [SetApart(Memberships(groups, items), int(n)) for groups, n in self.apart]
        return rules


def spread_of_best(scores: FloatMatrix) -> NDArray[np.float32]:
    """The standard deviation of the best scores of each user, 1 where they are all equal."""
    best = top_k(scores, min(BEST_SCORES, scores.shape[1])).scores.astype(np.float64)
    is_there = best > -np.inf
    n = np.maximum(is_there.sum(axis=1), 1)
    best = np.where(is_there, best, 0)
    centred = np.where(is_there, best - (best.sum(axis=1) / n)[:, None], 0)
    spread = np.sqrt(np.square(centred).sum(axis=1) / n)
    return np.asarray(np.where(spread > 0, spread, 1), np.float32)
