"""Ids of the outside world, each with the dense index used inside."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ratiorec.errors import DataError, UnknownIdError

OnUnknown = Literal["raise", "skip", "fallback"]


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """The ids of one side, users or items; index i stands for `ids[i]`.

    `ids` is an int64 array or an object array of `str`, without repeats.
    `names` are optional labels for people, aligned with `ids`.
    `kind` is "user" or "item" and is used in messages only.
    """

    ids: NDArray[Any]
    kind: str
    names: NDArray[np.object_] | None = None

    @classmethod
    def dense(cls, n: int, *, kind: str) -> Vocabulary:
        """The ids 0 … n-1, each its own index."""
        return cls(np.arange(n, dtype=np.int64), kind)

    def __post_init__(self) -> None:
        if self.names is not None and len(self.names) != len(self.ids):
            raise DataError(
                f"names do not fit the {self.kind}s",
                where=f"names of {self.kind}s",
                found=f"{len(self.names)} names",
                wanted=f"{len(self.ids)}, one for each id",
            )

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def is_dense(self) -> bool:
        """Whether every id is its own index, so that no look-up table is needed."""
        return bool(self.ids.dtype == np.int64 and np.array_equal(self.ids, np.arange(len(self))))

    @cached_property
    def _index(self) -> dict[Any, int]:
        return {identifier: index for index, identifier in enumerate(self.ids.tolist())}

    def name(self, index: int) -> str:
        """The label for people: the name where there is one, else the id."""
        return str(self.ids[index] if self.names is None else self.names[index])

    def indices(self, ids: Iterable[Any], *, on_unknown: OnUnknown = "raise") -> NDArray[np.int64]:
        """The index of each id; -1 for an unknown one unless `on_unknown` is "raise"."""
        wanted = [self._native(identifier) for identifier in ids]
        found = np.fromiter((self._index.get(i, -1) for i in wanted), np.int64, len(wanted))
        if on_unknown == "raise" and (found < 0).any():
            unknown = [wanted[place] for place in np.flatnonzero(found < 0)[:3]]
            raise UnknownIdError(
                f"{int((found < 0).sum())} unknown {self.kind} id(s)",
                where=f"{self.kind} ids",
                found=", ".join(map(repr, unknown)),
                wanted=f'one of the {len(self):,} known {self.kind}s, or on_unknown="skip"',
            )
        return found

    def _native(self, identifier: Any) -> Any:
        """The id as this vocabulary stores it: a command line writes 7 as "7"."""
        if self.ids.dtype == np.int64 and isinstance(identifier, str):
            try:
                return int(identifier)
            except ValueError:
                return identifier
        if self.ids.dtype == object and not isinstance(identifier, str):
            return str(identifier)
        return identifier.item() if isinstance(identifier, np.generic) else identifier

    def with_names(self, names: Sequence[str]) -> Vocabulary:
        """The same ids, labelled."""
        return Vocabulary(self.ids, self.kind, np.asarray(names, dtype=object))
