"""Ids and names as arrays of numbers, which is all that an arrays file holds."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ratiorec.data.vocabulary import Vocabulary

Arrays = Mapping[str, NDArray[Any]]


def describe(vocabulary: Vocabulary) -> dict[str, Any]:
    """What `unpack` must know to make the vocabulary again."""
    is_number = vocabulary.ids.dtype == np.int64
    return {"ids": "int64" if is_number else "text", "names": vocabulary.names is not None}


def pack(vocabulary: Vocabulary) -> dict[str, NDArray[Any]]:
    """Ids and names as arrays, under names that start with the kind of the vocabulary."""
    kind = vocabulary.kind
    if vocabulary.ids.dtype == np.int64:
        arrays = {f"{kind}.ids": vocabulary.ids}
    else:
        arrays = _pack_text(f"{kind}.ids", vocabulary.ids)
    if vocabulary.names is not None:
        arrays |= _pack_text(f"{kind}.names", vocabulary.names)
    return arrays


def unpack(kind: str, description: Mapping[str, Any], arrays: Arrays) -> Vocabulary:
    """The vocabulary again.

    Raises:
        ValueError: The arrays do not fit each other.
        KeyError: One of them is missing.
    """
    if description["ids"] == "text":
        ids: NDArray[Any] = _unpack_text(f"{kind}.ids", arrays)
    else:
        ids = arrays[f"{kind}.ids"]
        if ids.ndim != 1 or ids.dtype != np.int64:
            raise ValueError(f"{kind} ids are no list of int64")
    names = _unpack_text(f"{kind}.names", arrays) if description["names"] else None
    return Vocabulary(ids, kind, names)


def part_of(arrays: Arrays, prefix: str) -> dict[str, NDArray[Any]]:
    """The arrays whose names start so, under what follows."""
    return {
        name.removeprefix(prefix): array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }


def _pack_text(name: str, texts: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Texts as UTF-8 bytes, and the places where one ends and the next begins."""
    encoded = [str(text).encode("utf-8", "surrogatepass") for text in texts]
    offsets = np.zeros(len(encoded) + 1, np.int64)
    np.cumsum([len(text) for text in encoded], out=offsets[1:])
    return {
        f"{name}.text": np.frombuffer(b"".join(encoded), np.uint8),
        f"{name}.offsets": offsets,
    }


def _unpack_text(name: str, arrays: Arrays) -> NDArray[np.object_]:
    blob, offsets = arrays[f"{name}.text"].tobytes(), arrays[f"{name}.offsets"].tolist()
    if offsets[:1] != [0] or offsets[-1] != len(blob) or offsets != sorted(offsets):
        raise ValueError(f"the places in {name} do not fit its text")
    texts = np.empty(len(offsets) - 1, object)
    texts[:] = [blob[a:b].decode("utf-8", "surrogatepass") for a, b in pairwise(offsets)]
    return texts
