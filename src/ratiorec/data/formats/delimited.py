"""Pairs from text: CSV, TSV and their kin, plain or gzipped."""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

import pyarrow as pa
import pyarrow.csv

from ratiorec.data.formats.files import Columns, Positions, is_header
from ratiorec.data.formats.tables import interactions_from_columns
from ratiorec.data.interactions import Interactions
from ratiorec.errors import DataError, NoPairsError

# The surest first. A space comes last: names and dates have spaces in them, too.
DELIMITERS = ("\t", ",", ";", "|", "::", " ")

_ONE_BYTE_DELIMITER = "\x1f"  # replaces a longer one: Arrow knows one byte, csv one letter
_SAMPLE_BYTES = 1 << 16
_READ_FAULTS = (OSError, EOFError, zlib.error)


@dataclass(frozen=True)
class Dialect:
    """The delimiter, the quotes and the header of a text file.

    `usable` says of each column whether it may serve in its usual place where there is no
    header: ids always, the third and fourth only when all of the first lines hold numbers
    or, for the fourth, dates.
    """

    delimiter: str
    has_quotes: bool
    has_header: bool
    first_row: tuple[str, ...]
    usable: tuple[bool, ...]

    @property
    def n_columns(self) -> int:
        return len(self.first_row)


def inspect(
    sample: str, *, columns: Columns, delimiter: str | None, header: bool | None, path: Path
) -> Dialect:
    """The dialect of a file that begins with this text; what is given is not guessed."""
    has_quotes = ".inter" not in path.suffixes  # RecBole writes every character as it is
    lines = [line for line in io.StringIO(sample, newline="") if line.strip("\r\n")]
    if not lines:
        raise DataError(
            "the file is empty", where=str(path), found="no line of text", wanted="rows of pairs"
        )
    if delimiter == "":
        raise DataError(
            "the delimiter is empty", where="delimiter", found="''", wanted="one character or more"
        )
    delimiter = delimiter or _sniffed(lines, path, has_quotes=has_quotes)
    rows = _rows(lines, delimiter, has_quotes=has_quotes)
    if len(rows[0]) < 2:
        raise _one_column(lines, delimiter, path, has_quotes=has_quotes)
    has_header = _looks_like_a_header(rows, columns) if header is None else header
    if has_header and len(rows) == 1:
        raise NoPairsError(
            "there are no rows",
            where=str(path),
            found=f"column names only: {', '.join(rows[0])}",
            wanted="at least one row with a user and an item",
        )
    body = rows[has_header:]
    usable = tuple(_is_usable(position, body) for position in range(len(rows[0])))
    return Dialect(delimiter, has_quotes, has_header, tuple(rows[0]), usable)


def _reader(lines: Iterable[str], delimiter: str, *, has_quotes: bool) -> Any:
    """Python's own reader, which is slower than Arrow's and knows the lines."""
    letter = delimiter if len(delimiter) == 1 else _ONE_BYTE_DELIMITER
    return csv.reader(
        (line.replace(delimiter, letter) for line in lines),
        delimiter=letter,
        quoting=csv.QUOTE_MINIMAL if has_quotes else csv.QUOTE_NONE,
    )


def _rows(lines: list[str], delimiter: str, *, has_quotes: bool) -> list[list[str]]:
    return [row for row in _reader(lines, delimiter, has_quotes=has_quotes) if row]


def _sniffed(lines: list[str], path: Path, *, has_quotes: bool) -> str:
    """The delimiter that cuts most lines into equally many columns, two or more.

    Among equals more columns win (a decimal comma makes two, the semicolons around it more),
    but a space wins only where nothing else cuts.
    """

    def merit(delimiter: str) -> tuple[float, bool, int]:
        widths = Counter(map(len, _rows(lines, delimiter, has_quotes=has_quotes)))
        width, n_lines = widths.most_common(1)[0]
        return (n_lines / widths.total() if width > 1 else 0.0, delimiter != " ", width)

    usual = "\t" if {".tsv", ".inter"} & set(path.suffixes) else ","
    best = max(sorted(DELIMITERS, key=lambda delimiter: delimiter != usual), key=merit)
    if merit(best)[0] > 0:
        return best
    raise _one_column(lines, None, path, has_quotes=has_quotes)


