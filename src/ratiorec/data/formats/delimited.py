"""Pairs from text: CSV, TSV and their kin, plain or packed, in pieces of a few megabytes."""

from __future__ import annotations

import bz2
import codecs
import gzip
import lzma
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from itertools import compress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from ratiorec.data.formats.cells import ONE_BYTE_DELIMITER, Codebook, Rows, cut, texts_of
from ratiorec.data.formats.dialect import Dialect, inspect
from ratiorec.data.formats.files import STDIN, Columns, Positions
from ratiorec.data.formats.identifiers import value_faults
from ratiorec.data.formats.merging import CheckedRows, Weighting, merged_interactions
from ratiorec.data.formats.reading import (
    BadRows,
    Fault,
    Faults,
    Reading,
    require_memory_for_rows,
)
from ratiorec.data.formats.tables import require_same_columns
from ratiorec.data.formats.values import Times, Values, coded, quick_times, times_of, weights_of
from ratiorec.data.interactions import Interactions
from ratiorec.errors import DataError, NoPairsError, require_extra

_SAMPLE_BYTES = 1 << 16
_BLOCK_BYTES = 1 << 22
_LONGEST_ROW = 1 << 27
_READ_FAULTS = (OSError, EOFError, zlib.error, lzma.LZMAError)


def read_delimited(
    paths: Sequence[Path],
    *,
    columns: Columns,
    delimiter: str | None,
    header: bool | None,
    weighting: Weighting,
    bad: BadRows,
    origin: str,
) -> Interactions:
    """Read the pairs of text files, as `formats.read` describes."""
    gathered, names, unused_event = _Gathered(bad), dict[str, Any](), None
    for path in paths:
        where = origin if len(paths) == 1 else str(path)
        with opened(path, where) as stream:
            start, is_all = sample(stream, where)
            try:
                dialect = inspect(
                    start,
                    columns=columns,
                    delimiter=delimiter,
                    header=header,
                    where=where,
                    is_all=is_all,
                )
            except NoPairsError:
                if path != paths[-1] or names:  # a part may hold its header only
                    continue
                raise
            positions = _positions(dialect, columns, where)
            called = dialect.first_row if dialect.has_header else range(dialect.n_columns)
            found = {role: called[position] for role, position in positions.items()}
            names = require_same_columns(names, found, where, paths[0])
            if dialect.has_header:
                unused_event = columns.unused_event(dialect.first_row, positions)
            for piece in pieces(stream, start, dialect, where):
                gathered.add(piece, positions)
                require_memory_for_rows(gathered.n_rows, where=where)
    bad.settle(origin, gathered.n_rows)
    reading = Reading(
        origin,
        names,
        gathered.n_rows,
        n_dropped=bad.n,
        bad_rows=bad.sentences(origin),
        unused_event=unused_event,
    )
    return merged_interactions(gathered.all_rows(), weighting, reading, is_text=True)


def _positions(dialect: Dialect, columns: Columns, where: str) -> Positions:
    if not dialect.has_header:
        return columns.in_order(dialect.n_columns, where=where, usable=dialect.usable)
    try:
        return columns.among(dialect.first_row, where=where)
    except DataError as error:
        guess = "" if columns.has_names else f", perhaps columns=Columns({dialect.guess})"
        wanted = f"{error.wanted}{guess}; header=False if the first line is a row and no header"
        raise DataError(error.what, where=where, found=error.found, wanted=wanted) from None


# Opening


@contextmanager
def opened(path: Path, where: str) -> Iterator[BinaryIO]:
    """The bytes of a file or of standard input, unpacked whatever the name is."""
    try:
        stdin = nullcontext(sys.stdin.buffer) if str(path) == STDIN else None
        with stdin or path.open("rb") as file:
            yield _unpacked(file, file.peek(6), where)  # type: ignore[union-attr]
    except _READ_FAULTS as error:
        raise DataError(
            "the file cannot be read to its end",
            where=where,
            found=str(error) or type(error).__name__,
            wanted="a complete file; fetch or pack it again",
        ) from error


