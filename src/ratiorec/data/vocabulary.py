"""Vocabulary: ids of the outside world, each with the dense index used inside."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ratiorec.errors import DataError, UnknownIdError

OnUnknown = Literal["raise", "skip", "fallback"]

_UUID = re.compile(r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")


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

    @classmethod
    def from_ids(cls, ids: Iterable[Any], *, kind: str) -> Vocabulary:
        """Any ids (text, integers, UUIDs) in the order given; a missing or repeated one is refused.

        >>> Vocabulary.from_ids(["b", "a"], kind="item").indices(["a"])
        array([1])
        """
        from ratiorec.data.formats.identifiers import canonical_ids

        return cls(canonical_ids(ids, kind=kind), kind)

    def __post_init__(self) -> None:
        object.__setattr__(self, "ids", _stored(self.ids, self.kind))
        if self.names is not None and len(self.names) != len(self.ids):
            raise DataError(
                f"names do not fit the {self.kind}s",
                where=f"names of {self.kind}s",
                found=f"{len(self.names)} names",
                wanted=f"{len(self.ids)}, one for each id",
            )

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
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
        if self.is_dense and isinstance(ids, np.ndarray) and ids.dtype == np.int64:
            wanted: Any = ids
            found = np.where((ids >= 0) & (ids < len(self)), ids, -1)
        else:
            wanted = list(ids)
            found = np.fromiter(map(self._find, wanted), np.int64, len(wanted))
        if on_unknown == "raise" and (found < 0).any():
            unknown = [wanted[place] for place in np.flatnonzero(found < 0)[:3]]
            raise UnknownIdError(
                f"{int((found < 0).sum())} unknown {self.kind} id(s)",
                where=f"{self.kind} ids",
                found=", ".join(repr(self.native(identifier)) for identifier in unknown),
                wanted=f'one of the {len(self):,} known {self.kind}s, or on_unknown="skip"',
            )
        return found

    def _find(self, identifier: Any) -> int:
        native = self.native(identifier)
        index = self._index.get(native, -1)
        if index < 0 and isinstance(native, str) and _UUID.fullmatch(native):
            return self._index.get(native.lower(), -1)  # a UUID means the same in capitals
        return index

    def native(self, identifier: Any) -> Any:
        """The id as this vocabulary stores it: a command line writes 7 as "7"."""
        if isinstance(identifier, np.generic):
            identifier = identifier.item()
        if isinstance(identifier, float) and identifier.is_integer():
            identifier = int(identifier)  # pandas turns integers with gaps into floats
        if self.ids.dtype == np.int64:
            return _as_integer(identifier) if isinstance(identifier, str) else identifier
        return identifier if isinstance(identifier, str) else str(identifier)

    def same_as(self, other: Vocabulary) -> bool:
        """Whether every index stands for the same id in both."""
        a, b = self.ids, other.ids
        return a is b or (a.dtype == b.dtype and np.array_equal(a, b))

    def with_names(self, names: Sequence[str]) -> Vocabulary:
        """The same ids, labelled."""
        return Vocabulary(self.ids, self.kind, np.asarray(names, dtype=object))


def _as_integer(text: str) -> int | str:
    """The integer that is written exactly so; "007" and "1_000" stay text."""
    try:
        number = int(text)
    except ValueError:
        return text
    return number if str(number) == text else text


def _stored(ids: Any, kind: str) -> NDArray[Any]:
    """The ids as int64 or as objects, once it is sure that none repeats."""
    ids = np.asarray(ids)
    if ids.dtype == np.uint64 and len(ids) and ids.max() > np.iinfo(np.int64).max:
        ids = ids.astype(str)  # hashes of 64 bits do not fit int64
    stored: NDArray[Any] = ids.astype(np.int64 if ids.dtype.kind in "iu" else object, copy=False)
    if stored.dtype == np.int64:
        repeated = len(stored) > 1 and bool((np.diff(np.sort(stored)) == 0).any())
    else:
        repeated = len(set(stored.tolist())) < len(stored)
    if repeated:
        raise DataError(
            f"{kind} id is there twice",
            where=f"{kind} ids",
            found=repr(_first_repeat(stored)),
            wanted="each id once",
        )
    return stored


def _first_repeat(ids: NDArray[Any]) -> Any:
    seen: set[Any] = set()
    for identifier in ids.tolist():
        if identifier in seen:
            return identifier
        seen.add(identifier)
    raise AssertionError("no id is repeated")
