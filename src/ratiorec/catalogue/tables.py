"""Tables of items and users: ids, titles and attributes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ratiorec.catalogue.attributes import Attributes
from ratiorec.data.vocabulary import Vocabulary
from ratiorec.scorers.scorer import require_fit


@dataclass(frozen=True, eq=False)
class IdTable:
    """One row for each id, in the order of the source; `ids` are as in a vocabulary."""

    ids: NDArray[Any]
    titles: NDArray[np.object_] | None
    attributes: Attributes

    def __post_init__(self) -> None:
        require_fit("rows of a table", self.attributes.n_rows, len(self.ids), "one for each id")

    def __len__(self) -> int:
        return len(self.ids)

    def vocabulary(self, kind: str) -> Vocabulary:
        """The ids, with the titles for names; an id where one is missing."""
        ids = Vocabulary(self.ids, kind)
        if self.titles is None:
            return ids
        titles = zip(self.titles.tolist(), self.ids.tolist(), strict=True)
        return ids.with_names([str(one) if title is None else str(title) for title, one in titles])

    def take(self, rows: NDArray[np.int64]) -> IdTable:
        """These rows."""
        titles = None if self.titles is None else self.titles[rows]
        return IdTable(self.ids[rows], titles, self.attributes.take(rows))
