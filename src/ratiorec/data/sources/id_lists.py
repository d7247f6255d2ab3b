"""The id lists beside a LightGCN folder: which id stands behind which index."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ratiorec.data.vocabulary import Vocabulary
from ratiorec.errors import DataError

_HEADER = ("org_id", "remap_id")


def id_list(vocabulary: Vocabulary) -> bytes:
    """The ids of a vocabulary as the text of such a file."""
    ids = [str(identifier) for identifier in vocabulary.ids.tolist()]
    broken = next((identifier for identifier in ids if "\n" in identifier), None)
    if broken is not None:
        raise DataError(
            f"{vocabulary.kind} id does not fit on a line",
            where=f"{vocabulary.kind} ids",
            found=repr(broken),
            wanted="ids without line breaks for this format; Parquet holds any",
        )
    lines = [" ".join(_HEADER), *(f"{identifier} {index}" for index, identifier in enumerate(ids))]
    return "".join(f"{line}\n" for line in lines).encode()


def read_id_list(path: Path, *, kind: str) -> Vocabulary:
    """The vocabulary of such a file; integers where every id is printed as one."""
    try:
        header, *lines = path.read_bytes().decode().removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        raise DataError(
            "the text is not UTF-8",
            where=f"{path}, byte {error.start}",
            found=repr(error.object[error.start : error.end]),
            wanted="UTF-8",
        ) from error
    names = header.split()
    if tuple(names[:2]) != _HEADER:
        raise _fault(path, 1, header)
    n_cells_behind_id = len(names) - 1  # some lists carry further columns
    ids = np.empty(len(lines), dtype=object)
    for number, line in enumerate(lines, start=2):
        identifier, *cells = line.rstrip("\r").rsplit(" ", n_cells_behind_id)
        is_whole = len(cells) == n_cells_behind_id and cells[0].isdigit()
        if not is_whole or int(cells[0]) >= len(lines) or ids[int(cells[0])] is not None:
            raise _fault(path, number, line)
        ids[int(cells[0])] = identifier
    return Vocabulary(_integers(ids), kind)


def _integers(ids: NDArray[np.object_]) -> NDArray[Any]:
    try:
        numbers = np.array([int(identifier) for identifier in ids], dtype=np.int64)
    except (ValueError, OverflowError):
        return ids
    is_same = all(str(number) == text for number, text in zip(numbers.tolist(), ids, strict=True))
    return numbers if is_same else ids


def _fault(path: Path, line_number: int, line: str) -> DataError:
    return DataError(
        "not a line of an id list",
        where=f"{path}, line {line_number}",
        found=repr(line[:80]),
        wanted="the header `org_id remap_id`, then one id and its index a line, each index once",
    )
