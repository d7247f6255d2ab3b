"""Weights of a blend: a deterministic search of nDCG@20 on held-out pairs (theory: G2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from ratiorec.scorers import Blend, Indices, Scorer
from ratiorec.scorers.blend import Narrowing, standardise
from ratiorec.scorers.scorer import Pairs, pairs_of
from ratiorec.scorers.topk import n_cores, top_k

K = 20
N_CANDIDATES = 60  # of each member; an item outside all lists hardly ever reaches a first 20
_USERS_AT_ONCE, _USERS_ON_DEVICE = 32, 512
_JUDGED_AT_ONCE = 1024
_EMPTY = np.float32(-1e30)  # the score of a place without a candidate

# shares of nDCG@20: what a member must add to be worth its memory and time, and any other move
_LEAST_OF_MEMBER, _LEAST_OF_MOVE = 1e-3, 2e-4
_FIRST_WEIGHTS = (0.1, 0.25, 0.5, 1.0)
_FACTORS = (0.0, 0.6, 0.8, 1.25, 1.6)
_TURNS = 3

PerUser = NDArray[np.float64]
Weights = NDArray[np.float64]
BestOfEach = Callable[[Indices, int], tuple[Indices, NDArray[np.float32]]]
"""From users and k: the k best items of each member side by side, some of them twice, and the
standardised scores of these items by every member [members, users, items]."""


@dataclass(frozen=True, eq=False)
class CandidateScores:
    """Standardised scores by each member of the best candidates of all members, user by user."""

    scores: NDArray[np.float32]  # [members, users, candidates]
    relevant: NDArray[np.bool_]  # [users, candidates]
    n_relevant: Indices  # held-out items of each user

    @classmethod
    def of(
        cls,
        members: Sequence[Scorer],
        seen: Pairs,
        held_out: Pairs,
        users: Indices,
        *,
        best_of_each: BestOfEach | None = None,
    ) -> Self:
        """The candidates of these users, who have held-out pairs.

        `best_of_each` finds them, by default on the CPU.
        """
        find = best_of_each or partial(_best_of_each, members, seen)
        n_items = members[0].n_items
        n_at_once = _USERS_AT_ONCE if best_of_each is None else _USERS_ON_DEVICE
        blocks = [users[start : start + n_at_once] for start in range(0, len(users), n_at_once)]

        def one_block(block: Indices) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
            items, scores = find(block, min(N_CANDIDATES, n_items))
            order = np.argsort(items, axis=1, kind="stable")
            items = np.take_along_axis(items, order, 1)
            scores = np.take_along_axis(scores, order[None], 2)
            again = np.pad(items[:, 1:] == items[:, :-1], ((0, 0), (1, 0)))  # listed by two members
            scores[:, again | (items < 0)] = _EMPTY
            return np.maximum(scores, _EMPTY), _held_out(held_out, block, items, n_items) & ~again

        with ThreadPoolExecutor(n_cores()) as pool:
            parts = list(pool.map(one_block, blocks))
        scores = np.concatenate([part for part, _ in parts], axis=1)
        relevant = np.concatenate([part for _, part in parts])
        return cls(scores, relevant, np.diff(held_out.indptr)[users])

    @cached_property
    def ideal(self) -> PerUser:
        """The DCG of a perfect list."""
        ideal: PerUser = np.cumsum(_DISCOUNTS)[np.minimum(self.n_relevant, K) - 1]
        return ideal

    def alone(self, member: int) -> PerUser:
        """nDCG@20 of each user by one member."""
        return self.ndcg(np.eye(len(self.scores))[member])

    def ndcg(self, weights: Weights) -> PerUser:
        """nDCG@20 of each user by the weighted sum."""
        hits = self._hits(weights)
        gains: PerUser = hits @ _DISCOUNTS[: hits.shape[1]] / self.ideal
        return gains

    def metrics(self, weights: Weights) -> dict[str, float]:
        """The means over users."""
        recall = self._hits(weights).sum(1) / self.n_relevant
        return {"recall@20": float(recall.mean()), "ndcg@20": float(self.ndcg(weights).mean())}

    def _hits(self, weights: Weights) -> NDArray[np.bool_]:
        """Which places of the first 20 hold a held-out item [users, 20]."""

        def one_block(start: int) -> NDArray[np.bool_]:
            rows = slice(start, start + _JUDGED_AT_ONCE)
            total = np.einsum(
                "m,muc->uc", weights[used].astype(np.float32), self.scores[used, rows]
            )
            return np.take_along_axis(self.relevant[rows], top_k(total, K).items, 1)

        used = np.flatnonzero(weights)
        with ThreadPoolExecutor(n_cores()) as pool:
            parts = pool.map(one_block, range(0, len(self.relevant), _JUDGED_AT_ONCE))
            return np.concatenate(list(parts))


_DISCOUNTS = 1 / np.log2(np.arange(K) + 2)


def _best_of_each(
    members: Sequence[Scorer], seen: Pairs, users: Indices, k: int
) -> tuple[Indices, NDArray[np.float32]]:
    rows = [standardise(member.scores(users)) for member in members]
    for row in rows:
        row[pairs_of(seen, users)] = -np.inf
    items = np.concatenate([top_k(row, k).items for row in rows], axis=1)
    return items, np.stack([np.take_along_axis(row, np.maximum(items, 0), 1) for row in rows])


def _held_out(held_out: Pairs, users: Indices, items: Indices, n_items: int) -> NDArray[np.bool_]:
    rows, listed = pairs_of(held_out, users)
    keys = np.arange(len(users))[:, None] * n_items + items
    return np.isin(keys, rows * n_items + listed) & (items >= 0)


class Weighed(NamedTuple):
    """Weights that add up to 1, and nDCG@20 of each user by them."""

    weights: Weights
    ndcg: PerUser


def search_weights(table: CandidateScores, groups: Sequence[Sequence[int]] = ()) -> Weighed:
    """The weights that a coordinate search from the best member alone finds.

    Members of a group, which differ by chance alone, share one weight. A move must raise the mean
    nDCG@20 by a share that matters.
    """
    shares = _shares(groups, len(table.scores))

    def ndcg(weights: Weights) -> PerUser:
        return table.ndcg(weights @ shares)

    single = [Weighed(row, ndcg(row)) for row in np.eye(len(shares))]
    first = int(np.argmax([alone.ndcg.mean() for alone in single]))
    best = single[first]
    for turn in range(_TURNS):
        before = best
        for group in range(len(shares)):
            if group != first or turn:
                best = _best_along(ndcg, best, group)
        if best is before:
            break
    return Weighed(best.weights @ shares / best.weights.sum(), best.ndcg)


def _shares(groups: Sequence[Sequence[int]], n_members: int) -> Weights:
    """What a group's weight gives each member [groups, members]; who is in none is one alone."""
    grouped = {member for group in groups for member in group}
    alone = [[member] for member in range(n_members) if member not in grouped]
    shares = np.zeros((len(groups) + len(alone), n_members))
    for row, group in zip(shares, [*groups, *alone], strict=True):
        row[list(group)] = 1 / len(group)
    return shares