def _unpacked(file: Any, start: bytes, where: str) -> Any:
    if start.startswith(b"\x1f\x8b"):
        return gzip.open(file)
    if start.startswith(b"BZh"):
        return bz2.open(file)
    if start.startswith(b"\xfd7zXZ"):
        return lzma.open(file)
    if start.startswith(b"\x28\xb5\x2f\xfd"):
        if sys.version_info >= (3, 14):
            from compression import zstd

            return zstd.open(file)
        return require_extra("pyarrow", "arrow", where=where).CompressedInputStream(file, "zstd")
    return file


def sample(stream: BinaryIO, where: str) -> tuple[bytes, bool]:
    """The first bytes of a stream, with some whole lines in them, and whether they are all."""
    content = b""
    while len(content) < _SAMPLE_BYTES or content.count(b"\n") + content.count(b"\r") < 3:
        more = stream.read(max(_SAMPLE_BYTES, len(content)))
        content += more
        if not more or len(content) > _LONGEST_ROW:
            break
    if b"\0" in content:
        raise DataError(
            "the text is not UTF-8",
            where=where,
            found=f"bytes of 0, as in UTF-16: {content[:20]!r}",
            wanted="UTF-8; convert the file, for example with iconv",
        )
    return content.removeprefix(codecs.BOM_UTF8), not more


# Pieces of whole rows


@dataclass(frozen=True)
class Piece:
    """Rows of a file, of which those at `places` have the right number of cells."""

    where: str
    first_line: int
    dialect: Dialect
    rows: Rows
    cells: list[bytes]
    starts: NDArray[np.int64]
    places: NDArray[np.int64]
    ragged: Faults

    def place(self, row: int) -> str:
        """Where a row ends; line breaks in quotes count."""
        return f"{self.where}, line {self.line(row)}"

    def line(self, rows: Any) -> Any:
        """The line of a row, or of each of several."""
        return np.searchsorted(self._line_ends, self.rows.ends[rows]) + self.first_line

    def content(self, row: int) -> str:
        """The row as it is written."""
        start = int(self.rows.ends[row - 1]) + 1 if row else 0
        text = self.rows.text[start : int(self.rows.ends[row])].tobytes().decode(errors="replace")
        return text.replace(ONE_BYTE_DELIMITER, self.dialect.delimiter)

    @cached_property
    def _line_ends(self) -> NDArray[np.int64]:
        return self.rows.line_ends

    def column(self, position: int) -> list[bytes]:
        """The cells of one column."""
        return self.cells[position :: self.dialect.n_columns]

    def texts(self, cells: Sequence[bytes]) -> list[str]:
        """Cells of this piece as text."""
        return texts_of(cells, self.dialect.delimiter, is_quoted=self.rows.is_quoted)


def pieces(stream: BinaryIO, start: bytes, dialect: Dialect, where: str) -> Iterator[Piece]:
    """The rows of a file, without its header."""
    rest, line, has_header = start, 1, dialect.has_header
    while True:
        block = stream.read(max(_BLOCK_BYTES, len(rest)))
        rows, rest = cut(
            rest + block, dialect.delimiter, has_quotes=dialect.has_quotes, is_last=not block
        )
        n_lines = len(rows.line_ends)
        if len(rest) > _LONGEST_ROW or (rest and not block):
            raise DataError(
                "a quote is never closed, or a row never ends",
                where=f"{where}, line {line + n_lines}",
                found=repr(rest[:80].decode(errors="replace")),
                wanted="two quotes around a cell, with quotes in the cell doubled",
            )
        is_row = np.diff(rows.ends, prepend=-1) > 1  # no blank line
        if has_header and is_row.any():
            is_row[np.argmax(is_row)] = has_header = False
        yield _piece(rows, is_row, dialect, where, line)
        line += n_lines
        if not block:
            return


def _piece(rows: Rows, is_row: NDArray[np.bool_], dialect: Dialect, where: str, line: int) -> Piece:
    """Some of the rows; those with another number of cells are set aside."""
    is_right = is_row & (rows.widths == dialect.n_columns)
    cells, starts = rows.cells, rows.starts
    if not is_right.all():
        is_kept = np.repeat(is_right, rows.widths)
        cells, starts = list(compress(cells, is_kept.tolist())), starts[is_kept]
    piece = Piece(where, line, dialect, rows, cells, starts, np.flatnonzero(is_right), {})
    wanted = f"{dialect.n_columns} columns between {dialect.delimiter!r}, as in line 1"
    for row in np.flatnonzero(is_row & ~is_right).tolist():
        found = f"{rows.widths[row]} columns: {piece.content(row)[:80]!r}"
        piece.ragged[row] = Fault("a row has another number of columns", found, wanted)
    return piece


