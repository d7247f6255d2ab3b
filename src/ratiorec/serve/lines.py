"""Many short texts in one, to be searched in far less time than one by one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from ratiorec.scorers import Indices

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
