"""The items of a model, to be found by what they are called."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

import numpy as np

from ratiorec.data.vocabulary import Vocabulary
from ratiorec.scorers import Indices
from ratiorec.seen import SeenItems


@dataclass(frozen=True, eq=False)
class Catalogue:
    """Ids and names without regard to capitals; `by_users` has the items with most users first."""

    texts: list[str]
    by_users: Indices

    @classmethod
    def of(cls, items: Vocabulary, seen: SeenItems) -> Catalogue:
        """The catalogue of a model's items."""
        texts = [str(identifier) for identifier in items.ids.tolist()]
        if items.names is not None:
            names = items.names.tolist()
            texts = [f"{text}\n{name}" for text, name in zip(texts, names, strict=True)]
        counts = np.bincount(seen.indices, minlength=len(items))
        return cls([text.casefold() for text in texts], np.argsort(-counts, kind="stable"))

    def find(self, query: str, k: int) -> list[int]:
        """The first k items that have the query in id or name, those with most users first.

        An item whose id or name is the query stands before all others.
        """
        wanted = query.casefold()
        found = (item for item in self.by_users.tolist() if wanted in self.texts[item])
        if not wanted:
            return list(islice(found, k))
        everything = list(found)
        exact = [item for item in everything if wanted in self.texts[item].split("\n")]
        others = (item for item in everything if wanted not in self.texts[item].split("\n"))
        return [*exact, *others][:k]
