"""Few items: ranking what few may be listed without scoring all the others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ratiorec.scorers.scorer import FloatMatrix, Indices, Narrowable, Scorer

_FEW = 0.1  # of the items: taking an item out of its tile costs as much as scoring several


@dataclass(frozen=True, eq=False)
class FewItems:
    """A scorer of some items alone, and which of all items they are, ascending."""

    scorer: Scorer
    items: Indices

    @property
    def n_users(self) -> int:
        return self.scorer.n_users

    @property
    def n_items(self) -> int:
        return len(self.items)

    def scores(self, users: Indices, *, out: FloatMatrix | None = None) -> FloatMatrix:
        return self.scorer.scores(users, out=out)

    def places(self, rows: Indices, items: NDArray[np.int32]) -> tuple[Indices, Indices]:
        """Pairs of rows and items by the places of the items; without those that are not here."""
        places = np.searchsorted(self.items, items)
        is_here = np.append(self.items, -1)[places] == items
        return rows[is_here], places[is_here]

    def named(self, places: Indices) -> Indices:
        """The items at these places; -1 stays what it is."""
        found: Indices = np.append(self.items, -1)[places]
        return found


@dataclass(frozen=True, eq=False)
class AmongAll:
    """The scores of few items in their places among all, -inf for those that are not scored."""

    few: FewItems
    n_items: int

    @property
    def n_users(self) -> int:
        return self.few.n_users

    def scores(self, users: Indices, *, out: FloatMatrix | None = None) -> FloatMatrix:
        if out is None:
            out = np.empty((len(users), self.n_items), np.float32)
        out.fill(-np.inf)
        out[:, self.few.items] = self.few.scores(users)
        return out


def few_items(scorer: Scorer, blocked: NDArray[np.bool_]) -> FewItems | None:
    """The scorer of the items that are not blocked, where that is less work than all items."""
    if not isinstance(scorer, Narrowable):
        return None
    items = np.flatnonzero(~blocked)
    if len(items) > _FEW * scorer.n_items:
        return None
    few = scorer.for_items(items)
    return None if few is None else FewItems(few, items)
