"""Raw tables: the named columns of a file, a data frame or a dictionary, as they were written."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ratiorec.catalogue.columns import Numbers, OwnVectors, Tags
from ratiorec.data.formats.cells import first_rows
from ratiorec.data.formats.dialect import Dialect, sniffed
from ratiorec.data.formats.files import (
    ARROW_SUFFIXES,
    PACKED_SUFFIXES,
    STDIN,
    TEXT_SUFFIXES,
    parts_of,
    suffix_of,
)
from ratiorec.data.formats.identifiers import MISSING_TEXTS, surrogate_fault
from ratiorec.data.formats.reading import Faults, Place, counted, require_memory
from ratiorec.data.formats.tables import eager, require_same_columns, series_values, values_of_arrow
from ratiorec.data.formats.values import Values, coded, values_of
from ratiorec.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

    from ratiorec.data.formats.delimited import Piece

Cells = list[str | None]
"""The text of each cell, None where it is missing."""
Raw = Cells | Numbers | Tags | OwnVectors

_BYTES_OF_A_CELL = 16  # the least: a place in a list, and a number or a code
_LINES_OF_A_PART = 1 << 40


class UnusableError(ValueError):
    """A column that cannot be an attribute; the message says what is in it."""


@dataclass(frozen=True, eq=False)
class RawTable:
    """Columns under their names, not looked at yet; `as_ids` and `as_cells` do that.

    `keys` number the rows as the source does, and `place` says in words where such a row stands;
    `ragged` are rows with another number of cells, by key, which are in no column, and `faults` the
    rows that are no text, by their place. `is_text` tells a text file, in which a number is text
    and a word such as «null» nothing at all.
    """

    origin: str
    names: tuple[str, ...]
    columns: list[Any]
    n_rows: int
    as_ids: Callable[[Any], Values]
    as_cells: Callable[[Any], Raw]
    keys: Any
    place: Place
    is_text: bool = False
    ragged: Faults = field(default_factory=dict)
    faults: Faults = field(default_factory=dict)


def raw_table(source: Any, *, delimiter: str | None, holds: str) -> RawTable:
    """The columns of a path, a pandas or polars frame, an Arrow table or a dictionary of columns.

    Raises:
        DataError: It is nothing of the kind, or cannot be read.
    """
    if isinstance(source, str | Path):
        return _of_file(source, delimiter, holds)
    if isinstance(source, Mapping):
        return _of_dictionary(source, holds)
    if hasattr(source, "columns") or hasattr(source, "column_names"):
        return _of_frame(source)
    raise DataError(
        f"no table of {holds} can be read from this",
        where=holds,
        found=f"{type(source).__name__}, {source!r:.60}",
        wanted="a path, a pandas or polars frame, an Arrow table, or a dictionary of columns",
    )


def _of_file(source: str | Path, delimiter: str | None, holds: str) -> RawTable:
    is_stdin = str(source) == STDIN
    paths = [Path(STDIN)] if is_stdin else parts_of(source, holds=holds)
    suffix, origin = suffix_of(paths[0]), "standard input" if is_stdin else str(source)
    if is_stdin or suffix in TEXT_SUFFIXES:
        return _of_text(paths, delimiter, origin)
    if suffix != ".parquet" and suffix not in ARROW_SUFFIXES:
        known = (*TEXT_SUFFIXES, ".parquet", *ARROW_SUFFIXES)
        raise DataError(
            "unknown file format",
            where=str(paths[0]),
            found=f"the suffix {suffix!r}",
            wanted=f"one of {', '.join(known)}; text may be packed ({', '.join(PACKED_SUFFIXES)})",
        )
    from ratiorec.data.formats.binary import whole_table

    format_name = "Parquet" if suffix == ".parquet" else "Arrow"
    names, columns = whole_table(paths, format_name, origin=origin)
    as_ids = functools.partial(values_of_arrow, role="id")
    return _table(origin, names, columns, as_ids, _arrow_cells)


def _table(
    origin: str,
    names: Sequence[str],
    columns: list[Any],
    as_ids: Callable[[Any], Values],
    as_cells: Callable[[Any], Raw],
    *,
    n_rows: int | None = None,
) -> RawTable:
    if n_rows is None:
        n_rows = len(columns[0]) if columns else 0

    def place(row: int) -> str:
        return f"{origin}, row {row + 1} (the first is row 1)"

    keys = np.arange(n_rows)
    return RawTable(origin, tuple(names), columns, n_rows, as_ids, as_cells, keys, place)


# Text


@dataclass
class _TextRows:
    """The cells of all pieces of text files by column, and the line of each row."""

    columns: list[list[str]]
    keys: list[Any] = field(default_factory=list)
    ragged: Faults = field(default_factory=dict)
    faults: Faults = field(default_factory=dict)
    n_rows: int = 0

    def add(self, piece: Piece, part: int) -> None:
        """The rows of one piece; equal cells of a column share one text."""
        lines = piece.line(piece.places) + part * _LINES_OF_A_PART
        for row, fault in piece.ragged.items():
            self.ragged[int(piece.line(row)) + part * _LINES_OF_A_PART] = fault
        is_right = _is_utf8(piece)
        for position, texts in enumerate(self.columns):
            cells = coded(piece.column(position))
            assert cells.distinct is not None
            distinct = piece.texts(cells.distinct)
            if not is_right:
                self._note_bytes(distinct, cells.rows)
            texts += map(distinct.__getitem__, cells.rows.tolist())
        self.keys.append(lines)
        self.n_rows += len(lines)

    def _note_bytes(self, distinct: list[str], codes: Any) -> None:
        for code, text in enumerate(distinct):
            if (fault := surrogate_fault(text)) is not None:
                rows = self.n_rows + np.flatnonzero(codes == code)
                self.faults |= dict.fromkeys(rows.tolist(), fault)


def _is_utf8(piece: Piece) -> bool:
    try:
        piece.rows.text.tobytes().decode()
    except UnicodeDecodeError:
        return False
    return True


def _of_text(paths: Sequence[Path], delimiter: str | None, origin: str) -> RawTable:
    from ratiorec.data.formats.delimited import opened, pieces, sample

    names, lines = dict[str, str](), _TextRows([])
    for part, path in enumerate(paths):
        where = origin if len(paths) == 1 else str(path)
        with opened(path, where) as stream:
            start, is_all = sample(stream, where)
            dialect = _dialect(start, delimiter, where, is_all=is_all)
            called = {str(place): name.strip() for place, name in enumerate(dialect.first_row)}
            names = require_same_columns(names, called, where, paths[0])
            lines.columns = lines.columns or [[] for _ in names]
            for piece in pieces(stream, start, dialect, where):
                lines.add(piece, part)
                n_bytes = _BYTES_OF_A_CELL * lines.n_rows * len(names)
                require_memory(n_bytes, where=where, found=counted(lines.n_rows, "row"))
    keys = np.concatenate(lines.keys)

    def place(key: int) -> str:
        part, line = divmod(key, _LINES_OF_A_PART)
        return f"{paths[part] if len(paths) > 1 else origin}, line {line}"

    return RawTable(
        origin,
        tuple(names.values()),
        lines.columns,
        len(keys),
        coded,
        _text_cells,
        keys,
        place,
        is_text=True,
        ragged=lines.ragged,
        faults=lines.faults,
    )


def _dialect(start: bytes, delimiter: str | None, where: str, *, is_all: bool) -> Dialect:
    """The delimiter and the header of a table, which always has one; quotes are usual."""
    rows_by = functools.cache(functools.partial(first_rows, start, has_quotes=True, is_last=is_all))
    mark = sniffed(rows_by, where) if delimiter is None else delimiter
    rows = rows_by(mark) if mark and start.strip(b"\r\n") else []
    if not rows or len(rows[0]) < 2:
        line = start.strip(b"\r\n").partition(b"\n")[0].strip()[:80].decode(errors="replace")
        raise DataError(
            "this is no table",
            where=f"{where}, line 1",
            found=f"{line!r} with {'each usual delimiter' if delimiter is None else repr(mark)}",
            wanted="a line of column names, an id and more, with a delimiter between them",
        )
    if any("\N{REPLACEMENT CHARACTER}" in name for name in rows[0]):
        raise DataError(
            "the text is not UTF-8",
            where=f"{where}, line 1",
            found=", ".join(map(repr, rows[0])),
            wanted="UTF-8; convert the file, for example with iconv",
        )
    return Dialect(mark, True, True, tuple(rows[0]), ())


def _text_cells(texts: list[str]) -> Raw:
    stripped = map(str.strip, texts)
    return [None if text in MISSING_TEXTS else text for text in stripped]


# Arrow, data frames, Python


def _of_frame(frame: Any) -> RawTable:
    whole = eager(frame)
    names = [str(name) for name in whole.columns]

    def as_cells(position: int) -> Raw:
        import narwhals as nw

        series = whole.get_column(whole.columns[position])
        if series.implementation.is_pyarrow():
            return _arrow_cells(series.to_native())
        if series.dtype in (nw.Object, nw.List, nw.Array, nw.String):
            return _python_cells(series.to_list())
        kind = str(series.to_native().dtype)
        try:
            values = series_values(whole, position, "attribute")
        except (DataError, TypeError, ValueError):
            raise UnusableError(kind) from None
        return _cells_of(_narrowed(values, kind.lower()))

    def as_ids(position: int) -> Values:
        return series_values(whole, position, "id")

    positions = list(range(len(names)))
    return _table("data frame", names, positions, as_ids, as_cells, n_rows=len(whole))


def _of_dictionary(columns: Mapping[Any, Any], holds: str) -> RawTable:
    for name, values in columns.items():
        n_axes: int = getattr(values, "ndim", 1)
        if not hasattr(values, "__len__") or not n_axes or isinstance(values, str | bytes):
            raise DataError(
                "a column is no list of values",
                where=f"column {name} of {holds}",
                found=f"{type(values).__name__}, {values!r:.60}",
                wanted="one value for each row, in a list or an array",
            )
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        raise DataError(
            "the columns differ in length",
            where=f"columns of {holds}",
            found=", ".join(f"{name}: {n}" for name, n in lengths.items()),
            wanted="one value in each column for each row",
        )
    names = [str(name) for name in columns]
    as_ids = functools.partial(values_of, role="id")
    return _table("columns", names, list(columns.values()), as_ids, _python_cells)


def _arrow_cells(column: pa.ChunkedArray) -> Raw:
    from pyarrow import types

    kind = column.type
    lists = (types.is_list, types.is_large_list, types.is_fixed_size_list, types.is_list_view)
    if any(is_list(kind) for is_list in lists):
        return _lists(column.to_pylist())
    try:
        values = values_of_arrow(column, "attribute")
    except DataError:
        raise UnusableError(str(kind)) from None
    return _cells_of(_narrowed(values, str(kind)))


_NARROW = {
    **dict.fromkeys(("halffloat", "float16", "halffloat[pyarrow]"), np.float16),
    **dict.fromkeys(("float", "float32", "float[pyarrow]"), np.float32),
}


def _narrowed(values: Values, kind: str) -> Values:
    """Numbers of 16 or 32 bits as such, where they were made wider on their way."""
    if kind not in _NARROW or values.distinct is not None:
        return values
    return replace(values, rows=values.rows.astype(_NARROW[kind]))


def _python_cells(values: Iterable[Any]) -> Raw:
    if isinstance(values, np.ndarray) and values.dtype.kind in "biufM":
        return _cells_of(Values(values)) if values.ndim == 1 else _own_vectors(values)
    narrow = (np.float16, np.float32)
    listed = [float(str(value)) if isinstance(value, narrow) else value for value in values]
    known = [value for value in listed if not _is_nothing(value)]
    if known and all(
        isinstance(value, list | tuple | set | frozenset | np.ndarray) for value in known
    ):
        return _lists(listed)
    try:
        found = values_of(listed, role="attribute")
    except (DataError, TypeError, ValueError):
        raise UnusableError(", ".join(sorted({type(value).__name__ for value in known}))) from None
    return _cells_of(found)


def _own_vectors(rows: NDArray[Any]) -> OwnVectors:
    """A matrix of numbers, a vector in each row."""
    if rows.ndim != 2 or not rows.shape[1] or rows.dtype.kind == "M":
        raise UnusableError(f"{rows.dtype} of the shape {rows.shape}")
    with np.errstate(over="ignore"):  # what is not finite is missing
        return OwnVectors(rows.astype(np.float32))


def _is_nothing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and value != value)


def _lists(rows: Iterable[Any]) -> Tags | OwnVectors:
    """Lists of numbers are vectors, and lists of texts are tags."""
    known = [None if _is_nothing(row) else list(row) for row in rows]
    first = next((one for row in known for one in row or ()), None)
    return vectors(known) if isinstance(first, float | int | np.number | Decimal) else _tags(known)


def vectors(rows: Sequence[Sequence[Any] | None]) -> OwnVectors:
    """A vector for each row, NaN where there is none.

    Raises:
        UnusableError: They differ in length, or hold something else than numbers.
    """
    lengths = {len(row) for row in rows if row}
    if len(lengths) != 1:
        told = " and ".join(map(str, sorted(lengths)[:2]))
        raise UnusableError(f"vectors of {told} numbers" if lengths else "vectors without numbers")
    found = np.full((len(rows), *lengths), np.nan, np.float32)
    try:
        for place, row in enumerate(rows):
            if row:
                found[place] = row
    except (TypeError, ValueError):
        raise UnusableError("lists that are no numbers") from None
    return OwnVectors(found)


def _tags(rows: Iterable[list[Any] | None]) -> Tags:
    found = [[tag for tag in row or () if tag is not None] for row in rows]
    for row in found:
        if odd := next((tag for tag in row if not isinstance(tag, str)), None):
            raise UnusableError(f"lists of {type(odd).__name__}")
        for tag in row:
            _require_utf8(tag)
    return Tags.of([tag.strip() for tag in row if tag.strip()] for row in found)


def _cells_of(values: Values) -> Raw:
    """Numbers as they are where they lose no digit; moments and all else as text."""
    if (numbers := _numbers(values)) is not None:
        is_null = values.is_null
        return Numbers(numbers if is_null is None else np.where(is_null, np.nan, numbers))
    if values.distinct is not None:
        distinct = [None if text == "" else text for text in map(_as_text, values.distinct)]
        cells = [distinct[code] for code in values.rows.tolist()]
    elif values.rows.dtype.kind == "M":
        stamps = np.datetime_as_string(values.rows, unit=_unit(values.rows))
        cells = [None if stamp == "NaT" else stamp for stamp in stamps.tolist()]
    else:
        cells = list(map(str, values.rows.tolist()))
    if values.is_null is not None:
        nulls = values.is_null.tolist()
        return [None if gap else cell for gap, cell in zip(nulls, cells, strict=True)]
    return cells


def _numbers(values: Values) -> NDArray[np.float64] | None:
    """The numbers of a column; None where it holds others, or whole ones that would lose digits."""
    rows, distinct = values.rows, values.distinct
    if distinct is not None:
        if not distinct or not all(isinstance(value, Decimal) for value in distinct):
            return None
        finite = [value for value in distinct if value.is_finite()]
        is_exact = all(is_held(value) for value in finite if value == value.to_integral_value())
        return np.array(list(map(float, distinct)))[rows] if is_exact else None
    if rows.dtype.kind == "M":
        return None
    if rows.dtype.kind in "iu" and not all(map(is_held, np.unique(rows).tolist())):
        return None
    if rows.dtype in (np.float16, np.float32):
        rows = rows.astype(str)  # the shortest: 3.1 of 32 bits is meant as the 3.1 of 64
    return rows.astype(np.float64)


def is_held(whole: int | Decimal) -> bool:
    """Whether a float of 64 bits can be this whole number.

    >>> is_held(2**60), is_held(2**60 + 1)
    (True, False)
    """
    size: Any = abs(whole)
    return bool(size <= 2**53 or (size < 2**1023 and int(float(size)) == size))


def _unit(moments: Any) -> Any:
    """Days where all moments are midnights, else seconds."""
    known = moments[~np.isnat(moments)]
    return "D" if (known == known.astype("M8[D]")).all() else "s"


def _as_text(value: Any) -> str:
    try:
        text = value.decode() if isinstance(value, bytes) else str(value)
    except UnicodeDecodeError:
        raise UnusableError("bytes") from None
    _require_utf8(text)
    return text.strip()


def _require_utf8(text: str) -> None:
    if surrogate_fault(text) is not None:
        raise UnusableError(f"text that is not UTF-8, {text[:40]!r}")
