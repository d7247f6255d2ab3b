"""Test pairs that no list can hit: those a model was trained on, and those it knows nothing of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ratiorec.data.interactions import Interactions
from ratiorec.data.vocabulary import Vocabulary
from ratiorec.errors import DataError
from ratiorec.scorers.scorer import Pairs, pairs_of

Mask = NDArray[np.bool_]


class PairCounts(NamedTuple):
    """Test pairs by what a model can make of them; `unknown_item` counts pairs of known users."""

    total: int
    seen: int
    unknown_user: int = 0
    unknown_item: int = 0

    def to_json(self) -> dict[str, int]:
        """The counts, and how many pairs are left that a list can hit."""
        left = self.total - self.seen - self.unknown_user - self.unknown_item
        return {**self._asdict(), "reachable": left}

    def told(self) -> list[str]:
        """A line for each kind of pair that cannot be hit."""
        lines = []
        if self.seen:
            lines.append(
                f"{self.seen:,} of {self.total:,} test pairs are training pairs of the model, "
                "which never lists them: certain misses, which figures of reachable leave out"
            )
        if unknown := self.unknown_user + self.unknown_item:
            lines.append(
                f"{unknown:,} of {self.total:,} test pairs are left out: {self.unknown_user:,} "
                f"of users and {self.unknown_item:,} of items that the model does not know"
            )
        return lines


@dataclass(frozen=True, eq=False)
class Reach:
    """What a model makes of each test pair, in the order of the pairs."""

    knows_user: Mask
    knows_both: Mask
    is_seen: Mask

    @classmethod
    def of(cls, test: Interactions, users: Vocabulary, items: Vocabulary, seen: Pairs) -> Reach:
        """The reach of a model with these ids, trained on the pairs in `seen`."""
        user = _places_in(users, test.users)[test.pair_users]
        item = _places_in(items, test.items)[test.indices]
        knows_both = (user >= 0) & (item >= 0)
        is_seen = knows_both.copy()
        is_seen[knows_both] = are_in(seen, user[knows_both], item[knows_both], len(items))
        return cls(user >= 0, knows_both, is_seen)

    @property
    def counts(self) -> PairCounts:
        n_pairs, n_known_users = len(self.is_seen), int(self.knows_user.sum())
        n_known = int(self.knows_both.sum())
        n_seen = int(self.is_seen.sum())
        return PairCounts(n_pairs, n_seen, n_pairs - n_known_users, n_known_users - n_known)


def _places_in(known: Vocabulary, given: Vocabulary) -> NDArray[np.int64]:
    """The index of each given id among those of the model; -1 where it is unknown."""
    if given.same_as(known):
        return np.arange(len(given))
    return known.indices(given.ids, on_unknown="skip")


def n_seen_of(
    users: NDArray[np.int64], test: Pairs, seen: Pairs | None, n_items: int
) -> NDArray[np.int64]:
    """How many test pairs of each user are in `seen`."""
    if seen is None:
        return np.zeros(len(users), np.int64)
    rows, items = pairs_of(test, users)
    is_seen = are_in(seen, users[rows], items.astype(np.int64), n_items)
    return np.bincount(rows[is_seen], minlength=len(users))


def are_in(pairs: Pairs, users: NDArray[np.int64], items: NDArray[np.int64], n_items: int) -> Mask:
    """Whether each pair of a user and an item is among `pairs`."""
    some = np.flatnonzero(np.bincount(users))
    rows, had = pairs_of(pairs, some)
    there = np.sort(some[rows] * n_items + had)
    asked = users * n_items + items
    if not len(there):
        return np.zeros(len(asked), bool)
    found: Mask = there[np.minimum(np.searchsorted(there, asked), len(there) - 1)] == asked
    return found


def require_held_out(counts: PairCounts, *, where: str, override: str) -> None:
    """Refuse test pairs of which more than half are training pairs of the model."""
    if 2 * counts.seen > counts.total:
        raise DataError(
            "the test pairs are the model's training pairs"
            if counts.seen == counts.total
            else "most test pairs are training pairs of the model",
            where=where,
            found=f"{counts.seen:,} of {counts.total:,} pairs ({counts.seen / counts.total:.0%}) "
            "that it was trained on and never lists",
            wanted="pairs held out before training (ratiorec data split), or a model of the "
            f"other part; {override} judges all the same",
        )


def require_same_seen(ours: Reach, theirs: Reach, *, where: str, override: str) -> None:
    """Refuse a paired test of two models that were not trained on the same of the test pairs."""
    only_ours = int((ours.is_seen & ~theirs.is_seen).sum())
    only_theirs = int((theirs.is_seen & ~ours.is_seen).sum())
    if only_ours or only_theirs:
        raise DataError(
            "one model was trained on test pairs that the other has not seen",
            where=where,
            found=f"{only_theirs:,} of {len(ours.is_seen):,} test pairs in the training of that "
            f"model alone, {only_ours:,} in that of this one",
            wanted=f"two models of the same training part; {override} compares all the same",
        )
