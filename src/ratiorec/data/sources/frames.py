"""Pairs that are already in memory: data frames, columns of ids, sparse matrices."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from ratiorec.data.interactions import Interactions
from ratiorec.data.sources.columns import Columns
from ratiorec.data.sources.identifiers import objects_to_arrow, to_arrow
from ratiorec.data.sources.table import PairTable
from ratiorec.data.vocabulary import Vocabulary
from ratiorec.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa


def interactions_from_frame(frame: Any, columns: Columns) -> Interactions:
    """Pairs of a pandas or polars frame, an Arrow table or a record batch."""
    eager = _eager(frame)
    positions = columns.among([str(name) for name in eager.columns], where="data frame")

    def column(position: int | None, role: str) -> pa.ChunkedArray | None:
        return None if position is None else _series(eager, position, role)

    return PairTable(
        user=column(positions.user, "user"),
        item=column(positions.item, "item"),
        weight=column(positions.weight, "weight"),
        timestamp=column(positions.timestamp, "timestamp"),
        origin="data frame",
        place=lambda row: f"data frame, row {row + 1} (the first is row 1)",
    ).interactions()


def interactions_from_pairs(
    user_ids: Iterable[Any],
    item_ids: Iterable[Any],
    *,
    weights: Iterable[Any] | None,
    timestamps: Iterable[Any] | None,
) -> Interactions:
    """Pairs of two columns of ids, with or without weights and times."""
    columns = {
        role: to_arrow(values, kind=role)
        for role, values in (
            ("user", user_ids),
            ("item", item_ids),
            ("weight", weights),
            ("timestamp", timestamps),
        )
        if values is not None
    }
    n_rows = len(columns["user"])
    for role, values in columns.items():
        if len(values) != n_rows:
            raise DataError(
                "the columns differ in length",
                where=f"{role} column",
                found=f"{len(values)} rows",
                wanted=f"{n_rows}, as many as there are user ids",
            )
    return PairTable(
        user=columns["user"],
        item=columns["item"],
        weight=columns.get("weight"),
        timestamp=columns.get("timestamp"),
        origin="pairs",
        place=lambda row: f"pairs, row {row + 1} (the first is row 1)",
    ).interactions()


def interactions_from_sparse(
    matrix: Any, *, user_ids: Iterable[Any] | None, item_ids: Iterable[Any] | None
) -> Interactions:
    """Pairs of a scipy sparse matrix, users by items."""
    import scipy.sparse

    if not scipy.sparse.issparse(matrix) or matrix.ndim != 2 or matrix.dtype.kind not in "biuf":
        raise DataError(
            "this is not a sparse matrix of numbers",
            where="matrix",
            found=type(matrix).__name__,
            wanted="a scipy sparse matrix, users by items",
        )
    entries = scipy.sparse.csr_array(matrix, dtype=np.float64, copy=True).tocoo()  # adds repeats up
    values = entries.data
    bad = ~(np.isfinite(values) & (values >= 0))
    if bad.any():
        first = int(np.argmax(bad))
        raise DataError(
            "a value is negative or not a finite number",
            where=f"matrix, row {entries.row[first]}, column {entries.col[first]}",
            found=str(values[first]),
            wanted="a number from 0 upwards",
        )
    stored = values > 0
    return Interactions.from_indices(
        _side(matrix.shape[0], user_ids, "user"),
        _side(matrix.shape[1], item_ids, "item"),
        entries.row[stored],
        entries.col[stored],
        weights=None if (values[stored] == 1).all() else values[stored],
    )


def _side(n: int, ids: Iterable[Any] | None, kind: str) -> Vocabulary:
    if ids is None:
        return Vocabulary.dense(n, kind=kind)
    vocabulary = Vocabulary.from_ids(ids, kind=kind)
    if len(vocabulary) != n:
        raise DataError(
            f"{kind} ids do not fit the matrix",
            where=f"{kind} ids",
            found=f"{len(vocabulary)} ids",
            wanted=f"{n}, one for each {kind} of the matrix",
        )
    return vocabulary


def _eager(frame: Any) -> Any:
    """The frame behind one interface, whoever made it."""
    import narwhals as nw
    import pyarrow as pa

    if isinstance(frame, pa.RecordBatch):
        frame = pa.Table.from_batches([frame])
    try:
        return nw.from_native(frame, eager_only=True)
    except (TypeError, nw.exceptions.NarwhalsError) as error:
        raise DataError(
            "this is not a data frame that can be read",
            where="data frame",
            found=f"{type(frame).__name__}: {str(error).splitlines()[0]}",
            wanted="a pandas or polars frame (collected), an Arrow table or a record batch, "
            "each column name once",
        ) from error


def _series(frame: Any, position: int, role: str) -> pa.ChunkedArray:
    import narwhals as nw

    series = frame.get_column(frame.columns[position])
    if series.dtype == nw.Object:  # only Python can look into these
        return objects_to_arrow(series.to_list(), kind=role)
    return to_arrow(series.to_arrow(), kind=role)
