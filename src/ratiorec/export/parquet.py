"""Vectors as two Parquet files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from numpy.typing import NDArray

from ratiorec.export.arrays import write_readme
from ratiorec.export.exact import exact_lists
from ratiorec.export.trial import Judge, Measured
from ratiorec.export.vectors import Vectors
from ratiorec.scorers import FloatMatrix
from ratiorec.tables import arrow_column

if TYPE_CHECKING:
    import pyarrow

USERS = "users.parquet"
ITEMS = "items.parquet"


@dataclass(frozen=True)
class ParquetTables:
    """A table user_id, vector and a table item_id, vector; a vector is a list of d float32."""

    name: ClassVar[str] = "parquet"

    def write(self, vectors: Vectors, judge: Judge, folder: Path) -> Measured:
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
        found = exact_lists(users, read_vectors(folder / ITEMS), judge.k)
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
