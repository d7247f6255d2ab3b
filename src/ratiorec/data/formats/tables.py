"""Tables of pairs: columns of any origin, data frames, sparse matrices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from ratiorec.data.formats.files import Columns
from ratiorec.data.formats.identifiers import id_faults, uuid_text
from ratiorec.data.formats.merging import CheckedRows, Weighting, merged_interactions
from ratiorec.data.formats.reading import (
    BadRows,
    Faults,
    OnBadRows,
    Place,
    Reading,
    RowOptions,
    require_memory,
)
from ratiorec.data.formats.values import Values, coded, times_of, values_of, weights_of
from ratiorec.data.interactions import Interactions
from ratiorec.data.vocabulary import Vocabulary
from ratiorec.errors import DataError, RatiorecError

if TYPE_CHECKING:
    import pyarrow as pa

_BYTES_OF_AN_ID = 16  # in a vocabulary and in the ends of its rows


def interactions_from_columns(
    columns: Mapping[str, Values],
    *,
    origin: str,
    names: Mapping[str, str | int],
    bad: BadRows | None = None,
    place: Place | None = None,
    weighting: Weighting = Weighting(),  # noqa: B008 - frozen
    unused_event: str | None = None,
) -> Interactions:
    """Pairs of columns by role, of one length, checked and merged.

    `names` are the columns as the source calls them; `place` says where a row stands, by default
    as a row of the origin.
    """
    bad, n_rows = bad or BadRows(), len(columns["user"])
    place = place or (lambda row: f"{origin}, row {row + 1} (the first is row 1)")
    faults, weights, times = Faults(), None, None
    if "weight" in columns:
        weights, faults = weights_of(columns["weight"])
    if "timestamp" in columns:
        times, found = times_of(columns["timestamp"])
        faults |= found
    for kind in ("event", "item", "user"):
        faults |= id_faults(columns[kind], kind=kind) if kind in columns else {}
    bad.add(
        faults,
        place=place,
        content=lambda row: ", ".join(values.shown(row) for values in columns.values()),
    )
    bad.settle(origin, n_rows)
    rows = CheckedRows(columns["user"], columns["item"], weights, times, columns.get("event"))
    if faults:
        good = np.ones(n_rows, dtype=bool)
        good[list(faults)] = False
        rows = rows.select(good)
    reading = Reading(
        origin,
        names,
        n_rows,
        n_dropped=len(faults),
        bad_rows=bad.sentences(origin),
        unused_event=unused_event,
    )
    return merged_interactions(rows, weighting, reading)


def require_same_columns(
    names: dict[str, Any], found: dict[str, Any], where: str, first: Path
) -> dict[str, Any]:
    """The columns of one part more, once they are those of the parts before it."""
    if names and names != found:
        raise DataError(
            "the parts have different columns",
            where=where,
            found=", ".join(f"{role} = {name!r}" for role, name in found.items()),
            wanted=f"{', '.join(f'{role} = {name!r}' for role, name in names.items())}, "
            f"as in {first.name}",
        )
    return found


def values_of_arrow(column: pa.ChunkedArray, role: str) -> Values:
    """An Arrow column, or the refusal of one whose values Python cannot hold."""
    import pyarrow as pa

    try:
        return _of_arrow(column, role)
    except RatiorecError:
        raise
    except (pa.ArrowException, ValueError, OverflowError) as error:
        raise DataError(
            f"the {role} column cannot be read",
            where=f"{role} column",
            found=f"values of type {column.type}: {str(error).splitlines()[0][:200]}",
            wanted="text, whole numbers or UUIDs for ids, numbers for weights, "
            "numbers or dates for times",
        ) from error


def _of_arrow(column: pa.ChunkedArray, role: str) -> Values:
    """An Arrow column; text, bytes and dictionaries become codes without passing Python."""
    import pyarrow as pa
    from pyarrow import types

    if isinstance(column.type, pa.BaseExtensionType):
        storage = column.type.storage_type
        column = pa.chunked_array([chunk.storage for chunk in column.chunks], type=storage)
    if types.is_dictionary(column.type) and types.is_null(column.type.value_type):
        column = pa.chunked_array([pa.nulls(len(column))])  # is_null() of it ends the process
    kind = column.type
    is_null = column.is_null().to_numpy() if column.null_count else None
    if types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind):
        nothing = False if types.is_boolean(kind) else 0
        filled = column.fill_null(nothing) if is_null is not None else column
        filled = filled.cast(pa.float64()) if types.is_float16(kind) else filled
        return Values(np.asarray(filled.to_numpy()), None, is_null)
    if types.is_date(kind) or types.is_timestamp(kind):
        moments = column.cast(pa.timestamp("us", tz=getattr(kind, "tz", None)), safe=False)
        return Values(
            moments.cast(pa.int64()).fill_null(0).to_numpy().view("M8[us]"), None, is_null
        )
    if not (types.is_dictionary(kind) or _is_text_or_bytes(kind)):
        return values_of(column.to_pylist(), role=role)
    if not types.is_dictionary(kind):
        kind = pa.large_string() if types.is_string_view(kind) else kind
        kind = pa.large_binary() if types.is_binary_view(kind) else kind
        column = column.cast(kind).dictionary_encode()
    return _of_dictionaries(column.unify_dictionaries(), role, is_null)


def _of_dictionaries(column: pa.ChunkedArray, role: str, is_null: Any) -> Values:
    """A column of codes into one dictionary, which may itself hold a null."""
    from pyarrow import types

    if not column.num_chunks or not len(column):
        return coded([])
    values = column.chunk(0).dictionary.to_pylist() or [None]  # where all rows are null
    rows = np.concatenate([chunk.indices.fill_null(0).to_numpy() for chunk in column.chunks])
    kind = column.type.value_type
    if types.is_fixed_size_binary(kind) and kind.byte_width == 16:
        values = [None if value is None else uuid_text(value) for value in values]
    if None in values:
        gaps = np.array([value is None for value in values])[rows]
        is_null = gaps if is_null is None else gaps | is_null
        values = ["null" if value is None else value for value in values]
    if not _is_text_or_bytes(kind):
        return values_of([values[row] for row in rows.tolist()], role=role)
    used = np.unique(rows)  # a category that nobody uses may be anything
    return Values(np.searchsorted(used, rows), [values[code] for code in used.tolist()], is_null)


def _is_text_or_bytes(kind: pa.DataType) -> bool:
    from pyarrow import types

    return any(
        is_kind(kind)
        for is_kind in (
            *(types.is_string, types.is_large_string, types.is_string_view, types.is_binary),
            *(types.is_large_binary, types.is_binary_view, types.is_fixed_size_binary),
        )
    )


def interactions_from_frame(
    frame: Any, columns: Columns, **how: Unpack[RowOptions]
) -> Interactions:
    """Pairs of a pandas or polars frame, an Arrow table or a record batch."""
    weighting, bad = _row_rules(**how)
    weighting.require_event_column(columns.event, spelt="event='NAME'")
    whole = eager(frame)
    names = [str(name) for name in whole.columns]
    positions = columns.among(names, where="data frame")
    return interactions_from_columns(
        {role: series_values(whole, position, role) for role, position in positions.items()},
        origin="data frame",
        names={role: names[position] for role, position in positions.items()},
        bad=bad,
        weighting=weighting,
        unused_event=columns.unused_event(names, positions),
    )


def _row_rules(*, on_bad_rows: OnBadRows = "stop", **weighed: Any) -> tuple[Weighting, BadRows]:
    return Weighting(**weighed), BadRows(on_bad_rows)


def interactions_from_pairs(
    given: Mapping[str, Iterable[Any] | None], **how: Unpack[RowOptions]
) -> Interactions:
    """Pairs of columns by role, of which user and item are there."""
    weighting, bad = _row_rules(**how)
    kinds = None if given["event"] is None else "events"
    weighting.require_event_column(kinds, spelt="events=KINDS")
    columns = {
        role: values_of(values, role=role) for role, values in given.items() if values is not None
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
    names = dict.fromkeys(columns, "given")
    return interactions_from_columns(
        columns, origin="pairs", names=names, bad=bad, weighting=weighting
    )


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
    require_memory(
        _BYTES_OF_AN_ID * sum(matrix.shape),
        where="matrix",
        found=f"{matrix.shape[0]:,} users and {matrix.shape[1]:,} items",
    )
    as_floats = scipy.sparse.coo_array(matrix).astype(np.float64)  # small integers would overflow
    entries = as_floats.tocsr().tocoo()  # adds repeats up
    values = entries.data
    bad = ~(np.isfinite(values) & (values >= 0))
    if bad.any():
        entry = int(np.argmax(bad))
        raise DataError(
            "a value is negative or not a finite number",
            where=f"matrix, row {entries.row[entry]}, column {entries.col[entry]}",
            found=repr(values[entry].item()),
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


def eager(frame: Any) -> Any:
    """The frame behind one interface, whoever made it."""
    import narwhals as nw

    if type(frame).__name__ == "RecordBatch":
        import pyarrow as pa

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


def series_values(frame: Any, position: int, role: str) -> Values:
    """A column of a frame; pyarrow is needed for Arrow's own tables only."""
    import narwhals as nw

    series = frame.get_column(frame.columns[position])
    if series.implementation.is_pyarrow():
        return values_of_arrow(series.to_native(), role)
    is_number = series.dtype.is_numeric() and not series.dtype.is_decimal()
    is_moment = series.dtype == nw.Datetime and getattr(series.dtype, "time_zone", None) is None
    is_array = (is_number or is_moment) and not series.null_count()
    return values_of(series.to_numpy() if is_array else series.to_list(), role=role)
