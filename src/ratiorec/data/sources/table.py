"""The columns every table comes down to, and the pairs they make."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ratiorec.data.interactions import Interactions
from ratiorec.data.sources.identifiers import Place, encode_ids
from ratiorec.data.sources.numbers import times_of, weights_of
from ratiorec.errors import NoPairsError

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class PairTable:
    """Arrow columns of one length; `is_text` says that they are the text of a file."""

    user: pa.ChunkedArray
    item: pa.ChunkedArray
    weight: pa.ChunkedArray | None
    timestamp: pa.ChunkedArray | None
    origin: str
    place: Place
    is_text: bool = False

    def interactions(self) -> Interactions:
        """The pairs of the table, checked and merged."""
        if not len(self.user):
            raise NoPairsError(
                "there are no rows",
                where=self.origin,
                found="0 rows",
                wanted="at least one row with a user and an item",
            )
        users, user_indices = encode_ids(
            self.user, kind="user", place=self.place, is_text=self.is_text
        )
        items, item_indices = encode_ids(
            self.item, kind="item", place=self.place, is_text=self.is_text
        )
        weights = None if self.weight is None else weights_of(self.weight, place=self.place)
        times = None if self.timestamp is None else times_of(self.timestamp, place=self.place)
        return Interactions.from_indices(
            users, items, user_indices, item_indices, weights=weights, timestamps=times
        )
