"""More users than a scorer knows: those of another one, and whoever gets what is popular."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ratiorec.scorers.popularity import PopularityScorer
from ratiorec.scorers.scorer import FloatMatrix, Indices, Narrowable, Scorer, UserItems


@dataclass(frozen=True, eq=False)
class WithMoreUsers:
    """A scorer whose last users are those of another."""

    known: Scorer
    others: Scorer

    @property
    def n_users(self) -> int:
        return self.known.n_users + self.others.n_users

    @property
    def n_items(self) -> int:
        return self.known.n_items

    def scores(self, users: Indices, *, out: FloatMatrix | None = None) -> FloatMatrix:
        """Each user's scores by the scorer that has the user."""
        if out is None:
            out = np.empty((len(users), self.n_items), np.float32)
        is_known = users < self.known.n_users
        if is_known.any():
            # the others are scored as user 0 at first, so that one buffer is enough
            self.known.scores(np.where(is_known, users, 0), out=out)
        if not is_known.all():
            out[~is_known] = self.others.scores(users[~is_known] - self.known.n_users)
        return out

    def for_items(self, items: Indices) -> WithMoreUsers | None:
        """The scores of these items alone, where both scorers have them at less cost."""
        if not (isinstance(self.known, Narrowable) and isinstance(self.others, Narrowable)):
            return None
        known, others = self.known.for_items(items), self.others.for_items(items)
        return None if known is None or others is None else WithMoreUsers(known, others)


def with_unknown_users(
    scorer: Scorer,
    users: Indices,
    seen: UserItems,
    popularity: NDArray[np.float32],
    new: Scorer | None = None,
) -> tuple[Scorer, Indices, UserItems]:
    """Scorer, users and seen items, where -1 becomes the fallback user, scored by popularity.

    -2 - j becomes the j-th user of `new`.
    """
    if new is not None:
        places = np.where(users < -1, scorer.n_users - 2 - users, users)
        scorer, users, seen = WithMoreUsers(scorer, new), places, _with_rows(seen, new.n_users)
    if (users >= 0).all():
        return scorer, users, seen
    fallback = WithMoreUsers(scorer, PopularityScorer(popularity, 1))
    return fallback, np.where(users >= 0, users, scorer.n_users), _with_rows(seen, 1)


def _with_rows(seen: UserItems, n: int) -> UserItems:
    """The rows with so many empty ones behind them."""
    indptr = np.concatenate([seen.indptr, np.full(n, seen.indptr[-1])])
    return UserItems(indptr, seen.indices)
