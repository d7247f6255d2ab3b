"""The items of a model, to be found by what they are called."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, islice

import numpy as np

from ratiorec.data.vocabulary import Vocabulary
from ratiorec.scorers import Indices
from ratiorec.seen import SeenItems
from ratiorec.serve.lines import Lines


@dataclass(frozen=True, eq=False)
class Catalogue:
    """Ids and names of all items; `by_users` has those with most users first, as `lines` do."""

    by_users: Indices
    lines: Lines

    @classmethod
    def of(cls, items: Vocabulary, seen: SeenItems) -> Catalogue:
        """The catalogue of a model's items."""
        by_users = np.argsort(-np.bincount(seen.indices, minlength=len(items)), kind="stable")
        columns = [items.ids] if items.names is None else [items.ids, items.names]
        words = zip(*(column[by_users].tolist() for column in columns), strict=True)
        return cls(by_users, Lines.of(map(str, line) for line in words))

    def find(self, query: str, k: int) -> list[int]:
        """The first k items that have the query in id or name, those with most users first.

        An item whose id or name is the query stands before all others.
        """
        found = chain(self.lines.equal_to(query) if query else (), self.lines.containing(query))
        lines = list(islice(dict.fromkeys(islice(found, 2 * k)), k))
        chosen: list[int] = self.by_users[lines].tolist()
        return chosen
