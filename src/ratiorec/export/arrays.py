"""Vectors as .npy or Parquet files."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ratiorec.errors import require_extra
from ratiorec.export.vectors import Judge, Measured, Vectors
from ratiorec.scorers import FloatMatrix
from ratiorec.scorers.table import arrow_column

if TYPE_CHECKING:
    import pyarrow


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
        found = judge.exact_lists(users, np.load(folder / ITEM_VECTORS))
        settings = {"search": "exact", "dimension": vectors.dimension}
        return judge.first_that_reaches([(settings, found)])


USERS = "users.parquet"
ITEMS = "items.parquet"


@dataclass(frozen=True)
class ParquetTables:
    """A table user_id, vector and a table item_id, vector; a vector is a list of d float32."""

    name: ClassVar[str] = "parquet"

    def write(self, vectors: Vectors, judge: Judge, folder: Path) -> Measured:
        require_extra("pyarrow", "arrow", where="--to parquet")
        blocks = vectors.user_blocks()
        ids = vectors.user_ids
        _write(folder / USERS, (_table("user", ids[rows], block) for rows, block in blocks))
        items = _table("item", vectors.item_ids, vectors.items, vectors.model.items.names)
        _write(folder / ITEMS, [items])
        write_readme(
            folder,
            "A score is the inner product of a vector in users.parquet and one in items.parquet.",
            f"Vectors are lists of {vectors.dimension} float32; the larger a score, the better.",
            "Items that a user has already are among the best: leave them out yourself.",
        )
        users = read_vectors(folder / USERS)[judge.users]
        found = judge.exact_lists(users, read_vectors(folder / ITEMS))
        settings = {"search": "exact", "dimension": vectors.dimension}
        return judge.first_that_reaches([(settings, found)])


def read_vectors(path: Path) -> FloatMatrix:
    """The column of vectors as a matrix [n, d]."""
    from pyarrow import parquet

    column = parquet.read_table(path, columns=["vector"])["vector"].combine_chunks()
    matrix: FloatMatrix = column.flatten().to_numpy().reshape(len(column), -1)
    return matrix


def _table(
    kind: str, ids: NDArray[Any], vectors: FloatMatrix, names: NDArray[Any] | None = None
) -> pyarrow.Table:
    import pyarrow

    lists = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(vectors.ravel()), vectors.shape[1])
    columns = {f"{kind}_id": arrow_column(ids)}
    if names is not None:
        columns[f"{kind}_name"] = arrow_column(names)
    return pyarrow.table(columns | {"vector": lists})


def _write(path: Path, tables: Iterable[pyarrow.Table]) -> None:
    from pyarrow import parquet

    writer = None
    with path.open("wb") as handle:
        for table in tables:
            # floats repeat so seldom that a dictionary of them only takes room
            writer = writer or parquet.ParquetWriter(handle, table.schema, use_dictionary=False)
            writer.write_table(table)
        if writer is not None:
            writer.close()
