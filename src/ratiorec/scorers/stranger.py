"""One more user, of whom nothing is known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ratiorec.scorers.protocol import FloatMatrix, Indices, Scorer
from ratiorec.seen import SeenItems


@dataclass(frozen=True, eq=False)
class WithStranger:
    """A scorer with one user more: the last is a stranger, to whom all items score as given."""

    known: Scorer
    scores_of_stranger: NDArray[np.float32]

    @property
    def n_users(self) -> int:
        return self.known.n_users + 1

    @property
    def n_items(self) -> int:
        return self.known.n_items

    def scores(self, users: Indices, *, out: FloatMatrix | None = None) -> FloatMatrix:
        """The known users' own scores, and the same row for every stranger."""
        if out is None:
            out = np.empty((len(users), self.n_items), np.float32)
        is_known = users < self.known.n_users
        if is_known.any():
            # a stranger is scored as someone known at first, so that one buffer is enough
            self.known.scores(np.where(is_known, users, 0), out=out)
        out[~is_known] = self.scores_of_stranger
        return out


def with_strangers(
    scorer: Scorer, users: Indices, seen: SeenItems, popularity: NDArray[np.float32]
) -> tuple[Scorer, Indices, SeenItems]:
    """What ranks these users, where -1 becomes a stranger, to whom the popular is best."""
    if (users >= 0).all():
        return scorer, users, seen
    return (
        WithStranger(scorer, popularity),
        np.where(users >= 0, users, scorer.n_users),
        SeenItems(np.append(seen.indptr, seen.indptr[-1]), seen.indices),
    )
