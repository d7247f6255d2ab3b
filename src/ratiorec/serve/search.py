"""Search for items by name and for users by a part of their id."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice

import numpy as np

from ratiorec.data.vocabulary import Vocabulary
from ratiorec.scorers import Indices
from ratiorec.scorers.user_items import UserItems

_EDGE = "\x1f"  # on both sides of each word; no query has it


@dataclass(frozen=True, eq=False)
class Lines:
    """Words of each line, without regard to capitals; `starts` is where each line begins.

    A search goes no further than its results are asked for.
    """

    text: str
    starts: Indices

    @classmethod
    def of(cls, lines: Iterable[Iterable[str]]) -> Lines:
        """The lines in the order in which they are to be found."""
        written = [f"{_EDGE}{_EDGE.join(map(_plain, words))}{_EDGE}\n" for words in lines]
        lengths = np.fromiter(map(len, written), np.int64, len(written))
        return cls("".join(written), np.cumsum(lengths) - lengths)

    def equal_to(self, query: str) -> Iterator[int]:
        """Lines in which a word is the query."""
        return self._having(f"{_EDGE}{_plain(query)}{_EDGE}")

    def beginning_with(self, query: str) -> Iterator[int]:
        """Lines in which a word begins with the query; an empty one finds all."""
        return self._having(f"{_EDGE}{_plain(query)}")

    def containing(self, query: str) -> Iterator[int]:
        """Lines in which a word has the query anywhere; an empty one finds all."""
        return self._having(_plain(query) or _EDGE)

    def _having(self, part: str) -> Iterator[int]:
        """Each line once, in their order."""
        place = self.text.find(part)
        while place >= 0:
            line = int(np.searchsorted(self.starts, place, "right")) - 1
            yield line
            is_last = line + 1 == len(self.starts)
            place = -1 if is_last else self.text.find(part, int(self.starts[line + 1]))


def _plain(text: str) -> str:
    """What has a meaning here is a space."""
    return text.casefold().replace("\n", " ").replace(_EDGE, " ")


@dataclass(frozen=True, eq=False)
class Catalogue:
    """Ids and names of all items; `by_users` has those with most users first, as `lines` do."""

    by_users: Indices
    lines: Lines

    @classmethod
    def of(cls, items: Vocabulary, seen: UserItems) -> Catalogue:
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


@dataclass(frozen=True, eq=False)
class Directory:
    """All ids, in the order of the model."""

    users: Vocabulary
    lines: Lines

    @classmethod
    def of(cls, users: Vocabulary) -> Directory:
        """The directory of a model's users."""
        return cls(users, Lines.of([str(identifier)] for identifier in users.ids.tolist()))

    def find(self, query: str, k: int) -> list[int]:
        """The first k users with the query in their id, in the order of the model.

        First comes whoever has this very id, then ids that are the same but for capitals, then
        those that begin so.
        """
        itself = self.users.indices([query], on_unknown="skip")
        found = chain(
            itself[itself >= 0].tolist(),
            self.lines.equal_to(query),
            self.lines.beginning_with(query),
            self.lines.containing(query),
        )
        return list(islice(dict.fromkeys(islice(found, 4 * k)), k))