def _one_column(
    lines: list[str], delimiter: str | None, path: Path, *, has_quotes: bool
) -> DataError:
    likely = [
        repr(other)
        for other in DELIMITERS
        if other != delimiter and len(_rows(lines, other, has_quotes=has_quotes)[0]) > 1
    ]
    how = "each usual delimiter" if delimiter is None else f"the delimiter {delimiter!r}"
    return DataError(
        "the rows have one column only",
        where=str(path),
        found=f"{lines[0].strip()[:80]!r} with {how}",
        wanted="a user and an item in each row"
        + (f"; the delimiter may be {' or '.join(likely)}" if likely else ", and a delimiter"),
    )


def _looks_like_a_header(rows: list[list[str]], columns: Columns) -> bool:
    """Names were asked for, or are usual ones, or stand above a column of numbers."""
    if columns.has_names or is_header(rows[0]):
        return True
    body = rows[1:]
    return any(
        not _is_number(cell)
        and bool(body)
        and all(_is_number(row[position]) for row in body if position < len(row))
        for position, cell in enumerate(rows[0])
    )


def _is_usable(position: int, rows: list[list[str]]) -> bool:
    if position < 2:
        return True
    cells = [row[position] for row in rows if position < len(row)]
    return all(map(_is_number, cells)) or (position == 3 and all(map(_is_date, cells)))


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell


def _is_date(cell: str) -> bool:
    return len(cell) >= 10 and cell[:4].isdigit() and cell[4] == "-" and cell[7] == "-"


def read_delimited(
    path: Path, *, columns: Columns, delimiter: str | None, header: bool | None
) -> Interactions:
    """Read the pairs of a text file, as `formats.read` describes."""
    dialect = inspect(_sample(path), columns=columns, delimiter=delimiter, header=header, path=path)
    positions = _positions(dialect, columns, str(path))
    try:
        table = _parse(path, dialect, positions)
    except pa.ArrowInvalid as error:
        raise _explained(path, dialect, error) from error
    except _READ_FAULTS as error:
        raise _cut_short(path, error) from error
    return interactions_from_columns(
        {role: table.column(f"c{position}") for role, position in positions.items()},
        origin=str(path),
        place=lambda row: f"{path}, line {_line_of(row, path, dialect)}",
        is_text=True,
    )


def _positions(dialect: Dialect, columns: Columns, where: str) -> Positions:
    if not dialect.has_header:
        return columns.in_order(dialect.n_columns, where=where, usable=dialect.usable)
    try:
        return columns.among(dialect.first_row, where=where)
    except DataError as error:
        wanted = f"{error.wanted}; if the first line is a row and no header, header=False"
        raise DataError(error.what, where=where, found=error.found, wanted=wanted) from None


def _parse(path: Path, dialect: Dialect, positions: Positions) -> pa.Table:
    """Parse on all cores; ids come as codes, numbers as text, so that no character is lost."""
    codes = pa.dictionary(pa.int32(), pa.string())
    kinds = {
        f"c{position}": codes if role in ("user", "item") else pa.string()
        for role, position in positions.items()
    }
    long = len(dialect.delimiter.encode()) > 1
    with _open(path) as source:
        return pyarrow.csv.read_csv(
            _Respelt(source, dialect.delimiter) if long else source,
            read_options=pyarrow.csv.ReadOptions(
                column_names=[f"c{position}" for position in range(dialect.n_columns)],
                skip_rows_after_names=int(dialect.has_header),
            ),
            parse_options=pyarrow.csv.ParseOptions(
                delimiter=_ONE_BYTE_DELIMITER if long else dialect.delimiter,
                quote_char='"' if dialect.has_quotes else False,
                newlines_in_values=dialect.has_quotes,
            ),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=kinds, include_columns=list(kinds), strings_can_be_null=False
            ),
        )


