"""Pairwise training as loops over plain lists: draws, risk, penalty and Adam."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass

from reference.dual import Dual, exp, log1p, total, variable

Table = Sequence[Sequence[float]]


@dataclass(frozen=True)
class Triples:
    """A batch of pairs in lists; `unlabelled[p]` are the items drawn for pair p."""

    users: list[int]
    items: list[int]
    unlabelled: list[list[int]]


def missing(positives: Collection[int], n_items: int) -> list[int]:
    return [item for item in range(n_items) if item not in positives]


def bpr(users: Table, items: Table, batch: Triples, *, hardest: bool) -> Dual:
    """−mean of log σ(s(u,i) − s(u,j)) over the drawn j, or j the first with the highest score."""
    losses = []
    for u, i, drawn in zip(batch.users, batch.items, batch.unlabelled, strict=True):
        scores = [_score(users, items, u, j) for j in drawn]
        if hardest:
            scores = [max(scores, key=lambda score: score.value)]
        losses += [_softplus(score - _score(users, items, u, i)) for score in scores]
    return total(losses) / len(losses)


def half_squared_norms(users: Table, items: Table, batch: Triples) -> Dual:
    """½ the mean of ‖e‖² over the users, the positives and all drawn items, each on its own."""
    drawn = [j for row in batch.unlabelled for j in row]
    groups = (("user", users, batch.users), ("item", items, batch.items), ("item", items, drawn))
    means = []
    for kind, table, rows in groups:
        vectors = [_vector(kind, table, row) for row in rows]
        means.append(total(x * x for vector in vectors for x in vector) / (2 * len(rows)))
    return total(means)


class Adam:
    """One number at a time, with both averages freed from their bias towards 0."""

    def __init__(self, learning_rate: float) -> None:
        self.learning_rate = learning_rate
        self.n_steps = 0
        self.first: dict[Hashable, float] = {}
        self.second: dict[Hashable, float] = {}

    def step(
        self, values: Mapping[Hashable, float], slopes: Mapping[Hashable, float]
    ) -> dict[Hashable, float]:
        self.n_steps += 1
        moved = {}
        for name, value in values.items():
            slope = slopes.get(name, 0.0)
            self.first[name] = 0.9 * self.first.get(name, 0.0) + 0.1 * slope
            self.second[name] = 0.999 * self.second.get(name, 0.0) + 0.001 * slope**2
            mean = self.first[name] / (1 - 0.9**self.n_steps)
            square = self.second[name] / (1 - 0.999**self.n_steps)
            moved[name] = value - self.learning_rate * mean / (math.sqrt(square) + 1e-8)
        return moved


def _vector(kind: str, table: Table, row: int) -> list[Dual]:
    return [variable((kind, row, column), x) for column, x in enumerate(table[row])]


def _score(users: Table, items: Table, u: int, i: int) -> Dual:
    vectors = zip(_vector("user", users, u), _vector("item", items, i), strict=True)
    return total(a * b for a, b in vectors)


def _softplus(x: Dual) -> Dual:
    """log(1 + eˣ) = −log σ(−x), without the exponential of a large number."""
    return x + log1p(exp(-x)) if x.value > 0 else log1p(exp(x))