# Columns of all pieces


@dataclass
class _Ids:
    """The ids of one side, to codes piece by piece; only distinct ids stay in memory as text."""

    kind: str
    codebook: Codebook = field(default_factory=Codebook)
    texts: list[str] = field(default_factory=list)
    faults: Faults = field(default_factory=dict)
    rows: list[NDArray[np.int32]] = field(default_factory=list)

    def encode(self, piece: Piece, position: int) -> tuple[NDArray[np.int32], Faults]:
        """The code of each cell of a column, and the cells that are no ids."""
        starts = piece.starts[position :: piece.dialect.n_columns]
        codes = self.codebook.encode(piece.rows.text, starts, piece.column(position))
        n_before = len(self.texts)
        texts = piece.texts(self.codebook.newest(len(self.codebook) - n_before))
        if texts:
            faults = value_faults(texts, kind=self.kind, is_text=True)
            self.faults |= {n_before + place: fault for place, fault in faults.items()}
            self.texts += texts
        if not self.faults:
            return codes, {}
        bad = np.flatnonzero(np.isin(codes, list(self.faults)))
        return codes, {row: self.faults[int(codes[row])] for row in bad.tolist()}

    def values(self) -> Values:
        return Values(_joined(self.rows, np.int32), self.texts)


@dataclass
class _Gathered:
    """The columns in need of all pieces, without bad rows."""

    bad: BadRows
    n_rows: int = 0
    ids: dict[str, _Ids] = field(
        default_factory=lambda: {kind: _Ids(kind) for kind in ("item", "user")}
    )
    weights: list[NDArray[np.float64]] = field(default_factory=list)
    times: list[Times] = field(default_factory=list)

    def add(self, piece: Piece, positions: Positions) -> None:
        """Take in the good rows of a piece, and take note of the bad ones."""
        n_cells, faults = len(piece.places), Faults()
        self.n_rows += n_cells + len(piece.ragged)
        if not n_cells:
            return self._note(faults, piece)
        weights, times = None, None
        if "event" in positions and "event" not in self.ids:
            self.ids = {"event": _Ids("event"), **self.ids}
        if "weight" in positions:
            weights, faults = weights_of(_as_text(piece.column(positions["weight"]), piece))
        if "timestamp" in positions:
            cells = piece.column(positions["timestamp"])
            is_date = self.times[0].is_date if self.times else None
            times = quick_times(cells, is_date=is_date)
            if times is None:
                times, found = times_of(_as_text(cells, piece), is_date=is_date)
                faults |= found
        codes = {}
        for kind, ids in self.ids.items():
            codes[kind], found = ids.encode(piece, positions[kind])
            faults |= found
        good = np.ones(n_cells, dtype=bool)
        good[list(faults)] = False
        for kind, ids in self.ids.items():
            ids.rows.append(codes[kind][good])
        if weights is not None:
            self.weights.append(weights[good])
        if times is not None:
            self.times.append(Times(times.rows[good], times.is_date))
        return self._note(faults, piece)

    def _note(self, faults: Faults, piece: Piece) -> None:
        if faults or piece.ragged:
            places = piece.places[list(faults)].tolist()
            noted = dict(zip(places, faults.values(), strict=True)) | piece.ragged
            self.bad.add(noted, place=piece.place, content=piece.content)

    def all_rows(self) -> CheckedRows:
        """The columns of all pieces."""
        times = None
        if self.times:
            moments = np.concatenate([part.rows for part in self.times])
            times = Times(moments, self.times[0].is_date)
        return CheckedRows(
            self.ids["user"].values(),
            self.ids["item"].values(),
            _joined(self.weights, np.float64) if self.weights else None,
            times,
            self.ids["event"].values() if "event" in self.ids else None,
        )


def _as_text(cells: list[bytes], piece: Piece) -> Values:
    values = coded(cells)
    assert values.distinct is not None
    return Values(values.rows, piece.texts(values.distinct))


def _joined(pieces: list[NDArray[Any]], kind: type) -> NDArray[Any]:
    return np.concatenate(pieces) if pieces else np.zeros(0, kind)
