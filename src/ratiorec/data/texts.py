"""Texts at rest: UTF-8 bytes and the places where each text ends, decoded when asked for."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

_AT_ONCE = 2**16


class StoredTexts:
    """As an object array of `str` that can be read, without the objects.

    Text i is `text[offsets[i]:offsets[i + 1]]`; both arrays may be memory-mapped.

    >>> texts = StoredTexts.of(["ann", "zoë"])
    >>> texts[1], texts[[0]].tolist(), len(texts)
    ('zoë', ['ann'], 2)
    """

    dtype = np.dtype(object)

    def __init__(self, text: NDArray[np.uint8], offsets: NDArray[np.int64]) -> None:
        self.text, self.offsets = np.asarray(text), np.asarray(offsets)  # slices of a memmap cost

    @classmethod
    def of(cls, texts: list[str]) -> StoredTexts:
        """These texts."""
        encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
        offsets = np.zeros(len(encoded) + 1, np.int64)
        np.cumsum([len(text) for text in encoded], out=offsets[1:])
        return cls(np.frombuffer(b"".join(encoded), np.uint8), offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice) and key.step in (None, 1):
            start, end, _ = key.indices(len(self))
            return self._decoded(start, max(start, end))
        if isinstance(key, slice) or np.ndim(key):
            places = np.arange(len(self))[key]
            found = np.empty(len(places), object)
            found[:] = [self[place] for place in places.tolist()]
            return found
        place = range(len(self))[key]
        start, end = self.offsets[place : place + 2].tolist()
        return self.text[start:end].tobytes().decode("utf-8", "surrogatepass")

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self), _AT_ONCE):
            yield from self._decoded(start, min(start + _AT_ONCE, len(self)))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        found = self._decoded(0, len(self))
        return found if dtype is None else found.astype(dtype)

    def tolist(self) -> list[str]:
        """All of them, as Python's."""
        return list(self)

    def astype(self, dtype: Any) -> NDArray[Any]:
        """All of them, as numpy's."""
        return self.__array__(dtype)

    def _decoded(self, start: int, end: int) -> NDArray[np.object_]:
        places = self.offsets[start : end + 1].tolist()
        blob = self.text[places[0] : places[-1]].tobytes()
        found = np.empty(end - start, object)
        found[:] = [
            blob[a - places[0] : b - places[0]].decode("utf-8", "surrogatepass")
            for a, b in pairwise(places)
        ]
        return found
