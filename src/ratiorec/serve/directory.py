"""The users of a model, to be found by a part of their id."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, islice

from ratiorec.data.vocabulary import Vocabulary
from ratiorec.serve.lines import Lines


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
