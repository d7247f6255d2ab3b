"""Tables of items and users: ids, titles and attributes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ratiorec.catalogue.attributes import Attributes
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

    def take(self, rows: NDArray[np.int64]) -> IdTable:
        """These rows."""
        titles = None if self.titles is None else self.titles[rows]
        return IdTable(self.ids[rows], titles, self.attributes.take(rows))
