"""Files that several forms have: ids as JSON, vectors as .npy, three lines to read first."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ratiorec.export.vectors import Vectors

ITEM_IDS = "item_ids.json"
USER_IDS = "user_ids.json"
USER_VECTORS = "user_vectors.npy"


def write_ids(ids: NDArray[Any], path: Path) -> None:
    """A JSON list, numbers as numbers; the place in the list is the row of the vector."""
    path.write_text(json.dumps(ids.tolist()), encoding="ascii")


def write_users(vectors: Vectors, folder: Path) -> None:
    """The ids of all users, and their vectors block by block."""
    write_ids(vectors.user_ids, folder / USER_IDS)
    header = {
        "descr": "<f4",
        "fortran_order": False,
        "shape": (vectors.n_users, vectors.dimension),
    }
    with (folder / USER_VECTORS).open("wb") as handle:
        np.lib.format.write_array_header_1_0(handle, header)
        for _, block in vectors.user_blocks():
            handle.write(block.astype("<f4", copy=False).tobytes())


def write_readme(folder: Path, *lines: str) -> None:
    """How to score, for whoever finds the folder."""
    (folder / "README.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
