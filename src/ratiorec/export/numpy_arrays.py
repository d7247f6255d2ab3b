"""Vectors as .npy files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from ratiorec.export.arrays import (
    ITEM_IDS,
    USER_VECTORS,
    write_ids,
    write_readme,
    write_users,
)
from ratiorec.export.exact import exact_lists
from ratiorec.export.trial import Judge, Measured
from ratiorec.export.vectors import Vectors

ITEM_VECTORS = "item_vectors.npy"


@dataclass(frozen=True)
class NumpyArrays:
    """One .npy file of float32 vectors for users and one for items, with their ids."""

    name: ClassVar[str] = "numpy"

    def write(self, vectors: Vectors, judge: Judge, folder: Path) -> Measured:
        write_users(vectors, folder)
        write_ids(vectors.item_ids, folder / ITEM_IDS)
        with (folder / ITEM_VECTORS).open("wb") as handle:
            np.save(handle, vectors.items)
        write_readme(
            folder,
            "scores = user_vectors.npy[rows] @ item_vectors.npy.T; the larger, the better.",
            "Row r is the r-th id in user_ids.json or item_ids.json.",
            "Items that a user has already are among the best: leave them out yourself.",
        )
        users = np.load(folder / USER_VECTORS, mmap_mode="r")[judge.users]
        found = exact_lists(users, np.load(folder / ITEM_VECTORS), judge.k)
        settings = {"search": "exact", "dimension": vectors.dimension}
        return judge.first_that_reaches([(settings, found)])