def difference(found: PerUser, other: PerUser) -> tuple[float, float]:
    """The 95 % interval of the mean difference between two models, user by user."""
    gaps = found - other
    width = 1.96 * float(gaps.std()) / np.sqrt(len(gaps))
    return float(gaps.mean() - width), float(gaps.mean() + width)


def _best_along(ndcg: Callable[[Weights], PerUser], best: Weighed, member: int) -> Weighed:
    """The best of a few weights of one member, the others as they are."""
    now = best.weights[member]
    least = 1 + (_LEAST_OF_MOVE if now else _LEAST_OF_MEMBER)
    for weight in [now * factor for factor in _FACTORS] if now else _FIRST_WEIGHTS:
        weights = best.weights.copy()
        weights[member] = weight
        if weights.any() and (found := ndcg(weights)).mean() > least * best.ndcg.mean():
            best, least = Weighed(weights, found), 1 + _LEAST_OF_MOVE
    return best


_PRODUCTS_OF_A_USER = 22_000_000  # a core takes 5 ms for them
_LEAST_DIMENSION = 512  # and multiples of it, which fill the tiles of a product
_USERS_TO_NARROW_BY = 10_000


def narrowed(blend: Blend, dimension: int | None = None) -> Blend:
    """The blend with its joined vectors in so many dimensions at most (theory: G3).

    With G_U and G_V the second moments of users and items, the best products of that rank are
    those of U √G_V Q and V √G_V⁻¹ Q, Q the leading eigenvectors of √G_V G_U √G_V.
    """
    if dimension is None:
        n_times = _PRODUCTS_OF_A_USER // (blend.n_items * _LEAST_DIMENSION)
        dimension = _LEAST_DIMENSION * max(1, n_times)
    if blend.joined_dimension <= dimension:
        return blend
    step = max(1, blend.n_users // _USERS_TO_NARROW_BY)
    users, items = blend.joined_users(np.arange(0, blend.n_users, step)), blend.joined_items
    values, vectors = np.linalg.eigh((items.T @ items).astype(np.float64))
    roots = np.sqrt(np.maximum(values, values[-1] * np.finfo(np.float32).eps))
    root, inverse = (vectors * roots) @ vectors.T, (vectors / roots) @ vectors.T
    moments = root @ (users.T @ users).astype(np.float64) @ root
    leading = np.linalg.eigh(moments)[1][:, : -dimension - 1 : -1]
    maps = Narrowing((root @ leading).astype(np.float32), (inverse @ leading).astype(np.float32))
    return replace(blend, narrowing=maps)
