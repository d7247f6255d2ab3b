"""The users of a model, to be found by a part of their id."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice

import numpy as np

from ratiorec.data.vocabulary import Vocabulary
from ratiorec.scorers import Indices


@dataclass(frozen=True, eq=False)
class Directory:
    """All ids in one text, each in a line of its own, without regard to capitals.

    One text is searched in far less time than a million texts, and no further than it must be.
    `starts` is where each line begins.
    """

    users: Vocabulary
    text: str
    starts: Indices

    @classmethod
    def of(cls, users: Vocabulary) -> Directory:
        """The directory of a model's users."""
        lines = [_line(str(identifier)) for identifier in users.ids.tolist()]
        lengths = np.fromiter(map(len, lines), np.int64, len(lines))
        return cls(users, "\n".join(["", *lines, ""]), np.cumsum(lengths + 1) - lengths)

    def find(self, query: str, k: int) -> list[int]:
        """The first k users with the query in their id, in the order of the model.

        First comes whoever has this very id, then ids that are the same but for capitals, then
        those that begin so.
        """
        wanted = _line(query)
        itself = self.users.indices([query], on_unknown="skip")
        found = chain(
            itself[itself >= 0].tolist(),
            self._lines_with(f"\n{wanted}\n") if wanted else (),
            self._lines_with(f"\n{wanted}"),
            self._lines_with(wanted) if wanted else (),
        )
        return list(islice(dict.fromkeys(islice(found, 4 * k)), k))

    def _lines_with(self, part: str) -> Iterator[int]:
        """Each line once that has this part, or that begins with what follows a line end."""
        place = self.text.find(part)
        while 0 <= place < len(self.text) - 1:
            line = int(np.searchsorted(self.starts, place + part.startswith("\n"), "right")) - 1
            yield line
            after = self.starts[line + 1] - 1 if line + 1 < len(self.starts) else len(self.text)
            place = self.text.find(part, int(after))


def _line(text: str) -> str:
    """The text as a line: a line end within it is a space."""
    return text.casefold().replace("\n", " ")