class _Respelt(io.RawIOBase):
    """A stream of bytes in which each long delimiter is one byte."""

    def __init__(self, source: BinaryIO, delimiter: str) -> None:
        self._source = source
        self._delimiter = delimiter.encode()
        self._rest = b""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """At least one byte until the end; a delimiter cut in two waits for its other half."""
        while True:
            piece = self._source.read(1 << 20 if size < 0 else max(size, len(self._delimiter)))
            spelt = (self._rest + piece).replace(self._delimiter, _ONE_BYTE_DELIMITER.encode())
            keep = self._length_of_a_begun_delimiter(spelt) if piece else 0
            self._rest = spelt[len(spelt) - keep :]
            ready = spelt[: len(spelt) - keep]
            if ready or not piece:
                return ready

    def _length_of_a_begun_delimiter(self, spelt: bytes) -> int:
        lengths = range(len(self._delimiter) - 1, 0, -1)
        return next((n for n in lengths if spelt.endswith(self._delimiter[:n])), 0)


def _open(path: Path) -> BinaryIO:
    """The bytes of the file, unpacked where it is gzipped, whatever its name."""
    with path.open("rb") as file:
        is_packed = file.read(2) == b"\x1f\x8b"
    return cast(BinaryIO, gzip.open(path, "rb")) if is_packed else path.open("rb")


def _sample(path: Path) -> str:
    """The first lines, whole."""
    try:
        with _open(path) as file:
            start = file.read(_SAMPLE_BYTES)
            is_all = not file.read(1)
    except _READ_FAULTS as error:
        raise _cut_short(path, error) from error
    if not is_all and b"\n" in start:
        start = start[: start.rindex(b"\n") + 1]
    return start.decode("utf-8-sig", errors="replace")


def _lines(path: Path, dialect: Dialect) -> Iterator[tuple[int, list[str]]]:
    """The rows with the number of the line each ends on; slow, for messages only."""
    with _open(path) as file:
        text = io.TextIOWrapper(file, "utf-8-sig", errors="replace", newline="")
        reader = _reader(text, dialect.delimiter, has_quotes=dialect.has_quotes)
        with contextlib.suppress(csv.Error):  # a quote that never ends
            for row in reader:
                if row:
                    yield reader.line_num, row


def _line_of(row: int, path: Path, dialect: Dialect) -> int:
    for number, (line, _) in enumerate(_lines(path, dialect)):
        if number == row + dialect.has_header:
            return line
    return row + dialect.has_header + 1


def _explained(path: Path, dialect: Dialect, error: Exception) -> DataError:
    """The error for what Arrow refused, with the line it stands on."""
    with _open(path) as file:
        offset = 0
        for number, line in enumerate(file, start=1):
            try:
                line.decode()
            except UnicodeDecodeError as fault:
                return DataError(
                    "the text is not UTF-8",
                    where=f"{path}, line {number}, byte {offset + fault.start} of the text",
                    found=repr(line[fault.start : fault.end]),
                    wanted="UTF-8; convert the file, for example with iconv",
                )
            offset += len(line)
    for number, row in _lines(path, dialect):
        if len(row) != dialect.n_columns:
            return DataError(
                "a row has another number of columns",
                where=f"{path}, line {number}",
                found=f"{len(row)} columns: {dialect.delimiter.join(row)[:80]!r}",
                wanted=f"{dialect.n_columns} columns between {dialect.delimiter!r}, as in line 1",
            )
    return DataError(
        "the text cannot be parsed",
        where=str(path),
        found=str(error).splitlines()[0][:200],
        wanted=f"rows of {dialect.n_columns} columns between {dialect.delimiter!r}",
    )


def _cut_short(path: Path, error: Exception) -> DataError:
    return DataError(
        "the file cannot be read to its end",
        where=str(path),
        found=str(error) or type(error).__name__,
        wanted="a complete file; fetch or pack it again",
    )
